"""Wherever a model or a scorer is wanted, what people have will do; and the moves from LangChain's own pieces."""

import re

import pytest
from chain_parts import Answers, ListRetriever, chat
from langchain_agents import both
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda

from denoise_core import DenoiseResult
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionLLM, FunctionScorer
from langchain_denoise import DenoiseCompressor, DenoisingRetriever
from langchain_denoise.convert.messages import to_langchain_messages

QUESTION = "candlepin bowling"
TEXTS = [
    "The moon is round.",
    "Candlepin bowling is old. It rains.",
    "A bowling ball.",
    "candlepin bowling",
]
DOCUMENTS = [
    Document(page_content=text, id=str(i), metadata={"n": i})
    for i, text in enumerate(TEXTS)
]


class Counts(Embeddings):
    """The number of each word of the question, and one for the rest."""

    def embed_query(self, text):
        return [float(text.lower().count(word)) for word in QUESTION.split()] + [0.1]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


class Overlap(BaseCrossEncoder):
    def score(self, text_pairs):
        return [
            float(sum(word in text.lower() for word in query.split()))
            for query, text in text_pairs
        ]


RETRIEVER = ListRetriever(found=DOCUMENTS)
CHAIN_INPUT = {"documents": DOCUMENTS, "query": QUESTION}


def texts(found):
    return [document.page_content for document in found]


def wanted(messages):
    """A model that finds sentences about candlepin needed."""
    text = messages[-1].text.split("BEGIN", 1)[1].split("\nEND ")[0]
    return ", ".join(re.findall(r"^(\d+) .*andlepin", text, re.MULTILINE)) or "NONE"


@pytest.mark.parametrize(
    "model",
    [
        chat(wanted),
        chat(wanted).with_config(tags=["x"]).with_retry(),
        RunnableLambda(wanted),
        FunctionLLM(lambda messages: wanted(to_langchain_messages(messages))),
    ],
)
def test_whatever_is_a_model(model):
    assert texts(both(DenoiseCompressor(model=model), CHAIN_INPUT)) == [
        "Candlepin bowling is old. ",
        "candlepin bowling",
    ]
    retriever = DenoisingRetriever(model=model, retriever=RETRIEVER)
    assert len(retriever.invoke(QUESTION)) == 2


@pytest.mark.parametrize(
    "scorer",
    [
        Counts(),
        Overlap(),
        FunctionScorer(lambda query, text: float("andlepin" in text)),
    ],
)
def test_whatever_is_a_scorer(scorer):
    assert texts(both(DenoiseCompressor(scorer=scorer, keep=1), CHAIN_INPUT)) in (
        TEXTS[1:2],
        TEXTS[3:],
    )
    retriever = DenoisingRetriever(retriever=RETRIEVER, scorer=scorer, top_n=3)
    assert len(retriever.invoke(QUESTION)) == 3


SCORER = FunctionScorer(lambda query, text: -1.0 if "moon" in text else 1.0)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"denoiser": ENDDenoiser(SCORER, keep=0.3), "top_n": 3}, 3),
        ({"scorer": SCORER, "keep": 0.3, "top_n": 3}, 3),
        ({"scorer": SCORER, "threshold": 0.0, "top_n": 4}, 3),
        ({"denoiser": ENDDenoiser(SCORER, keep=0.3)}, 2),
        ({"denoiser": ENDDenoiser(SCORER), "keep": 1}, 1),
    ],
)
def test_top_n_beside_keep_is_top_n_but_a_threshold_is_a_threshold(settings, count):
    found = DenoisingRetriever(retriever=RETRIEVER, **settings).invoke("q")
    assert len(found) == count


def test_titles_and_named_metadata_are_read_with_the_text():
    read_value = []
    tower = {"title": "Eiffel Tower"}
    documents = [
        Document(
            page_content="It is tall.",
            metadata={**tower, "year": 1889, "tags": ["iron", "Paris"]},
        ),
        Document(
            page_content="Eiffel Tower: it is tall.", metadata={**tower, "year": None}
        ),
        Document(page_content="It is tall."),
    ]

    def spy(query, input_value):
        read_value.append([passage.header for passage in input_value])
        return DenoiseResult(query, input_value)

    for keys in (["title"], ["title", "year", "tags"], []):
        run_output = DenoiseCompressor(
            denoiser=Answers(spy), header_keys=keys
        ).compress_documents(documents, "q")
        assert texts(run_output) == texts(documents)
    assert read_value == [
        ["Eiffel Tower", "", ""],
        ["Eiffel Tower\nyear: 1889\ntags: iron, Paris", "", ""],
        ["", "", ""],
    ]
