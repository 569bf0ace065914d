"""Replies by a schema, through a tool that the model calls."""

import asyncio
import json

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
)
from llama_index.core.llms import MockLLM
from llama_index.core.types import PydanticProgramMode
from llamaindex_doubles import Calling, calls

from denoise_core import Message, Passage
from denoise_core.protocols import StructuredLLM
from denoise_core.s2a import S2ADenoiser
from denoise_core.s2a.prompts import CONTEXT_FORM, REPLY_FORMS
from llamaindex_denoise import LlamaLLM

ASKED = (Message("system", "be brief"), Message("user", "where?"))


def reply_schema(variant):
    """What a model is held to about documents."""
    return REPLY_FORMS.get(variant, CONTEXT_FORM).schema


def fill(*, usage=None, **fields):
    """A model that calls the tool it is given, with ``fields``; ``seen`` are the tools."""
    seen = []

    def script(messages, tools=()):
        seen.extend(tools)
        return calls(tools[0].metadata.name, usage, **fields)

    return Calling(script=script), seen


@pytest.mark.parametrize("variant", ["select", "default"])
def test_a_schema_goes_out_as_the_tools_parameters(variant):
    model, seen = fill(keep=[1])
    reply = LlamaLLM(model).complete_json(ASKED, reply_schema(variant))
    assert (
        asyncio.run(LlamaLLM(model).acomplete_json(ASKED, reply_schema(variant)))
        == reply
    )
    assert json.loads(reply.text) == {"keep": [1]}
    for tool in seen:
        assert tool.metadata.fn_schema.model_json_schema() == {
            "title": "reply",
            **reply_schema(variant),
        }
        sent = tool.metadata.to_openai_tool()["function"]
        assert sent["parameters"]["properties"] == reply_schema(variant)["properties"]


@pytest.mark.parametrize(
    ("variant", "fields", "kept_items"),
    [
        ("select", {"keep": [2]}, "Bread is cheap."),
        ("default", {"context": "Paris is in France."}, "Paris is in France. "),
    ],
)
def test_s2a_is_read_from_the_tools_arguments(variant, fields, kept_items):
    model, _ = fill(**fields)
    denoiser = S2ADenoiser(LlamaLLM(model), variant=variant)
    inputs = [Passage("Paris is in France. Bread is cheap.", "p")]
    result = denoiser.denoise("Where is Paris?", inputs)
    assert result.fallback is None
    assert [passage.text for passage in result.passages] == [kept_items]
    assert (
        asyncio.run(denoiser.adenoise("Where is Paris?", inputs)).passages
        == result.passages
    )


def says(text):
    return lambda messages, tools=(): ChatMessage(role="assistant", content=text)


@pytest.mark.parametrize(
    "script", [says("1"), lambda messages, tools=(): calls("another", keep=[1])]
)
def test_a_model_that_calls_no_tool_after_all_is_read_as_text(script):
    llm = LlamaLLM(Calling(script=script))
    reply = llm.complete_json(ASKED, reply_schema("select"))
    assert reply.text == script([]).content
    assert asyncio.run(llm.acomplete_json(ASKED, reply_schema("select"))) == reply


def test_who_is_asked_by_tool():
    calling, text_only = (
        Calling(script=says("1")),
        Calling(script=says("1"), calls_functions=False),
    )
    by_text = Calling(script=says("1"), pydantic_program_mode=PydanticProgramMode.LLM)
    assert LlamaLLM(calling).structured
    assert not LlamaLLM(text_only).structured
    assert not LlamaLLM(by_text).structured
    assert not LlamaLLM(MockLLM()).structured


def test_without_tools_the_schema_is_left_aside(scripted_llm):
    llm = LlamaLLM(scripted_llm(lambda messages: "1"))
    assert isinstance(llm, StructuredLLM)
    assert llm.complete_json(ASKED, reply_schema("select")) == llm.complete(ASKED)
    assert asyncio.run(
        llm.acomplete_json(ASKED, reply_schema("select"))
    ) == llm.complete(ASKED)
