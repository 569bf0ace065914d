"""Pieces of a graph: state in, update out, and a whole verify-and-retry graph built of them."""

import asyncio
import json
import operator
from dataclasses import make_dataclass
from typing import Annotated

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from recorded_runs import RunRecorder
from typing_extensions import TypedDict

from denoise_core.augmenter import Outcome
from langchain_denoise import DenoiseCompressor, S2AMessages, Verifier
from langchain_denoise.nodes import JudgeNode

PARIS = "Paris is the capital of France."
LYON = "Lyon has been the capital since 1789."
FOUND = [Document(page_content="Bananas are yellow.", id="fruit"), Document(page_content=PARIS, id="atlas")]


class State(TypedDict):
    question: str
    documents: list[Document]
    answer: str
    verdict: dict
    tries: Annotated[int, operator.add]


async def both(runnable, given, config=None):
    out = await runnable.ainvoke(given, config)
    assert await asyncio.to_thread(runnable.invoke, given, config) == out
    return out


async def test_a_graph_that_denoises_drafts_judges_and_tries_again(kit):
    def draft(state):
        told = state.get("verdict", {}).get("feedback")
        return {"answer": PARIS if told else LYON, "tries": 1}

    def decide(state):
        return END if state["verdict"]["outcome"] == "supported" or state["tries"] >= 3 else "draft"

    graph = StateGraph(State)
    graph.add_node("retrieve", lambda state: {"documents": FOUND})
    graph.add_node("denoise", DenoiseCompressor(denoiser=kit.denoisers["end"]()).as_node())
    graph.add_node("draft", draft)
    graph.add_node("judge", JudgeNode(verifier=Verifier(), evidence="documents"))
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "denoise")
    graph.add_edge("denoise", "draft")
    graph.add_edge("draft", "judge")
    graph.add_conditional_edges("judge", decide)
    out = await both(graph.compile(), {"question": kit.question})
    assert [d.id for d in out["documents"]] == ["atlas"]
    assert (out["answer"], out["tries"], out["verdict"]["outcome"]) == (PARIS, 2, "supported")


async def test_a_verdict_is_plain_and_says_what_is_wrong():
    node = JudgeNode(verifier=Verifier())
    state = {"question": "capital?", "answer": LYON, "context": FOUND}
    verdict = (await both(node, state))["verdict"]
    assert json.loads(json.dumps(verdict)) == verdict
    assert verdict["outcome"] == "unsupported"
    assert verdict["reasons"]
    assert "1789" in verdict["feedback"]
    assert (await both(node, {**state, "answer": PARIS}))["verdict"]["feedback"] == ""


async def test_a_message_state_is_judged_by_its_last_answer():
    state = {"messages": [HumanMessage("capital?"), AIMessage(LYON)]}
    found = await both(
        JudgeNode(verifier=Verifier(), verdict="check", evidence=lambda given, brought: [PARIS]), state
    )
    assert found["check"]["outcome"] == "unsupported"


async def test_cleared_words_replace_the_originals_by_id(kit):
    model = kit.chat(lambda m: "2" if "numbered pieces" in m[-1].text else "Context: NONE")
    graph = StateGraph(MessagesState)
    graph.add_node("clear", S2AMessages(model=model, variant="default").as_node())
    graph.add_edge(START, "clear")
    leading = "I am sure it is Lyon, but what is the capital of France?"
    said = [HumanMessage("Hi!", id="1"), AIMessage("Hello.", id="2"), HumanMessage(leading, id="3")]
    out = await both(graph.compile(), {"messages": said})
    assert [(m.id, m.text) for m in out["messages"]] == [
        ("1", "Hi!"),
        ("2", "Hello."),
        ("3", "what is the capital of France?"),
    ]


@pytest.mark.parametrize("sync", [True, False])
async def test_spans(kit, sync):
    seen = RunRecorder()
    node = DenoiseCompressor(denoiser=kit.s2a()).as_node()
    state, config = {"question": "q", "documents": FOUND}, {"callbacks": [seen]}
    if sync:
        await asyncio.to_thread(node.invoke, state, config)
    else:
        await node.ainvoke(state, config)
    assert seen.paths("llm") == ["RunnableSequence/DenoiseCompressor/FunctionChatModel"] * 2


@pytest.mark.parametrize("state", [{"question": "q"}, {"documents": FOUND}, "q"])
def test_what_is_missing_is_said(kit, state):
    with pytest.raises(ValueError, match=r"documents|question"):
        DenoiseCompressor(denoiser=kit.s2a()).as_node().invoke(state)


def test_wrong_settings(kit):
    with pytest.raises(ValueError, match="Verifier"):
        JudgeNode(verifier="strict")
    with pytest.raises(ValueError, match="or a dataclass, got str"):
        JudgeNode(verifier=Verifier()).invoke("q")


async def test_a_judge_says_what_everything_else_says_and_shows_it():
    seen = RunRecorder()
    got = []
    node = JudgeNode(verifier=Verifier(), answer=lambda state: got.append(state) or state.said)
    state = make_dataclass("State", ["question", "said", "context"])("capital?", LYON, FOUND)
    config = {"callbacks": [seen]}
    verdict = (await asyncio.to_thread(node.invoke, state, config))["verdict"]
    assert verdict["outcome"] == Outcome.UNSUPPORTED
    assert got == [state]
    assert seen.paths("chain") == ["JudgeNode", "JudgeNode/denoise_record"]
    right = {"question": "capital?", "answer": {"answer": PARIS, "sources": ["atlas"]}, "context": FOUND}
    assert (await JudgeNode(verifier=Verifier()).ainvoke(right))["verdict"]["outcome"] == Outcome.SUPPORTED
