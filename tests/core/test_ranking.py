"""How many passages are returned and in which order, for any denoiser."""

from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.ranking import keep_top, may_fill, order_by_score
from denoise_core.testing import FunctionScorer

passages = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=4), st.floats(-5, 5)), max_size=8
)


@given(passages, st.integers(1, 9), st.sampled_from([0.3, 1, 2]))
def test_top_n_is_top_n_and_the_laws_hold(scored_texts, top_n, kept_count):
    inputs = [Passage(text, str(i)) for i, (text, _) in enumerate(scored_texts)]
    scores = dict(scored_texts)
    result = ENDDenoiser(
        FunctionScorer(lambda query, text: scores[text]), keep=kept_count
    ).denoise("q", inputs)
    assert len(keep_top(result, inputs, top_n).passages) == min(
        top_n, len(result.passages)
    )
    top_result = keep_top(result, inputs, top_n, fill=True)
    assert len(top_result.passages) == min(top_n, len(inputs))
    assert [passage.id for passage in top_result.passages] == sorted(
        (passage.id for passage in top_result.passages), key=int
    )
    all_spans = [
        span for passage in top_result.passages for span in passage.source_spans
    ] + [drop.span for drop in top_result.dropped]
    input_spans = sorted((passage.id, 0, len(passage.text)) for passage in inputs)
    assert (
        sorted((span.passage_id, span.start, span.end) for span in all_spans)
        == input_spans
    )
    assert {keep_item.span for keep_item in top_result.kept} == {
        span for passage in top_result.passages for span in passage.source_spans
    }
    ranked_passages = order_by_score(top_result).passages
    assert [passage.score for passage in ranked_passages] == sorted(
        (passage.score for passage in top_result.passages), reverse=True
    )


def test_the_best_stay_and_not_the_first():
    inputs = [Passage(text, text) for text in ("bad", "best", "good")]
    scores = {"bad": 0.0, "best": 2.0, "good": 1.0}
    result = ENDDenoiser(
        FunctionScorer(lambda query, text: scores[text]), keep=3
    ).denoise("q", inputs)
    assert [passage.id for passage in keep_top(result, inputs, 2).passages] == [
        "best",
        "good",
    ]
    assert [passage.id for passage in order_by_score(result).passages] == [
        "best",
        "good",
        "bad",
    ]


def test_passages_dropped_by_a_threshold_are_not_restored():
    scorer = FunctionScorer(lambda query, text: 0.0)
    assert may_fill(Guard(ENDDenoiser(scorer, keep=1)))
    assert not may_fill(Guard(ENDDenoiser(scorer, threshold=0.5)))
