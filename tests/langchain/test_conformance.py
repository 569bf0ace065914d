"""LangChain's models, retrievers and embeddings, whatever they do: no context is lost, no failure is a mistake."""

import pytest
from faults import check_faults, check_hang, faults_of
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.errors import is_user_error
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM
from denoise_core.types import Reply
from langchain_denoise import ChatModelLLM, DenoiseCompressor, RetrieverAdapter
from langchain_denoise.models.scoring import as_scorer

QUERY = "Where is the tower?"
PASSAGES = [
    Passage("The tower is in Porto. It is old.", "a"),
    Passage("Bread is cheap.", "b"),
]


def chat(part):
    """A chat model of LangChain that does what the part does."""

    def reply(messages):
        input_value = part.fault(messages)
        return (
            AIMessage(input_value.text)
            if isinstance(input_value, Reply) and input_value.text is not None
            else input_value
        )

    return ChatModelLLM(RunnableLambda(reply))


@pytest.mark.parametrize("name", faults_of("complete"))
def test_chat_models(name):
    check_faults(
        lambda part: S2ADenoiser(chat(part)),
        "complete",
        QUERY,
        PASSAGES,
        [name],
    )


class Embeds(Embeddings):
    def __init__(self, fault):
        self.fault = fault

    def embed_documents(self, texts):
        return self.fault(QUERY, texts)

    def embed_query(self, text):
        return [1.0, 1.0]


@pytest.mark.parametrize("name", faults_of("score"))
def test_embeddings(name):
    check_faults(
        lambda part: ENDDenoiser(as_scorer(Embeds(part.fault))),
        "score",
        QUERY,
        PASSAGES,
        [name],
    )


@pytest.mark.parametrize("name", faults_of("complete"))
async def test_documents_come_back(name):
    class Part:
        fault = staticmethod(faults_of("complete")[name])

    compressor = DenoiseCompressor(denoiser=S2ADenoiser(chat(Part)))
    input_value = [Document(passage.text, id=passage.id) for passage in PASSAGES]
    for found_documents in (
        compressor.compress_documents(input_value, QUERY),
        await compressor.acompress_documents(input_value, QUERY),
    ):
        assert found_documents
        assert {document.id for document in found_documents} <= {"a", "b"}


class Finds(BaseRetriever):
    fault: object

    def _get_relevant_documents(self, query, *, run_manager):
        return self.fault(query)


SOURCE_DOCUMENTS = {
    "gives a document without a text": lambda query: [Document("")],
    "gives nothing": lambda query: [],
}


@pytest.mark.parametrize("name", faults_of("retrieve") | SOURCE_DOCUMENTS)
def test_retrievers_of_the_loop(name):
    found_documents = Finds(fault=(faults_of("retrieve") | SOURCE_DOCUMENTS)[name])
    loop = Augmenter(
        FunctionLLM(lambda messages: "It is in Porto [1]."),
        RetrieverAdapter(found_documents),
    )
    try:
        assert loop.answer(QUERY).outcome
    except Exception as error:
        if is_user_error(error):
            raise


def test_a_model_that_hangs_holds_up_no_loop():
    check_hang(lambda part: S2ADenoiser(chat(part)).adenoise(QUERY, PASSAGES))
    check_hang(
        lambda part: ENDDenoiser(as_scorer(Embeds(part.fault))).adenoise(
            QUERY, PASSAGES
        )
    )
