"""Verification around chains and agents people already have: same form in and out, answers that hold."""

import asyncio
import json

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import END, START, MessagesState, StateGraph
from recorded_runs import RunRecorder

from denoise_core import Budget
from denoise_core.augmenter import AnswerVerdict, LoopLimits
from denoise_core.augmenter.utility import without_effects
from langchain_denoise import Verifier, verified

PARIS = "Paris is the capital of France."
LYON = "Lyon has been the capital since 1789."
FOUND = [
    Document(page_content=PARIS, id="atlas"),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def right_when_told(messages):
    """Wrong until the feedback is somewhere in what the model reads."""
    return (
        PARIS
        if "did not hold" in str(messages) or "not found there" in str(messages)
        else LYON
    )


@pytest.fixture
def rag(kit):
    """The usual chain: retrieve by the question, put documents and question into a prompt, answer."""

    def build(reply=right_when_told, feedback_slot=False):
        slot = "\n{feedback}" if feedback_slot else ""
        prompt = ChatPromptTemplate.from_template(
            "{context}\n\nQuestion: {question}" + slot
        )
        retriever = kit.ListRetriever(found=FOUND)
        model = kit.chat(reply)
        chain = RunnablePassthrough.assign(
            context=lambda x: retriever.invoke(x["question"])
        ) | (RunnablePassthrough.assign(answer=prompt | model | StrOutputParser()))
        return chain, model

    return build


def both(runnable, given):
    out = runnable.invoke(given)
    assert asyncio.run(runnable.ainvoke(given)) == out
    return out


def test_a_rag_chain_keeps_its_form_and_gets_a_checked_answer(rag):
    chain, model = rag()
    out = both(
        verified(chain), {"question": "What is the capital of France?", "lang": "en"}
    )
    assert (out["answer"], out["context"], out["lang"]) == (PARIS, FOUND, "en")
    record = out["denoise"]
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["outcome"], [a["text"] for a in record["attempts"]]) == (
        "supported",
        [LYON, PARIS],
    )
    assert record["evidence"] == ["atlas", "fruit"]
    assert len(model.calls) == 4


def test_judge_and_limits_are_given_without_a_verifier(rag):
    chain, _ = rag()
    refusing = verified(
        chain,
        judge=lambda question, evidence, claim: 0.0,
        limits=LoopLimits(attempts=1),
    )
    record = both(refusing, {"question": "What is the capital of France?"})["denoise"]
    assert (record["outcome"], len(record["attempts"])) == ("unsupported", 1)


def test_feedback_under_a_key_stays_out_of_the_search(rag, kit):
    asked = []

    class Watched(kit.ListRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            asked.append(query)
            return super()._get_relevant_documents(query, run_manager=run_manager)

    retriever = Watched(found=FOUND)
    prompt = ChatPromptTemplate.from_template("{context} {question} {feedback}")
    chain = RunnablePassthrough.assign(
        context=lambda x: retriever.invoke(x["question"])
    ) | (
        RunnablePassthrough.assign(
            answer=prompt | kit.chat(right_when_told) | StrOutputParser()
        )
    )
    out = verified(chain, feedback="feedback").invoke(
        {"question": "capital?", "feedback": ""}
    )
    assert out["answer"] == PARIS
    assert asked == ["capital?", "capital?"]


def test_a_chain_from_text_to_text(kit):
    chain = (
        ChatPromptTemplate.from_template("{question}")
        | kit.chat(right_when_told)
        | StrOutputParser()
    )
    checked = verified(
        RunnablePassthrough() | chain, evidence=lambda given, brought: [PARIS]
    )
    seen = RunRecorder()
    assert checked.invoke("capital?", {"callbacks": [seen]}) == PARIS
    assert [(name, data["outcome"]) for name, data, _ in seen.events] == [
        ("denoise", "supported")
    ]


def test_a_chain_that_ends_in_a_message(kit):
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    out = verified(prompt | kit.chat(right_when_told)).invoke(
        {"context": PARIS, "question": "capital?"}
    )
    assert out.text == PARIS
    assert out.response_metadata["denoise"]["outcome"] == "supported"
    assert out.usage_metadata is not None


def agent(kit, reply=right_when_told, artifact=True):
    """A graph of messages that looks something up, then answers."""

    def look_up(state):
        content = "\n".join(d.page_content for d in FOUND)
        found = ToolMessage(
            content,
            tool_call_id="1",
            name="search",
            artifact=FOUND if artifact else None,
        )
        call = AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}])
        return {"messages": [call, found]}

    model = kit.chat(reply)
    graph = StateGraph(MessagesState)
    graph.add_node("look_up", look_up)
    graph.add_node(
        "answer", lambda state: {"messages": [model.invoke(state["messages"])]}
    )
    graph.add_edge(START, "look_up")
    graph.add_edge("look_up", "answer")
    graph.add_edge("answer", END)
    return graph.compile()


@pytest.mark.parametrize("artifact", [True, False])
def test_an_agent_is_judged_by_what_its_tools_found(kit, artifact):
    given = {"messages": [HumanMessage("capital?")]}
    with pytest.raises(ValueError, match="VerificationMiddleware"):
        verified(agent(kit, artifact=artifact))
    out = verified(
        agent(kit, artifact=artifact), Verifier(limits=LoopLimits(rerun=True))
    ).invoke(given)
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "ai"]
    assert out["messages"][-1].text == PARIS
    assert out["denoise"]["outcome"] == "supported"
    assert out["denoise"]["evidence"] == (["atlas", "fruit"] if artifact else ["1"])
    assert len(given["messages"]) == 1


@pytest.mark.parametrize("sync", [True, False])
async def test_spans_nest_and_drafts_do_not_stream(kit, rag, sync):
    chain, _ = rag()
    seen = RunRecorder()
    checked = verified(chain)
    given = {"question": "What is the capital of France?"}
    if sync:
        await asyncio.to_thread(checked.invoke, given, {"callbacks": [seen]})
    else:
        await checked.ainvoke(given, {"callbacks": [seen]})
    assert all(
        path.startswith("VerifiedRunnable/RunnableSequence/")
        for path in seen.paths("llm")
    )
    assert [("nostream" in run.tags) for run in seen.of_kind("llm")] == [True, True]

    graph = StateGraph(dict)
    graph.add_node("ask", checked)
    graph.add_edge(START, "ask")
    tokens = [m async for m in graph.compile().astream(given, stream_mode="messages")]
    assert tokens == []


class Scores:
    """A utility that is a table of drafts and scores; nothing passes."""

    def __init__(self, scores):
        self.scores = scores

    def assess(self, memory, candidate):
        return without_effects(AnswerVerdict(False, self.scores[candidate]))


def test_the_best_draft_is_sent_not_the_last(rag):
    scores = {"first": 0.2, "second": 0.6, "third": 0.4}
    drafts = iter(scores)
    verifier = Verifier(judge=Scores(scores), limits=LoopLimits(patience=3))
    out = verified(rag(lambda m: next(drafts))[0], verifier).invoke({"question": "q"})
    assert out["answer"] == "second"
    assert (out["denoise"]["outcome"], out["denoise"]["stopped_because"]) == (
        "unsupported",
        "attempts",
    )
    assert [a["score"] for a in out["denoise"]["attempts"]] == [0.2, 0.6, 0.4]


def test_what_does_not_hold_need_not_be_sent(rag):
    out = verified(
        rag(lambda m: LYON)[0], Verifier(limits=LoopLimits(unsupported="abstain"))
    ).invoke({"question": "q"})
    assert LYON not in out["answer"]
    assert out["denoise"]["attempts"][0]["text"] == LYON
    assert out["context"] == FOUND


def test_a_budget_bounds_the_drafts(rag):
    chain, model = rag(lambda m: LYON)
    out = verified(chain, Verifier(budget=Budget(calls=1))).invoke({"question": "q"})
    assert (out["answer"], out["denoise"]["stopped_because"], len(model.calls)) == (
        LYON,
        "budget",
        1,
    )


def test_a_chain_that_fails_at_first_fails_as_before(kit, rag):
    with pytest.raises(ConnectionError):
        verified(rag(kit.fail_chat)[0]).invoke({"question": "q"})


def test_a_chain_that_fails_later_keeps_what_it_had(kit, rag):
    replies = iter([LYON])

    def reply(messages):
        for said in replies:
            return said
        raise ConnectionError("gone")

    out = verified(rag(reply)[0]).invoke({"question": "q"})
    assert (out["answer"], out["denoise"]["stopped_because"]) == (LYON, "llm_error")
    assert (
        out["denoise"]["failures"]
        == [{"what": "draft", "error": "ConnectionError: gone"}] * 2
    )


def test_places_by_function_and_by_key(kit):
    def chain(given):
        return {"text": right_when_told(given["ask"]), "meta": {"docs": FOUND}}

    checked = verified(
        chain,
        question=lambda given: given["ask"],
        answer="text",
        evidence=lambda given, brought: brought["meta"]["docs"],
        feedback=lambda given, draft, feedback: {
            **given,
            "ask": f"{given['ask']} {draft} {feedback}",
        },
    )
    assert both(checked, {"ask": "capital?"})["text"] == PARIS


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({}, {"text": "q"}, "no question under any of"),
        ({}, 3, "no question in a int"),
        ({"question": "ask"}, {"question": "q"}, r"keys: \['question'\]"),
        ({"answer": "text"}, {"question": "q"}, "answer='text': there is no such key"),
        (
            {"evidence": "docs"},
            {"question": "q"},
            "evidence='docs': there is no such key",
        ),
        (
            {"evidence": lambda given, brought: 3},
            {"question": "q"},
            "evidence: expected documents or strings",
        ),
        (
            {"question": lambda given: None},
            {"question": "q"},
            "expected a str or a message, got NoneType",
        ),
    ],
)
def test_what_cannot_be_found_is_said(rag, settings, given, message):
    chain = RunnableLambda(
        lambda x: {"question": "q", "context": FOUND, "answer": LYON}
    )
    with pytest.raises(ValueError, match=message):
        verified(chain, **settings).invoke(given)


def test_an_answer_that_is_only_found_cannot_be_replaced(rag):
    with pytest.raises(ValueError, match="needs answer='key'"):
        verified(
            rag()[0],
            Verifier(limits=LoopLimits(unsupported="abstain")),
            answer=lambda out: out["answer"],
        )


def test_no_evidence_is_said_and_not_tried_again(kit):
    out = verified(RunnableLambda(lambda x: {"answer": LYON, "context": []})).invoke(
        {"question": "q"}
    )
    assert (out["answer"], out["denoise"]["stopped_because"]) == (LYON, "no_evidence")
    assert len(out["denoise"]["attempts"]) == 1


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("shape", ["message", "key", "state"])
async def test_the_verdict_as_annotations_of_the_message(sync, shape):
    title = {"title": "Atlas", "source": "https://example.org/atlas"}
    source = Document(page_content=f"An atlas. {PARIS}", id="atlas", metadata=title)
    said = AIMessage(
        [
            {"type": "reasoning", "reasoning": "..."},
            {"type": "text", "text": f"{PARIS} {LYON}"},
        ]
    )
    outputs = {
        "message": said,
        "key": {"answer": said},
        "state": {"messages": [HumanMessage("q"), said]},
    }
    verifier = Verifier(annotate=True, limits=LoopLimits(attempts=1))
    chain = verified(
        lambda given: outputs[shape], verifier, evidence=lambda given, brought: [source]
    )
    out = (
        await asyncio.to_thread(chain.invoke, "capital?")
        if sync
        else await chain.ainvoke("capital?")
    )
    places = {
        "message": lambda: out,
        "key": lambda: out["answer"],
        "state": lambda: out["messages"][-1],
    }
    message = places[shape]()
    reasoning, block = message.content_blocks
    assert (reasoning["type"], block["text"]) == ("reasoning", f"{PARIS} {LYON}")
    citation, note = block["annotations"]
    assert block["text"][citation["start_index"] : citation["end_index"]] == PARIS
    assert (citation["type"], citation["url"], citation["title"]) == (
        "citation",
        title["source"],
        "Atlas",
    )
    start, end = citation["extras"]["span"]
    assert source.page_content[start:end] == citation["cited_text"]
    ours = note["value"]["denoise"]
    assert block["text"][ours["start_index"] : ours["end_index"]] == LYON
    assert ours["supported"] is False
    assert said.content[1] == {"type": "text", "text": f"{PARIS} {LYON}"}
