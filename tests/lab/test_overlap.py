"""Knowledge F1 follows the published definition."""

import pytest

from denoise_lab.overlap import knowledge_f1


def test_knowledge_f1_follows_the_definition():
    assert knowledge_f1("the cat sat", ["The cat sat on a mat."]) == pytest.approx(
        2 / 3
    )
    assert knowledge_f1("a b b", ["b", "b b c"]) == pytest.approx(0.8)
    assert knowledge_f1("", [""]) == 1.0
    assert knowledge_f1("", ["x"]) == knowledge_f1("x", ["y"]) == 0.0
    assert knowledge_f1("x", []) == 0.0
