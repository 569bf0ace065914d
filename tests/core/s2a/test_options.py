"""Joint calls, splitting, structured replies, prompts, and models of which little or nothing can be read."""

import dataclasses
import json
import math
import re

import pytest
from augmenter_doubles import scripted
from growing_texts import numbered_texts, passages_of
from hypothesis import given
from hypothesis import strategies as st
from laws import check_result

from denoise_core import InputError, Passage
from denoise_core.runtime import fallbacks
from denoise_core.s2a import (
    PLAIN_PROMPTS,
    S2A,
    Options,
    Prompt,
    Prompts,
    replies,
)
from denoise_core.testing import FunctionLLM, check_denoiser

from .fakes import (
    Structured,
    call_count,
    copies,
    denoised,
    document,
    ids,
    keeps,
    pieces,
    s2a,
)

PASSAGES = tuple(
    passages_of(numbered_texts("Passage {n} is here. It ends with {n}.", 6))
)
QUERY = "What ends with 4?"
PROMPTS = {
    field.name: getattr(Prompts(), field.name) for field in dataclasses.fields(Prompts)
}


@given(st.integers(1, 400), st.booleans(), st.sampled_from(["select", "default"]))
def test_any_window_keeps_the_laws(window, joint, variant):
    llm = copies() if variant == "default" else keeps(lambda text: "here" in text)
    denoiser = s2a(llm, variant=variant, max_characters=window, join_passages=joint)
    result = denoiser.denoise(QUERY, PASSAGES)
    check_result(PASSAGES, result)
    if variant != "default" or window >= 30:
        assert result.fallback is None
    for messages in llm.received_messages:
        assert len(document(messages)) <= window + 200


def test_a_long_passage_is_split_over_calls():
    long = Passage("This is one sentence of many. " * 40, "long")
    llm = keeps(lambda text: True)
    result = denoised(llm, [long], max_characters=300)
    assert call_count(llm) > 3
    assert result.passages == (long,)


def test_a_piece_longer_than_a_call_shows_its_ends_and_is_kept_whole():
    long = Passage("x" * 5000, "long")
    llm = keeps(lambda text: "characters ..." in text)
    assert denoised(llm, [long], max_characters=100).passages == (long,)
    assert len(document(llm.received_messages[0])) < 200


@pytest.mark.parametrize("variant", ["select", "default"])
def test_a_structured_model_is_held_to_the_schema(variant):
    def reply(messages, schema):
        list_name, *other_names = schema["properties"]
        if list_name == "context":
            return json.dumps({"context": document(messages)})
        assert other_names == (["answered"] if list_name == "keep" else [])
        items = []
        for number, text in pieces(messages).items():
            if "here" in text:
                items.append({"n": number, "starts": text[:9]})
        return json.dumps({list_name: items, **dict.fromkeys(other_names, "yes")})

    llm = Structured(reply)
    result = check_denoiser(
        lambda: s2a(llm, variant=variant, join_passages=False), QUERY, PASSAGES
    )
    assert result.fallback is None
    assert len(llm.schemas) == 12
    assert len(result.passages) == 6


@pytest.mark.parametrize("name", PROMPTS)
def test_a_question_is_read_after_the_text_that_it_is_about(name):
    template = PROMPTS[name].user
    *_, last_field = re.findall(r"{(\w+)}", template)
    assert last_field == ("question" if "{question}" in template else "document")


@pytest.mark.parametrize("name", PROMPTS)
def test_every_prompt_can_be_replaced_and_keeps_its_fields(name):
    def replaced(user):
        prompt = Prompt(name, "mine", "", user)
        return getattr(dataclasses.replace(Prompts(), **{name: prompt}), name)

    user = " ".join(re.findall(r"{\w+}", PROMPTS[name].user))
    assert replaced(user).user == user
    quoted = user.replace("{", "{{").replace("}", "}}")
    for without_fields in ("nothing at all", quoted):
        with pytest.raises(InputError, match="lacks"):
            replaced(without_fields)
    for stray in (" {surprise}", "{", "{0}", "{a.b}", "{a[0]}", "}"):
        with pytest.raises(InputError, match="its fields are"):
            replaced(user + stray)


def test_braces_in_values_mean_nothing():
    llm = keeps(lambda text: True)
    odd = Passage("A {question} and {0} and {{x}}.", "p")
    assert denoised(llm, [odd], "{document}?").passages == (odd,)
    assert "{document}?" in llm.received_messages[0][-1].content


ERRORS = {"raise": RuntimeError("broken"), "timeout": TimeoutError("late")}


@given(
    st.lists(
        st.sampled_from(
            ["1", "", "garbage 5 of 7", "x" * 100_000, "raise", "timeout", "NONE"]
        ),
        min_size=6,
        max_size=6,
    ),
    st.sampled_from(["select", "default"]),
    st.sampled_from([1, 10]),
)
def test_bad_replies_to_any_subset_never_lose_the_others(replies, variant, concurrency):
    def reply(messages):
        number = int(document(messages).split("Passage ")[1][0])
        said = replies[number]
        if said in ERRORS:
            raise ERRORS[said]
        if variant == "default" and said == "1":
            return f"Context: Passage {number} is here."
        return said

    denoiser = s2a(
        FunctionLLM(reply),
        variant=variant,
        max_concurrency=concurrency,
        join_passages=False,
        keep_context=False,
    )
    denoiser.record.is_readable = True  # of an earlier question
    result = denoiser.denoise(QUERY, PASSAGES)
    check_result(PASSAGES, result)
    kept = {passage.id: passage.text.strip() for passage in result.passages}
    for passage, said in zip(PASSAGES, replies, strict=True):
        if said == "NONE":
            assert passage.id not in kept
            continue
        is_read = said == "1"
        assert kept[passage.id] == passage.text[: 18 if is_read else None]
        assert is_read or f"'{passage.id}'" in result.fallback
        assert said != "timeout" or "late" in result.failures[passage.id]


ECHO = "BEGIN document 1 3f9a0c1d2e4b5a69\nPassage 0 is here.\nEND document 1 3f9a0c1d2e4b5a69"


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("select", "I think the second one helps, it is nice."),
        ("select", ECHO),
        ("default", ""),
        ("default", ECHO),
    ],
)
@pytest.mark.parametrize("is_joined", [True, False])
@pytest.mark.parametrize("passage_count", [1, 2, 6])
def test_a_model_that_cannot_be_read_is_asked_three_times_in_all(
    variant, is_joined, passage_count, said, caplog, monkeypatch
):
    monkeypatch.setattr(fallbacks, "_counts", {})  # each first one is a warning
    llm = scripted(said)
    denoiser = s2a(llm, variant=variant, join_passages=is_joined)
    passages = PASSAGES[:passage_count]
    for _ in range(4):
        result = denoiser.denoise(f"{QUERY} I believe it is red.", passages)
        assert result.passages == passages
        assert list(result.failures) == ids(passages)
    assert call_count(llm) == 3
    assert caplog.text.count("larger model") == 1


def test_a_model_that_was_given_up_is_tried_again(monkeypatch):
    said = "Overloaded."
    llm = FunctionLLM(lambda messages: said)
    denoiser = s2a(llm)

    def ask():
        result = denoiser.denoise("Which tower?", PASSAGES[:2])
        return bool(result.fallback), call_count(llm)

    assert [ask(), ask(), ask()] == [(True, 2), (True, 3), (True, 3)]
    monkeypatch.setattr(replies, "monotonic", lambda: math.inf)
    said = "1"
    assert ask() == (False, 4)


def test_a_passage_that_breaks_replies_does_not_give_up_the_model():
    def reply(messages):
        return "so?" if "Passage 0 " in document(messages) else "NONE"

    result = denoised(FunctionLLM(reply), PASSAGES, join_passages=False)
    assert list(result.failures) == ids(result.passages) == ["0"]


def test_plain_prompts_have_no_envelope_and_the_same_tasks():
    llm = FunctionLLM(
        lambda messages: "1" if "piece" in messages[-1].content.lower() else "Red."
    )
    answer = S2A(llm, options=Options(prompts=PLAIN_PROMPTS)).answer(
        QUERY, PASSAGES[:2]
    )
    assert answer.text == "Red."
    assert call_count(llm) == 2
    for messages in llm.received_messages:
        prompt = "\n".join(message.content for message in messages)
        assert "Passage 0 is here." in prompt
        assert "BEGIN" not in prompt
        assert "marker" not in prompt
    for name, prompt in PROMPTS.items():
        plain = getattr(PLAIN_PROMPTS, name)
        assert plain.user == prompt.user
        assert plain.version != prompt.version


def test_a_server_that_is_down_costs_no_recursion():
    passages = passages_of(numbered_texts("Tower {n}.", 400))
    denoiser = s2a(scripted(ConnectionError("down")), join_passages=False)
    assert denoiser.denoise("How?", passages).passages == tuple(passages)
