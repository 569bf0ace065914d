"""LlamaIndex models and retrievers as the core's: roles, tokens, budget, and an event loop that stays free."""

import asyncio
import time

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode
from pydantic import BaseModel

from denoise_core import Message, Usage
from llamaindex_denoise import LlamaLLM
from llamaindex_denoise.models.llm import reported_usage
from llamaindex_denoise.models.retriever import LlamaRetriever

ASKED = (Message("system", "be brief"), Message("user", "where?"))


def test_roles_and_text_go_through(scripted_llm):
    model = scripted_llm(
        lambda messages: " / ".join(f"{x.role.value}: {x.content}" for x in messages)
    )
    reply = LlamaLLM(model).complete(ASKED)
    assert reply.text == "system: be brief / user: where?"
    assert asyncio.run(LlamaLLM(model).acomplete(ASKED)) == reply


def test_llamaindexs_own_double_works():
    assert "where?" in LlamaLLM(MockLLM()).complete(ASKED).text


def test_an_empty_reply_is_empty_text(scripted_llm):
    assert LlamaLLM(scripted_llm(lambda messages: None)).complete(ASKED).text == ""


USED = Usage(5, 2)


class Tokens(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class ReportedTokens(BaseModel):
    usage: Tokens


@pytest.mark.parametrize(
    ("raw", "extra", "expected"),
    [
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2}}, {}, USED),
        ({"usage": {"input_tokens": 5, "output_tokens": 2}}, {}, USED),
        (ReportedTokens(usage=Tokens(prompt_tokens=5, completion_tokens=2)), {}, USED),
        (
            {"usage_metadata": {"prompt_token_count": 5, "candidates_token_count": 2}},
            {},
            USED,
        ),
        (None, {"prompt_tokens": 5, "completion_tokens": 2}, USED),
        ({"usage": None}, {"prompt_tokens": 5, "completion_tokens": 2}, USED),
        ({"usage": {"prompt_tokens": 5}}, {}, Usage(5, 0)),
        ({"usage": {"inputTokens": 5}}, {"prompt_tokens": 5}, Usage(5, 0)),
        (None, {}, None),
        ("text", {}, None),
        (object(), {}, None),
    ],
)
def test_tokens_are_read_in_every_shape(raw, extra, expected):
    message = ChatMessage(role="assistant", content="x")
    assert (
        reported_usage(ChatResponse(message=message, raw=raw, additional_kwargs=extra))
        == expected
    )


class Found(BaseRetriever):
    def _retrieve(self, query_bundle):
        text = TextNode(
            text=f"on {query_bundle.query_str}", id_="t", metadata={"page": 3}
        )
        return [
            NodeWithScore(node=ImageNode(id_="i"), score=1.0),
            NodeWithScore(node=text, score=0.5),
        ]


class FoundNatively(Found):
    async def _aretrieve(self, query_bundle):
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


class FoundSlowly(Found):
    def _retrieve(self, query_bundle):
        time.sleep(0.01)  # on the event loop this would be an error
        return super()._retrieve(query_bundle)


async def test_a_retriever_without_an_async_form_runs_on_a_thread(no_blocking):
    (passage,) = await LlamaRetriever(FoundSlowly()).aretrieve("towers")
    assert passage.text == "on towers"


@pytest.mark.parametrize("kind", [Found, FoundNatively])
def test_a_retriever_gives_passages_that_remember_their_nodes(kind):
    adapter = LlamaRetriever(kind())
    (passage,) = adapter.retrieve("towers")
    assert passage.text == "on towers"
    assert passage.id == "t"
    assert passage.score == 0.5
    assert passage.metadata == {"page": 3}
    (second_result,) = asyncio.run(adapter.aretrieve("towers"))
    assert second_result == passage
    assert adapter.retriever.retrieve(QueryBundle("towers"))[1].node.metadata == {
        "page": 3
    }
