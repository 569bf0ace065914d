"""A cache key tells apart what would denoise differently, and nothing else."""

import copy
import functools
import importlib
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from llama_index.core import Document
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.llms.openai_like import OpenAILike

from denoise_core.augmenter.answer import Outcome
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import sentences, whole
from llamaindex_denoise import DenoisePostprocessor, DenoiseTransform, LlamaLLM
from llamaindex_denoise.storage import fingerprint as storage
from llamaindex_denoise.storage.fingerprint import fingerprint

torch = pytest.importorskip("torch")


def differ(first, second):
    a, b = fingerprint(first), fingerprint(second)
    assert a == fingerprint(first)
    assert not a.unknown
    assert not b.unknown
    return a.digest != b.digest


def function(source, **names):
    """A function from source, as a file of the user's that is edited between two runs."""
    module = types.ModuleType("users_own")
    vars(module).update(names)
    exec(source, vars(module))
    return next(v for k, v in vars(module).items() if k == "score")


def holds(value):
    """A scorer with a setting, whose code is that of a release."""
    return FunctionScorer(functools.partial(max, value))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2), ("a", "b"), ([1, 2], [2, 1]), ({"a": 1}, {"a": 2}), ({1, 2}, {1, 3}), (b"x", b"y"),
        (1, True), (1, 1.0), ((1,), [1]), (str.lower, str.upper), (re.compile("a"), re.compile("b")),
        (Outcome.SUPPORTED, Outcome.ABSTAINED), (np.float32(1), np.float32(2)), (sentences, whole),
    ],
)  # fmt: skip
def test_what_a_scorer_holds_counts(one, other):
    assert differ(holds(one), holds(other))
    assert not differ(holds(one), holds(copy.deepcopy(one)))


class Own:
    """A scorer of the user's own; it may be edited, and nothing tells."""

    def score(self, query, texts):
        return [0.0] * len(texts)


class OwnModule(torch.nn.Module):
    pass


@pytest.mark.parametrize(
    "one",
    [Own(), Own, Own().score, lambda: 1, types.ModuleType("own"), torch.nn.Sequential(OwnModule()), iter([])],
)
def test_code_of_no_release_and_what_shows_nothing_is_unknown_and_like_no_other(one):
    found = fingerprint(holds(one))
    assert found.unknown
    assert found.digest != fingerprint(holds(one)).digest


def module(value):
    torch.manual_seed(0)
    made = torch.nn.Linear(4, 2)
    with torch.no_grad():
        made.weight.fill_(value)
    return made


def test_weights_of_a_model_count_also_when_they_change_in_place():
    assert not differ(holds(module(1.0)), holds(module(1.0)))
    assert differ(holds(module(1.0)), holds(module(1.0 + 1e-6)))
    model = module(1.0)
    before = fingerprint(holds(model))
    with torch.no_grad():
        model.weight[0, 0] += 1
    assert fingerprint(holds(model)) != before


def test_files_count_by_their_content(tmp_path):
    model = tmp_path / "model.bin"
    model.write_bytes(b"one")
    before = fingerprint(holds(Path(model)))
    model.write_bytes(b"two!")
    assert fingerprint(holds(Path(model))) != before


def hosted(**settings):
    fields = {"model": "m", "api_base": "http://localhost:1/v1", "api_key": "k", "timeout": 3.0} | settings
    return S2ADenoiser(LlamaLLM(OpenAILike(is_chat_model=True, **fields)), variant="select")


def test_credentials_and_timeouts_do_not_count_and_the_model_does():
    assert not differ(hosted(), hosted(api_key="other", timeout=60.0, max_retries=9))
    assert differ(hosted(), hosted(model="other"))
    assert differ(hosted(), hosted(temperature=0.7))
    assert differ(hosted(), hosted(api_base="http://localhost:2/v1")), "another server may serve another model"


def test_a_number_of_tokens_is_no_credential():
    assert differ(hosted(max_tokens=10), hosted(max_tokens=20))


class Stream:
    def __init__(self):
        self.lines = (line for line in "abc")

    def score(self, query, texts):
        return [1.0] * len(texts)


def test_what_cannot_be_read_is_named_and_not_cached(caplog):
    made = ENDDenoiser(Stream(), threshold=0.5)
    assert any("scorer.lines" in u for u in fingerprint(made).unknown)
    step = DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=made), subject="x")
    assert step.to_dict() != step.to_dict()
    assert "scorer.lines" in caplog.text


def test_an_edited_scorer_is_not_answered_from_the_cache():
    cache = IngestionCache()

    def texts(source):
        end = ENDDenoiser(FunctionScorer(function(source)), keep=1)
        step = DenoiseTransform(postprocessor=DenoisePostprocessor(denoiser=end), subject="a", together=True)
        documents = [Document(text="abc", id_="1"), Document(text="bca", id_="2")]
        return [n.text for n in IngestionPipeline(transformations=[step], cache=cache).run(documents=documents)]

    assert texts("def score(q, t): return float(t.startswith(q))") == ["abc"]
    assert texts("def score(q, t): return float(t.endswith(q))") == ["bca"]


def installed(folder, monkeypatch, version=None, source="def score(q, t): return 1.0\n"):
    """A function of an installed package without a ``__version__``; with ``version`` a distribution brings it."""
    site = folder / "site-packages"
    site.mkdir(parents=True)
    (site / "unversioned_scorer.py").write_text(source)
    if version is not None:
        about = site / f"unversioned_scorer-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: unversioned-scorer\nVersion: {version}\n")
        (about / "top_level.txt").write_text("unversioned_scorer\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "unversioned_scorer", raising=False)
    storage._distributions.cache_clear()
    storage._release.cache_clear()
    return ENDDenoiser(FunctionScorer(importlib.import_module("unversioned_scorer").score), threshold=0.5)


def test_a_package_without_a_version_of_its_own_is_told_by_its_distribution(tmp_path, monkeypatch):
    digests = [
        fingerprint(installed(tmp_path / str(n), monkeypatch, version=v)).digest
        for n, v in enumerate(["1.0", "1.1", "1.0"])
    ]
    assert digests[0] == digests[2] != digests[1]


def test_a_module_of_no_distribution_is_unknown(tmp_path, monkeypatch):
    (unknown,) = fingerprint(installed(tmp_path, monkeypatch)).unknown
    assert "unversioned_scorer" in unknown
