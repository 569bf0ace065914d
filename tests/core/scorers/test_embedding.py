"""The embedding scorer is the cosine of what any embedder gives."""

from functools import partialmethod

import numpy as np
import pytest

from denoise_core import InputError
from denoise_core.scorers.encoders import EmbeddingScorer, _prompted_embedders
from denoise_core.testing import check_scorer

LETTERS = "abcdefgh"


def counts(texts):
    return np.array([[float(t.count(c)) for c in LETTERS] for t in texts])


class Model:
    def encode(self, sentences, **settings):
        assert isinstance(sentences, list)
        return counts(sentences)


class Documents:
    """LangChain's form; its queries are embedded in lower case."""

    def embed_documents(self, texts):
        return counts(texts).tolist()

    def embed_query(self, text):
        return counts([text.lower()])[0].tolist()


class Texts:
    """LlamaIndex's form, which can also be called, with something else than texts."""

    def get_text_embedding_batch(self, texts):
        return counts(texts).tolist()

    def get_query_embedding(self, query):
        return counts([query.lower()])[0].tolist()

    def __call__(self, nodes):
        return [node.get_content() for node in nodes]


@pytest.mark.parametrize(
    ("embedder", "query"),
    [
        (counts, "ab"),
        (Model(), "ab"),
        # Queries have a method of their own.
        (Documents(), "AB"),
        (Texts(), "AB"),
    ],
)
def test_scores_are_cosines(embedder, query):
    scorer = EmbeddingScorer(embedder)
    scores = check_scorer(scorer, query, ["ab", "aabb", "cd", "ac", "zz"])
    assert np.allclose(scores, [1, 1, 0, 0.5, 0], atol=1e-6)
    assert scorer.score("a", []).shape == (0,)


class OtherSpace(Documents):
    def embed_query(self, text):
        return [1.0, 1.0]


@pytest.mark.parametrize(
    ("embedder", "message"),
    [
        (lambda texts: np.ones((1, 3)), "one vector for each of 2"),
        (lambda texts: np.full((len(texts), 3), np.nan), "not finite"),
        (7, "expected a callable"),
        (OtherSpace(), "has 2 values"),
    ],
)
def test_a_bad_embedder_is_named(embedder, message):
    with pytest.raises(InputError, match=message):
        EmbeddingScorer(embedder).score("q", ["a", "b"])


@pytest.mark.parametrize("wrong", [7, Texts, object()])
def test_what_embeds_nothing_is_refused_when_it_is_built(wrong):
    with pytest.raises(InputError, match="embedding model of LangChain or LlamaIndex"):
        EmbeddingScorer(wrong)


class Prompted:
    """A model of sentence-transformers' form that keeps what it embeds."""

    def __init__(self, prompts=()):
        self.prompts = dict(prompts)
        self.seen = []

    def encode(self, sentences):
        raise AssertionError("queries and texts have ways of their own")

    def _embed(self, kind, sentences):
        self.seen.append((kind, *sentences))
        return np.ones((len(sentences), 2))

    encode_query = partialmethod(_embed, "query")
    encode_document = partialmethod(_embed, "document")


def test_queries_and_texts_are_embedded_by_the_models_own_ways():
    model = Prompted()
    EmbeddingScorer(model).score("who?", ["a", "b"])
    assert model.seen == [("document", "a", "b"), ("query", "who?")]


BGE_QUERY = "Represent this sentence for searching relevant passages: who?"
E5 = ("passage: a", "query: who?")


@pytest.mark.parametrize(
    ("name", "prompts", "wanted"),
    [
        ("intfloat/multilingual-e5-small", {}, E5),
        ("intfloat/e5-base-v2", {"query": "", "document": ""}, E5),
        ("intfloat/e5-base-v2", {"query": "q: "}, ("a", "who?")),
        ("/models/bge-small-en-v1.5", {}, ("a", BGE_QUERY)),
        ("BAAI/bge-m3", {}, ("a", "who?")),
        ("e5-folder/all-MiniLM-L6-v2", {}, ("a", "who?")),
    ],
)
def test_prefixes_of_the_card_where_the_files_name_none(name, prompts, wanted):
    model = Prompted(prompts)
    embed_texts, embed_queries = _prompted_embedders(model, name)
    embed_texts(["a"])
    embed_queries(["who?"])
    assert tuple(text for _, text in model.seen) == wanted
