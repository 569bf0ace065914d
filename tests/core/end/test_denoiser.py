"""ENDDenoiser keeps every law of a denoiser, with any scorer, on any input."""

import asyncio
import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage, Span
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.testing import FunctionScorer, check_denoiser
from denoise_core.text.chunk import sentence_chunker, sentence_spans

BY_LENGTH = FunctionScorer(lambda asked_query, input_text: len(input_text))
BY_QUERY = FunctionScorer(lambda asked_query, input_text: input_text.count(asked_query))


def some(*input_texts):
    return [Passage(t, f"p{i}", metadata={"n": i}) for i, t in enumerate(input_texts)]


word_list = st.text(alphabet=st.sampled_from("ab .!?\n🙂مש東。"), max_size=60)


@given(
    st.lists(word_list, max_size=12),
    st.sampled_from([0.3, 1, 0.999, 5]),
    st.sampled_from([sentence_spans, sentence_chunker(10), None]),
    st.integers(0, 2),
)
def test_laws_hold_for_any_text(input_texts, keep, chunker, min_keep):
    cut = {} if chunker is None else {"chunker": chunker}
    check_denoiser(
        lambda: ENDDenoiser(BY_LENGTH, keep=keep, min_keep=min_keep, **cut),
        "a",
        some(*input_texts),
    )


@given(st.lists(word_list, max_size=12))
def test_a_threshold_of_minus_infinity_keeps_every_character(input_texts):
    input_passages = some(*input_texts)
    denoise_result = ENDDenoiser(BY_LENGTH, threshold=-math.inf).denoise(
        "a", input_passages
    )
    assert [(passage.id, passage.text) for passage in denoise_result.passages] == [
        (passage.id, passage.text) for passage in input_passages
    ]
    assert denoise_result.dropped == ()


def test_thirty_percent_of_the_chunks_stay_by_default_in_the_inputs_order():
    input_passages = some(*("x" * number for number in (1, 9, 2, 8, 3, 7, 4, 6, 5, 10)))
    denoise_result = ENDDenoiser(BY_LENGTH).denoise("q", input_passages)
    assert [passage.id for passage in denoise_result.passages] == ["p1", "p3", "p9"]
    assert [passage.score for passage in denoise_result.passages] == [9, 8, 10]
    assert next(
        (dropped_span.span, dropped_span.reason, dropped_span.score)
        for dropped_span in denoise_result.dropped
    ) == (
        Span("p0", 0, 1),
        "not among the best 30 %",
        1.0,
    )
    assert len(denoise_result.dropped) == 7


def test_the_share_is_of_all_chunks_together():
    input_passages = some("hit hit. hit. no.", "no. no. no.", "no. no. no. no.")
    denoise_result = ENDDenoiser(BY_QUERY, keep=2, chunker=sentence_spans).denoise(
        "hit", input_passages
    )
    assert [
        (passage.text, passage.spans, passage.score)
        for passage in denoise_result.passages
    ] == [("hit hit. hit. ", (Span("p0", 0, 14),), 2.0)]


def test_no_passages_and_only_empty_ones():
    assert ENDDenoiser(BY_LENGTH).denoise("q", []).passages == ()
    denoise_result = ENDDenoiser(BY_LENGTH).denoise("q", some("", "  ", ""))
    assert [passage.id for passage in denoise_result.passages] == ["p0"], (
        "min_keep holds; nothing was there to rank"
    )
    assert [dropped_span.reason for dropped_span in denoise_result.dropped] == [
        "no text",
        "no text",
    ]
    assert (
        ENDDenoiser(BY_LENGTH, keep=1, min_keep=0)
        .denoise("q", some(""))
        .passages[0]
        .text
        == ""
    )


def test_chunks_without_text_never_reach_the_scorer_nor_displace_text():
    seen_calls = []
    text_scorer = FunctionScorer(lambda q, t: seen_calls.append(t) or -5.0)
    denoise_result = ENDDenoiser(text_scorer, keep=1).denoise(
        "q", some("", "\n", "text")
    )
    assert seen_calls == ["text"]
    assert [passage.text for passage in denoise_result.passages] == ["text"]


def test_one_passage_stays():
    assert ENDDenoiser(BY_LENGTH).denoise("q", some("only")).passages[0].text == "only"
    assert (
        ENDDenoiser(BY_LENGTH, threshold=99, min_keep=0)
        .denoise("q", some("only"))
        .passages
        == ()
    )


def test_a_passage_of_two_megabytes():
    input_text = "A sentence that says little. " * 70_000
    long_text = Passage(input_text + "Here it is: needle.", "long")
    denoise_result = check_denoiser(
        lambda: ENDDenoiser(BY_QUERY, keep=1, chunker=sentence_chunker(1000)),
        "needle",
        [long_text],
    )
    assert "needle" in denoise_result.passages[0].text
    assert len(denoise_result.passages[0].text) <= 1000


def test_ten_thousand_passages():
    input_passages = [Passage(f"text {i}", str(i)) for i in range(10_000)]
    kept_items = (
        ENDDenoiser(FunctionScorer(lambda q, t: int(t[5:]) % 100), keep=0.01)
        .denoise("q", input_passages)
        .passages
    )
    assert [int(passage.id) % 100 for passage in kept_items] == [99] * 100


def test_duplicate_ids_are_refused():
    with pytest.raises(InputError, match="unique_ids"):
        ENDDenoiser(BY_LENGTH).denoise("q", [Passage("a", "x"), Passage("b", "x")])


def test_nan_and_a_wrong_number_of_scores_are_refused():
    with pytest.raises(InputError, match="NaN"):
        ENDDenoiser(FunctionScorer(lambda q, t: float("nan"))).denoise("q", some("a"))

    class Short:
        def score(self, asked_query, input_texts):
            return np.zeros(1, dtype=np.float32)

    with pytest.raises(
        InputError, match=r"Short\.score must return one score for each of 2"
    ):
        ENDDenoiser(Short()).denoise("q", some("a", "b"))


@pytest.mark.parametrize(
    "settings",
    [
        {"keep": 0},
        {"keep": 1.2},
        {"keep": "most"},
        {"min_keep": -1},
        {"max_keep": 0},
        {"min_keep": 3, "max_keep": 2},
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(settings):
    with pytest.raises(InputError):
        ENDDenoiser(BY_LENGTH, **settings)


def test_the_trace_has_the_scores_and_their_time():
    (event,) = ENDDenoiser(BY_LENGTH).denoise("q", some("a", "", "ccc")).trace.events
    assert (event.tag, event.reply) == ("score", (1.0, None, 3.0))
    assert [scored_span.passage_id for scored_span in event.effect.spans] == [
        "p0",
        "p1",
        "p2",
    ]
    assert event.seconds >= 0


async def test_the_event_loop_goes_on_while_chunks_are_scored():
    go = threading.Event()

    def wait_for_the_loop(asked_query, input_text):
        assert go.wait(10), "the loop never ran: adenoise blocked it"
        return 1.0

    task = asyncio.create_task(
        ENDDenoiser(FunctionScorer(wait_for_the_loop)).adenoise("q", some("a"))
    )
    await asyncio.sleep(0)
    go.set()
    assert len((await task).passages) == 1


@pytest.mark.parametrize(
    "chunker",
    [
        lambda passage: [Span(passage.id, 0, 3)],
        lambda passage: [
            Span(passage.id, 0, 3),
            Span(passage.id, 2, len(passage.text)),
        ],
        lambda passage: [Span("other", 0, len(passage.text))],
        lambda passage: [],
    ],
)
def test_a_chunker_that_would_lose_text_is_refused(chunker):
    end_denoiser = ENDDenoiser(FunctionScorer(lambda q, t: 1.0), chunker=chunker)
    with pytest.raises(InputError, match="do not tile passage 'x' of 7 characters"):
        end_denoiser.denoise("q", [Passage("abcdefg", "x")])
