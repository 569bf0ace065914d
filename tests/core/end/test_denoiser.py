"""ENDDenoiser keeps every law of a denoiser, with any scorer, on any input."""

import math

import pytest
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage, Span
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.testing import FunctionScorer, check_denoiser
from denoise_core.text.chunk import no_chunking, sentence_chunker, sentence_spans

BY_LENGTH = FunctionScorer(lambda query, text: len(text))
BY_QUERY = FunctionScorer(lambda query, text: text.count(query))


def texts_of(result):
    return [passage.text for passage in result.passages]


word_list = st.text(alphabet=st.sampled_from("ab .!?\n🙂مש東。"), max_size=60)


@given(
    st.lists(word_list, max_size=12),
    st.sampled_from([0.3, 1, 0.999, 5]),
    st.sampled_from([sentence_spans, sentence_chunker(10), no_chunking]),
    st.integers(0, 2),
)
def test_laws_hold_for_any_text(input_texts, keep, chunker, min_keep):
    check_denoiser(
        lambda: ENDDenoiser(BY_LENGTH, keep=keep, min_keep=min_keep, chunker=chunker),
        "a",
        passages_of(input_texts),
    )


@given(st.lists(word_list, max_size=12))
def test_a_threshold_of_minus_infinity_keeps_every_character(texts):
    result = ENDDenoiser(BY_LENGTH, threshold=-math.inf).denoise(
        "a", passages_of(texts)
    )
    assert texts_of(result) == texts
    assert result.dropped == ()


def test_thirty_percent_of_the_chunks_stay_by_default_in_the_inputs_order():
    passages = passages_of("x" * length for length in (1, 9, 2, 8, 3, 7, 4, 6, 5, 10))
    result = ENDDenoiser(BY_LENGTH).denoise("q", passages)
    kept = [(passage.id, passage.score) for passage in result.passages]
    assert kept == [("1", 9), ("3", 8), ("9", 10)]
    dropped = result.dropped[0]
    assert (dropped.span, dropped.score) == (Span("0", 0, 1), 1.0)
    assert dropped.reason == "not among the best 30 %"
    assert len(result.dropped) == 7


def test_the_share_is_of_all_chunks_together():
    passages = passages_of(["hit hit. hit. no.", "no. no. no.", "no. no. no. no."])
    denoiser = ENDDenoiser(BY_QUERY, keep=2, chunker=sentence_spans)
    (kept,) = denoiser.denoise("hit", passages).passages
    assert kept.text == "hit hit. hit. "
    assert kept.spans == (Span("0", 0, 14),)
    assert kept.score == 2.0


def test_of_empty_passages_alone_as_many_stay_as_must():
    result = ENDDenoiser(BY_LENGTH).denoise("q", passages_of(["", "  ", ""]))
    assert [passage.id for passage in result.passages] == ["0"], (
        "min_keep holds; nothing was there to rank"
    )
    assert [drop.reason for drop in result.dropped] == ["no text", "no text"]
    none_needed = ENDDenoiser(BY_LENGTH, keep=1, min_keep=0)
    assert texts_of(none_needed.denoise("q", passages_of([""]))) == [""]


def test_chunks_without_text_never_reach_the_scorer_nor_displace_text():
    seen_texts = []
    scorer = FunctionScorer(lambda query, text: seen_texts.append(text) or -5.0)
    result = ENDDenoiser(scorer, keep=1).denoise("q", passages_of(["", "\n", "text"]))
    assert seen_texts == texts_of(result) == ["text"]


def test_duplicate_ids_are_refused():
    with pytest.raises(InputError, match="unique_ids"):
        ENDDenoiser(BY_LENGTH).denoise("q", [Passage("a", "x"), Passage("b", "x")])


def test_nan_and_a_wrong_number_of_scores_are_refused():
    class Short(FunctionScorer):
        def score(self, query, texts):
            return super().score(query, texts)[:1]

    for scorer, message in (
        (FunctionScorer(lambda query, text: math.nan), "NaN"),
        (
            Short(lambda query, text: 0.0),
            r"Short\.score must return one score for each of 2",
        ),
    ):
        with pytest.raises(InputError, match=message):
            ENDDenoiser(scorer).denoise("q", passages_of(["a", "b"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": 0}, "keep=0"),
        ({"keep": "atuo"}, "'auto'"),
        ({"min_keep": -1}, "min_keep=-1"),
        ({"max_keep": 0}, "max_keep=0"),
        ({"min_keep": 3, "max_keep": 2}, "max_keep=2"),
        ({"on_irrelevant": "raise"}, "'keep' or 'drop'"),
        ({"chunker": "sentences"}, "'auto' or a function"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(settings, message):
    with pytest.raises(InputError, match=message):
        ENDDenoiser(BY_LENGTH, **settings)


def test_the_trace_has_the_scores_and_their_time():
    (event,) = (
        ENDDenoiser(BY_LENGTH).denoise("q", passages_of(["a", "", "ccc"])).trace.events
    )
    assert (event.tag, event.reply) == ("score", (1.0, None, 3.0))
    assert [span.passage_id for span in event.effect.spans] == ["0", "1", "2"]
    assert event.seconds >= 0


@pytest.mark.parametrize(
    "spans",
    [
        [Span("x", 0, 3)],
        [Span("x", 0, 3), Span("x", 2, 7)],
        [Span("other", 0, 7)],
        [],
    ],
)
def test_a_chunker_that_would_lose_text_is_refused(spans):
    denoiser = ENDDenoiser(BY_LENGTH, chunker=lambda passage: spans)
    with pytest.raises(InputError, match="do not tile passage 'x' of 7 characters"):
        denoiser.denoise("q", [Passage("abcdefg", "x")])
