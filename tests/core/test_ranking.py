"""How many passages are returned and in which order, for any denoiser."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from laws import check_result

from denoise_core import Guard, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.ranking import keep_top, may_fill, order_by_score
from denoise_core.testing import FunctionScorer

SCORED_TEXTS = st.lists(
    st.tuples(
        st.text(
            "ab",
            min_size=1,
            max_size=4,
        ),
        st.floats(-5, 5),
    ),
    max_size=8,
)


@given(SCORED_TEXTS, st.integers(1, 9), st.sampled_from([0.3, 1, 2]))
@example([("bad", 0.0), ("best", 2.0), ("good", 1.0)], 2, 3)
def test_top_n_is_top_n_and_the_laws_hold(scored_texts, top_n, kept_count):
    inputs = [Passage(text, str(i)) for i, (text, _) in enumerate(scored_texts)]
    scores = dict(scored_texts)
    scorer = FunctionScorer(lambda query, text: scores[text])
    result = ENDDenoiser(scorer, keep=kept_count).denoise("q", inputs)
    count = len(result.passages)
    assert len(keep_top(result, inputs, top_n).passages) == min(top_n, count)
    top_result = keep_top(result, inputs, top_n, fill=True)
    check_result(inputs, top_result)
    assert len(top_result.passages) == min(top_n, len(inputs))
    spans = {span for passage in top_result.passages for span in passage.source_spans}
    assert {keep_item.span for keep_item in top_result.kept} == spans
    ranked = [passage.score for passage in order_by_score(top_result).passages]
    assert ranked == sorted(ranked, reverse=True)
    # The best stay, and not the first.
    best = sorted((scores[passage.text] for passage in inputs), reverse=True)
    assert ranked == [np.float32(score) for score in best[:top_n]]


def test_passages_dropped_by_a_threshold_are_not_restored():
    scorer = FunctionScorer(lambda query, text: 0.0)
    assert may_fill(Guard(ENDDenoiser(scorer, keep=1)))
    assert not may_fill(Guard(ENDDenoiser(scorer, threshold=0.5)))
