"""`verified(chain)` returns and streams what the chain wrote, whatever a judge says; the chain's model judges."""

import copy
from operator import itemgetter

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
    assert change_model(with_tools, lambda model: model) is with_tools
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


def test_feedback_is_for_the_model_that_writes_the_answer():
    """The title was asked for with the rejected answer, and the answer without feedback."""
    model = FunctionChatModel(reply=says_year)
    other = FunctionChatModel(reply=says_year)
    question = RunnableLambda(itemgetter("question"))
    right = question | model
    beside = question | other
    reply = itemgetter("reply")
    assign = RunnablePassthrough.assign
    # Where a later step, or a function of the user's, picks a value, the last model is right.
    later = assign(text=beside, reply=right)
    verifier = Verifier(judge=lambda *_: False)
    for chain, answer in (
        (beside | str | model, None),
        (later, reply),
        (later | reply, None),
        (assign(answer=right) | assign(text=beside), None),
        (assign(reply=right, title=beside), "reply"),
    ):
        checked = verified(chain, verifier, answer=answer, evidence=evidence)
        checked.invoke({"question": QUESTION})
        assert len(model.calls[-1]) == 3
    assert {len(messages) for messages in other.calls} == {1}


def test_a_model_with_fallbacks_judges():
    """The chain was taken for one without a model: nothing was judged."""
    second = FunctionChatModel(reply=writer_and_judge(PASSAGE))
    first = FunctionChatModel(reply=int)  # fails
    model = first.bind(tools=[]).with_fallbacks([second.bind(stop=["x"])])
    returned = verified(model, evidence=evidence).invoke(QUESTION)
    assert returned.response_metadata["denoise"]["outcome"] == "supported"
    assert find_model(model) == first.with_fallbacks([second])


def test_a_string_is_a_string_and_carries_its_record():
    def returned(text):
        chain = verified(RunnableLambda(lambda question: text), evidence=evidence)
        return chain.invoke(QUESTION)

    text = "It was completed in 1889."
    right = returned(text)
    wrong = returned("It was completed in 1925.")
    assert (type(right).__mro__[1], right) == (str, text)
    assert right.denoise["outcome"] == "supported"
    assert wrong.denoise["outcome"] == "unsupported"
    assert right.denoise["attempts"]
    for copied in (copy.copy(right), copy.deepcopy(right)):
        assert (copied, copied.denoise) == (right, right.denoise)
