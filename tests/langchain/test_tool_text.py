"""Tools' results as they come: content blocks, JSON lists, plain text; and the message again from what is left."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoiseCompressor
from langchain_denoise.middleware import DenoiseToolResults
from langchain_denoise.middleware.tool_text import LONGEST, NOTHING, ToolText, paragraphs

IMAGE = {"type": "image", "base64": "AA==", "mime_type": "image/png"}


def about_paris(**settings):
    scorer = FunctionScorer(lambda query, text: float("Paris" in text))
    return DenoiseToolResults(ENDDenoiser(scorer, threshold=0.5, min_keep=0), tools=["search"], **settings)


async def cleared(middleware, content, *, sync=True, artifact=None, state=None):
    message = ToolMessage(content, tool_call_id="call", name="search", artifact=artifact)
    call = {"name": "search", "args": {}, "id": "call"}
    if state is None:
        state = {"messages": [HumanMessage("Where is Paris?"), AIMessage("", tool_calls=[call])]}
    request = ToolCallRequest(tool_call=call, tool=None, state=state, runtime=None)
    if sync:
        return await asyncio.to_thread(middleware.wrap_tool_call, request, lambda r: message)

    async def handler(request):
        return message

    return await middleware.awrap_tool_call(request, handler)


both_ways = pytest.mark.parametrize("sync", [True, False])


@both_ways
async def test_content_blocks_as_mcp_adapters_give_them(sync):
    """They were left as they came, even when the tool was named."""
    content = [
        {"type": "text", "text": "Bananas are yellow.\n\nParis is a capital.", "id": "lc_1"},
        IMAGE,
        {"type": "text", "text": "Rain is wet."},
        {"type": "text", "text": "Paris lies on the Seine.", "annotations": []},
    ]
    out = await cleared(about_paris(), content, sync=sync, artifact={"structured_content": {"n": 3}})
    assert out.content == [
        {"type": "text", "text": "Paris is a capital.", "id": "lc_1"},
        IMAGE,
        {"type": "text", "text": "Paris lies on the Seine.", "annotations": []},
    ]
    assert out.artifact == {"structured_content": {"n": 3}}
    record = out.response_metadata["denoise"]
    assert (record["given"], record["kept"], record["fallback"]) == (4, 2, None)


@both_ways
async def test_one_long_text_is_cut_into_paragraphs(sync):
    """It was one document, and always kept."""
    text = "# Paris\n\nThe capital of France.\n\nBananas are yellow.\n\n" + "Rain is wet. " * 400 + "Paris is big."
    out = await cleared(about_paris(), text, sync=sync)
    assert out.content.startswith("# Paris\n\nThe capital of France.")
    assert out.content.endswith("Paris is big.")
    assert "Bananas" not in out.content
    assert len(out.content) < LONGEST


@both_ways
async def test_a_json_list_stays_one(sync):
    found = [{"title": "Paris", "rank": 1}, {"title": "Bananas", "rank": 2}, {"title": "Fr", "text": "In Paris."}]
    out = await cleared(about_paris(), json.dumps(found), sync=sync)
    assert json.loads(out.content) == [found[0], found[2]]


async def test_nothing_left_is_said_and_the_call_has_its_message():
    for content in ("Bananas.", [{"type": "text", "text": "Bananas."}]):
        out = await cleared(about_paris(on_empty="drop"), content)
        assert (out.text, out.tool_call_id) == (NOTHING, "call")
    assert (await cleared(about_paris(), "Bananas.")).content == "Bananas."


async def test_states_of_all_kinds_give_the_query(kit):
    asked = []

    def remember(query, passages):
        asked.append(query)
        return kit.drop_all(query, passages)

    class State:
        messages = [HumanMessage("Where?")]  # noqa: RUF012

    for state in ({"messages": [HumanMessage("Where?")]}, State(), [HumanMessage("Where?")]):
        await cleared(DenoiseToolResults(kit.Answers(remember), tools=["search"]), "x", state=state)
    assert asked == ["Where?"] * 3


async def test_a_compressor_will_do_and_keeps_its_settings():
    ready = DenoiseCompressor(scorer=FunctionScorer(lambda q, t: float(len(t))), keep=1, record="none")
    found = [Document(page_content=t, id="same") for t in ("a", "bbb", "cc")]
    out = await cleared(DenoiseToolResults(ready), "1: a\n2: bbb\n3: cc", artifact=found)
    assert [d.page_content for d in out.artifact] == ["bbb"]
    with pytest.raises(ValueError, match="keep: set on the DenoiseCompressor"):
        DenoiseToolResults(ready, keep=2)
    made = DenoiseToolResults.from_embeddings(DeterministicFakeEmbedding(size=4), tools=["a"], keep=3)
    assert (made.tool_names, made.compressor.keep) == ({"a"}, 3)


@given(st.text("a .\n#:", max_size=80) | st.text(max_size=3000))
def test_paragraphs_are_found_again_in_their_text(text):
    at = 0
    for piece in paragraphs(text):
        assert piece.strip()
        at = text.index(piece, at) + len(piece)
    assert "".join("".join(paragraphs(text)).split()) == "".join(text.split())


@given(st.lists(st.text("ab. \n", max_size=40), max_size=5))
def test_a_result_of_which_all_is_kept_is_the_same(texts):
    message = ToolMessage([{"type": "text", "text": t} for t in texts], tool_call_id="1")
    text = ToolText.of(message)
    out = text.cleared(text.documents)
    if text.documents:
        assert "".join(str(out.text).split()) == "".join(str(message.text).split())
