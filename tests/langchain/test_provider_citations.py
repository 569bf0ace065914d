"""Citations that a provider puts beside a message's text, in chains and agents."""

import pytest
from function_chat_model import FunctionChatModel
from langchain.agents import create_agent
from langchain_agents import PARIS, both_ways, run, search_then_answer
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import StructuredTool

from denoise_core.support.cited_units import CitationJudge
from denoise_core.testing import FunctionLLM
from langchain_denoise import Verifier, verified
from langchain_denoise.convert.messages import message_citations
from langchain_denoise.middleware import VerificationMiddleware

FIRST = PARIS
SECOND = "Bananas are yellow."
CLAUDE = {"model_provider": "anthropic"}
QUESTION = "What is the capital of France, and how do bananas look?"


def standard(second=SECOND):
    """A message in LangChain's own form, one block, with ranges."""
    text = f"{FIRST} {SECOND}"
    start = len(FIRST) + 1
    annotations = [
        {
            "type": "citation",
            "cited_text": FIRST,
            "start_index": 0,
            "end_index": len(FIRST),
        },
        {
            "type": "citation",
            "cited_text": second,
            "start_index": start,
            "end_index": len(text),
            "url": "https://example.org",
        },
        {"type": "citation", "url": "https://example.org", "title": "no cited text"},
    ]
    block = {"type": "text", "text": text, "annotations": annotations}
    return AIMessage([{"type": "reasoning", "reasoning": "Hm."}, block])


def anthropic(second=SECOND):
    """A message as Anthropic's models send it: a block for each cited stretch."""
    citation = {"type": "char_location", "document_title": "atlas"}
    content = [
        {
            "type": "text",
            "text": FIRST,
            "citations": [{**citation, "cited_text": FIRST}],
        },
        {"type": "text", "text": " "},
        {
            "type": "text",
            "text": SECOND,
            "citations": [{**citation, "cited_text": second}],
        },
    ]
    return AIMessage(content, response_metadata=CLAUDE)


FORMS = pytest.mark.parametrize("make_message", [standard, anthropic])


@FORMS
def test_the_ranges_are_of_the_message_text(make_message):
    message = make_message()
    text = str(message.text)
    citations = message_citations(message)
    cited = [(text[c.start : c.end], c.cited_text) for c in citations]
    assert cited == [(FIRST, FIRST), (SECOND, SECOND)]


@pytest.mark.parametrize(
    "content", ["plain", ["a string", {"type": "text", "text": "b"}], []]
)
def test_a_message_without_annotations_cites_nothing(content):
    assert message_citations(AIMessage(content)) == ()


def test_blocks_that_are_not_the_text_cite_nothing():
    """The translator leaves a string out, so the ranges would be of another text."""
    message = anthropic()
    message.content.insert(0, "Well: ")
    assert message_citations(message) == ()


class Atlas(BaseRetriever):
    """Finds one document."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"{FIRST} {SECOND}", id="atlas")]


def replies(make_message):
    """A model whose first draft cites what is not there; it says so when told."""

    def reply(messages):
        if "did not hold" in messages[-1].text:
            return make_message()
        return make_message("Bananas are blue.")

    return reply


def citation_judge(prompts):
    """Supports each unit that it is asked about, and notes the prompts."""

    def reply(messages):
        prompts.append(messages[-1].content)
        return "1 supported 1.1\n2 supported 1.2\nanswers"

    return CitationJudge(FunctionLLM(reply))


ENDS = {
    "message": RunnablePassthrough(),
    "text": StrOutputParser(),
    "field": RunnableLambda(lambda message: {"answer": message}),
    "parsed field": StrOutputParser() | (lambda text: {"answer": text}),
}


@both_ways
@FORMS
@pytest.mark.parametrize("end", ENDS)
async def test_a_chain_is_judged_by_what_its_model_cites(end, make_message, is_sync):
    prompts = []
    model = FunctionChatModel(reply=replies(make_message))
    chain = Atlas() | (lambda documents: documents[0].page_content) | model | ENDS[end]
    checked = verified(
        chain, verifier=Verifier(judge=citation_judge(prompts)), output_type="answer"
    )
    answer = checked.invoke(QUESTION) if is_sync else await checked.ainvoke(QUESTION)
    assert [a.verdict.outcome for a in answer.memory.attempts] == ["fail", "pass"]
    assert "Bananas are blue" in answer.memory.attempts[0].feedback
    assert answer.text == f"{FIRST} {SECOND}"
    assert [passage.id for passage in answer.citations] == ["atlas"]
    # The second draft repeats what it cites: only whether it answers is asked.
    assert len(prompts) == 2
    assert "1: " in prompts[0]
    assert "Write one line and nothing else" in prompts[1]


@both_ways
@FORMS
async def test_a_message_made_without_a_model_is_read_too(make_message, is_sync):
    chain = RunnableLambda(lambda question: make_message("Bananas are blue."))
    documents = [Document(page_content=f"{FIRST} {SECOND}", id="atlas")]
    checked = verified(
        chain,
        evidence=lambda chain_input, output: documents,
        verifier=Verifier(judge=lambda question, evidence, claim: True),
        output_type="answer",
    )
    answer = checked.invoke(QUESTION) if is_sync else await checked.ainvoke(QUESTION)
    assert [unit.kind for unit in answer.units] == ["", "citation"]


@both_ways
@FORMS
async def test_an_agent_is_judged_by_what_its_model_cites(
    make_agent, make_message, is_sync
):
    prompts = []
    middleware = VerificationMiddleware(Verifier(judge=citation_judge(prompts)))
    reply = search_then_answer(replies(make_message))
    agent, _ = make_agent(middleware, reply=reply)
    state = await run(agent, is_sync)
    message = state["messages"][-1]
    record = message.response_metadata["denoise"]
    assert [a["outcome"] for a in record["attempts"]] == ["fail", "pass"]
    assert message.content == make_message().content
    assert len(prompts) == 2


def search_results(query):
    """A tool that gives its documents to the provider, which then cites them."""
    content = [{"type": "text", "text": text} for text in (FIRST, SECOND)]
    block = {"type": "search_result", "source": "a.md", "title": "Atlas"}
    return [{**block, "content": content, "citations": {"enabled": True}}]


@both_ways
async def test_the_search_results_of_a_tool_are_evidence(is_sync):
    """They are no text blocks, so that nothing was left to compare an answer with."""
    search = StructuredTool.from_function(
        search_results, name="search", description="Looks things up."
    )
    prompts = []
    middleware = VerificationMiddleware(Verifier(judge=citation_judge(prompts)))
    model = FunctionChatModel(reply=search_then_answer(replies(anthropic)))
    agent = create_agent(model, [search], middleware=[middleware])
    state = await run(agent, is_sync)
    record = state["messages"][-1].response_metadata["denoise"]
    assert [a["outcome"] for a in record["attempts"]] == ["fail", "pass"]
    assert len(record["evidence"]) == 1
    assert "Atlas" in prompts[0]


@both_ways
async def test_the_search_results_of_a_tool_in_a_chain_are_evidence(is_sync):
    search = StructuredTool.from_function(
        search_results, name="search", description="Looks things up."
    )

    def call_tool(question):
        call = {"name": "search", "args": {"query": question}, "id": "1"}
        search.invoke({**call, "type": "tool_call"})
        return anthropic()

    checked = verified(
        RunnableLambda(call_tool),
        verifier=Verifier(judge=citation_judge([])),
        output_type="answer",
    )
    answer = checked.invoke(QUESTION) if is_sync else await checked.ainvoke(QUESTION)
    assert answer.outcome == "supported"
    assert [p.metadata["title"] for p in answer.citations] == ["Atlas"]
