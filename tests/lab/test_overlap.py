"""Knowledge F1 and its parts follow the published definition."""

import pytest

from denoise_lab.overlap import knowledge_f1, overlap, tokens


def test_knowledge_f1_follows_the_definition():
    found = overlap("the cat sat", "The cat sat on a mat.")
    assert (found.precision, found.recall) == (1.0, 0.5)
    assert found.f1 == pytest.approx(2 / 3)
    assert overlap("", "").f1 == 1.0
    assert overlap("", "x").f1 == 0.0
    assert knowledge_f1("a b b", ["b", "b b c"]) == pytest.approx(0.8)
    assert knowledge_f1("x", []) == 0.0
    assert tokens("U.S.", "parlai") == ["u", "s"]
