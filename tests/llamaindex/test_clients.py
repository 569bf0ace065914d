"""LlamaIndex models and retrievers as the core's: roles, tokens, schemas, and an event loop that stays free."""

import asyncio
import time

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, NodeWithScore
from llama_index.core.types import PydanticProgramMode
from llamaindex_denoisers import scored
from llamaindex_doubles import Calling, calls, scripted_llm
from pydantic import BaseModel

from denoise_core import Message, Usage
from denoise_core.s2a.prompts import REPLY_FORMS
from llamaindex_denoise import LlamaLLM
from llamaindex_denoise.models.llm import reported_usage
from llamaindex_denoise.models.retriever import LlamaRetriever

ASKED = (Message("system", "be brief"), Message("user", "where?"))


def test_llamaindexs_own_double_works():
    assert "where?" in LlamaLLM(MockLLM()).complete(ASKED).text


def test_an_empty_reply_is_empty_text():
    assert LlamaLLM(scripted_llm(None)).complete(ASKED).text == ""


def test_a_model_of_objects_judges_in_its_own_words():
    judge = LlamaLLM(scripted_llm("1 supported 1.1").as_structured_llm(Tokens))
    assert judge.complete(ASKED).text == "1 supported 1.1"


USED = Usage(5, 2)


class Tokens(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class ReportedTokens(BaseModel):
    usage: Tokens


COUNTS = {"prompt_tokens": 5, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("raw", "extra", "expected"),
    [
        ({"usage": COUNTS}, {}, USED),
        ({"usage": {"input_tokens": 5, "output_tokens": 2}}, {}, USED),
        (ReportedTokens(usage=Tokens(**COUNTS)), {}, USED),
        (
            {"usage_metadata": {"prompt_token_count": 5, "candidates_token_count": 2}},
            {},
            USED,
        ),
        (None, COUNTS, USED),
        ({"usage": None}, COUNTS, USED),
        ({"usage": {"prompt_tokens": 5}}, {}, Usage(5, 0)),
        ({"usage": {"inputTokens": 5}}, {"prompt_tokens": 5}, Usage(5, 0)),
        (None, {}, None),
        ("text", {}, None),
        (object(), {}, None),
    ],
)
def test_tokens_are_read_in_every_shape(raw, extra, expected):
    message = ChatMessage("x", role="assistant")
    response = ChatResponse(message=message, raw=raw, additional_kwargs=extra)
    assert reported_usage(response) == expected


class Found(BaseRetriever):
    def _retrieve(self, query_bundle):
        text = f"on {query_bundle.query_str}"
        return [
            NodeWithScore(node=ImageNode(id_="i"), score=1.0),
            scored(text, 0.5, id_="t", metadata={"page": 3}),
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
def test_a_retriever_gives_passages_of_its_nodes(kind):
    adapter = LlamaRetriever(kind())
    (passage,) = adapter.retrieve("towers")
    assert passage.text == "on towers"
    assert passage.id == "t"
    assert passage.score == 0.5
    assert passage.metadata == {"page": 3}
    (second_result,) = asyncio.run(adapter.aretrieve("towers"))
    assert second_result == passage


SCHEMA = REPLY_FORMS["select"].schema


def says_one(messages, tools=()):
    return ChatMessage("1", role="assistant")


@pytest.mark.parametrize(
    "script", [says_one, lambda messages, tools=(): calls("another", keep=[1])]
)
def test_a_model_that_calls_no_tool_after_all_is_read_as_text(script):
    llm = LlamaLLM(Calling(script=script))
    reply = llm.complete_json(ASKED, SCHEMA)
    assert reply.text == script([]).content
    assert asyncio.run(llm.acomplete_json(ASKED, SCHEMA)) == reply


def test_who_is_asked_by_tool():
    calling = Calling(script=says_one)
    text_only = Calling(script=says_one, calls_functions=False)
    by_text = Calling(script=says_one, pydantic_program_mode=PydanticProgramMode.LLM)
    assert LlamaLLM(calling).structured
    for llm in (text_only, by_text, MockLLM()):
        assert not LlamaLLM(llm).structured
