"""Kept keys and values: the same states for every family, within a bound, under threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from readings import states_of

from denoise_core import InputError
from denoise_core.end import PASSAGE, QUERY, SCQ, HiddenReader, Layout, ReadingSettings
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_lab.layouts import DISTINGUISH, SC, SQC

SHORT = Layout("short", ("\nQ: ", QUERY), system=("Read:", PASSAGE))
TEXTS = ["alpha " * 7, "b", "gamma delta " * 5, "e" * 33]
HYBRIDS = {"qwen3_next", "qwen3_5_text", "lfm2"}


def pair_of_readers(model, tokenizer, layout=SHORT, cache=None):
    s = ReadingSettings(layout=layout)
    keeping = HiddenReader(model, tokenizer=tokenizer, settings=s, prefix=cache)
    return keeping, HiddenReader(
        model, tokenizer=tokenizer, settings=s, prefix=PrefixCache(0)
    )


def off(reader):
    """Why nothing is kept at layer 3, or None."""
    with reader.backbone.partial_forward.lock:
        return reader._no_cache_reason(3)


def test_kept_prefixes_change_nothing_in_any_family(decoder, tiny, byte_tokenizer):
    keeping, plain = pair_of_readers(tiny(decoder), byte_tokenizer())
    for query in ("who?", "where was it then?"):
        found, wanted = (states_of(r, query, TEXTS, [3])[3] for r in (keeping, plain))
        assert np.abs(found - wanted).max() < 1e-5
    kept, why = keeping.prefix, off(keeping)
    if decoder in HYBRIDS:
        assert "not plain keys and values" in why
        assert len(kept) == 0
    else:
        assert (why, kept.hits, kept.misses) == (None, 4, 4)


@pytest.fixture(scope="module")
def llama(tiny):
    return tiny("llama")


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    return byte_tokenizer()


def test_random_ragged_trials_are_exact(llama, tokenizer):
    keeping, plain = pair_of_readers(llama, tokenizer)
    rng = np.random.default_rng(0)
    pool = [
        "".join(rng.choice(list("abcdef "), rng.integers(0, 60))) for _ in range(12)
    ]
    for _ in range(20):
        texts = [pool[i] for i in rng.integers(0, 12, rng.integers(1, 7))]
        query = "".join(rng.choice(list("xyz?"), rng.integers(1, 20)))
        layer = int(rng.integers(1, 7))
        found, wanted = (
            states_of(r, query, texts, [layer])[layer] for r in (keeping, plain)
        )
        assert np.abs(found - wanted).max() < 1e-5
    assert keeping.prefix.hits / (keeping.prefix.hits + keeping.prefix.misses) > 0.3


@pytest.mark.parametrize("layout", [SC, DISTINGUISH], ids=lambda layout: layout.name)
def test_other_layouts_with_the_passage_first_are_exact_too(layout, llama, tokenizer):
    keeping, plain = pair_of_readers(llama, tokenizer, layout)
    for query in ("who?", "when?"):
        found, wanted = (states_of(r, query, TEXTS, [3])[3] for r in (keeping, plain))
        assert np.abs(found - wanted).max() < 1e-5
    assert keeping.prefix.hits == 4


def test_bfloat16_agrees_within_its_rounding(tiny, tokenizer):
    keeping, plain = pair_of_readers(tiny("llama").to(torch.bfloat16), tokenizer)
    for query in ("who?", "when was that?"):
        found, wanted = (
            torch.tensor(states_of(r, query, TEXTS, [3])[3]) for r in (keeping, plain)
        )
        assert bool((torch.cosine_similarity(found, wanted) > 0.999).all())


def test_keys_hold_layer_layout_model_and_dtype(tiny, llama, tokenizer):
    cache = PrefixCache(1 << 24)
    other = Layout("other", ("\nQuestion: ", QUERY), system=("Look:", PASSAGE))
    readers = [
        (pair_of_readers(llama, tokenizer, SHORT, cache), 3),
        (pair_of_readers(llama, tokenizer, SHORT, cache), 4),
        (pair_of_readers(llama, tokenizer, other, cache), 3),
        (pair_of_readers(tiny("llama", seed=1), tokenizer, SHORT, cache), 3),
        (pair_of_readers(tiny("llama").to(torch.bfloat16), tokenizer, SHORT, cache), 3),
    ]
    for (keeping, plain), layer in readers:
        before = cache.hits
        found = states_of(keeping, "who?", TEXTS, [layer])[layer]
        assert cache.hits == before, (
            "an entry of another model, layer or layout was used"
        )
        assert (
            np.abs(found - states_of(plain, "who?", TEXTS, [layer])[layer]).max() < 1e-5
        )
    again, _ = pair_of_readers(llama, tokenizer, SHORT, cache)
    states_of(again, "who else?", TEXTS, [3])
    assert cache.hits == 4, "the same model under a new reader must find its entries"


def test_what_cannot_be_kept_says_why(llama, tokenizer, tiny, byte_tokenizer):
    cases = [
        (
            HiddenReader(
                llama, tokenizer=tokenizer, settings=ReadingSettings(layout=SQC)
            ),
            "question before the passage",
        ),
        (
            HiddenReader(llama, tokenizer=tokenizer, prefix=PrefixCache(0)),
            "switched off",
        ),
        (HiddenReader(tiny("bert"), tokenizer=byte_tokenizer(pair=True)), "encoder"),
    ]
    for reader, why in cases:
        assert why in off(reader)


def test_keys_that_move_with_the_padding_are_not_kept(llama, tokenizer):
    class Wrapped(type(llama)):
        def forward(self, input_ids=None, **given):  # hides that it takes position ids
            return super().forward(input_ids, **given)

    model = Wrapped(llama.config).eval()
    model.load_state_dict(llama.state_dict())
    keeping, plain = pair_of_readers(model, tokenizer)
    assert "padding" in off(keeping)
    for texts in (TEXTS, TEXTS[1:2]):
        found, wanted = (states_of(r, "who?", texts, [3])[3] for r in (keeping, plain))
        assert np.abs(found - wanted).max() < 1e-5


def test_threads_share_a_small_cache_without_wrong_states(llama, tokenizer):
    keeping, plain = pair_of_readers(llama, tokenizer, SHORT, PrefixCache(40_000))
    wanted = {
        q: states_of(plain, q, TEXTS, [3])[3] for q in ("who?", "why?", "when was it?")
    }
    worst: list[float] = []

    def work(n: int) -> None:
        for i in range(6):
            query = list(wanted)[(n + i) % 3]
            worst.append(
                float(
                    np.abs(
                        states_of(keeping, query, TEXTS, [3])[3] - wanted[query]
                    ).max()
                )
            )

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(worst) == 24
    assert max(worst) < 1e-5
    assert keeping.prefix.total_weight <= 40_000
    assert keeping.prefix.evictions > 0


@dataclass
class Entry:
    nbytes: int


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 40)), max_size=60),
    st.integers(0, 100),
)
def test_the_bound_in_bytes_always_holds_and_the_least_used_goes_first(steps, bound):
    cache: PrefixCache = PrefixCache(bound)
    model: dict[int, int] = {}  # in order of use
    for key, size in steps:
        found = cache.get(key)
        assert (found is not None) == (key in model)
        if found is not None:
            model[key] = model.pop(key)
        else:
            cache.put(key, Entry(size))
            if size <= bound:
                model[key] = size
                while sum(model.values()) > bound:
                    del model[next(iter(model))]
        assert cache.total_weight == sum(model.values()) <= bound
        assert len(cache) == len(model)


def test_a_negative_bound_is_refused_and_clearing_forgets():
    with pytest.raises(InputError, match="max_bytes=-1"):
        PrefixCache(-1)
    cache: PrefixCache = PrefixCache(10)
    cache.put("a", Entry(3))
    cache.clear()
    assert cache.total_weight == 0
    assert cache.get("a") is None


def test_the_default_layout_of_a_decoder_is_kept(llama, tokenizer):
    reader = HiddenReader(llama, tokenizer=tokenizer)
    assert reader.layout.name == SCQ.name
    assert off(reader) is None
