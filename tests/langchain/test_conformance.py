"""LangChain's models, retrievers and embeddings, whatever they do: no context is lost, no failure is a mistake."""

import pytest
from faults import (
    PASSAGES,
    QUERY,
    check_faults,
    check_hang,
    check_retriever,
    faults_of,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.types import Reply
from langchain_denoise import ChatModelLLM, RetrieverAdapter
from langchain_denoise.models.scoring import as_scorer


def chat(part):
    def reply(messages):
        input_value = part.fault(messages)
        return (
            AIMessage(input_value.text)
            if isinstance(input_value, Reply) and input_value.text is not None
            else input_value
        )

    return ChatModelLLM(RunnableLambda(reply))


class Embeds(Embeddings):
    def __init__(self, fault):
        self.fault = fault

    def embed_documents(self, texts):
        return self.fault(QUERY, texts)

    def embed_query(self, text):
        return [1.0, 1.0]


DENOISERS = {
    "complete": lambda part: S2ADenoiser(chat(part)),
    "score": lambda part: ENDDenoiser(as_scorer(Embeds(part.fault))),
}


@pytest.mark.parametrize("verb", DENOISERS)
def test_chat_models_and_embeddings(verb):
    check_faults(DENOISERS[verb], verb, QUERY, PASSAGES)


@pytest.mark.parametrize("verb", DENOISERS)
def test_a_model_that_hangs_holds_up_no_loop(verb):
    check_hang(lambda part: DENOISERS[verb](part).adenoise(QUERY, PASSAGES))


class Finds(BaseRetriever):
    fault: object

    def _get_relevant_documents(self, query, *, run_manager):
        return self.fault(query)


FINDS = faults_of("retrieve") | {
    "gives a document without a text": lambda query: [Document("")],
    "gives nothing": lambda query: [],
}


@pytest.mark.parametrize("name", FINDS)
def test_retrievers_of_the_loop(name):
    check_retriever(RetrieverAdapter(Finds(fault=FINDS[name])))
