"""Caches of texts hold a number of bytes, however long the texts are, and say how full they are."""

import gc
import tracemalloc

import pytest
from growing_texts import TEXTS

from denoise_core.runtime.caches import MemoryStore
from denoise_core.support import answers, evidence, normal_form
from denoise_core.text import structural
from denoise_core.text.facts import comparison
from denoise_core.weighted_cache import (
    WeightedLRUCache,
    cache_by_bytes,
    cache_fills,
    limit_caches,
)

CACHED = (
    structural._chunk_string,
    evidence.content_terms,
    answers._parse_cached,
    normal_form.fold_text,
    comparison.parse_text,
)
FUNCTIONS = {
    "chunked texts": structural._chunk_string,
    "answers": lambda text: answers._parse_cached(text, "q", ()),
    "folded texts": normal_form.fold_text,
    "parsed texts": comparison.parse_text,
}


@pytest.mark.parametrize(
    "form", ["nested list", "headings without text", "mail", "JSON records"]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_cache_counts_at_least_what_its_values_hold(name, form):
    for function in CACHED:
        function.cache_clear()
    text = TEXTS[form](20_000)
    FUNCTIONS[name](TEXTS[form](500))  # what is loaded at the first use
    gc.collect()
    counted_before = cache_fills()[name][0]
    tracemalloc.start()
    held_before = tracemalloc.get_traced_memory()[0]
    FUNCTIONS[name](text)
    gc.collect()
    held_bytes = tracemalloc.get_traced_memory()[0] - held_before
    tracemalloc.stop()
    counted_bytes = cache_fills()[name][0] - counted_before
    assert held_bytes <= 1.2 * counted_bytes


def test_long_texts_leave_room_and_longer_ones_are_not_kept():
    calls = []

    @cache_by_bytes("of a test", 50_000, bytes_per_character=4)
    def measure(text):
        calls.append(len(text))
        return len(text)

    for _ in range(2):
        assert [measure(letter * 5000) for letter in "ab"] == [5000, 5000]
    assert calls == [5000, 5000], "both fit"
    measure("c" * 5000)
    measure("a" * 5000)
    assert calls == [5000] * 4, "the third made room, so the first is computed again"
    measure("d" * 50_000)
    measure("d" * 50_000)
    assert calls[4:] == [50_000, 50_000]
    held_bytes, max_bytes = cache_fills()["of a test"]
    assert 0 < held_bytes <= max_bytes == 50_000


def test_a_store_in_memory_counts_small_texts_too():
    store = MemoryStore(max_bytes=9000)
    for number in range(1000):
        store.put(str(number), "1")
    assert 9 < len(store) < 20
    assert store.total_weight <= 9000
    store.put("long", "a" * 9000)
    assert store.get("long") is None


def test_a_bound_for_all_caches_empties_those_that_were_larger():
    larger = WeightedLRUCache(2**50, len, name="larger than any other")
    smaller = WeightedLRUCache(100, len, name="smaller")
    for cache in (larger, smaller):
        cache.put("key", "text")
    limit_caches(2**49)
    assert cache_fills()["larger than any other"] == (0, 2**49)
    assert larger.get("key") is None
    assert smaller.get("key") == "text"
    larger.put("key", "text")
    assert larger.get("key") == "text"
