"""The first L blocks of every family: exact, counted, and independent of padding and neighbours."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest
import torch
from torch import nn

from denoise_core import InputError
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    get_partial_forward,
    model_inputs,
    pooling_function,
)

IDS = torch.randint(3, 300, (2, 21), generator=torch.Generator().manual_seed(1))


def prompt(length: int, seed: int = 0) -> TokenPrompt:
    ids = torch.randint(
        3, 300, (length,), generator=torch.Generator().manual_seed(seed + length)
    )
    return TokenPrompt(
        tuple(ids.tolist()), (2, length - 3), (length - 3, length), length
    )


def count_blocks(blocks):
    seen = []
    handles = [
        b.register_forward_hook(lambda *_, n=n: seen.append(n))
        for n, b in enumerate(blocks)
    ]
    return seen, handles


def exact(model, layers=(0, 1, 3, 5)):
    """The hook equals ``output_hidden_states`` to the bit, and exactly L blocks ran."""
    early = checked(model)
    inputs = early._inputs(IDS)
    with torch.inference_mode():
        whole = early.decoder(**inputs, output_hidden_states=True)
    for layer in layers:
        early.check_layer(layer)
        seen, handles = count_blocks(early.blocks)
        state = early.read_layers(inputs, [layer], lambda h: h)[layer]
        for handle in handles:
            handle.remove()
        assert torch.equal(state, whole.hidden_states[layer]), layer
        assert seen == list(range(layer)), f"layer {layer}: blocks {seen} ran"
    return early


def checked(model):
    early = get_partial_forward(model)
    early.check_readable()
    return early


def alone_and_together(early, pooling, tolerance):
    prompts = [prompt(n) for n in (9, 40, 17, 33)]

    def states(some):
        return early.read_layers(
            model_inputs(early, some, pad=2), [3], pooling_function(pooling, some)
        )[3]

    together = states(prompts)
    for i, p in enumerate(prompts):
        worst = float((states([p])[0] - together[i]).abs().max())
        assert worst <= tolerance * max(1.0, float(together[i].abs().max())), worst


def test_decoders_are_read_exactly(decoder, tiny):
    early = exact(tiny(decoder))
    assert early.is_causal
    alone_and_together(early, "last", 2e-5)
    the_last_token_alone(early, shortened=decoder not in WHOLE)


# The last block of these runs whole: recurrent ones (layer 3 follows one), and calls that hold more than is
# known to be cut to a token.
WHOLE = {
    "qwen3_next",
    "qwen3_5_text",
    "lfm2",
    "bloom",
    "mpt",
    "falcon-alibi",
    "gemma4_text",
    "gemma4_text-plain",
}


def the_last_token_alone(early, shortened):
    """The shortened last block gives what the whole block gives, with and without padding."""
    for lengths in ((9, 40, 17), (33, 33)):  # beyond the window of 16 that some have
        inputs = model_inputs(
            early, [prompt(n, seed) for seed, n in enumerate(lengths)], pad=2
        )
        for layer in (1, 3, 5):
            seen = last_tokens_of_block(early, layer)
            found = early.read_last_token(inputs, layer)
            wanted = early.read_layers(inputs, [layer], lambda h: h[:, -1])[layer]
            worst = float((found - wanted).abs().max())
            assert worst <= 1e-5 * max(1.0, float(wanted.abs().max())), (layer, worst)
            if layer == 3:
                assert seen() == ([1] if shortened else [max(lengths)]), (
                    "tokens that left the last block"
                )


def last_tokens_of_block(early, layer):
    """How many tokens each finished run of the last block gave until asked, in `early.read_last_token` and no other pass."""
    early.read_last_token(
        early._inputs(IDS), layer
    )  # the trial, which runs once, is over
    tokens: list[int] = []

    def after(module, args, output):
        tokens.append((output[0] if isinstance(output, tuple) else output).shape[1])

    handle = early.blocks[layer - 1].register_forward_hook(after)

    def seen():
        handle.remove()
        return tokens[:1]

    return seen


def test_encoders_are_read_exactly(encoder, tiny):
    early = exact(tiny(encoder))
    assert not early.is_causal
    alone_and_together(early, "cls_mean_question", 1e-5)


def test_mamba_is_numbered_by_its_blocks(state_space, tiny):
    early = get_partial_forward(tiny(state_space))
    early.check_layer(3)
    inputs = early._inputs(IDS)
    with torch.inference_mode():
        shifted = early.decoder(**inputs, output_hidden_states=True).hidden_states[2]
    assert torch.equal(early.read_layers(inputs, [3], lambda h: h)[3], shifted)
    alone_and_together(early, "last", 1e-5)


@pytest.mark.parametrize(
    "family", ["llama", "gpt2", "opt", "bloom", "bert", "gemma4_text", "mpt"]
)
def test_the_last_layer_is_read_before_the_final_norm(family, tiny):
    early = get_partial_forward(tiny(family))
    early.check_layer(6)
    inputs = early._inputs(IDS)
    state = early.read_layers(inputs, [6], lambda h: h)[6]
    with torch.inference_mode():
        normed = early.decoder(**inputs).last_hidden_state
        assert torch.equal(
            state if early.final_norm is None else early.final_norm(state), normed
        )


def test_one_pass_gives_every_layer_asked_for(tiny):
    early = checked(tiny("llama"))
    inputs = early._inputs(IDS)
    together = early.read_layers(inputs, range(7), lambda h: h[:, -1])
    for layer in range(7):
        assert torch.equal(
            together[layer],
            early.read_layers(inputs, [layer], lambda h: h[:, -1])[layer],
        )


@pytest.mark.parametrize(
    ("family", "says"),
    [("gemma3n_text", "one vector of width 32"), ("albert", "6 blocks")],
)
def test_models_that_cannot_be_read_are_refused_with_the_reason(family, says, tiny):
    with pytest.raises(InputError, match=says):
        get_partial_forward(tiny(family)).check_layer(3)


def test_a_layer_outside_the_model_is_refused(tiny):
    early = get_partial_forward(tiny("llama"))
    for layer in (-1, 7):
        with pytest.raises(InputError, match="6 blocks, so 0 to 6"):
            early.check_layer(layer)


def test_a_forward_pass_that_goes_around_its_blocks_is_refused(tiny):
    model = tiny("llama")

    def fused(
        input_ids,
        attention_mask=None,
        position_ids=None,
        use_cache=False,
        output_hidden_states=False,
    ):
        h = model.embed_tokens(input_ids)
        for block in model.layers:  # calls the insides, as fused kernels do
            h = h + block.mlp.forward(h)
        return type("Out", (), {"last_hidden_state": h, "hidden_states": (h,) * 7})

    model.forward = fused
    with pytest.raises(InputError, match="went around its blocks"):
        get_partial_forward(model).check_layer(3)


def test_a_block_that_mixes_tokens_outside_its_attention_is_run_whole(tiny):
    class Mixing(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, hidden_states, **given):
            out = self.block(hidden_states, **given)
            return out + out.roll(
                1, dims=1
            )  # the token before, which is not there when one is run

    model = tiny("llama")
    model.layers[2] = Mixing(model.layers[2])
    early = checked(model)
    inputs = early._inputs(IDS)
    assert torch.equal(
        early.read_last_token(inputs, 3),
        early.read_layers(inputs, [3], lambda h: h[:, -1])[3],
    )
    torch.testing.assert_close(
        early.read_last_token(inputs, 2),
        early.read_layers(inputs, [2], lambda h: h[:, -1])[2],
    )


def test_half_precision_keeps_the_last_token_s_direction(tiny):
    early = checked(tiny("llama").to(torch.bfloat16))
    inputs = model_inputs(early, [prompt(n) for n in (9, 40, 17, 33)], pad=2)
    found, wanted = (
        early.read_last_token(inputs, 3),
        early.read_layers(inputs, [3], lambda h: h[:, -1].float())[3],
    )
    assert found.dtype == torch.float32
    assert float(torch.cosine_similarity(found, wanted).min()) > 0.999


def test_training_mode_is_refused_until_it_ends(tiny):
    model = tiny("llama").train()
    with pytest.raises(InputError, match=r"model\.eval"):
        get_partial_forward(model).check_layer(3)
    get_partial_forward(model.eval()).check_layer(3)
    with pytest.raises(InputError, match=r"model\.eval"):
        get_partial_forward(model.train()).check_layer(3)


def test_objects_that_are_no_transformer_are_refused():
    with pytest.raises(InputError, match="expected a Hugging Face model"):
        get_partial_forward(nn.Linear(2, 2))


def test_an_encoder_decoder_model_is_refused_and_its_encoder_read(tiny):
    from transformers import T5Config, T5Model

    sizes = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 6,
        "num_heads": 4,
        "vocab_size": 320,
    }
    model = T5Model(T5Config(**sizes)).eval()
    with pytest.raises(InputError, match="get_encoder"):
        get_partial_forward(model)
    exact(model.get_encoder())


def test_threads_mix_early_and_whole_passes(tiny):
    model = tiny("llama")
    early = checked(model)
    inputs = early._inputs(IDS)
    with torch.inference_mode():
        whole = model(**inputs, output_hidden_states=True)
    wrong: list[str] = []

    def work(n: int) -> None:
        for i in range(15):
            if (i + n) % 2:
                layer = 1 + (i + n) % 5
                state = early.read_layers(inputs, [layer], lambda h: h)[layer]
                if not torch.allclose(state, whole.hidden_states[layer], atol=1e-6):
                    wrong.append(f"layer {layer}")
            else:
                with torch.inference_mode():
                    out = model(**inputs).last_hidden_state
                if not torch.allclose(out, whole.last_hidden_state, atol=1e-6):
                    wrong.append("whole")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_generating_after_an_early_pass_is_unchanged(tiny):
    model = tiny("llama", "AutoModelForCausalLM")
    settings = {
        "max_new_tokens": 8,
        "do_sample": False,
        "attention_mask": torch.ones_like(IDS),
    }
    before = model.generate(IDS, **settings)
    early = get_partial_forward(model)
    early.read_layers(early._inputs(IDS), [3], lambda h: h)
    assert torch.equal(model.generate(IDS, **settings), before)


def test_readers_of_one_model_share_its_lock_and_let_it_go(tiny):
    model = tiny("llama", "AutoModelForCausalLM")
    assert get_partial_forward(model) is get_partial_forward(model.model)
    gone = weakref.ref(model)
    decoder = weakref.ref(model.model)
    del model
    gc.collect()
    assert gone() is None
    assert decoder() is None


def test_a_read_model_can_still_be_copied(tiny):
    model = tiny("llama")
    get_partial_forward(model).check_layer(3)
    twin = copy.deepcopy(model)
    inputs = get_partial_forward(twin)._inputs(IDS)
    assert torch.equal(
        get_partial_forward(twin).read_layers(inputs, [3], lambda h: h)[3],
        get_partial_forward(model).read_layers(inputs, [3], lambda h: h)[3],
    )


def test_global_randomness_is_left_alone(tiny):
    model = tiny("llama")
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    get_partial_forward(model).check_layer(3)
    assert torch.equal(torch.rand(3), expected)


def test_bfloat16_neighbours_move_a_state_only_within_its_rounding(tiny):
    early = checked(tiny("llama").to(torch.bfloat16))
    prompts = [prompt(n) for n in (9, 40, 17, 33)]
    together = early.read_layers(
        model_inputs(early, prompts, 2), [3], pooling_function("last", prompts)
    )[3]
    for i, p in enumerate(prompts):
        alone = early.read_layers(
            model_inputs(early, [p], 2), [3], pooling_function("last", [p])
        )[3][0]
        assert float(torch.cosine_similarity(alone, together[i], dim=0)) > 0.999


@pytest.mark.filterwarnings(
    "ignore"
)  # torch says that this way to quantise is deprecated
def test_a_dynamically_quantised_model_is_refused_in_words(tiny):
    model = torch.ao.quantization.quantize_dynamic(
        tiny("llama"), {torch.nn.Linear}, dtype=torch.qint8
    )
    with pytest.raises(InputError, match="quantised dynamically"):
        get_partial_forward(model).check_readable()
