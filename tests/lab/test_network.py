"""The network for training is the stock one, and texts in a row do not meet."""

import pytest
import torch

from denoise_lab.training.network import Network, Shape, hugging_face

SMALL = Shape(vocabulary=300, width=32, inner=48, layers=3, heads=4, first=2)


class Tokens:
    bos_token_id, eos_token_id, pad_token_id = 1, 2, 0


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(3)
    made = Network(SMALL)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return made


def run(network, ids, segments=None):
    with torch.inference_mode():
        return network(ids, torch.ones_like(ids) if segments is None else segments)


@pytest.mark.parametrize("length", [5, 40, 700])  # 700 takes the fused attention
def test_it_computes_what_the_stock_model_computes(network, length):
    ids = torch.randint(3, 300, (2, length), generator=torch.Generator().manual_seed(length))
    stock = hugging_face(network, Tokens)
    with torch.inference_mode():
        wanted = stock(ids).logits
        got = run(network, ids) @ network.embedding.weight.T
    assert torch.allclose(got, wanted, atol=2e-4)


@pytest.mark.parametrize("length", [60, 640])
def test_texts_that_share_a_row_do_not_meet(network, length):
    ids = torch.randint(3, 300, (2, length), generator=torch.Generator().manual_seed(1))
    segments = torch.ones_like(ids)
    segments[:, length // 2 :] = 2
    together = run(network, ids, segments)
    other = ids.clone()
    other[:, : length // 2] = 7
    assert torch.allclose(run(network, other, segments)[:, length // 2 :], together[:, length // 2 :], atol=1e-5)


def test_later_blocks_begin_as_doing_nothing():
    torch.manual_seed(0)
    fresh = Network(SMALL)
    ids = torch.randint(3, 300, (1, 30))
    with torch.inference_mode():
        assert torch.equal(fresh(ids, torch.ones_like(ids), 2), fresh(ids, torch.ones_like(ids)))


def test_heads_of_the_first_block_begin_by_looking_their_number_back():
    torch.manual_seed(0)
    shape = Shape(width=256, heads=8, layers=1)
    block = Network(shape).blocks[0]
    q, k, _ = block.qkv.bias.detach().chunk(3)
    rate = shape.rope ** (-torch.arange(0, 32, 2).float() / 32)
    angle = torch.arange(300).float()[:, None] * rate
    for h in range(8):
        at = slice(32 * h, 32 * h + 32)
        a, b = q[at].chunk(2)
        c, _ = k[at].chunk(2)
        score = (a * c * angle.cos() - b * c * angle.sin()).sum(-1)  # by distance
        assert int(score.argmax()) == h
