"""How many passages are handed on and in which order, whatever denoised them."""

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
def test_top_n_is_top_n_and_the_laws_hold(drawn, top_n, keep):
    inputs = [Passage(text, str(i)) for i, (text, _) in enumerate(drawn)]
    scores = dict(drawn)
    result = ENDDenoiser(FunctionScorer(lambda q, t: scores[t]), keep=keep).denoise(
        "q", inputs
    )
    assert len(keep_top(result, inputs, top_n).passages) == min(
        top_n, len(result.passages)
    )
    cut = keep_top(result, inputs, top_n, fill=True)
    assert len(cut.passages) == min(top_n, len(inputs))
    assert [p.id for p in cut.passages] == sorted((p.id for p in cut.passages), key=int)
    covered = [s for p in cut.passages for s in p.source_spans] + [
        d.span for d in cut.dropped
    ]
    whole = sorted((p.id, 0, len(p.text)) for p in inputs)
    assert sorted((s.passage_id, s.start, s.end) for s in covered) == whole
    assert {c.span for c in cut.kept} == {
        s for p in cut.passages for s in p.source_spans
    }
    by_score = order_by_score(cut).passages
    assert [p.score for p in by_score] == sorted(
        (p.score for p in cut.passages), reverse=True
    )


def test_the_best_stay_and_not_the_first():
    inputs = [Passage(text, text) for text in ("bad", "best", "good")]
    scores = {"bad": 0.0, "best": 2.0, "good": 1.0}
    result = ENDDenoiser(FunctionScorer(lambda q, t: scores[t]), keep=3).denoise(
        "q", inputs
    )
    assert [p.id for p in keep_top(result, inputs, 2).passages] == ["best", "good"]
    assert [p.id for p in order_by_score(result).passages] == ["best", "good", "bad"]


def test_what_a_threshold_left_out_does_not_come_back():
    scorer = FunctionScorer(lambda q, t: 0.0)
    assert may_fill(Guard(ENDDenoiser(scorer, keep=1)))
    assert not may_fill(Guard(ENDDenoiser(scorer, threshold=0.5)))
