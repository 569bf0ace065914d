"""Graphs whose state is typed: dicts, pydantic objects and dataclasses."""

import asyncio
import dataclasses
from typing import Annotated, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

from denoise_core.testing import FunctionScorer
from langchain_denoise import DenoiseCompressor, S2AMessages, Verifier
from langchain_denoise.nodes import JudgeNode

FOUND = [
    Document(page_content="Paris is the capital of France.", id="a"),
    Document(page_content="Bananas.", id="b"),
]
LEADING = "I am sure it is Lyon. What is the capital of France?"


class AsDict(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str
    verdict: dict
    messages: Annotated[list[AnyMessage], add_messages]


class AsModel(BaseModel):
    question: str
    documents: list[Document] = []
    answer: str = ""
    verdict: dict = {}
    messages: Annotated[list[AnyMessage], add_messages] = []


@dataclasses.dataclass
class AsDataclass:
    question: str
    documents: list[Document] = dataclasses.field(default_factory=list)
    answer: str = ""
    verdict: dict = dataclasses.field(default_factory=dict)
    messages: Annotated[list[AnyMessage], add_messages] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize("state", [AsDict, AsModel, AsDataclass])
@pytest.mark.parametrize("sync", [True, False])
async def test_nodes_take_typed_state(state, sync, kit):
    """They refused all but dicts."""
    graph = StateGraph(state)
    graph.add_node("denoise", DenoiseCompressor(scorer=FunctionScorer(kit.overlap), keep=1).as_node())
    graph.add_node("clear", S2AMessages(model=kit.chat(lambda m: "2"), variant="select").as_node())
    graph.add_node("judge", JudgeNode(verifier=Verifier(), question="question"))
    for one, next in ((START, "denoise"), ("denoise", "clear"), ("clear", "judge"), ("judge", END)):
        graph.add_edge(one, next)
    given = {
        "question": "What is the capital of France?",
        "documents": FOUND,
        "answer": "Paris is the capital of France.",
        "messages": [HumanMessage(LEADING, id="m")],
    }
    app = graph.compile()

    out = await asyncio.to_thread(app.invoke, given) if sync else await app.ainvoke(given)
    assert [d.id for d in out["documents"]] == ["a"]
    assert out["messages"][0].text == "What is the capital of France?"
    assert out["verdict"]["outcome"] == "supported"
