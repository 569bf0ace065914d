"""The embedding scorer is the cosine of what any embedder gives."""

import numpy as np
import pytest

from denoise_core import InputError
from denoise_core.scorers.encoders import EmbeddingScorer, _prompted_embedders
from denoise_core.testing import check_scorer

LETTERS = "abcdefgh"


def counts(input_texts):
    return np.array(
        [[t.count(c) for c in LETTERS] for t in input_texts], dtype=np.float64
    )


class Model:
    def encode(self, sentences, **reader_settings):
        assert isinstance(sentences, list)
        return counts(sentences)


@pytest.mark.parametrize(
    "embed", [counts, Model(), lambda input_texts: counts(input_texts).tolist()]
)
def test_scores_are_cosines(embed):
    chunk_scores = check_scorer(
        EmbeddingScorer(embed), "ab", ["ab", "aabb", "cd", "ac", "zz"]
    )
    assert np.allclose(chunk_scores, [1, 1, 0, 0.5, 0], atol=1e-6)


def test_no_texts():
    assert EmbeddingScorer(counts).score("a", []).shape == (0,)


BAD = {
    "too few vectors": (
        lambda input_texts: np.ones((1, 3)),
        "one vector for each of 2",
    ),
    "NaN": (lambda input_texts: np.full((len(input_texts), 3), np.nan), "not finite"),
    "no embedder": (7, "expected a callable"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_embedder_is_named(case):
    embed, message_part = BAD[case]
    with pytest.raises(InputError, match=message_part):
        EmbeddingScorer(embed).score("q", ["a", "b"])


def test_query_and_texts_must_live_in_one_space():
    class Other(Documents):
        def embed_query(self, input_text):
            return [1.0, 1.0]

    with pytest.raises(InputError, match="has 2 values"):
        EmbeddingScorer(Other()).score("q", ["a"])


class Documents:
    """LangChain's form; its queries are embedded in upper case."""

    def embed_documents(self, input_texts):
        return counts(input_texts).tolist()

    def embed_query(self, input_text):
        return counts([input_text.lower()])[0].tolist()


class Texts:
    """LlamaIndex's form, which can also be called, with something else than texts."""

    def get_text_embedding_batch(self, input_texts):
        return counts(input_texts).tolist()

    def get_query_embedding(self, asked_query):
        return counts([asked_query.lower()])[0].tolist()

    def __call__(self, nodes):
        return [number.get_content() for number in nodes]


@pytest.mark.parametrize("model", [Documents(), Texts()])
def test_a_frameworks_embedding_model_is_taken_as_it_is(model):
    chunk_scores = check_scorer(
        EmbeddingScorer(model), "AB", ["ab", "aabb", "cd", "ac", "zz"]
    )
    assert np.allclose(chunk_scores, [1, 1, 0, 0.5, 0], atol=1e-6), (
        "queries have a method of their own"
    )


@pytest.mark.parametrize("wrong", [7, Texts, object()])
def test_what_embeds_nothing_is_refused_when_it_is_built(wrong):
    with pytest.raises(InputError, match="embedding model of LangChain or LlamaIndex"):
        EmbeddingScorer(wrong)


class Prompted:
    """A model of sentence-transformers' form that keeps what it embeds."""

    def __init__(self, prompts=None):
        self.prompts = prompts or {}
        self.seen = []

    def encode(self, sentences):
        raise AssertionError("queries and texts have ways of their own")

    def encode_query(self, sentences):
        self.seen.append(("query", *sentences))
        return np.ones((len(sentences), 2))

    def encode_document(self, sentences):
        self.seen.append(("document", *sentences))
        return np.ones((len(sentences), 2))


def test_queries_and_texts_are_embedded_by_the_models_own_ways():
    model = Prompted()
    EmbeddingScorer(model).score("who?", ["a", "b"])
    assert model.seen == [("document", "a", "b"), ("query", "who?")]


@pytest.mark.parametrize(
    ("name", "prompts", "wanted"),
    [
        ("intfloat/multilingual-e5-small", {}, ("passage: a", "query: who?")),
        (
            "intfloat/e5-base-v2",
            {"query": "", "document": ""},
            ("passage: a", "query: who?"),
        ),
        ("intfloat/e5-base-v2", {"query": "q: "}, ("a", "who?")),
        (
            "/models/bge-small-en-v1.5",
            {},
            ("a", "Represent this sentence for searching relevant passages: who?"),
        ),
        ("BAAI/bge-m3", {}, ("a", "who?")),
        ("e5-folder/all-MiniLM-L6-v2", {}, ("a", "who?")),
    ],
)
def test_prefixes_of_the_card_where_the_files_name_none(name, prompts, wanted):
    model = Prompted(prompts)
    embed_texts, embed_queries = _prompted_embedders(model, name)
    embed_texts(["a"])
    embed_queries(["who?"])
    assert (model.seen[0][1], model.seen[1][1]) == wanted
