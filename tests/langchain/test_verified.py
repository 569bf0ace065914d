"""Verification around chains and agents people already have: same form in and out, answers that hold."""

import asyncio
import itertools
import json

import pytest
from langchain_agents import both_ways, run
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import START, MessagesState, StateGraph
from recorded_runs import RunRecorder

from denoise_core import InputError
from denoise_core.augmenter import AnswerVerdict, LoopLimits
from denoise_core.augmenter.utility import without_effects
from denoise_core.runtime import fallbacks
from langchain_denoise import Verifier, verified

PARIS = "Paris is the capital of France."
LYON = "Lyon has been the capital since 1789."
SOURCE_DOCUMENTS = [
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
def rag_chain(test_kit):
    """The usual chain: retrieve by the question, put documents and question into a prompt, answer."""

    def build(reply=right_when_told):
        prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
        retriever = test_kit.ListRetriever(found=SOURCE_DOCUMENTS)
        model = test_kit.chat(reply)
        chain = RunnablePassthrough.assign(
            context=lambda item: retriever.invoke(item["question"])
        ) | (RunnablePassthrough.assign(answer=prompt | model | StrOutputParser()))
        return chain, model

    return build


def both(runnable, input_value):
    run_output = runnable.invoke(input_value)
    assert asyncio.run(runnable.ainvoke(input_value)) == run_output
    return run_output


def test_a_rag_chain_keeps_its_form_and_gets_a_checked_answer(rag_chain):
    chain, model = rag_chain()
    run_output = both(
        verified(chain), {"question": "What is the capital of France?", "lang": "en"}
    )
    assert (run_output["answer"], run_output["context"], run_output["lang"]) == (
        PARIS,
        SOURCE_DOCUMENTS,
        "en",
    )
    record = run_output["denoise"]
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["outcome"], [attempt["text"] for attempt in record["attempts"]]) == (
        "supported",
        [LYON, PARIS],
    )
    assert record["evidence"] == ["atlas", "fruit"]
    assert len(model.calls) == 4


def test_judge_and_limits_are_given_without_a_verifier(rag_chain):
    chain, _ = rag_chain()
    refusing = verified(
        chain,
        judge=lambda question, evidence, claim: 0.0,
        limits=LoopLimits(attempts=1),
    )
    record = both(refusing, {"question": "What is the capital of France?"})["denoise"]
    assert (record["outcome"], len(record["attempts"])) == ("unsupported", 1)


def test_a_chain_that_ends_in_a_message(test_kit):
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    run_output = verified(prompt | test_kit.chat(right_when_told)).invoke(
        {"context": PARIS, "question": "capital?"}
    )
    assert run_output.text == PARIS
    assert run_output.response_metadata["denoise"]["outcome"] == "supported"
    assert run_output.usage_metadata is not None


class Scores:
    """A utility that is a table of drafts and scores; nothing passes."""

    def __init__(self, scores):
        self.scores = scores

    def assess(self, memory, candidate):
        return without_effects(AnswerVerdict(False, self.scores[candidate]))


def test_the_best_draft_is_sent_not_the_last(rag_chain):
    scores = {"first": 0.2, "second": 0.6, "third": 0.4}
    drafts = iter(scores)
    verifier = Verifier(judge=Scores(scores), limits=LoopLimits(patience=3))
    run_output = verified(rag_chain(lambda message: next(drafts))[0], verifier).invoke(
        {"question": "q"}
    )
    assert run_output["answer"] == "second"
    assert (
        run_output["denoise"]["outcome"],
        run_output["denoise"]["stopped_because"],
    ) == (
        "unsupported",
        "attempts",
    )
    assert [attempt["score"] for attempt in run_output["denoise"]["attempts"]] == [
        0.2,
        0.6,
        0.4,
    ]


def test_what_does_not_hold_need_not_be_sent(rag_chain):
    run_output = verified(
        rag_chain(lambda message: LYON)[0],
        Verifier(limits=LoopLimits(unsupported="abstain")),
    ).invoke({"question": "q"})
    assert LYON not in run_output["answer"]
    assert run_output["denoise"]["attempts"][0]["text"] == LYON
    assert run_output["context"] == SOURCE_DOCUMENTS


def test_a_chain_that_fails_at_first_fails_as_before(test_kit, rag_chain):
    with pytest.raises(ConnectionError):
        verified(rag_chain(test_kit.fail_chat)[0]).invoke({"question": "q"})


def test_a_chain_that_fails_later_keeps_what_it_had(test_kit, rag_chain):
    replies = iter([LYON])

    def reply(messages):
        for message_text in replies:
            return message_text
        raise ConnectionError("down")

    run_output = verified(rag_chain(reply)[0]).invoke({"question": "q"})
    assert (run_output["answer"], run_output["denoise"]["stopped_because"]) == (
        LYON,
        "llm_error",
    )
    assert (
        run_output["denoise"]["failures"]
        == [{"what": "draft", "error": "ConnectionError: down"}] * 2
    )


def test_places_by_function_and_by_key(caplog):
    """A chain without a model in it is run again without feedback, which is logged."""
    drafts = itertools.cycle((LYON, PARIS))

    def chain(input_value):
        return {"text": next(drafts), "meta": {"docs": SOURCE_DOCUMENTS}}

    fallbacks._counts.clear()
    checked_chain = verified(
        chain,
        question=lambda input_value: input_value["ask"],
        answer="text",
        evidence=lambda input_value, chain_output: chain_output["meta"]["docs"],
    )
    assert both(checked_chain, {"ask": "capital?"})["text"] == PARIS
    assert "it is run again without feedback" in caplog.text


@pytest.mark.parametrize(
    ("settings", "input_value", "message"),
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
            "evidence: expected documents, got a int",
        ),
        (
            {"question": lambda given: None},
            {"question": "q"},
            "expected a str or a message, got NoneType",
        ),
    ],
)
def test_what_cannot_be_found_is_said(rag_chain, settings, input_value, message):
    chain = RunnableLambda(
        lambda item: {"question": "q", "context": SOURCE_DOCUMENTS, "answer": LYON}
    )
    with pytest.raises(ValueError, match=message):
        verified(chain, **settings).invoke(input_value)


def test_an_answer_that_is_only_found_cannot_be_replaced(rag_chain):
    with pytest.raises(ValueError, match="needs answer='key'"):
        verified(
            rag_chain()[0],
            Verifier(limits=LoopLimits(unsupported="abstain")),
            answer=lambda run_output: run_output["answer"],
        )


def test_no_evidence_is_said_and_not_tried_again(test_kit):
    run_output = verified(
        RunnableLambda(lambda item: {"answer": LYON, "context": []})
    ).invoke({"question": "q"})
    assert (run_output["answer"], run_output["denoise"]["stopped_because"]) == (
        LYON,
        "no_evidence",
    )
    assert len(run_output["denoise"]["attempts"]) == 1


def test_the_record_has_the_verdict_and_the_quotes_of_each_claim():
    answer = f"{PARIS} {LYON}"
    chain = verified(
        lambda question: AIMessage(answer),
        limits=LoopLimits(attempts=1),
        evidence=lambda chain_input, output: SOURCE_DOCUMENTS,
    )
    supported, other = chain.invoke("q").response_metadata["denoise"]["claims"]
    [quote] = supported["quotes"]
    assert (quote["id"], quote["text"]) == ("atlas", PARIS)
    assert answer[other["start"] : other["end"]] == LYON
    assert (supported["supported"], other["supported"]) == (True, False)


@both_ways
async def test_drafts_are_children_of_the_run_and_do_not_stream(rag_chain, is_sync):
    chain, _ = rag_chain()
    recorder = RunRecorder()
    config = {"callbacks": [recorder]}
    await run(verified(chain), is_sync, {"question": "capital?"}, config)
    for path in recorder.paths("llm"):
        assert path.startswith("VerifiedRunnable/RunnableSequence/")
    assert [("nostream" in run.tags) for run in recorder.of_kind("llm")] == [True, True]


def answering_graph(reply):
    """A graph of messages that looks something up, then answers."""

    def look_up(state):
        call = {"name": "search", "args": {}, "id": "1"}
        found = ToolMessage(PARIS, tool_call_id="1", artifact=SOURCE_DOCUMENTS)
        return {"messages": [AIMessage("", tool_calls=[call]), found]}

    def answer(state):
        return {"messages": [AIMessage(reply())]}

    graph = StateGraph(MessagesState)
    graph.add_sequence([look_up, answer])
    graph.add_edge(START, "look_up")
    return graph.compile()


@pytest.mark.parametrize(
    ("is_rerun", "stop_reason", "outcome"),
    [(False, "not_repeatable", "unsupported"), (True, "passed", "supported")],
)
def test_a_graph_is_judged_and_run_again_only_if_that_is_allowed(
    is_rerun, stop_reason, outcome
):
    drafts = iter((LYON, PARIS))
    graph = answering_graph(lambda: next(drafts))
    checked = verified(graph, limits=LoopLimits(rerun=is_rerun))
    chain_input = {"messages": [HumanMessage("capital?")]}
    output = checked.invoke(chain_input)
    types = [message.type for message in output["messages"]]
    assert types == ["human", "ai", "tool", "ai"]
    assert output["messages"][-1].text == (PARIS if is_rerun else LYON)
    record = output["denoise"]
    assert (record["stopped_because"], record["outcome"]) == (stop_reason, outcome)
    assert record["evidence"] == ["atlas", "fruit"]
    assert len(chain_input["messages"]) == 1


def test_a_value_that_the_chain_has_under_our_key_is_not_lost():
    """The record took the place of the chain's own value."""
    output = {"answer": "Paris.", "context": ["Paris."], "denoise": "mine"}
    chain = verified(lambda chain_input: output, judge=lambda *_: True)
    with pytest.raises(InputError, match="has a key 'denoise' already"):
        chain.invoke({"question": "Which?"})
    # A record of an earlier turn is replaced by that of this one.
    first = verified(
        lambda chain_input: {**output, "denoise": {}}, judge=lambda *_: True
    )
    with pytest.raises(InputError, match="give it another name"):
        first.invoke({"question": "Which?"})
    state = {"question": "Which?", "answer": "Paris.", "context": ["Paris."]}
    passing = verified(lambda chain_input: dict(chain_input), judge=lambda *_: True)
    again = passing.invoke(passing.invoke(state))
    assert again["denoise"]["outcome"] == "supported"


def test_what_a_tool_repeats_of_a_search_is_no_evidence():
    """Of a chain that returns its messages, the words of the search were not known."""
    query = "the Quorbin tower is 999 metres tall"
    search = {"name": "search", "args": {"query": query}, "id": "1"}
    messages = [
        HumanMessage("How tall is it?"),
        AIMessage("", tool_calls=[search]),
        ToolMessage(f"Nothing for: {query}. Try other words.", tool_call_id="1"),
        AIMessage("The Quorbin tower is 999 metres tall."),
    ]
    judged_evidence = []

    def judge(question, evidence, claim):
        judged_evidence.append(evidence)
        return 0.9

    chain = verified(lambda question: {"messages": messages}, judge=judge)
    chain.invoke("How tall is it?")
    assert "999" not in str(judged_evidence)
