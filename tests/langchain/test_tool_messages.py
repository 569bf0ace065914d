"""Tools' results as they come: content blocks, JSON lists, plain text; and the message again from what is left."""

import asyncio
import json

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_agents import both_ways, calls, cut_results, run, tool_message
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.types import Command

from denoise_core import InputError
from denoise_core.end import ENDDenoiser
from denoise_core.runtime import fallbacks
from denoise_core.testing import FunctionScorer
from denoise_core.tool_results import RECALL_TOOL
from langchain_denoise.convert.history import shown_message
from langchain_denoise.middleware.tool_results import DenoiseToolResults

IMAGE = {"type": "image", "base64": "AA==", "mime_type": "image/png"}


def only(word, **settings):
    """Keeps what says this word."""
    scorer = FunctionScorer(lambda query, text: float(word in text))
    return ENDDenoiser(scorer, threshold=0.5, **settings)


def about_paris(**settings):
    return cut_results(only("Paris", min_keep=0), tools=["search"], **settings)


def request_of(name="search", query=None):
    """A call of a tool, with a query or without."""
    args = {} if query is None else {"query": query}
    call = {"name": name, "args": args, "id": "call", "type": "tool_call"}
    state = {"messages": [HumanMessage("Where is Paris?")]}
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=None)


async def cleared(middleware, content, *, is_sync=True, artifact=None):
    message = ToolMessage(
        content, tool_call_id="call", name="search", artifact=artifact
    )
    request = request_of()
    if is_sync:
        return await asyncio.to_thread(
            middleware.wrap_tool_call, request, lambda request: message
        )

    async def handler(request):
        return message

    return await middleware.awrap_tool_call(request, handler)


SEARCH_REPLIES = {
    "query": "Paris",
    "results": [{"title": f"Town {n}", "text": "Rain. " * 40} for n in range(9)],
}
SEARCH_REPLIES["results"].append({"title": "Paris", "text": "In Paris it is dry. " * 8})


def agent_of(test_kit, middleware, look_up, tool_calls):
    """An agent that calls a tool once and is done; and its model."""
    model = test_kit.chat(
        lambda messages: (
            "done"
            if messages[-1].type == "tool"
            else AIMessage("", tool_calls=tool_calls)
        )
    )
    return create_agent(model, [look_up], middleware=middleware), model


def searching(test_kit, middleware, found):
    """An agent whose tool finds this."""

    @tool
    def search(query: str = ""):
        """Looks things up."""
        return found

    tool_calls = [{"name": "search", "args": {"query": "Paris"}, "id": "call-12345678"}]
    return agent_of(test_kit, [middleware], search, tool_calls)[0]


IS_IT_DRY = {"messages": [HumanMessage("Is it dry?")]}
NOTE = {"left_out": "1 of 10 items shown; 9 left out"}


async def test_long_text_that_passes_is_said_once(test_kit, caplog):
    fallbacks._counts.clear()
    middleware = cut_results(keep=1)
    denoising_agent = searching(test_kit, middleware, json.dumps(SEARCH_REPLIES))
    for _ in range(2):
        message = tool_message(await denoising_agent.ainvoke(IS_IT_DRY))
        assert json.loads(message.content) == SEARCH_REPLIES
    assert caplog.text.count("tools=['search']") == 1


async def test_short_text_passes(test_kit):
    middleware = DenoiseToolResults(keep=1, tools=["search"])
    denoising_agent = searching(test_kit, middleware, "Rain.\n\nParis.")
    message = tool_message(await denoising_agent.ainvoke(IS_IT_DRY))
    assert message.content == "Rain.\n\nParis."


async def test_a_name_that_no_tool_has_raises_with_the_nearest(test_kit):
    """It did nothing, and said nothing."""
    middleware = cut_results(test_kit.Answers(test_kit.drop_all), tools=["serach"])
    with pytest.raises(InputError, match="did you mean 'search'"):
        await searching(test_kit, middleware, "x").ainvoke(IS_IT_DRY)
    with pytest.raises(InputError, match="list of tools' names"):
        cut_results(tools="search")


async def test_messages_in_a_command_are_denoised(test_kit):
    """A command passed, although its message held ten documents."""
    message = ToolMessage(json.dumps(SEARCH_REPLIES), tool_call_id="call-12345678")
    command = Command(update={"messages": [message]})
    middleware = cut_results(only("Paris"), tools=["search"])
    denoising_agent = searching(test_kit, middleware, command)
    message = tool_message(await denoising_agent.ainvoke(IS_IT_DRY))
    found_documents = json.loads(message.content)
    assert found_documents["results"] == [NOTE, SEARCH_REPLIES["results"][-1]]


async def test_what_is_recalled_comes_whole():
    middleware = about_paris(recall=True)
    text = "Bananas are yellow.\n\n" * 200
    message = ToolMessage(text, tool_call_id="call", name=RECALL_TOOL)
    after = middleware.wrap_tool_call(request_of(), lambda _: message)
    assert after.content == text


TABLE = json.dumps(
    {"count": 60, "rows": [{"town": f"town {n}", "rain": n} for n in range(60)]}
)


def run_agent(test_kit, middleware, found=TABLE, name="search"):
    """The state after one call of a tool, and what the model read of its result."""

    def look(query: str = ""):
        return found

    look_up = StructuredTool.from_function(look, name=name, description="Looks.")
    tool_calls = [
        {"name": name, "args": {"query": "rain in town 7"}, "id": "call-12345678"}
    ]
    agent, model = agent_of(test_kit, middleware, look_up, tool_calls)
    state = agent.invoke({"messages": [("user", "How much rain?")]})
    return tool_message(state), model.calls[-1][-1]


def test_the_state_keeps_what_the_tool_returned_and_the_model_reads_less(test_kit):
    middleware = DenoiseToolResults(only("town 7"), tools=["search"], min_characters=0)
    stored, shown = run_agent(test_kit, [middleware])
    assert stored.content == TABLE
    assert json.loads(shown.text)["rows"] == [
        {"left_out": "1 of 60 items shown; 59 left out"},
        {"town": "town 7", "rain": 7},
    ]
    assert shown.tool_call_id == stored.tool_call_id


def test_a_result_that_another_middleware_clears_stays_cleared(test_kit):
    class Clears(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            messages = [
                message.model_copy(update={"content": "[cleared]"})
                if message.type == "tool"
                else message
                for message in request.messages
            ]
            return handler(request.override(messages=messages))

    ours = DenoiseToolResults(only("town 7"), tools=["search"], min_characters=0)
    _, shown = run_agent(test_kit, [Clears(), ours])
    assert shown.content == "[cleared]"


NOT_SEARCHING = (
    "shell",
    "translate",
    "send_mail",
    "write_file",
    "ask_agent",
    "list_files",
    "run_tests",
    "read_file",
    "calculate",
    "get_time",
    "execute_sql",
    "git_diff",
    "create_ticket",
    "fetch_page",
    "compile",
)


@pytest.mark.parametrize("name", NOT_SEARCHING)
def test_tools_that_are_not_named_are_never_cut(test_kit, name):
    found = "\n\n".join(f"FAILED test_{n}: town {n} is wet." for n in range(900))
    middleware = DenoiseToolResults(only("town 7"), min_characters=0)
    stored, shown = run_agent(test_kit, [middleware], found, name)
    assert stored.content == shown.content == found
    message = ToolMessage(found, tool_call_id="call", name=name)
    named = DenoiseToolResults(only("town 7"), tools=["search"], min_characters=0)
    request = request_of(name, "town 7")
    assert named.wrap_tool_call(request, lambda _: message) is message


def test_a_cap_bounds_the_result_of_any_tool(test_kit):
    found = "\n".join(f"{n}: a line of a long log without a search" for n in range(900))
    middleware = DenoiseToolResults(only("town 7"), hard_cap=5000, recall=True)
    stored, shown = run_agent(test_kit, [middleware], found, "shell")
    assert stored.content == found
    assert shown.text.startswith("0: a line")
    assert "899: a line" in shown.text
    assert len(shown.text) < 5200
    assert "recall(12345678-cap1) returns the" in shown.text


def test_a_text_made_of_several_documents_changes_no_result(test_kit, caplog):
    documents = [Document(page_content=f"{name} " * 99, id=name) for name in "abc"]
    content = "\n".join(document.page_content for document in documents)
    message = ToolMessage(content, tool_call_id="call", artifact=documents)
    fallbacks._counts.clear()
    middleware = cut_results(test_kit.Answers(test_kit.merge))
    after = middleware.wrap_tool_call(request_of(), lambda _: message)
    assert (after.content, after.artifact) == (content, documents)
    assert "rewritten from several documents" in caplog.text


def test_ids_that_a_tool_shows_for_its_documents_stay():
    documents = [
        Document(page_content=f"{name} is a town. " * 20, id=name) for name in "abc"
    ]
    message = ToolMessage("a, b, c", tool_call_id="call", artifact=documents)
    after = cut_results(keep=1).wrap_tool_call(request_of(), lambda _: message)
    assert after.content == "a, b, c"
    assert after.artifact == documents


@pytest.mark.parametrize(
    "setting",
    [
        {"where": "both"},
        {"min_characters": -1},
        {"hard_cap": "5"},
        {"must_keep": "("},
    ],
)
def test_a_wrong_setting_of_the_cut_is_refused(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        DenoiseToolResults(**setting)


@pytest.mark.parametrize(
    ("content", "status"), [([IMAGE], "success"), ("Bananas are out.", "error")]
)
def test_errors_and_images_pass(test_kit, content, status):
    message = ToolMessage(content, tool_call_id="call", name="search", status=status)
    middleware = cut_results(
        test_kit.Answers(test_kit.drop_all), tools=["search"], on_empty="drop"
    )
    assert middleware.wrap_tool_call(request_of(), lambda _: message) is message


def test_a_result_is_cut_once(make_agent):
    """A provider's prompt cache holds while the beginning of a prompt stays the same."""
    scored = []

    def score(query, text):
        scored.append(text)
        return float("Paris" in text)

    def reply(messages):
        count = sum(message.type == "tool" for message in messages)
        call = {"name": "search", "args": {"query": "q"}, "id": f"call-{count}"}
        return "done" if count == 3 else AIMessage("", tool_calls=[call])

    middleware = cut_results(ENDDenoiser(FunctionScorer(score), threshold=0.5))
    agent, model = make_agent(middleware, reply=reply)
    agent.invoke({"messages": [HumanMessage("go")]})
    assert len(scored) == 3 * 3
    *_, shorter, longer = model.calls
    assert longer[: len(shorter)] == shorter


def test_messages_of_one_call_count_together():
    half = "Rain is wet.\n\nParis is a capital.\n\n" + "Rain is wet. " * 40
    messages = [ToolMessage(half, tool_call_id=i, name="search") for i in "12"]
    for limit, is_cut in ((len(half) * 2, True), (len(half) * 2 + 1, False)):
        middleware = about_paris(min_characters=limit)
        command = Command(update={"messages": messages})
        after = middleware.wrap_tool_call(request_of(), lambda _, c=command: c)
        assert (after.update["messages"] != messages) is is_cut


def test_settings_are_those_of_the_compressor():
    by_length = FunctionScorer(lambda query, text: float(len(text)))
    texts = ["a" * 99, "b" * 99, "c" * 100]
    documents = [Document(page_content=text, id="same") for text in texts]
    lines = [f"{n}: {text}" for n, text in enumerate(texts)]
    message = ToolMessage("\n".join(lines), tool_call_id="call", artifact=documents)
    middleware = cut_results(scorer=by_length, keep=1)
    after = middleware.wrap_tool_call(request_of(), lambda _: message)
    assert [document.page_content for document in after.artifact] == texts[2:]
    assert after.content.startswith(f"{lines[2]}\n"), "its own heading"


@both_ways
async def test_content_blocks_as_mcp_adapters_give_them(is_sync):
    """They were left as they came, even when the tool was named."""

    def block(text, **fields):
        return {"type": "text", "text": text, **fields}

    rain = " ".join(["Rain is wet."] * 9)
    content = [
        block(f"{rain}\n\nParis is a capital.", id="lc_1"),
        IMAGE,
        block(rain),
        block("Paris is on the Seine.", annotations=[]),
    ]
    artifact = {"structured_content": {"n": 3}}
    output = await cleared(about_paris(), content, is_sync=is_sync, artifact=artifact)
    assert output.content == [
        block("Paris is a capital.\n[1 of 2 parts shown; 1 left out]", id="lc_1"),
        IMAGE,
        block("[0 of 1 parts shown; 1 left out]"),
        content[-1],
    ]
    assert output.artifact == artifact
    record = output.response_metadata["denoise"]
    assert (record["left_out"], record["fallback"]) == (2, None)
    assert record["characters_after"] < record["characters_before"]


@both_ways
async def test_what_was_left_out_can_be_recalled(test_kit, is_sync):
    @tool
    def search(query: str):
        """Looks things up."""
        return json.dumps(SEARCH_REPLIES)

    def reply(messages):
        count = sum(message.type == "tool" for message in messages)
        if count == 0:
            return calls("search", query="Paris dry")
        text_id = messages[-1].text.partition("recall(")[2].partition(")")[0]
        return calls("recall", id=text_id) if count == 1 else "done"

    middleware = cut_results(only("Paris"), tools=["search"], recall=True)
    agent = create_agent(test_kit.chat(reply), [search], middleware=[middleware])
    state = await run(agent, is_sync, IS_IT_DRY)
    shown, recalled = [item for item in state["messages"] if item.type == "tool"]
    assert "Rain. Rain." not in shown.text
    assert "Town 0" in recalled.text
    assert "Rain. Rain." in recalled.text
    stored = json.dumps(state["denoise_left_out"])
    assert "Town 0" in stored
    assert "Town 8" in stored


@pytest.mark.parametrize(
    ("length", "settings", "kept"),
    [(20, {}, "b"), (20, {"must_keep": "c is"}, "bc"), (1, {}, "abc")],
    ids=["cut", "pinned", "a note would make it longer"],
)
def test_documents_are_cut_unless_they_are_pinned_or_short(length, settings, kept):
    documents = []
    for name in "abc":
        documents.append(Document(page_content=f"{name} is. " * length, id=name))
    content = "\n".join(document.page_content for document in documents)
    message = ToolMessage(content, tool_call_id="call", artifact=documents)
    middleware = cut_results(only("b is"), **settings)
    after = middleware.wrap_tool_call(request_of(), lambda _: message)
    assert "".join(document.id for document in after.artifact) == kept
    assert after.response_metadata["denoise"]["kept"] == len(kept)
    assert (after.content == content) is (kept == "abc")


@pytest.mark.parametrize("where", ["state", "view"])
def test_a_result_that_is_denoised_and_capped_counts_once(where):
    """The cap counted what denoising had kept, in a second line."""
    towns = ["Rome"] * 9 + ["Paris"] * 9
    paragraphs = ["A page about the weather in Italy."]
    paragraphs += [f"In {town} it rains. " * 9 for town in towns]
    message = ToolMessage("\n\n".join(paragraphs), tool_call_id="call", name="search")
    middleware = about_paris(hard_cap=900, where=where)
    after = middleware.wrap_tool_call(request_of(), lambda _: message)
    shown = shown_message(after).text
    assert shown.count("shown; ") == 1
    assert "[5 of 19 parts shown; 14 left out]" in shown
    assert "Rome" not in shown


def test_documents_that_are_denoised_and_capped_count_once():
    documents = [Document(page_content=f"{name} is. " * 99, id=name) for name in "abc"]
    content = "\n\n".join(document.page_content for document in documents)
    message = ToolMessage(content, tool_call_id="call", artifact=documents)
    middleware = cut_results(only("b is"), hard_cap=300)
    after = middleware.wrap_tool_call(request_of(), lambda _: message)
    assert len(after.content) < 500
    assert after.content.count("left out") == 1
    assert after.artifact == documents
