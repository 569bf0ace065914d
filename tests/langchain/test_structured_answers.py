"""Structured answers: the fields that claim something are judged; nothing is changed inside them."""

import asyncio
from dataclasses import dataclass, field

import pytest
from chain_parts import chat
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from pydantic import BaseModel
from recorded_runs import RunRecorder

from denoise_core import InputError
from denoise_core.augmenter import AnswerVerdict, LoopLimits
from denoise_core.augmenter.streaming import TextReleased
from denoise_core.augmenter.utility import without_effects
from langchain_denoise import Verifier, verified
from langchain_denoise.convert.claims import extract_output_claims

TOWER = "The Eiffel Tower was finished in 1889."
SOURCE_DOCUMENTS = [
    Document(
        page_content=f"{TOWER} It has three floors.",
        id="d1",
        metadata={"source": "notes/tower.txt"},
    ),
    Document(page_content="Bananas are yellow.", id="d2", metadata={"title": "Fruit"}),
]


class Finding(BaseModel):
    text: str
    weight: float = 0.5


class Cited(BaseModel):
    answer: str
    sources: list[str] = []
    confidence: float = 0.9
    follow_up_questions: list[str] = []
    findings: list[Finding] = []


@dataclass
class Plain:
    answer: str
    sources: list = field(default_factory=list)


class Quote(BaseModel):
    source_id: int
    quote: str


class Quoted(BaseModel):
    result: str
    citations: list[Quote]


@pytest.fixture
def judged():
    """A verifier that passes what says 1889 and nothing that holds a word of no claim, and what it read."""
    recorder = []

    class Judge:
        def assess(self, memory, candidate):
            recorder.append(candidate)
            good = (
                "1889" in candidate
                and "tower.txt" not in candidate
                and "0.9" not in candidate
            )
            return without_effects(AnswerVerdict(good, float(good)))

    return Verifier(judge=Judge(), limits=LoopLimits(attempts=1)), recorder


EVIDENCE = {"evidence": lambda given, brought: SOURCE_DOCUMENTS}
ONE = Cited(answer=TOWER, sources=["tower.txt"], follow_up_questions=["Who built it?"])


@pytest.mark.parametrize(
    "output",
    [
        ONE,
        ONE.model_dump(),
        Plain(TOWER, ["tower.txt"]),
        {"raw": AIMessage("{}"), "parsed": ONE, "parsing_error": None},
        {
            "raw": AIMessage(TOWER),
            "parsed": None,
            "parsing_error": ValueError("no JSON"),
        },
        {"answer": ONE, "context": SOURCE_DOCUMENTS},
        Quoted(result=TOWER, citations=[Quote(source_id=1, quote=TOWER)]),
    ],
    ids=lambda output: type(output).__name__,
)
def test_only_what_claims_is_judged(judged, output):
    verifier, seen = judged
    chain = verified(RunnableLambda(lambda query: output), verifier, **EVIDENCE)
    recorder = RunRecorder()
    run_output = chain.invoke("When was it finished?", {"callbacks": [recorder]})
    assert seen == [TOWER]
    assert [data["outcome"] for _, data, _ in recorder.events] == ["supported"]
    assert (
        run_output == output
        or {k: value for k, value in run_output.items() if k != "denoise"} == output
    )
    assert asyncio.run(chain.ainvoke("When was it finished?")) == run_output


def test_fields_that_the_user_names_are_judged_and_no_others(judged):
    verifier, recorder = judged
    output = ONE.model_copy(
        update={
            "findings": [
                Finding(text="Finished in 1889."),
                Finding(text="Three floors."),
            ]
        }
    )
    chain = verified(
        RunnableLambda(lambda query: output),
        verifier,
        answer=lambda found: {"findings": [item.text for item in found.findings]},
        **EVIDENCE,
    )
    assert chain.invoke("When?") == output
    assert recorder == ['{"findings": ["Finished in 1889.", "Three floors."]}']


def test_an_object_without_an_answer_is_judged_field_by_field_but_for_its_sources():
    class Tower(BaseModel):
        finished: int
        sources: list[str]
        confidence: float

    message_text = extract_output_claims(
        Tower(finished=1889, sources=["tower.txt"], confidence=0.9), None
    )
    assert message_text.fields == {"finished": 1889}


def test_messages_that_an_object_writes_are_fields_and_those_of_a_state_are_a_chat():
    class Letters(BaseModel):
        messages: list[str]
        result: dict[str, int]

    output = Letters(messages=["The tower is open."], result={"visitors": 3})
    assert extract_output_claims(output, None).fields == {"visitors": 3}
    state = {"messages": [AIMessage("In 1889.")], "result": {"visitors": 3}}
    assert extract_output_claims(state, None).text == "In 1889."
    output = output.model_copy(update={"result": None})
    fields = {"messages": ["The tower is open."], "result": None}
    assert extract_output_claims(output, None).fields == fields


@pytest.mark.parametrize(
    "output",
    [
        Cited(answer="In 1789."),
        Plain("In 1789."),
        {"answer": Cited(answer="In 1789.")},
    ],
)
def test_no_other_text_is_put_inside_a_structured_answer(judged, output):
    limits = LoopLimits(attempts=1, unsupported="abstain")
    verifier = Verifier(judge=judged[0].loop.utility, limits=limits)
    chain = verified(lambda query: output, verifier, **EVIDENCE)
    with pytest.raises(InputError, match="cannot put another answer into a"):
        chain.invoke("When?")
    with pytest.raises(ValueError, match="needs answer='key'"):
        verified(lambda query: output, verifier, answer=str)


def test_an_agent_with_structured_answers_cannot_abstain():
    middleware = pytest.importorskip("langchain_denoise.middleware")
    from langchain.agents import create_agent

    model = chat(lambda messages: "never asked")
    verifier = Verifier(limits=LoopLimits(unsupported="abstain"))
    checker = middleware.VerificationMiddleware(verifier)
    agent = create_agent(model, [], middleware=[checker], response_format=Cited)
    with pytest.raises(InputError, match="structured answer has no field"):
        agent.invoke({"messages": [("user", "When?")]})
    assert not model.calls


def test_an_agents_structured_answer_is_judged_by_the_same_fields():
    middleware = pytest.importorskip("langchain_denoise.middleware.verification")
    response = middleware.AgentResponse(result=[AIMessage("")], structured_response=ONE)
    assert middleware.final_claims(response).text == TOWER
    named_value = middleware.final_claims(
        response, lambda found: {"confidence": found.confidence}
    )
    assert named_value.fields == {"confidence": 0.9}
    # A schema may be of a list.
    response.structured_response = ["1889"]
    assert middleware.final_claims(response).text == '["1889"]'


@pytest.mark.parametrize("show", ["draft", "checked"])
def test_objects_that_grow_are_streamed_as_the_text_that_they_add(show):
    """A parser of JSON sends the whole object each time."""

    def parts(chunks):
        for _ in chunks:
            for text in ("", "Par", "Paris."):
                yield {"answer": text}

    chain = RunnableGenerator(parts)
    verifier = Verifier(judge=lambda *_: True)
    checked = verified(chain, verifier, evidence=lambda *_: ["Paris."])
    events = list(checked.stream_checked({"question": "Which?"}, show=show))
    shown = "".join(event.text for event in events if isinstance(event, TextReleased))
    assert shown == events[-1].answer.text == "Paris."
