"""Joint calls, splitting, structured replies, prompts, estimates."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import check_result

from denoise_core import InputError, Passage, Reply
from denoise_core.s2a import (
    PLAIN_PROMPTS,
    S2A,
    Options,
    Prompt,
    Prompts,
    S2ADenoiser,
    replies,
)
from denoise_core.s2a.message import MessageDenoiser
from denoise_core.testing import FunctionLLM, check_denoiser

from .fakes import copies, document, keeps, pieces

PASSAGES = tuple(
    Passage(
        f"Passage {index} is here. It ends with {index}.",
        f"id{index}",
        metadata={"title": f"T{index}"},
    )
    for index in range(6)
)
QUERY = "What ends with 4?"


@pytest.mark.parametrize("joint", [False, True])
def test_joint_and_single_calls_select_the_same(joint):
    fake_llm = keeps(lambda one_text: "with 4" in one_text)
    s2a_result = check_denoiser(
        lambda: S2ADenoiser(
            fake_llm,
            variant="select",
            options=Options(
                join_passages=joint, max_characters=10**8, keep_context=False
            ),
        ),
        QUERY,
        PASSAGES,
    )
    assert [
        (one_passage.id, one_passage.text) for one_passage in s2a_result.passages
    ] == [("id4", "It ends with 4.")]
    assert len(fake_llm.received_messages) == (2 if joint else 12)


@given(
    st.integers(1, 400), st.booleans(), st.sampled_from(["select", "remove", "default"])
)
def test_any_window_keeps_the_laws(window, joint, variant):
    fake_llm = (
        copies() if variant == "default" else keeps(lambda one_text: "here" in one_text)
    )
    s2a_result = S2ADenoiser(
        fake_llm,
        variant=variant,
        options=Options(max_characters=window, join_passages=joint),
    ).denoise(QUERY, PASSAGES)
    check_result(PASSAGES, s2a_result)
    if variant != "default" or window >= 30:
        assert s2a_result.fallback is None
    for messages in fake_llm.received_messages:
        assert len(document(messages)) <= window + 200


def test_a_split_is_said():
    long = Passage("This is one sentence of many. " * 40, "long")
    fake_llm = keeps(lambda one_text: True)
    s2a_result = S2ADenoiser(
        fake_llm, variant="select", options=Options(max_characters=300)
    ).denoise(QUERY, [long])
    assert s2a_result.reports[0].call_count == len(fake_llm.received_messages) > 3
    assert "split over" in s2a_result.reports[0].notes[0]
    assert s2a_result.passages == (long,)


def test_a_piece_longer_than_a_call_shows_its_ends_and_is_kept_whole():
    long = Passage("x" * 5000, "long")
    fake_llm = keeps(lambda one_text: "characters ..." in one_text)
    assert S2ADenoiser(
        fake_llm, variant="select", options=Options(max_characters=100)
    ).denoise(QUERY, [long]).passages == (long,)
    assert len(document(fake_llm.received_messages[0])) < 200


class Structured:
    """Answers only by schema."""

    def __init__(self) -> None:
        self.schemas = []

    def complete(self, messages):
        raise AssertionError("a structured model is asked by schema")

    async def acomplete(self, messages):
        raise AssertionError("a structured model is asked by schema")

    def complete_json(self, messages, schema):
        self.schemas.append(schema)
        if "context" in schema["properties"]:
            return Reply(json.dumps({"context": document(messages)}))
        named_numbers = [
            {"n": position, "starts": one_text[:9]}
            for position, one_text in pieces(messages).items()
            if "here" in one_text
        ]
        list_name, *other_names = schema["properties"]
        assert other_names == (["answered"] if list_name == "keep" else [])
        fields = {list_name: named_numbers, **dict.fromkeys(other_names, "yes")}
        return Reply(json.dumps(fields))

    async def acomplete_json(self, messages, schema):
        return self.complete_json(messages, schema)


@pytest.mark.parametrize("variant", ["select", "remove", "default"])
def test_a_structured_model_is_held_to_the_schema(variant):
    fake_llm = Structured()
    s2a_result = check_denoiser(
        lambda: S2ADenoiser(
            fake_llm, variant=variant, options=Options(join_passages=False)
        ),
        QUERY,
        PASSAGES,
    )
    assert s2a_result.fallback is None
    assert len(fake_llm.schemas) == 12
    assert len(s2a_result.passages) == 6


@pytest.mark.parametrize(
    "prompt",
    [getattr(Prompts(), one_field.name) for one_field in dataclasses.fields(Prompts)],
)
def test_a_question_is_read_after_the_text_that_it_is_about(prompt):
    if "question" in prompt.field_names:
        said = prompt.user
        assert said.rindex("{question}") > max(
            said.rindex(f"{{{one_field}}}")
            for one_field in prompt.field_names - {"question", "marker"}
        )


@pytest.mark.parametrize(
    "name", [one_field.name for one_field in dataclasses.fields(Prompts)]
)
def test_every_prompt_can_be_replaced_and_keeps_its_fields(name):
    old = getattr(Prompts(), name)
    same = Prompt(
        name,
        "mine",
        "",
        " ".join(f"{{{one_field}}}" for one_field in sorted(old.field_names)),
    )
    assert (
        getattr(dataclasses.replace(Prompts(), **{name: same}), name).field_names
        == old.field_names
    )
    with pytest.raises(InputError, match="lacks"):
        dataclasses.replace(
            Prompts(), **{name: Prompt(name, "mine", "", "nothing at all")}
        )
    with pytest.raises(InputError, match=r"names \{surprise\}"):
        dataclasses.replace(
            Prompts(),
            **{name: dataclasses.replace(same, user=same.user + " {surprise}")},
        )


@pytest.mark.parametrize("user", ["{", "{0}", "{a.b}", "{a[0]}", "}"])
def test_stray_braces_are_refused(user):
    with pytest.raises(InputError, match="prompt 'p'"):
        _ = Prompt("p", "1", "", user).field_names


def test_braces_in_values_mean_nothing():
    fake_llm = keeps(lambda one_text: True)
    odd = Passage("A {question} and {0} and {{x}}.", "p")
    assert S2ADenoiser(fake_llm, variant="select").denoise(
        "{document}?", [odd]
    ).passages == (odd,)
    assert "{document}?" in fake_llm.received_messages[0][-1].content


@pytest.mark.parametrize(
    "bad",
    [
        {"max_characters": 0},
        {"metadata": "title"},
        {"shown_text": ("title",)},
        {"max_pieces": 0},
    ],
)
def test_bad_options_are_refused(bad):
    with pytest.raises(InputError, match="expected"):
        Options(**bad)


def test_ten_thousand_passages():
    many = [
        Passage(f"Number {index} is here. 😀", str(index)) for index in range(10_000)
    ]
    fake_llm = keeps(lambda one_text: "Number 77 " in one_text)
    s2a_result = S2ADenoiser(
        fake_llm, variant="select", options=Options(join_passages=True)
    ).denoise(QUERY, many)
    assert [one_passage.id for one_passage in s2a_result.passages] == ["77"]
    assert len(s2a_result.dropped) == len(
        {
            (one_drop.span.passage_id, one_drop.span.start)
            for one_drop in s2a_result.dropped
        }
    )


SAID = ["1", "", "garbage 5 of 7", "x" * 1_000_000, "raise", "timeout", "NONE"]


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(SAID), min_size=6, max_size=6),
    st.sampled_from(["select", "default"]),
    st.sampled_from([1, 10]),
)
def test_bad_replies_to_any_subset_never_lose_the_others(replies, variant, concurrency):
    def reply(messages):
        (number,) = {
            position
            for position in range(6)
            if f"Passage {position} " in document(messages)
        }
        said = replies[number]
        if said == "raise":
            raise RuntimeError("broken")
        if said == "timeout":
            raise TimeoutError("late")
        if variant == "default" and said == "1":
            return f"Context: Passage {number} is here."
        return said

    options = Options(join_passages=False, keep_context=False)
    s2a_denoiser = S2ADenoiser(
        FunctionLLM(reply),
        variant=variant,
        max_concurrency=concurrency,
        options=options,
    )
    s2a_denoiser.record.is_readable = True  # of an earlier question
    s2a_result = s2a_denoiser.denoise(QUERY, PASSAGES)
    check_result(PASSAGES, s2a_result)
    kept_pieces = {
        one_passage.id: one_passage.text for one_passage in s2a_result.passages
    }
    for number, said in enumerate(replies):
        if said == "1":
            assert kept_pieces[f"id{number}"].strip() == f"Passage {number} is here."
        elif said == "NONE":
            assert f"id{number}" not in kept_pieces
        else:
            assert kept_pieces[f"id{number}"] == PASSAGES[number].text
            assert f"'id{number}'" in s2a_result.fallback


ECHO = "BEGIN document 1 3f9a0c1d2e4b5a69\nPassage 0 is here.\nEND document 1 3f9a0c1d2e4b5a69"


@pytest.mark.parametrize("variant", ["select", "default"])
@pytest.mark.parametrize("is_joined", [True, False])
@pytest.mark.parametrize("passage_count", [1, 2, 6])
@pytest.mark.parametrize("said", ["I think the second one helps, it is nice.", ECHO])
def test_a_model_that_cannot_be_read_is_asked_three_times_in_all(
    variant, is_joined, passage_count, said, caplog
):
    if said != ECHO and variant == "default":
        said = ""
    llm = FunctionLLM(lambda messages: said)
    s2a_denoiser = S2ADenoiser(
        llm, variant=variant, options=Options(join_passages=is_joined)
    )
    for _ in range(4):
        passages = PASSAGES[:passage_count]
        result = s2a_denoiser.denoise(f"{QUERY} I believe it is red.", passages)
        assert [p.text for p in result.passages] == [p.text for p in passages]
        assert set(result.failures) == {p.id for p in passages}
    assert len(llm.received_messages) == 3
    assert caplog.text.count("larger model") == 1


def test_a_model_that_was_given_up_is_tried_again(monkeypatch):
    outage = [True]
    llm = FunctionLLM(lambda messages: "Overloaded." if outage[0] else "1")
    s2a_denoiser = S2ADenoiser(llm)
    for _ in range(2):
        assert s2a_denoiser.denoise("Which tower?", PASSAGES[:2]).fallback
    assert len(llm.received_messages) == 3
    monkeypatch.setattr(replies, "RETRY_SECONDS", 0.0)
    assert s2a_denoiser.denoise("Which tower?", PASSAGES[:2]).fallback
    assert len(llm.received_messages) == 4
    outage[0] = False
    result = s2a_denoiser.denoise("Which tower?", PASSAGES[:2])
    assert (result.fallback, len(result.passages)) == (None, 1)


def test_a_passage_that_breaks_replies_does_not_give_up_the_model():
    llm = FunctionLLM(
        lambda messages: "so?" if "Passage 0 " in document(messages) else "NONE"
    )
    options = Options(join_passages=False)
    result = S2ADenoiser(llm, options=options).denoise(QUERY, PASSAGES)
    assert list(result.failures) == ["id0"]
    assert [p.id for p in result.passages] == ["id0"]


def test_plain_prompts_have_no_envelope_and_the_same_tasks():
    sent = []

    def reply(messages):
        sent.append("\n".join(message.content for message in messages))
        return "1" if "Piece" in sent[-1] or "piece" in sent[-1] else "It is red."

    options = Options(prompts=PLAIN_PROMPTS)
    answer = S2A(FunctionLLM(reply), options=options).answer(QUERY, PASSAGES[:2])
    assert answer.text == "It is red."
    assert len(sent) == 2
    for prompt in sent:
        assert "Passage 0 is here." in prompt
        assert "BEGIN" not in prompt
        assert "marker" not in prompt
    fields = dataclasses.fields(Prompts)
    shipped = {field.name: getattr(Prompts(), field.name) for field in fields}
    for name, prompt in shipped.items():
        plain = getattr(PLAIN_PROMPTS, name)
        assert plain.user == prompt.user
        assert plain.version != prompt.version


def test_a_server_that_is_down_costs_no_recursion():
    def refuse(messages):
        raise ConnectionError("down")

    passages = [
        Passage(f"Tower {n}. " + "It is old. " * 400, str(n)) for n in range(300)
    ]
    options = Options(neutralize_question=False)
    result = S2ADenoiser(FunctionLLM(refuse), options=options).denoise("How?", passages)
    assert [p.text for p in result.passages] == [p.text for p in passages]


def test_the_minus_of_a_number_stays_with_the_question():
    llm = FunctionLLM(lambda messages: '{"request":[2],"opinion":[1]}')
    text = "I believe that the answer must be four. -5 plus 3 times two is what number?"
    question = MessageDenoiser(llm).neutralize(text).question
    assert question == "-5 plus 3 times two is what number?"
