"""Tools' results as they come: content blocks, JSON lists, plain text; and the message again from what is left."""

import json
import re

import pytest
from chain_parts import Answers, chat, drop_all, merge
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_model_call
from langchain.agents.middleware.types import ToolCallRequest
from langchain_agents import (
    both_ways,
    calls,
    cut_results,
    keep_only,
    make_agent,
    run,
    tool_message,
)
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.types import Command

from denoise_core import InputError
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from denoise_core.tool_results import RECALL_TOOL
from langchain_denoise.convert.history import shown_message
from langchain_denoise.middleware.tool_results import DenoiseToolResults

IMAGE = {"type": "image", "base64": "AA==", "mime_type": "image/png"}


def about_paris(**settings):
    return cut_results(keep_only("Paris", min_keep=0), tools=["search"], **settings)


def request_of(name="search"):
    call = {"name": name, "args": {}, "id": "call", "type": "tool_call"}
    state = {"messages": [HumanMessage("Where is Paris?")]}
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=None)


def cut_message(middleware, content, **fields):
    message = ToolMessage(content, tool_call_id="call", **fields)
    request = request_of(fields.get("name", "search"))
    return middleware.wrap_tool_call(request, lambda _: message)


def repeated_documents(sentence, times):
    """Three documents, each a sentence about its id, and their joined text."""
    documents = []
    for name in "abc":
        text = sentence.format(name) * times
        documents.append(Document(page_content=text, id=name))
    return documents, "\n".join(document.page_content for document in documents)


SEARCH_REPLIES = {
    "query": "Paris",
    "results": [{"title": f"Town {n}", "text": "Rain. " * 40} for n in range(9)],
}
SEARCH_REPLIES["results"].append({"title": "Paris", "text": "In Paris it is dry. " * 8})


TABLE = json.dumps(
    {"count": 60, "rows": [{"town": f"town {n}", "rain": n} for n in range(60)]}
)


def run_agent(middleware, found=TABLE, name="search"):
    """The state after one call of a tool, and what the model read of its result."""

    def look(query: str = ""):
        return found

    look_up = StructuredTool.from_function(look, name=name, description="Looks.")
    call = calls(name, "call-12345678", query="rain in town 7")
    model = chat(lambda messages: "done" if messages[-1].type == "tool" else call)
    agent = create_agent(model, [look_up], middleware=middleware)
    state = agent.invoke({"messages": [("user", "How much rain?")]})
    return tool_message(state), model.calls[-1][-1]


def about_town(**settings):
    return DenoiseToolResults(keep_only("town 7"), min_characters=0, **settings)


def test_long_text_that_passes_is_said_once(caplog):
    middleware = cut_results(keep=1)
    found = json.dumps(SEARCH_REPLIES)
    for _ in range(2):
        assert run_agent([middleware], found)[0].content == found
    assert caplog.text.count("tools=['search']") == 1


def test_a_name_that_no_tool_has_raises_with_the_nearest():
    """It did nothing, and said nothing."""
    with pytest.raises(InputError, match="did you mean 'search'"):
        run_agent([cut_results(tools=["serach"])])
    with pytest.raises(InputError, match="list of tools' names"):
        cut_results(tools="search")


def test_a_users_own_recall_is_a_tool_like_any_other():
    """It was never cut, and with `recall=True` it hid ours."""
    _, shown = run_agent([about_town(tools=["recall"])], name="recall")
    assert len(shown.text) < 200
    with pytest.raises(InputError, match="rename it, or set recall=False"):
        run_agent([about_town(recall=True)], name="recall")


@wrap_model_call
def mark_tools(request, handler):
    copies = [item.model_copy(update={"extras": {}}) for item in request.tools]
    return handler(request.override(tools=copies))


def test_middleware_may_copy_the_recall_tool():
    _, shown = run_agent([mark_tools, about_town(tools=["search"], recall=True)])
    assert "recall(" in shown.text


def test_what_a_tool_returns_to_the_user_stays_whole():
    look = StructuredTool.from_function(
        lambda: TABLE, name="search", description="Looks.", return_direct=True
    )
    message = ToolMessage(TABLE, tool_call_id="call")
    middleware = about_town(tools=["search"], where="state")
    request = request_of().override(tool=look)
    assert middleware.wrap_tool_call(request, lambda _: message) is message


def test_messages_in_a_command_are_denoised():
    """A command passed, although its message held ten documents."""
    message = ToolMessage(json.dumps(SEARCH_REPLIES), tool_call_id="call-12345678")
    command = Command(update={"messages": [message]})
    stored, _ = run_agent([about_paris()], command)
    results = json.loads(stored.content)["results"]
    assert results == [
        {"left_out": "1 of 10 items shown; 9 left out"},
        SEARCH_REPLIES["results"][-1],
    ]


def test_what_is_recalled_comes_whole():
    text = "Bananas are yellow.\n\n" * 200
    after = cut_message(about_paris(recall=True), text, name=RECALL_TOOL)
    assert after.content == text


def test_the_state_keeps_what_the_tool_returned_and_the_model_reads_less():
    middleware = about_town(tools=["search"])
    stored, shown = run_agent([middleware])
    assert stored.content == TABLE
    assert json.loads(shown.text)["rows"] == [
        {"left_out": "1 of 60 items shown; 59 left out"},
        {"town": "town 7", "rain": 7},
    ]
    assert shown.tool_call_id == stored.tool_call_id


def test_a_result_that_another_middleware_clears_stays_cleared():
    class Clears(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            messages = [
                message.model_copy(update={"content": "[cleared]"})
                if message.type == "tool"
                else message
                for message in request.messages
            ]
            return handler(request.override(messages=messages))

    ours = about_town(tools=["search"])
    _, shown = run_agent([Clears(), ours])
    assert shown.content == "[cleared]"


@pytest.mark.parametrize(
    "name", ["shell", "read_file", "run_tests", "fetch_page", "execute_sql"]
)
def test_tools_that_are_not_named_are_never_cut(name):
    found = "\n\n".join(f"FAILED test_{n}: town {n} is wet." for n in range(900))
    middleware = about_town()
    stored, shown = run_agent([middleware], found, name)
    assert stored.content == shown.content == found
    message = ToolMessage(found, tool_call_id="call", name=name)
    named = about_town(tools=["search"])
    request = request_of(name)
    assert named.wrap_tool_call(request, lambda _: message) is message


def test_a_cap_bounds_the_result_of_any_tool():
    found = "\n".join(f"{n}: a line of a long log without a search" for n in range(900))
    middleware = about_town(hard_cap=5000, recall=True)
    _, shown = run_agent([middleware], found, "shell")
    assert shown.text.startswith("0: a line")
    assert "899: a line" in shown.text
    assert len(shown.text) <= 5000
    assert re.search(r"recall\(\w{12}\) returns the", shown.text)


LONG_ROWS = [
    {"text": f"A sentence about the rain, number {n}. " * 9} for n in range(60)
]
LONG_ROWS[25:37] = [{"text": "Paris is a town in France. " * 9}] * 12
LONG_JSON = json.dumps(LONG_ROWS)


@pytest.mark.parametrize("denoiser", [keep_only("Paris"), None])
@pytest.mark.parametrize("content", [LONG_JSON, [{"type": "text", "text": LONG_JSON}]])
def test_a_cap_keeps_records_that_were_kept(denoiser, content):
    """Those of a content block were chosen for the cap anew."""
    middleware = DenoiseToolResults(denoiser, tools=["search"], hard_cap=1400)
    shown = shown_message(cut_message(middleware, content)).text
    assert len(shown) <= 1400
    assert LONG_ROWS[25] in json.loads(shown)


@pytest.mark.parametrize("settings", [{"hard_cap": 200}, {"tools": ["search"]}])
def test_blocks_that_are_no_text_are_logged_where_they_are_long(settings, caplog):
    block = {"type": "document", "source": {"data": TABLE}}
    stored, shown = run_agent([about_town(**settings)], [block])
    assert stored.content == shown.content == [block]
    assert "a result stayed longer than its limit" in caplog.text


def test_many_short_texts_are_not_logged_as_long(caplog):
    content = [{"type": "text", "text": "Rain."}] * 99
    cut_message(about_town(hard_cap=1000), content)
    assert "a result stayed longer than its limit" not in caplog.text


def test_a_text_made_of_several_documents_changes_no_result(caplog):
    documents, content = repeated_documents("{} ", 99)
    middleware = cut_results(Answers(merge))
    after = cut_message(middleware, content, artifact=documents)
    assert (after.content, after.artifact) == (content, documents)
    assert "rewritten from several documents" in caplog.text


@pytest.mark.parametrize("has_texts", [False, True])
def test_ids_and_json_that_a_tool_shows_for_its_documents_stay(has_texts, caplog):
    documents, _ = repeated_documents("{} is a town. ", 20)
    texts = [document.page_content for document in documents]
    content = json.dumps(texts) if has_texts else "a, b, c"
    after = cut_message(cut_results(keep=1), content, artifact=documents)
    assert (after.content, after.artifact) == (content, documents)
    assert "a result with documents was kept as it is" in caplog.text


@pytest.mark.parametrize(
    "setting",
    [
        {"where": "both"},
        {"min_characters": -1},
        {"hard_cap": "5"},
        {"hard_cap": 0},
        {"must_keep": "("},
        {"tool": ["search"]},
    ],
)
def test_a_wrong_setting_of_the_cut_is_refused(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        DenoiseToolResults(**setting)


@pytest.mark.parametrize(
    ("content", "status"), [([IMAGE], "success"), ("Bananas are out.", "error")]
)
def test_errors_and_images_pass(content, status):
    message = ToolMessage(content, tool_call_id="call", name="search", status=status)
    middleware = cut_results(Answers(drop_all), tools=["search"], on_empty="drop")
    assert middleware.wrap_tool_call(request_of(), lambda _: message) is message


def test_a_result_is_cut_once():
    """A provider's prompt cache holds while the beginning of a prompt stays the same."""
    scored = []

    def score(query, text):
        scored.append(text)
        return float("Paris" in text)

    def reply(messages):
        count = sum(message.type == "tool" for message in messages)
        return "done" if count == 3 else calls("search", f"call-{count}", query="q")

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


def test_content_blocks_as_mcp_adapters_give_them():
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
    output = cut_message(about_paris(), content, artifact=artifact)
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
async def test_what_was_left_out_can_be_recalled(is_sync):
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

    middleware = cut_results(keep_only("Paris"), tools=["search"], recall=True)
    agent = create_agent(chat(reply), [search], middleware=[middleware])
    state = await run(agent, is_sync, {"messages": [HumanMessage("Is it dry?")]})
    shown, recalled = [item for item in state["messages"] if item.type == "tool"]
    assert "Rain. Rain." not in shown.text
    assert "Town 0" in recalled.text
    assert "Rain. Rain." in recalled.text
    stored = json.dumps(state["denoise_left_out"])
    assert "Town 0" in stored
    assert "Town 8" in stored


def test_two_results_of_one_call_id_are_both_recalled():
    """Some servers number the calls of each reply anew: the later text came for both."""
    middleware = cut_results(keep_only("b "), recall=True)
    omitted_texts = {}
    for sentence in ("{} is. ", "{} was. "):
        documents, text = repeated_documents(sentence, 99)
        after = cut_message(middleware, text, artifact=documents)
        omitted_texts |= after.update["denoise_left_out"]
    assert [text[:4] for text in omitted_texts.values()] == ["a is", "a wa"]


@pytest.mark.parametrize(
    ("length", "settings", "kept"),
    [(20, {}, "b"), (20, {"must_keep": "c is"}, "bc"), (1, {}, "abc")],
    ids=["cut", "pinned", "a note would make it longer"],
)
def test_documents_are_cut_unless_they_are_pinned_or_short(length, settings, kept):
    documents, content = repeated_documents("{} is. ", length)
    middleware = cut_results(keep_only("b is"), **settings)
    after = cut_message(middleware, content, artifact=documents)
    assert "".join(document.id for document in after.artifact) == kept
    assert after.response_metadata["denoise"]["kept"] == len(kept)
    assert (after.content == content) is (kept == "abc")


@pytest.mark.parametrize("where", ["state", "view"])
def test_a_result_that_is_denoised_and_capped_counts_once(where):
    """The cap counted what denoising had kept, in a second line."""
    towns = ["Rome"] * 9 + ["Paris"] * 9
    paragraphs = ["A page about the weather in Italy."]
    paragraphs += [f"In {town} it rains. " * 9 for town in towns]
    middleware = about_paris(hard_cap=900, where=where)
    after = cut_message(middleware, "\n\n".join(paragraphs))
    shown = shown_message(after).text
    assert shown.count("shown; ") == 1
    assert "[5 of 19 parts shown; 14 left out]" in shown
    assert "Rome" not in shown


def test_documents_that_are_denoised_and_capped_count_once():
    documents, content = repeated_documents("{} is. ", 99)
    middleware = cut_results(keep_only("b is"), hard_cap=300)
    after = cut_message(middleware, content, artifact=documents)
    assert len(after.content) < 500
    assert after.content.count("left out") == 1
    assert after.artifact == documents
