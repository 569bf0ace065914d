"""Citations that a provider puts next to a message's text, in chains."""

import pytest
from function_chat_model import FunctionChatModel
from judging import citation_judge
from langchain_agents import both_ways, run
from langchain_citations import (
    CITED_QUESTION,
    FIRST,
    FORMS,
    SECOND,
    anthropic,
    replies,
    search_results,
)
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import StructuredTool
from recorded_runs import RunRecorder

from langchain_denoise import Verifier, verified
from langchain_denoise.convert.messages import message_citations


@FORMS
def test_the_ranges_are_of_the_message_text(make_message):
    message = make_message()
    text = str(message.text)
    citations = message_citations(message)
    cited = [(text[c.start : c.end], c.cited_text) for c in citations]
    assert cited == [(FIRST, FIRST), (SECOND, SECOND)]


def test_blocks_that_are_not_the_text_cite_nothing():
    """The translator leaves a string out, so the ranges would be of another text."""
    message = anthropic()
    message.content.insert(0, "Well: ")
    assert message_citations(message) == ()


class Atlas(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"{FIRST} {SECOND}", id="atlas")]


ENDS = {
    "message": RunnablePassthrough(),
    "text": StrOutputParser(),
    "field": RunnableLambda(lambda message: {"answer": message}),
    "parsed field": StrOutputParser() | (lambda text: {"answer": text}),
}


async def run_checked(chain, is_sync, judge, **settings):
    """The output of the checked chain and the record of its run."""
    recorder = RunRecorder()
    checked_chain = verified(chain, Verifier(judge=judge), **settings)
    config = {"callbacks": [recorder]}
    output = await run(checked_chain, is_sync, CITED_QUESTION, config)
    [(_, record, _)] = recorder.events
    return output, record


@both_ways
@FORMS
@pytest.mark.parametrize("end", ENDS)
async def test_a_chain_is_judged_by_what_its_model_cites(end, make_message, is_sync):
    prompts = []
    model = FunctionChatModel(reply=replies(make_message))
    chain = Atlas() | (lambda documents: documents[0].page_content) | model | ENDS[end]
    _, record = await run_checked(chain, is_sync, citation_judge(prompts))
    first, second = record["attempts"]
    assert first["outcome"] == "fail"
    assert "Bananas are blue" in first["feedback"]
    assert second["outcome"] == "pass"
    assert second["text"] == f"{FIRST} {SECOND}"
    assert record["citations"] == ["atlas"]
    # The second draft repeats what it cites: only whether it answers is asked.
    assert len(prompts) == 2
    assert "1: " in prompts[0]
    assert "Write one line and nothing else" in prompts[1]


@both_ways
async def test_the_search_results_of_a_tool_in_a_chain_are_evidence(is_sync):
    search = StructuredTool.from_function(
        search_results, name="search", description="Looks things up."
    )

    def call_tool(question):
        call = {"name": "search", "args": {"query": question}, "id": "1"}
        search.invoke({**call, "type": "tool_call"})
        return anthropic()

    output, record = await run_checked(call_tool, is_sync, citation_judge([]))
    assert record["outcome"] == "supported"
    [cited] = output.response_metadata["denoise"]["cited"]
    assert cited["header"] == "Atlas"


@pytest.mark.parametrize(
    "block",
    [
        {"text": FIRST, "annotations": [{"title": "a", "url": "u"}]},
        {"text": FIRST, "citations": ["https://example.org"]},
        {"annotations": [{"type": "citation", "cited_text": "q"}]},
        {"text": FIRST, "annotations": [{"type": "citation", "cited_text": 3}]},
    ],
)
@pytest.mark.parametrize("provider", ["", "openai", "anthropic"])
def test_annotations_of_no_known_form_lose_no_answer(block, provider):
    content = [{"type": "text", **block}]
    message = AIMessage(content, response_metadata={"model_provider": provider})
    assert message_citations(message) == ()
