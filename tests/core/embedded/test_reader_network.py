"""The network in NumPy is the one that was trained, and needs no torch."""

import subprocess
import sys

import numpy as np
import pytest

from denoise_core.embedded import sample
from denoise_core.embedded.minilm import minilm, weights
from denoise_core.embedded.reader import forward
from denoise_core.embedded.reader.forward import batch, row
from denoise_core.embedded.reader.judge import span_reader
from denoise_core.embedded.reader.windows import tokens, windows

WITHOUT = """
import sys
for name in ("torch", "transformers"):
    sys.modules[name] = None
from denoise_core import Passage
from denoise_core.embedded import answer
found = answer("When was the tower finished?", [Passage("The tower was finished in 1889.", "a")])
assert found is not None and "1889" in found.text, found
print(found.text)
"""


@pytest.fixture(scope="module")
def rows():
    q = sample()[0]
    asked = tokens().pieces(q.text).ids
    return [row(asked, w, tokens()) for p in q.passages[:3] for w in windows(p, tokens())]


def trained_network(seed):
    torch = pytest.importorskip("torch")
    from denoise_lab.span_reader.network import Network

    torch.manual_seed(seed)
    network = Network(weights(minilm()))
    if seed < 0:
        from safetensors.numpy import load_file

        from denoise_lab.span_reader.make import HERE, SPANS

        network.take(load_file(HERE / SPANS))
    else:
        with torch.no_grad():
            for name, p in network.named_parameters():
                if p.requires_grad and name.endswith(".b"):
                    p.normal_(0, 0.02)
        network.take(network.trained())  # what half precision keeps
    return network


@pytest.mark.parametrize("seed", [-1, 0], ids=["shipped", "random"])
def test_numpy_equals_torch(seed, rows):
    network = trained_network(seed)
    torch = pytest.importorskip("torch")

    light = forward.Network(weights(minilm()), network.trained()) if seed >= 0 else span_reader().network
    joined = batch(rows)
    with torch.no_grad():
        expected = [t.numpy() for t in network(joined)]
    found = light(joined)
    inside = joined.inside
    scale = max(1.0, float(np.abs(expected[0][inside]).max()))
    np.testing.assert_allclose(found[0][inside], expected[0][inside], atol=1e-4 * scale, rtol=0)
    np.testing.assert_allclose(found[1][inside], expected[1][inside], atol=1e-4 * scale, rtol=0)
    np.testing.assert_allclose(found[2], expected[2], atol=1e-4 * scale, rtol=0)
    log = [x - np.log(np.exp(x - x.max()).sum()) - x.max() for x in (found[0][inside], expected[0][inside])]
    np.testing.assert_allclose(np.exp(log[0]), np.exp(log[1]), atol=1e-4)


def test_a_row_does_not_depend_on_its_batch(rows):
    network = span_reader().network
    together = network.logits(rows)
    for r, expected in list(zip(rows, together, strict=True))[:3]:
        alone = network.logits([r])[0]
        np.testing.assert_allclose(alone.start, expected.start, atol=1e-3)
        np.testing.assert_allclose(alone.holds, expected.holds, atol=1e-3)
        assert len(alone.start) == r.end - r.start
    assert network.logits([]) == []


def test_gelu_is_close_to_the_error_function():
    from math import erf

    x = np.linspace(-12, 12, 4001, dtype=np.float32).reshape(1, -1)
    expected = [0.5 * v * (1 + erf(v / 2**0.5)) for v in x[0].tolist()]
    np.testing.assert_allclose(forward.gelu(x.copy())[0], expected, atol=2e-5)


def test_answering_needs_neither_torch_nor_transformers():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
