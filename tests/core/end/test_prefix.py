"""Kept keys and values: the same states for every family, within a bound, under threads."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from readings import SHORT_LAYOUT, states_of

from denoise_core.end import PASSAGE, QUERY, HiddenReader, Layout, ReadingSettings
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.kv_cache.prefix_reader import PrefixReader
from denoise_core.local.partial_forward import get_partial_forward
from denoise_lab.layouts import SQC

TEXTS = ["alpha " * 7, "b", "gamma delta " * 5, "e" * 33]
HYBRIDS = {"qwen3_next", "qwen3_5_text", "lfm2"}


def pair_of_readers(model, tokenizer, layout=SHORT_LAYOUT, prefix_cache=None):
    """A reader that keeps prefixes, and one that keeps nothing."""
    settings = ReadingSettings(layout=layout)
    return [
        HiddenReader(model, tokenizer=tokenizer, settings=settings, prefix=cache)
        for cache in (prefix_cache, PrefixCache(0))
    ]


def check_equal(readers, queries=("who?", "where was it then?"), texts=TEXTS, layer=3):
    for query in queries:
        kept, plain = (states_of(r, query, texts, [layer])[layer] for r in readers)
        np.testing.assert_allclose(kept, plain, atol=1e-5)


def keeps(reader):
    """Whether prefixes are kept at layer 3."""
    return reader._keeps_prefixes(3)


def problem_of(reader):
    """Why this model's prompts cannot be resumed at layer 3, or None."""
    return reader._open_reuse().find_problem(3)


def test_kept_prefixes_change_nothing_in_any_family(
    decoder, decoder_model, byte_tokenizer
):
    readers = pair_of_readers(decoder_model, byte_tokenizer())
    check_equal(readers)
    cache, why = readers[0].prefix, problem_of(readers[0])
    assert keeps(readers[0]) == (decoder not in HYBRIDS)
    if decoder in HYBRIDS:
        assert "not plain keys and values" in why
        assert len(cache) == 0
    else:
        assert (why, cache.hits, cache.misses) == (None, 4, 4)


def test_random_ragged_trials_are_exact(llama, tokenizer):
    readers = pair_of_readers(llama, tokenizer)
    generator = np.random.default_rng(0)
    pool = []
    for length in generator.integers(0, 60, 12):
        pool.append("".join(generator.choice(list("abcdef "), length)))
    for _ in range(20):
        texts = generator.choice(pool, generator.integers(1, 7)).tolist()
        query = "x" * int(generator.integers(0, 30))
        check_equal(readers, [query], texts, layer=int(generator.integers(1, 7)))
    cache = readers[0].prefix
    assert min(cache.hits, cache.misses) > 10


def test_what_all_prompts_begin_with_is_run_once(llama, tokenizer):
    instruction = "Read the passage and say what it says about the question: "
    layout = Layout("long", ("\nQ: ", QUERY), system=(instruction, PASSAGE))
    reader, _ = pair_of_readers(llama, tokenizer, layout)
    states_of(reader, "who?", ["ij"], [3])  # the trials' passes are over
    run_tokens = []
    handle = reader.backbone.partial_forward.blocks[0].register_forward_pre_hook(
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
    settings = ReadingSettings(layout=layout, pooling=pooling)
    reader = HiddenReader(model, tokenizer=tokenizer, settings=settings)
    query = "where was it then?"
    alone = []
    for prompt in reader.prompts([(query, text) for text in TEXTS])[0]:
        with torch.inference_mode():
            full_run = model(torch.tensor([prompt.ids]), output_hidden_states=True)
        states = full_run.hidden_states[3][0].numpy()
        question_mean = states[slice(*prompt.query_span)].mean(0)
        parts = [states[-1], question_mean][pooling == "mean_question" :]
        alone.append(reader.norm(np.stack(parts)).ravel())
    for layers in ([3], [3], [1, 3]):  # cold, warm, a sweep
        actual = states_of(reader, query, TEXTS, layers)[3]
        np.testing.assert_allclose(actual, alone, atol=1e-5)
    assert reader.prefix.hits > 0


def test_bfloat16_agrees_within_its_rounding(tiny, tokenizer):
    readers = pair_of_readers(tiny("llama").to(torch.bfloat16), tokenizer)
    for query in ("who?", "when was that?"):
        states = [torch.tensor(states_of(r, query, TEXTS, [3])[3]) for r in readers]
        assert (torch.cosine_similarity(*states) > 0.999).all()


def test_keys_hold_layer_layout_model_and_dtype(tiny, llama, tokenizer):
    prefix_cache = PrefixCache(1 << 24)
    other_layout = Layout("other", ("\nQuestion: ", QUERY), system=("Look:", PASSAGE))
    for model, layout, layer in (
        (llama, SHORT_LAYOUT, 3),
        (llama, SHORT_LAYOUT, 4),
        (llama, other_layout, 3),
        (tiny("llama", seed=1), SHORT_LAYOUT, 3),
        (tiny("llama").to(torch.bfloat16), SHORT_LAYOUT, 3),
    ):
        readers = pair_of_readers(model, tokenizer, layout, prefix_cache)
        check_equal(readers, ["who?"], layer=layer)
        assert prefix_cache.hits == 0, "an entry of something else was used"
    later_reader, _ = pair_of_readers(llama, tokenizer, SHORT_LAYOUT, prefix_cache)
    states_of(later_reader, "who else?", TEXTS, [3])
    assert prefix_cache.hits == 4, "the same model under a new reader finds its entries"


def test_what_cannot_be_kept_is_not(llama, tokenizer):
    question_first, _ = pair_of_readers(llama, tokenizer, SQC)
    kept_reader, plain_reader = pair_of_readers(llama, tokenizer)
    assert keeps(kept_reader)
    for reader in (question_first, plain_reader):
        assert not keeps(reader)


def test_keys_that_move_with_the_padding_are_not_kept(llama, tokenizer):
    class Wrapped(type(llama)):
        def forward(self, input_ids=None, **given):  # hides that it takes position ids
            return super().forward(input_ids, **given)

    tiny_model = Wrapped(llama.config).eval()
    tiny_model.load_state_dict(llama.state_dict())
    readers = pair_of_readers(tiny_model, tokenizer)
    assert "padding" in problem_of(readers[0])
    for texts in (TEXTS, TEXTS[1:2]):
        check_equal(readers, ["who?"], texts)


def test_a_trial_that_nobody_waits_for_says_nothing_of_the_model(llama):
    outcomes = [TimeoutError("nobody waits"), None]

    class Abandoned(PrefixReader):
        def _try_layer(self, layer):
            outcome = outcomes.pop(0)
            if outcome is not None:
                raise outcome

    partial_forward = get_partial_forward(llama)
    reader = Abandoned(partial_forward, PrefixCache(0), lambda layer: layer, 64)
    with pytest.raises(TimeoutError):
        reader.find_problem(3)
    assert reader.find_problem(3) is None


def test_threads_share_a_small_cache_without_wrong_states(llama, tokenizer):
    readers = pair_of_readers(llama, tokenizer, SHORT_LAYOUT, PrefixCache(40_000))
    queries = ["who?", "why?", "when was it?"] * 2

    def work(number):
        check_equal(readers, queries[number:] + queries[:number])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert readers[0].prefix.total_weight <= 40_000


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 40)), max_size=60),
    st.integers(0, 100),
)
def test_the_bound_in_bytes_always_holds_and_the_least_used_goes_first(steps, bound):
    cache = PrefixCache(bound)
    sizes = {}  # in order of use
    for key, size in steps:
        is_known = key in sizes
        assert (cache.get(key) is not None) == is_known
        if is_known:
            sizes[key] = sizes.pop(key)
        else:
            cache.put(key, SimpleNamespace(nbytes=size))
            if size <= bound:
                sizes[key] = size
            while sum(sizes.values()) > bound:
                del sizes[next(iter(sizes))]
        assert cache.total_weight == sum(sizes.values()) <= bound
        assert len(cache) == len(sizes)
