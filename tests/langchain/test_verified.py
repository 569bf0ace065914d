"""Verification around chains and agents people already have: same form in and out, answers that hold."""

import itertools
import json

import pytest
from augmenter_doubles import Scores
from chain_parts import ListRetriever, chat, fail
from langchain_agents import LYON, PARIS, both, both_ways, calls, run
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import START, MessagesState, StateGraph
from recorded_runs import RunRecorder

from denoise_core import Budget, DenoiseError, InputError
from denoise_core.augmenter import LoopLimits
from langchain_denoise import Verifier, verified

SOURCE_DOCUMENTS = [
    Document(page_content=PARIS, id="atlas"),
    Document(page_content="Bananas are yellow.", id="fruit"),
]

QUESTION_INPUT = {"question": "q"}


def right_when_told(messages):
    """Wrong until the feedback is somewhere in what the model reads."""
    return (
        PARIS
        if "did not hold" in str(messages) or "not found there" in str(messages)
        else LYON
    )


def rag_chain(reply=right_when_told):
    """The usual chain, and its model: retrieve, put documents and question into a prompt, answer."""
    prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    retriever = ListRetriever(found=SOURCE_DOCUMENTS)
    model = chat(reply)
    found = RunnablePassthrough.assign(
        context=lambda chain_input: retriever.invoke(chain_input["question"])
    )
    answer = prompt | model | StrOutputParser()
    return found | RunnablePassthrough.assign(answer=answer), model


def test_a_rag_chain_keeps_its_form_and_gets_a_checked_answer():
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


def test_the_best_draft_is_sent_not_the_last():
    scores = {"first": 0.2, "second": 0.6, "third": 0.4}
    drafts = iter(scores)
    verifier = Verifier(judge=Scores(**scores), limits=LoopLimits(patience=3))
    run_output = verified(rag_chain(lambda message: next(drafts))[0], verifier).invoke(
        QUESTION_INPUT
    )
    assert run_output["answer"] == "second"
    record = run_output["denoise"]
    assert record["outcome"] == "unsupported"
    assert record["stopped_because"] == "attempts"
    assert [attempt["score"] for attempt in record["attempts"]] == [0.2, 0.6, 0.4]


ABSTAIN = LoopLimits(unsupported="abstain")
SAYS_YES = Verifier(judge=lambda *_: True)


def test_what_does_not_hold_need_not_be_sent():
    chain, _ = rag_chain(lambda message: LYON)
    # A copy was judged by the verifier of the first.
    checked = verified(chain, SAYS_YES).model_copy(
        update={"verifier": Verifier(limits=ABSTAIN)}
    )
    run_output = checked.invoke(QUESTION_INPUT)
    assert LYON not in run_output["answer"]
    assert run_output["denoise"]["attempts"][0]["text"] == LYON
    assert run_output["context"] == SOURCE_DOCUMENTS


def test_a_reply_with_tool_calls_is_not_judged_and_stays_as_it_is():
    call = calls("search")
    chain = verified(lambda question: call, Verifier(judge=lambda *_: False))
    assert chain.invoke("Which?").content == ""
    for show in ("checked", "draft"):
        (end,) = chain.stream_checked("Which?", show=show)
        assert end.answer.best.origin is call
        assert end.answer.text == ""
        assert end.answer.stop_reason == "unjudged"


def test_a_graph_that_waits_for_its_user_is_not_judged():
    """The answer of an earlier turn was judged, and another one took its place."""
    state = {"answer": LYON, "__interrupt__": ["Sure?"]}
    checked = verified(lambda question: state, Verifier(limits=ABSTAIN))
    assert checked.invoke("Which?")["answer"] == LYON


@pytest.mark.parametrize(
    ("budget", "error"), [(None, ConnectionError), (Budget(calls=0), DenoiseError)]
)
def test_a_chain_without_any_draft_raises(budget, error):
    with pytest.raises(error):
        verified(rag_chain(fail)[0], Verifier(budget=budget)).invoke(QUESTION_INPUT)


def test_a_chain_that_fails_later_keeps_what_it_had():
    replies = iter([LYON])

    def reply(messages):
        for message_text in replies:
            return message_text
        raise ConnectionError("down")

    run_output = verified(rag_chain(reply)[0]).invoke(QUESTION_INPUT)
    assert run_output["answer"] == LYON
    record = run_output["denoise"]
    assert record["stopped_because"] == "llm_error"
    failure = {"what": "draft", "error": "ConnectionError: down"}
    assert record["failures"] == [failure, failure]


def test_places_by_function_and_by_key(caplog):
    """A chain without a model in it is run again without feedback, which is logged."""
    drafts = itertools.cycle((LYON, PARIS))

    def chain(input_value):
        return {"text": next(drafts), "meta": {"docs": SOURCE_DOCUMENTS}}

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
        ({"question": "ask"}, QUESTION_INPUT, r"keys: \['question'\]"),
        ({"answer": "text"}, QUESTION_INPUT, "answer='text': there is no such key"),
        (
            {"evidence": "docs"},
            QUESTION_INPUT,
            "evidence='docs': there is no such key",
        ),
        (
            {"evidence": lambda given, brought: 3},
            QUESTION_INPUT,
            "evidence: expected documents, got a int",
        ),
        (
            {"evidence": lambda given, brought: {"user": "Bob"}},
            QUESTION_INPUT,
            "expected a langchain_core Document, got dict",
        ),
        (
            {"question": lambda given: None},
            QUESTION_INPUT,
            "expected a str or a message, got NoneType",
        ),
    ],
)
def test_what_cannot_be_found_is_said(settings, input_value, message):
    chain = RunnableLambda(
        lambda item: {"question": "q", "context": SOURCE_DOCUMENTS, "answer": LYON}
    )
    with pytest.raises(ValueError, match=message):
        verified(chain, **settings).invoke(input_value)


def test_a_dict_under_a_conventional_key_is_one_document_or_skipped(caplog):
    """Its keys were read as texts."""
    verifier = Verifier(judge=lambda question, evidence, claim: claim in evidence)
    chain = verified(lambda state: {**state, "answer": PARIS}, verifier)
    contexts = ({"page_content": PARIS}, {"user": PARIS}, "")
    for context, outcome in zip(contexts, ("supported", "unknown", "unknown")):
        output = chain.invoke({"question": "q", "context": context})
        assert output["denoise"]["outcome"] == outcome
    assert output["denoise"]["evidence"] == []  # an empty text is no document
    assert "cannot be checked" in caplog.text


def test_an_answer_that_is_only_found_cannot_be_replaced():
    with pytest.raises(ValueError, match="needs answer='key'"):
        verified(
            rag_chain()[0],
            Verifier(limits=ABSTAIN),
            answer=lambda run_output: run_output["answer"],
        )


@both_ways
async def test_drafts_are_children_of_the_run_and_do_not_stream(is_sync):
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
        found = ToolMessage(PARIS, tool_call_id="1", artifact=SOURCE_DOCUMENTS)
        return {"messages": [calls("search", "1"), found]}

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
    checked = verified(graph, Verifier(limits=LoopLimits(rerun=is_rerun)))
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
    state = {"question": "Which?", "answer": "Paris.", "context": ["Paris."]}
    for value, message in (
        ("mine", "has a key 'denoise' already"),
        ({}, "give it another name"),
    ):
        chain = verified(
            lambda question, value=value: {**state, "denoise": value}, SAYS_YES
        )
        with pytest.raises(InputError, match=message):
            chain.invoke("Which?")
    # A record of an earlier turn is replaced by that of this one.
    passing = verified(lambda chain_input: dict(chain_input), SAYS_YES)
    again = passing.invoke(passing.invoke(state))
    assert again["denoise"]["outcome"] == "supported"


def test_what_a_tool_repeats_of_a_search_is_no_evidence():
    """Of a chain that returns its messages, the words of the search were not known."""
    query = "the Quorbin tower is 999 metres tall"
    messages = [
        HumanMessage("How tall is it?"),
        calls("search", "1", query=query),
        ToolMessage(f"Nothing for: {query}. Try other words.", tool_call_id="1"),
        AIMessage("The Quorbin tower is 999 metres tall."),
    ]
    judged_evidence = []

    def judge(question, evidence, claim):
        judged_evidence.append(evidence)
        return 0.9

    chain = verified(lambda question: {"messages": messages}, Verifier(judge=judge))
    chain.invoke("How tall is it?")
    assert "999" not in str(judged_evidence)
