"""Messages whose provider cites next to the text, and a judge of what they cite."""

import pytest
from langchain_agents import PARIS
from langchain_core.messages import AIMessage

FIRST = PARIS
SECOND = "Bananas are yellow."
CLAUDE = {"model_provider": "anthropic"}
CITED_QUESTION = "What is the capital of France, and how do bananas look?"


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


def replies(make_message):
    """A model whose first draft cites what is not there; it says so when told."""

    def reply(messages):
        if "did not hold" in messages[-1].text:
            return make_message()
        return make_message("Bananas are blue.")

    return reply


def search_results(query):
    """A tool that gives its documents to the provider, which then cites them."""
    content = [{"type": "text", "text": text} for text in (FIRST, SECOND)]
    block = {"type": "search_result", "source": "a.md", "title": "Atlas"}
    return [{**block, "content": content, "citations": {"enabled": True}}]
