"""LlamaIndex's models, retrievers and embeddings, whatever they do: no context lost, no failure a mistake."""

import pytest
from faults import check_faults, check_hang, faults_of
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from denoise_core import Passage
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.errors import is_user_error
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers.encoders import EmbeddingScorer
from denoise_core.testing import FunctionLLM
from denoise_core.types import Reply
from llamaindex_denoise import LlamaLLM
from llamaindex_denoise.models.retriever import LlamaRetriever

QUERY = "Where is the tower?"
PASSAGES = [
    Passage("The tower is in Porto. It is old.", "a"),
    Passage("Bread is cheap.", "b"),
]


class Chat(CustomLLM):
    """A model of LlamaIndex that does ``fault``."""

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

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.chat([prompt]).message.content)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


def chat(part):
    return LlamaLLM(Chat(fault=part.fault))


@pytest.mark.parametrize("name", faults_of("complete"))
def test_models(name):
    check_faults(
        lambda part: S2ADenoiser(chat(part)),
        "complete",
        QUERY,
        PASSAGES,
        [name],
    )


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


@pytest.mark.parametrize(
    "name", sorted(faults_of("score").keys() - {"gives None"})
)  # LlamaIndex itself refuses None
def test_embeddings(name):
    check_faults(
        lambda part: ENDDenoiser(EmbeddingScorer(Embeds(fault=part.fault))),
        "score",
        QUERY,
        PASSAGES,
        [name],
    )


class Finds(BaseRetriever):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def _retrieve(self, query_bundle):
        return self.fault(query_bundle.query_str)


FOUND = {
    "gives nothing": lambda query: [],
    "gives a node without a text": lambda query: [
        NodeWithScore(node=TextNode(text=""))
    ],
    "gives one id twice": lambda query: [
        NodeWithScore(node=TextNode(text=t, id_="x")) for t in "ab"
    ],
    "gives NaN": lambda query: [
        NodeWithScore(node=TextNode(text="a"), score=float("nan"))
    ],
}


@pytest.mark.parametrize(
    "name", faults_of("any") | FOUND
)  # what is no list of nodes, LlamaIndex itself refuses
def test_retrievers_of_the_loop(name):
    results = Finds((faults_of("any") | FOUND)[name])
    loop = Augmenter(
        FunctionLLM(lambda messages: "It is in Porto [1]."), LlamaRetriever(results)
    )
    try:
        assert loop.answer(QUERY).outcome
    except Exception as error:
        if is_user_error(error):
            raise


def test_a_model_that_hangs_holds_up_no_loop():
    check_hang(lambda part: S2ADenoiser(chat(part)).adenoise(QUERY, PASSAGES))
    check_hang(
        lambda part: ENDDenoiser(EmbeddingScorer(Embeds(fault=part.fault))).adenoise(
            QUERY, PASSAGES
        )
    )
