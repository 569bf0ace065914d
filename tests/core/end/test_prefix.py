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


def pair_of_readers(tiny_model, tokenizer, layout=SHORT, prefix_cache=None):
    reading_settings = ReadingSettings(layout=layout)
    caching_reader = HiddenReader(
        tiny_model, tokenizer=tokenizer, settings=reading_settings, prefix=prefix_cache
    )
    return caching_reader, HiddenReader(
        tiny_model,
        tokenizer=tokenizer,
        settings=reading_settings,
        prefix=PrefixCache(0),
    )


def check_equal(readers, queries=("who?", "where was it then?"), texts=TEXTS, layer=3):
    """Both readers give the same states."""
    for query in queries:
        actual, reference = (
            states_of(each_reader, query, texts, [layer])[layer]
            for each_reader in readers
        )
        assert np.abs(actual - reference).max() < 1e-5


def off(reader):
    """Why nothing is kept at layer 3, or None."""
    with reader.backbone.partial_forward.lock:
        return reader._no_cache_reason(3)


def test_kept_prefixes_change_nothing_in_any_family(decoder, tiny, byte_tokenizer):
    readers = pair_of_readers(tiny(decoder), byte_tokenizer())
    check_equal(readers)
    caching_reader = readers[0]
    kept_items, why = caching_reader.prefix, off(caching_reader)
    if decoder in HYBRIDS:
        assert "not plain keys and values" in why
        assert len(kept_items) == 0
    else:
        assert (why, kept_items.hits, kept_items.misses) == (None, 4, 4)


@pytest.fixture(scope="module")
def llama(tiny):
    return tiny("llama")


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    return byte_tokenizer()


def test_random_ragged_trials_are_exact(llama, tokenizer):
    readers = pair_of_readers(llama, tokenizer)
    generator = np.random.default_rng(0)
    pool = [
        "".join(generator.choice(list("abcdef "), generator.integers(0, 60)))
        for _ in range(12)
    ]
    for _ in range(20):
        numbers = generator.integers(0, 12, generator.integers(1, 7))
        query = "x" * int(generator.integers(0, 30))
        texts = [pool[i] for i in numbers]
        check_equal(readers, [query], texts, layer=int(generator.integers(1, 7)))
    cache = readers[0].prefix
    assert min(cache.hits, cache.misses) > 10


@pytest.mark.parametrize("layout", [SC, DISTINGUISH], ids=lambda layout: layout.name)
def test_other_layouts_with_the_passage_first_are_exact_too(layout, llama, tokenizer):
    readers = pair_of_readers(llama, tokenizer, layout)
    check_equal(readers)
    assert readers[0].prefix.hits == 4


def test_what_all_prompts_begin_with_is_run_once(llama, tokenizer):
    instruction = "Read the passage and say what it says about the question: "
    layout = Layout("long", ("\nQ: ", QUERY), system=(instruction, PASSAGE))
    reader, _ = pair_of_readers(llama, tokenizer, layout)
    partial_forward = reader.backbone.partial_forward
    states_of(reader, "who?", ["ij"], [3])  # the trials' passes are over
    run_tokens = []
    handle = partial_forward.blocks[0].register_forward_pre_hook(
        lambda block, args: run_tokens.append(args[0].shape[0] * args[0].shape[1])
    )
    states_of(reader, "who?", ["ab", "cd", "ef", "gh"], [3])
    handle.remove()
    tail = len(tokenizer("ab\n\n\nQ: who?")["input_ids"])
    assert sum(run_tokens) <= len(instruction) + 1 + 4 * tail


@pytest.mark.parametrize("pooling", ["mean_question", "last_mean_question"])
@pytest.mark.parametrize(
    "family", ["llama", "gpt2", "gemma2", "bloom", "qwen2-sliding"]
)
def test_pooled_states_depend_on_no_neighbour_and_no_cache(
    pooling, family, tiny, tokenizer
):
    """The shared instruction, kept prefixes and several layers at once change nothing either."""
    model = tiny(family)
    instruction = "Read the passage and say what it says about it: "
    layout = Layout("pooled", ("\nQ: ", QUERY), system=(instruction, PASSAGE))
    reading_settings = ReadingSettings(layout=layout, pooling=pooling)
    reader = HiddenReader(model, tokenizer=tokenizer, settings=reading_settings)
    query = "where was it then?"
    alone = []
    for text in TEXTS:
        token_ids = reader.prompts([(query, text)])[0][0].ids
        spans = reader.prompts([(query, text)])[0][0].query_span
        with torch.inference_mode():
            full_run = model(torch.tensor([token_ids]), output_hidden_states=True)
        states = full_run.hidden_states[3][0]
        parts = [states[-1], states[spans[0] : spans[1]].mean(0)]
        wanted = torch.stack(parts if pooling == "last_mean_question" else parts[1:])
        alone.append(reader.norm(wanted.numpy()).reshape(-1))
    for layers in ([3], [3], [1, 3]):  # cold, warm, a sweep
        actual = states_of(reader, query, TEXTS, layers)[3]
        assert np.abs(actual - np.stack(alone)).max() < 1e-5
    assert reader.prefix.hits > 0


def test_a_decoders_pooling_by_spans_depends_on_no_neighbour(llama, tokenizer):
    """Also where the passage's tokens are needed, and nothing can be kept."""
    reading_settings = ReadingSettings(layout=SHORT, pooling="cls_mean_question")
    reader = HiddenReader(llama, tokenizer=tokenizer, settings=reading_settings)
    together = states_of(reader, "who?", TEXTS, [3])[3]
    for i, text in enumerate(TEXTS):
        alone = states_of(reader, "who?", [text], [3])[3][0]
        assert np.abs(together[i] - alone).max() < 1e-5


def test_bfloat16_agrees_within_its_rounding(tiny, tokenizer):
    caching_reader, plain_reader = pair_of_readers(
        tiny("llama").to(torch.bfloat16), tokenizer
    )
    for asked_query in ("who?", "when was that?"):
        actual, reference = (
            torch.tensor(states_of(each_reader, asked_query, TEXTS, [3])[3])
            for each_reader in (caching_reader, plain_reader)
        )
        assert bool((torch.cosine_similarity(actual, reference) > 0.999).all())


def test_keys_hold_layer_layout_model_and_dtype(tiny, llama, tokenizer):
    prefix_cache = PrefixCache(1 << 24)
    other_layout = Layout("other", ("\nQuestion: ", QUERY), system=("Look:", PASSAGE))
    half = tiny("llama").to(torch.bfloat16)
    for model, layout, layer in (
        (llama, SHORT, 3),
        (llama, SHORT, 4),
        (llama, other_layout, 3),
        (tiny("llama", seed=1), SHORT, 3),
        (half, SHORT, 3),
    ):
        readers = pair_of_readers(model, tokenizer, layout, prefix_cache)
        hits_before = prefix_cache.hits
        check_equal(readers, ["who?"], layer=layer)
        assert prefix_cache.hits == hits_before, (
            "an entry of another model, layer or layout was used"
        )
    later_reader, _ = pair_of_readers(llama, tokenizer, SHORT, prefix_cache)
    states_of(later_reader, "who else?", TEXTS, [3])
    assert prefix_cache.hits == 4, (
        "the same model under a new reader must find its entries"
    )


def test_what_cannot_be_kept_says_why(llama, tokenizer, tiny, byte_tokenizer):
    refused_cases = [
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
    for reader, why in refused_cases:
        assert why in off(reader)


def test_keys_that_move_with_the_padding_are_not_kept(llama, tokenizer):
    class Wrapped(type(llama)):
        def forward(self, input_ids=None, **given):  # hides that it takes position ids
            return super().forward(input_ids, **given)

    tiny_model = Wrapped(llama.config).eval()
    tiny_model.load_state_dict(llama.state_dict())
    readers = pair_of_readers(tiny_model, tokenizer)
    assert "padding" in off(readers[0])
    for texts in (TEXTS, TEXTS[1:2]):
        check_equal(readers, ["who?"], texts)


def test_threads_share_a_small_cache_without_wrong_states(llama, tokenizer):
    caching_reader, plain_reader = pair_of_readers(
        llama, tokenizer, SHORT, PrefixCache(40_000)
    )
    reference = {
        q: states_of(plain_reader, q, TEXTS, [3])[3]
        for q in ("who?", "why?", "when was it?")
    }
    max_errors: list[float] = []

    def work(number: int) -> None:
        for i in range(6):
            asked_query = list(reference)[(number + i) % 3]
            max_errors.append(
                float(
                    np.abs(
                        states_of(caching_reader, asked_query, TEXTS, [3])[3]
                        - reference[asked_query]
                    ).max()
                )
            )

    worker_threads = [
        threading.Thread(target=work, args=(number,)) for number in range(4)
    ]
    for text in worker_threads:
        text.start()
    for text in worker_threads:
        text.join()
    assert len(max_errors) == 24
    assert max(max_errors) < 1e-5
    assert caching_reader.prefix.total_weight <= 40_000


@dataclass
class Entry:
    nbytes: int


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 40)), max_size=60),
    st.integers(0, 100),
)
def test_the_bound_in_bytes_always_holds_and_the_least_used_goes_first(steps, bound):
    prefix_cache: PrefixCache = PrefixCache(bound)
    tiny_model: dict[int, int] = {}  # in order of use
    for key, size in steps:
        actual = prefix_cache.get(key)
        assert (actual is not None) == (key in tiny_model)
        if actual is not None:
            tiny_model[key] = tiny_model.pop(key)
        else:
            prefix_cache.put(key, Entry(size))
            if size <= bound:
                tiny_model[key] = size
                while sum(tiny_model.values()) > bound:
                    del tiny_model[next(iter(tiny_model))]
        assert prefix_cache.total_weight == sum(tiny_model.values()) <= bound
        assert len(prefix_cache) == len(tiny_model)


def test_a_negative_bound_is_refused_and_clearing_forgets():
    with pytest.raises(InputError, match="max_bytes=-1"):
        PrefixCache(-1)
    prefix_cache: PrefixCache = PrefixCache(10)
    prefix_cache.put("a", Entry(3))
    prefix_cache.clear()
    assert prefix_cache.total_weight == 0
    assert prefix_cache.get("a") is None


def test_the_default_layout_of_a_decoder_is_kept(llama, tokenizer):
    reader = HiddenReader(llama, tokenizer=tokenizer)
    assert reader.layout.name == SCQ.name
    assert off(reader) is None
