"""BM25 ranks by shared words, in any script, and never stumbles over text without words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.augmenter import BM25Retriever
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import check_scorer


@given(st.text(max_size=20), st.lists(st.text(max_size=30), max_size=6))
def test_any_text_gets_a_finite_score_whatever_its_place(query, texts):
    scores = check_scorer(BM25Scorer(), query, texts, listwise=True)
    assert ((scores >= 0) & (scores < np.inf)).all()


def test_shared_stems_count_and_rare_words_count_more():
    texts = ["the cat sat", "cats and zebras", "a dog ran", "cat cat"]
    chunk_scores = BM25Scorer().score("Which cats met a zebra?", texts)
    assert chunk_scores.argmax() == 1
    assert chunk_scores[2] == 0 < min(chunk_scores[0], chunk_scores[3])


def test_without_a_language_words_must_agree_letter_by_letter():
    plain_reader = BM25Scorer(language=None)
    assert plain_reader.score("cats", ["cat", "cats"])[0] == 0
    assert plain_reader.score("the", ["the end", "an end"]).argmax() == 0, (
        "stop words count then"
    )


@pytest.mark.parametrize(
    ("query", "texts", "best"),
    [
        ("東京タワー", ["大阪城", "東京の塔"], 1),
        ("من هو الملك", ["الملك فهد", "المدينة"], 0),
        ("x", ["a b", "x y"], 1),
    ],
)
def test_scripts_without_spaces_and_single_letters(query, texts, best):
    assert BM25Scorer().score(query, texts).argmax() == best


def test_nothing_in_common_is_zero():
    assert BM25Scorer().score("of the cat", ["the of", "and"]).tolist() == [0, 0]
    assert BM25Scorer().score("", ["a"]).tolist() == [0]
    assert BM25Scorer().score("a", ["", "🙂"]).tolist() == [0, 0]
    assert BM25Scorer().score("a", []).shape == (0,)


def test_a_retriever_and_a_scorer_of_the_same_texts_agree():
    texts = [
        "The river Alva runs through Belmor.",
        "Belmor is a town.",
        "Chess is fun.",
    ]
    query = "Which rivers are in the town of Belmor?"
    retriever = BM25Retriever([Passage(text, text) for text in texts])
    expected = retriever.term_scores(query).sum(0).tolist()
    assert BM25Scorer().score(query, texts).tolist() == expected


def test_an_unknown_language_lists_the_known_ones():
    with pytest.raises(InputError, match=r"one of .*english"):
        BM25Scorer(language="klingon").score("q", ["text"])
