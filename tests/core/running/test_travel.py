"""What travels is a recipe: equal on arrival, opened there, and neither weights nor locks nor secrets in it."""

import asyncio
import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from denoise_core import Guard, InputError, Passage, Pipeline
from denoise_core.augmenter.knowledge.chain import ChainRetriever
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever
from denoise_core.augmenter.utility import Groundedness
from denoise_core.embedded import DefaultScorer, default_denoiser
from denoise_core.embedded.default import embedding_scorer
from denoise_core.end import ENDDenoiser
from denoise_core.local.keeping.prefix import PrefixCache
from denoise_core.running.caches.cache import Cache, MemoryStore, SqliteStore
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.scorers import BM25Scorer, CrossEncoderScorer, EmbeddingScorer
from denoise_core.support import judges
from denoise_core.support.quoting import LLMJudge
from denoise_core.types import Reply

QUERY = "Where is the tower?"
PASSAGES = [
    Passage("The tower is in Porto. It was built by a clerk.", "a"),
    Passage("Bread is cheap. Milk is not.", "b"),
    Passage("A tower stands in the harbour of Porto.", "c"),
    Passage("Rain fell on the fields all day.", "d"),
]


def arrived(sent):
    return pickle.loads(sent)  # noqa: S301


class Echo:
    """An LLM that pickles."""

    def complete(self, messages):
        return Reply("[1]")

    async def acomplete(self, messages):
        return Reply("[1]")


def lengths(texts):
    return np.array([[len(t), 1.0] for t in texts], dtype=np.float32)


def pairs(found):
    return np.array([len(set(q.split()) & set(t.split())) for q, t in found], dtype=np.float32)


DENOISERS = {
    "default": default_denoiser,
    "default, guarded": lambda: Guard(default_denoiser()),
    "cosine": lambda: ENDDenoiser(embedding_scorer()),
    "own vectors": lambda: ENDDenoiser(EmbeddingScorer(lengths)),
    "own pairs": lambda: ENDDenoiser(CrossEncoderScorer(pairs)),
    "BM25 before the default": lambda: Pipeline(ENDDenoiser(BM25Scorer(), keep=3), default_denoiser()),
    "S2A with a cache": lambda: S2ADenoiser(Echo(), variant="select", options=Options(cache=Cache("echo"))),
}


def kept(denoiser):
    result = denoiser.denoise(QUERY, PASSAGES)
    return result.passages, result.dropped, [k.span for k in result.kept]


def scores(scorer):
    return scorer.score(QUERY, [p.text for p in PASSAGES]).tolist()


@pytest.fixture(scope="module")
def spawned():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("name", DENOISERS)
def test_denoisers_do_in_a_spawned_process_what_they_do_here(name, spawned):
    denoiser = DENOISERS[name]()
    here = kept(denoiser)  # used, so that there is something to leave behind
    assert spawned.submit(kept, denoiser).result(120) == here
    assert kept(denoiser) == here
    assert len(pickle.dumps(denoiser)) < 20_000, "a recipe is small"


@pytest.mark.parametrize("name", DENOISERS)
def test_copies_do_the_same(name):
    denoiser = DENOISERS[name]()
    assert kept(copy.deepcopy(denoiser)) == kept(copy.copy(denoiser)) == kept(denoiser)


def test_async_users_too(spawned):
    async def far():
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(spawned, kept, default_denoiser())

    assert asyncio.run(far()) == kept(default_denoiser())


JUDGES = {
    "no judge": Groundedness,
    "quotes": lambda: Groundedness(LLMJudge(Echo())),
}


@pytest.mark.parametrize("name", JUDGES)
def test_judges_travel(name, spawned):
    judge = JUDGES[name]()
    assert spawned.submit(judged, judge).result(120) == judged(judge)
    assert len(pickle.dumps(judge)) < 2000


def judged(judge):
    from denoise_core.augmenter.memory import WorkingMemory
    from denoise_core.running.flow import run

    memory = WorkingMemory(QUERY, tuple(PASSAGES))
    return [run(judge.assess(memory, said))[0].outcome for said in ("The tower is in Porto.", "It is in Rome.")]


SETTINGS = {
    "prefixes": (lambda: PrefixCache(9), lambda c: c.max_bytes),
    "memory": (lambda: MemoryStore(5), lambda c: c.max_entries),
    "cache": (lambda: Cache("m", MemoryStore(3), scope="tenant"), lambda c: (c.model, c.scope)),
    "BM25": (lambda: BM25Retriever(PASSAGES, k=2), lambda r: (r.passages, r.k, r.language)),
    "chains": (lambda: ChainRetriever(PASSAGES, tokens=50), lambda r: (r.bm25.passages, r.tokens, r.starts)),
    "decision": (lambda: judges.decision("m"), lambda c: (c.id, c.function.decide.model)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_arrive(name):
    make, settings = SETTINGS[name]
    made = make()
    assert settings(arrived(pickle.dumps(made))) == settings(made) == settings(copy.deepcopy(made))


def test_what_was_kept_stays_behind():
    cache, store = PrefixCache(9), MemoryStore()
    cache.put("key", np.zeros(1))
    store.put("key", "a secret of somebody")
    assert len(arrived(pickle.dumps(cache))) == 0
    assert b"secret" not in pickle.dumps(Cache("m", store))
    assert arrived(pickle.dumps(store)).get("key") is None


def test_a_file_is_found_from_another_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("cache.db")
    store.put("key", "text")
    sent = pickle.dumps(store)
    monkeypatch.chdir("/")
    assert arrived(sent).get("key") == "text"


class Weights:
    """What a loaded torch model looks like."""

    def state_dict(self):
        return {}

    def encode(self, texts):
        return lengths(texts)


@pytest.mark.parametrize("embed", [Weights(), Weights().encode], ids=["a model", "its method"])
def test_weights_are_refused_with_what_to_give_instead(embed):
    scorer = EmbeddingScorer(embed)
    before = scores(scorer)
    with pytest.raises(InputError, match="by name or folder"):
        pickle.dumps(ENDDenoiser(scorer))
    assert scores(scorer) == before


def test_a_folder_must_be_there_and_the_same(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    sent = pickle.dumps(EmbeddingScorer(str(folder)))
    assert arrived(sent).embed == str(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(InputError, match="not what it was"):
        arrived(sent)
    (folder / "config.json").unlink()
    folder.rmdir()
    with pytest.raises(InputError, match="no such folder"):
        arrived(sent)


def test_two_versions_that_score_differently_do_not_mix(monkeypatch):
    sent = pickle.dumps(default_denoiser())
    monkeypatch.setattr(DefaultScorer, "marks", lambda self: {"shipped weights": "others"})
    with pytest.raises(InputError, match="shipped weights is not what it was"):
        arrived(sent)


def test_a_subclass_that_keeps_a_setting_elsewhere_says_so():
    class Renamed(PrefixCache):
        def __init__(self, size):
            super().__init__(size)

    with pytest.raises(TypeError, match="keeps no 'size'"):
        pickle.dumps(Renamed(3))


def test_a_probe_by_folder_travels_before_and_after_use(tmp_path, spawned):
    pytest.importorskip("torch")
    from tiny_models import probe_of, tiny_pair

    from denoise_core.end import ProbeScorer

    model, tokenizer = tiny_pair()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    probe = probe_of(model, tokenizer)
    scorer = ProbeScorer(str(tmp_path), probe)
    sent = pickle.dumps(scorer)
    here = scores(scorer)
    assert here == pytest.approx(scores(ProbeScorer(model, probe, tokenizer=tokenizer)), abs=1e-4)
    assert spawned.submit(scores, scorer).result(120) == pytest.approx(here, abs=1e-5)
    assert scores(arrived(sent)) == pytest.approx(here, abs=1e-5)
    assert len(pickle.dumps(scorer)) < 8000
    with pytest.raises(InputError, match="weights do not travel"):
        pickle.dumps(ProbeScorer(model, probe, tokenizer=tokenizer))


def test_a_local_model_by_folder_travels_before_and_after_use(tmp_path):
    pytest.importorskip("torch")
    from tiny_llm import tiny_llm

    from denoise_core import Message
    from denoise_core.end import LocalLLM

    loaded = tiny_llm()
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    llm = LocalLLM(str(tmp_path), max_new_tokens=5)
    asked = [Message("user", "what?")]
    said = llm.complete(asked)
    twin = arrived(pickle.dumps(llm))
    assert twin.model == str(tmp_path)
    assert twin.complete(asked) == said
    with pytest.raises(InputError, match="weights do not travel"):
        pickle.dumps(loaded)
