"""Wherever a model or a scorer is wanted, what people have will do; and the moves from LangChain's own pieces."""

import asyncio
import re

import pytest
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda

from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options
from denoise_core.testing import FunctionLLM, FunctionScorer
from langchain_denoise import DenoiseCompressor, DenoisingRetriever, EmbeddedEmbeddings
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


def both(compressor):
    found_documents = compressor.compress_documents(DOCUMENTS, QUESTION)
    assert (
        asyncio.run(compressor.acompress_documents(DOCUMENTS, QUESTION))
        == found_documents
    )
    return found_documents


def texts(found):
    return [document.page_content for document in found]


def wanted(messages):
    """A model that finds sentences about candlepin needed."""
    text = messages[-1].text.split("BEGIN", 1)[1].split("\nEND ")[0]
    return ", ".join(re.findall(r"^(\d+) .*andlepin", text, re.MULTILINE)) or "NONE"


def test_what_a_sentence_points_back_to_comes_along_or_stays_behind(test_kit):
    document = Document(
        page_content="Candlepin bowling is old. It began in Worcester. The moon is round."
    )
    expected_value = {
        True: "Candlepin bowling is old. It began in Worcester.",
        False: "It began in Worcester.",
    }
    model = test_kit.chat(lambda message: "2")
    own_denoiser = test_kit.s2a_with(model, options=Options(keep_context=False))
    for has_context, compressor in (
        (True, DenoiseCompressor(model=model)),
        (False, DenoiseCompressor(denoiser=own_denoiser)),
    ):
        (kept_items,) = compressor.compress_documents([document], QUESTION)
        assert kept_items.page_content.rstrip() == expected_value[has_context]


MODELS = {
    "a chat model": lambda test_kit: test_kit.chat(wanted),
    "with settings": lambda test_kit: (
        test_kit.chat(wanted).with_config(tags=["x"]).with_retry()
    ),
    "a runnable": lambda test_kit: RunnableLambda(wanted),
    "a core LLM": lambda test_kit: FunctionLLM(
        lambda messages: wanted(to_langchain_messages(messages))
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_whatever_is_a_model(kind, test_kit):
    model = MODELS[kind](test_kit)
    assert texts(both(DenoiseCompressor(model=model))) == [
        "Candlepin bowling is old. ",
        "candlepin bowling",
    ]
    retriever = DenoisingRetriever(
        model=model, retriever=test_kit.ListRetriever(found=DOCUMENTS)
    )
    assert len(retriever.invoke(QUESTION)) == 2


@pytest.mark.parametrize(
    "scorer",
    [
        Counts(),
        Overlap(),
        FunctionScorer(lambda query, text: float("andlepin" in text)),
    ],
)
def test_whatever_is_a_scorer(scorer, test_kit):
    assert texts(both(DenoiseCompressor(scorer=scorer, keep=1))) in (
        TEXTS[1:2],
        TEXTS[3:],
    )
    retriever = DenoisingRetriever(
        retriever=test_kit.ListRetriever(found=DOCUMENTS), scorer=scorer, top_n=3
    )
    assert len(retriever.invoke(QUESTION)) == 3


def test_nothing_said_is_the_embedded_default():
    found_documents = both(DenoiseCompressor(keep=2))
    assert {"1", "3"} == {document.id for document in found_documents}
    assert both(DenoiseCompressor())


SCORER = FunctionScorer(lambda query, text: -1.0 if "moon" in text else 1.0)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"denoiser": ENDDenoiser(SCORER, keep=0.3), "top_n": 3}, 3),
        ({"scorer": SCORER, "keep": 0.3, "top_n": 3}, 3),
        ({"scorer": SCORER, "threshold": 0.0, "top_n": 4}, 3),
        ({"denoiser": ENDDenoiser(SCORER, keep=0.3)}, 2),
    ],
)
def test_top_n_beside_keep_is_top_n_but_a_threshold_is_a_threshold(
    test_kit, settings, count
):
    retriever = test_kit.ListRetriever(found=DOCUMENTS)
    found_documents = DenoisingRetriever(retriever=retriever, **settings).invoke("q")
    assert len(found_documents) == count


def test_titles_and_named_metadata_are_read_with_the_text(test_kit):
    read_value, tower = [], {"title": "Eiffel Tower"}
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
        from denoise_core import DenoiseResult

        read_value.append([passage.header for passage in input_value])
        return DenoiseResult(query, input_value)

    for keys in (["title"], ["title", "year", "tags"], []):
        run_output = DenoiseCompressor(
            denoiser=test_kit.Answers(spy), header_keys=keys
        ).compress_documents(documents, "q")
        assert texts(run_output) == texts(documents)
    assert read_value == [
        ["Eiffel Tower", "", ""],
        ["Eiffel Tower\nyear: 1889\ntags: iron, Paris", "", ""],
        ["", "", ""],
    ]


def test_the_shipped_encoder_as_embeddings():
    embeddings = EmbeddedEmbeddings()
    vectors = embeddings.embed_documents(["a city", "algebra"])
    assert [len(vector) for vector in vectors] == [384] * 2
    assert embeddings.embed_documents([]) == []
    assert asyncio.run(embeddings.aembed_query("a city")) == pytest.approx(
        vectors[0], abs=1e-5
    )
