"""Kept vectors: each text is embedded once while it is kept, whatever is asked for, and by however many."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError
from denoise_core.augmenter.vectors import KeptVectors


class Counting:
    """Length and a constant, and every text it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked += texts
        return [[len(t), 1.0] for t in texts]


@given(st.lists(st.lists(st.sampled_from(["a", "bb", "ccc", "dddd"]), min_size=1), max_size=8), st.integers(1, 5))
def test_the_same_as_without_keeping_whatever_is_kept(calls, keep):
    kept = KeptVectors(Counting(), keep=keep)
    for texts in calls:
        found = kept(texts)
        plain = np.array([[len(t), 1.0] for t in texts])
        assert found == pytest.approx(plain / np.linalg.norm(plain, axis=1, keepdims=True), abs=1e-6)
        assert len(kept._kept) <= keep


def test_a_text_is_embedded_once():
    embed = Counting()
    kept = KeptVectors(embed)
    for texts in (["a", "b", "a"], ["b"], ["c", "a"]):
        kept(texts)
    assert embed.asked == ["a", "b", "c"]


def test_the_text_not_asked_for_longest_goes_first():
    embed = Counting()
    kept = KeptVectors(embed, keep=2)
    for text in "abacab":
        kept([text])
    assert embed.asked == ["a", "b", "c", "b"]


def test_threads_embed_a_text_once():
    embed = Counting()
    kept = KeptVectors(embed)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: kept(["a", "b"]), range(50)))
    assert embed.asked == ["a", "b"]
    assert all((f == found[0]).all() for f in found)


@pytest.mark.parametrize("wrong", [[1.0], [[1.0], [2.0]], [[]], [[float("nan")]]])
def test_an_embedding_of_another_form_is_refused(wrong):
    with pytest.raises(InputError, match="embed: expected"):
        KeptVectors(lambda texts: wrong)(["a"])


def test_nothing_to_embed_and_nothing_to_keep_are_refused():
    with pytest.raises(InputError, match="one or more"):
        KeptVectors(Counting())([])
    with pytest.raises(InputError, match="keep=0"):
        KeptVectors(Counting(), keep=0)
