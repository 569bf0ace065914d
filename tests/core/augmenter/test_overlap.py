"""Knowledge F1 and its parts follow the published definition."""

import pytest
from denoise_core.augmenter.utilities.overlap import overlap, tokens
from judging import judged

from denoise_core import InputError
from denoise_core.augmenter.utilities import KnowledgeOverlap, knowledge_f1


def test_knowledge_f1_follows_the_definition():
    found = overlap("the cat sat", "The cat sat on a mat.")
    assert (found.precision, found.recall) == (1.0, 0.5)
    assert found.f1 == pytest.approx(2 / 3)
    assert overlap("", "").f1 == 1.0
    assert overlap("", "x").f1 == 0.0
    assert knowledge_f1("a b b", ["b", "b b c"]) == pytest.approx(0.8)
    assert knowledge_f1("x", []) == 0.0
    assert tokens("U.S.", "parlai") == ["u", "s"]


def test_knowledge_overlap_measures_what_it_is_told():
    said = "founded in 1928"
    for measure, score in (("precision", 1.0), ("recall", 0.5)):
        utility = KnowledgeOverlap(measure=measure)
        assert judged(said, "founded in 1928 by five men", utility=utility).score == pytest.approx(score)
    assert judged("1928", utility=KnowledgeOverlap()).outcome == "unknown"
    with pytest.raises(InputError, match="measure='f2'"):
        KnowledgeOverlap(measure="f2")
