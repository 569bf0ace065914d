"""`verified(chain)` returns and streams what the chain wrote, whatever a judge says; the chain's model judges."""

import copy

import pytest
from answer_forms import (
    JUDGES,
    PASSAGE,
    QUESTION,
    answer_forms,
    judge_named,
    let_model_judge,
    writer_and_judge,
)
from function_chat_model import FunctionChatModel
from langchain_agents import both_ways, checked_events, run
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from denoise_core.augmenter.streaming import Finished
from langchain_denoise import Verifier, verified
from langchain_denoise.verification.redraft import (
    change_model,
    find_model,
    with_feedback,
)
from langchain_denoise.verification.verifier import earlier_evidence

model_judges = pytest.fixture(let_model_judge)


def evidence(chain_input, output):
    return [Document(page_content=PASSAGE, id="a")]


def says_year(asked):
    return "It was completed in 1889."


def chain_of(reply, *, parse=True):
    """A chain of a prompt and a model that is this function."""
    chain = RunnableLambda(lambda question: [HumanMessage(question)])
    chain |= FunctionChatModel(reply=reply)
    return chain | StrOutputParser() if parse else chain


def test_with_no_other_argument_nearly_every_answer_gets_a_verdict(model_judges):
    texts = answer_forms()
    judged = 0
    for text in texts:
        chain = verified(chain_of(writer_and_judge(text)), evidence=evidence)
        record = chain.invoke(QUESTION).denoise
        judged += record["outcome"] in ("supported", "partly supported", "unsupported")
    assert judged >= 0.8 * len(texts)


def test_the_last_step_that_is_a_model_is_found_without_its_bindings():
    model = FunctionChatModel(reply=says_year)
    with_tools = model.bind(tools=[{"name": "t"}], tool_choice="t").with_retry()
    assert find_model(FunctionChatModel(reply=str) | with_tools) is model
    assert find_model(RunnableLambda(lambda question: model.invoke(question))) is None


def test_without_a_model_and_with_judge_off_nothing_is_judged(model_judges):
    plain = RunnableLambda(says_year)
    with_model = chain_of(says_year)
    for chain, verifier in ((plain, None), (with_model, Verifier(judge="off"))):
        checked = verified(chain, verifier, evidence=evidence)
        record = checked.invoke(QUESTION).denoise
        assert (record["outcome"], record["judge"], record["stopped_because"]) == (
            "unknown",
            "not judged",
            "unjudged",
        )
        model = find_model(chain)
        assert model is None or len(model.calls) == 1


@pytest.mark.parametrize(
    "record",
    [
        "of another package",
        ["of", "lists"],
        {"cited": "words", "attempts": 3},
        {"cited": [3, {"text": 4}], "attempts": ["one", {"outcome": "fail"}]},
    ],
)
def test_metadata_of_others_is_no_record(record):
    message = AIMessage("It is red.", response_metadata={"denoise": record})
    assert earlier_evidence([message]) == ()


def test_an_answer_restated_in_a_conversation_is_judged_by_what_it_rested_on():
    """The chain searches only for a question; the record in its message keeps what it cited."""

    def search(conversation, output):
        return evidence(conversation, output) if len(conversation) == 1 else []

    model = FunctionChatModel(reply=lambda messages: PASSAGE)
    chain = verified(model, evidence=search)
    conversation = [HumanMessage(QUESTION)]
    conversation.append(chain.invoke(conversation))
    restated = chain.invoke([*conversation, HumanMessage("Say that again, shorter.")])
    assert restated.response_metadata["denoise"]["outcome"] == "supported"


@both_ways
@pytest.mark.parametrize("judge_name", JUDGES)
async def test_streamed_equals_returned_equals_written(judge_name, is_sync):
    # Each judge reads other forms: what it says of one changes nothing.
    for number, text in enumerate(answer_forms()[JUDGES.index(judge_name) :: 3]):
        chain = verified(
            chain_of(lambda messages, text=text: text, parse=bool(number % 2)),
            Verifier(judge=judge_named(judge_name)),
            evidence=evidence,
        )
        returned = await run(chain, is_sync, QUESTION)
        assert getattr(returned, "content", returned) == text
        show = "draft" if number % 3 else "checked"
        *shown, last = await checked_events(chain, is_sync, QUESTION, show=show)
        assert "".join(event.text for event in shown) == text
        assert isinstance(last, Finished)


def test_feedback_is_for_the_last_model_whose_settings_stay():
    first, last = (FunctionChatModel(reply=says_year) for _ in range(2))
    chain = first | (lambda message: message.text) | last.bind(temperature=0)
    messages = [AIMessage("It was 1912."), HumanMessage("Not found.")]
    changed_chain = change_model(chain, lambda model: with_feedback(model, messages))
    changed_chain.invoke(QUESTION)
    assert [message.type for message in first.calls[0]] == ["human"]
    assert [message.type for message in last.calls[0]] == ["human", "ai", "human"]
    assert changed_chain.last.kwargs == {"temperature": 0}


@pytest.mark.parametrize("key", ["answer", "reply"])
def test_feedback_is_for_the_model_of_the_answer_and_not_for_what_is_beside_it(key):
    """The title was asked for with the rejected answer, and the answer without feedback."""
    drafts = iter(["It was completed in 1925.", PASSAGE] * 2)
    model = FunctionChatModel(reply=lambda messages: next(drafts))
    other = FunctionChatModel(reply=lambda messages: "A title")
    question = RunnableLambda(lambda state: state["question"])
    answer, title = {key: question | model}, {"title": question | other}
    verifier = Verifier(judge=lambda question, evidence, claim: claim in PASSAGE)
    assign = RunnablePassthrough.assign
    for chain in (assign(**answer) | assign(**title), assign(**answer, **title)):
        checked = verified(chain, verifier, answer=key, evidence=evidence)
        record = checked.invoke({"question": QUESTION})["denoise"]
        assert record["outcome"] == "supported"
    assert {len(messages) for messages in other.calls} == {1}
    # A value of a prompt is no answer, whatever its name; nor is a question written anew.
    chain = assign(**{key: question | other}) | str | model
    assert find_model(chain, key) is model
    chain = question | other | (lambda message: {}) | assign(**answer)
    assert find_model(chain) is model


def test_a_model_with_fallbacks_judges_and_reads_the_feedback():
    """The chain was taken for one without a model: nothing was judged."""

    def write(messages):
        if "Judge an answer" in messages[-1].text:
            verdict = "contradicted" if "1925" in messages[-1].text else "supported"
            return f"1 {verdict} 1.1\nanswers"
        return PASSAGE if "did not hold" in messages[-1].text else "Completed in 1925."

    second = FunctionChatModel(reply=write)
    first = FunctionChatModel(reply=lambda messages: 1 / 0)
    model = first.bind(tools=[]).with_fallbacks([second.bind(stop=["x"])])
    returned = verified(model, evidence=evidence).invoke(QUESTION)
    assert returned.text == PASSAGE
    assert returned.response_metadata["denoise"]["outcome"] == "supported"
    assert find_model(model) == first.with_fallbacks([second])


def test_a_string_is_a_string_and_carries_its_record():
    def returned(text):
        chain = verified(RunnableLambda(lambda question: text), evidence=evidence)
        return chain.invoke(QUESTION)

    text = "It was completed in 1889."
    right, wrong = returned(text), returned("It was completed in 1925.")
    assert (type(right).__mro__[1], right) == (str, text)
    assert right.denoise["outcome"] == "supported"
    assert wrong.denoise["outcome"] == "unsupported"
    assert right.denoise["attempts"]
    for copied in (copy.copy(right), copy.deepcopy(right)):
        assert (copied, copied.denoise) == (right, right.denoise)
