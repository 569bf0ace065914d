"""What a model can do beside completing: replies by a schema through a tool, and streams."""

import asyncio
import json
import threading

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.types import PydanticProgramMode
from llamaindex_doubles import Calling, calls

from denoise_core import InputError, Message, Passage, Usage, run
from denoise_core.augmenter.streaming import StreamingLLM
from denoise_core.protocols import StructuredLLM
from denoise_core.runtime.effects import complete
from denoise_core.s2a import S2ADenoiser
from denoise_core.s2a.prompts import CONTEXT_FORM, REPLY_FORMS
from llamaindex_denoise import LlamaLLM

ASKED = (Message("system", "be brief"), Message("user", "where?"))
TEXT = "One two three."


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


@pytest.mark.parametrize("variant", ["select", "remove", "default"])
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
        ("remove", {"drop": ["2"]}, "Paris is in France. "),
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
    assert not LlamaLLM(calling, structured=False).structured
    assert LlamaLLM(text_only, structured=True).structured
    with pytest.raises(InputError, match="MockLLM is no FunctionCallingLLM"):
        LlamaLLM(MockLLM(), structured=True)


def test_without_tools_the_schema_is_left_aside(scripted_llm):
    llm = LlamaLLM(scripted_llm(lambda messages: "1"))
    assert isinstance(llm, StructuredLLM)
    assert llm.complete_json(ASKED, reply_schema("select")) == llm.complete(ASKED)
    assert asyncio.run(
        llm.acomplete_json(ASKED, reply_schema("select"))
    ) == llm.complete(ASKED)


async def collected(llm):
    return [piece async for piece in llm.astream(ASKED)]


def test_a_stream_is_the_reply_in_pieces(scripted_llm):
    llm = LlamaLLM(scripted_llm(lambda messages: TEXT))
    assert isinstance(llm, StreamingLLM)
    pieces = list(llm.stream(ASKED))
    assert pieces == list(TEXT)
    assert asyncio.run(collected(llm)) == pieces


class Cumulative(Calling):
    """An integration whose responses hold the text so far, and no pieces."""

    def stream_chat(self, messages, **kwargs):
        for end in (3, 7, len(TEXT)):
            message = ChatMessage(role="assistant", content=TEXT[:end])
            yield ChatResponse(
                message=message,
                raw={"usage": {"prompt_tokens": end, "completion_tokens": 1}},
            )

    async def astream_chat(self, messages, **kwargs):
        async def pieces():
            for piece in self.stream_chat(messages):
                yield piece

        return pieces()


def test_a_stream_of_the_text_so_far():
    expected = ["One", " two", " three.", Usage(14, 1)]
    llm = LlamaLLM(Cumulative(script=says(TEXT)))
    assert list(llm.stream(ASKED)) == expected
    assert asyncio.run(collected(llm)) == expected


class Hangs(MockLLM):
    """Counts who is in it; the first call stays until it is let go."""

    _go_on = PrivateAttr(default_factory=threading.Event)
    _inside = PrivateAttr(default_factory=list)

    def chat(self, messages, **kwargs):
        first = not self._inside
        self._inside.append(1)
        if first:
            self._go_on.wait(20)
        return super().chat(messages, **kwargs)


@pytest.mark.parametrize("sync", [True, False])
async def test_a_hung_call_costs_its_slot_only_until_its_time_out(sync):
    model = Hangs()
    llm = LlamaLLM(model, max_threads=2)
    for _ in range(3):  # more than there are slots
        model._inside.clear()
        timed_out = (
            asyncio.to_thread(
                run,
                complete(ASKED, tag="t", llm=llm),
                call_seconds=0.05,
            )
            if sync
            else asyncio.wait_for(llm.acomplete(ASKED), 0.05)
        )
        with pytest.raises(TimeoutError):
            await timed_out
    assert (await asyncio.to_thread(llm.complete, ASKED)).text
    assert (await asyncio.wait_for(llm.acomplete(ASKED), 20)).text
    model._go_on.set()


async def test_a_model_for_one_at_a_time_is_not_called_twice_even_after_a_time_out():
    model = Hangs()
    llm = LlamaLLM(model, max_threads=1)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(llm.acomplete(ASKED), 0.05)
    assert len(model._inside) == 1
    model._go_on.set()
    assert (await asyncio.wait_for(llm.acomplete(ASKED), 20)).text
