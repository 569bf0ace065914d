"""LlamaIndex's models, retrievers and embeddings, whatever they do: no context lost, no failure a mistake."""

import pytest
from faults import (
    PASSAGES,
    QUERY,
    check_faults,
    check_hang,
    check_retriever,
    faults_of,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LLMMetadata,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM
from llama_index.core.retrievers import BaseRetriever
from llamaindex_denoisers import scored

from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers.encoders import EmbeddingScorer
from denoise_core.types import Reply
from llamaindex_denoise import LlamaLLM
from llamaindex_denoise.models.retriever import LlamaRetriever


class Chat(CustomLLM):
    fault: object

    @property
    def metadata(self):
        return LLMMetadata(is_chat_model=True)

    def chat(self, messages, **kwargs):
        inputs = self.fault(messages)
        if isinstance(inputs, Reply) and inputs.text is not None:
            return ChatResponse(
                message=ChatMessage(role="assistant", content=inputs.text)
            )
        return inputs

    complete = stream_complete = chat


class Embeds(BaseEmbedding):
    fault: object

    def _get_text_embedding(self, text):
        return self.fault(QUERY, [text])

    def _get_text_embeddings(self, texts):
        return self.fault(QUERY, texts)

    def _get_query_embedding(self, query):
        return [1.0, 1.0]

    async def _aget_query_embedding(self, query):
        return [1.0, 1.0]


DENOISERS = {
    "complete": lambda part: S2ADenoiser(LlamaLLM(Chat(fault=part.fault))),
    "score": lambda part: ENDDenoiser(EmbeddingScorer(Embeds(fault=part.fault))),
}


@pytest.mark.parametrize(
    ("verb", "refused"),
    [("complete", set()), ("score", {"gives None"})],  # LlamaIndex itself refuses it
)
def test_chat_models_and_embeddings(verb, refused):
    names = faults_of(verb).keys() - refused
    check_faults(DENOISERS[verb], verb, QUERY, PASSAGES, names)


@pytest.mark.parametrize("verb", DENOISERS)
def test_a_model_that_hangs_holds_up_no_loop(verb):
    check_hang(lambda part: DENOISERS[verb](part).adenoise(QUERY, PASSAGES))


class Finds(BaseRetriever):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def _retrieve(self, query_bundle):
        return self.fault(query_bundle.query_str)


# What is no list of nodes, LlamaIndex itself refuses.
FOUND = faults_of("any") | {
    "gives nothing": lambda query: [],
    "gives a node without a text": lambda query: [scored("")],
    "gives one id twice": lambda query: [scored(t, id_="x") for t in "ab"],
    "gives NaN": lambda query: [scored("a", float("nan"))],
}


@pytest.mark.parametrize("name", FOUND)
def test_retrievers_of_the_loop(name):
    check_retriever(LlamaRetriever(Finds(FOUND[name])))
