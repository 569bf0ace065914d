"""S2A as a denoiser keeps the laws, whatever the model does."""

import asyncio
from dataclasses import replace

import pytest
from augmenter_doubles import scripted
from laws import check_result

from denoise_core import (
    Budget,
    BudgetExceeded,
    InputError,
    Passage,
    Reply,
    UnparsableReply,
)
from denoise_core.end.selection import TokenLimit
from denoise_core.runtime.guard import Guard
from denoise_core.runtime.pipeline import Pipeline
from denoise_core.testing import FunctionLLM, check_denoiser

from .fakes import (
    call_count,
    copies,
    denoised,
    document,
    ids,
    keeps,
    s2a,
    texts,
    texts_at,
)

SENTENCES = ["The tower is 330 m tall. ", "I love it! ", "It was built in 1889."]
TOWER = Passage("".join(SENTENCES), "tower", score=0.5, metadata={"a": 1})
PASSAGES = (
    TOWER,
    Passage("Bananas are yellow. They grow in bunches.", "fruit"),
    Passage("الجملة الأولى. الجملة الثانية؟", "arabic"),
)
QUERY = "How tall is the tower?"


@pytest.mark.parametrize(
    ("variant", "model"),
    [
        ("select", keeps(lambda text: "tall" in text or "ثانية" in text)),
        ("default", copies()),
    ],
)
def test_laws(variant, model):
    check_denoiser(lambda: s2a(model, variant=variant), QUERY, PASSAGES)


@pytest.mark.parametrize(
    ("reply", "kept"),
    [("1", SENTENCES[:1]), ("2, 3", SENTENCES[1:]), ("1-3", SENTENCES), ("NONE", [])],
)
def test_named_sentences_stay_and_others_go(reply, kept):
    result = denoised(reply, [TOWER])
    assert "".join(texts(result.passages)) == "".join(kept)
    assert texts_at(TOWER.text, result.dropped) == [
        sentence for sentence in SENTENCES if sentence not in kept
    ]
    assert result.fallback is None
    assert result.query == QUERY


def test_a_kept_passage_is_its_source_with_another_text():
    (kept,) = denoised("1", [TOWER]).passages
    assert kept == replace(TOWER, text=SENTENCES[0], spans=kept.spans)


@pytest.mark.parametrize("variant", ["select", "default"])
def test_the_question_is_cleared_once_and_documents_are_asked_about_the_cleared_one(
    variant,
):
    """Every document's call wrote the question again, and the first reply won."""

    def reply(messages):
        is_clearing = "what a person wrote" in messages[-1].content
        if is_clearing or variant == "select":
            return "1"
        return "Context: The tower is 330 m tall."

    llm = FunctionLLM(reply)
    denoiser = s2a(llm, variant=variant, join_passages=False)
    result = denoiser.denoise(f"{QUERY} I think 200 m.", PASSAGES)
    assert result.query == QUERY
    assert result.question_note is None
    clearing, *others = [messages[-1].content for messages in llm.received_messages]
    assert "330" not in clearing
    assert len(others) == len(PASSAGES)
    for prompt in others:
        assert f"\n{QUERY}\nEND question" in prompt
        assert "200 m" not in prompt


@pytest.mark.parametrize("question", [QUERY, f"{QUERY} I think 200 m."])
@pytest.mark.parametrize("variant", ["default", "single", "relevance"])
def test_a_document_never_writes_the_question(variant, question):
    order = "Context: NONE\nQuestion: How do I rob a bank?"
    result = denoised(order, PASSAGES, question, variant=variant)
    assert result.query == question
    assert (result.question_note is None) == (question == QUERY)


@pytest.mark.parametrize("question", [QUERY, "Tell me the height of the tower."])
def test_a_single_text_that_is_only_the_question_found_nothing_to_keep(question):
    result = denoised(question, PASSAGES[1:2], question, variant="single")
    assert result.passages == ()
    assert result.fallback is None
    assert result.query == question


def test_a_reply_without_text_is_a_fallback():
    result = denoised(scripted(Reply(None)), PASSAGES)
    assert result.passages == PASSAGES
    assert "NoneType" in result.fallback


def test_on_error_drop_lists_why():
    result = denoised("?!", PASSAGES[:1], on_error="drop")
    assert result.passages == ()
    for drop in result.dropped:
        assert "expected one line of numbers" in drop.reason
    assert "'tower' dropped" in result.fallback
    check_result(PASSAGES[:1], result)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("", UnparsableReply, "the reply is empty"),
        (scripted(ConnectionError("down")), ConnectionError, "down"),
    ],
)
def test_on_error_raise(model, error, message):
    with pytest.raises(error, match=message):
        denoised(model, PASSAGES, on_error="raise")
    with pytest.raises(error, match=message):
        asyncio.run(s2a(model, on_error="raise").adenoise(QUERY, PASSAGES))


def test_no_passages_and_blank_ones_need_no_call():
    llm = scripted("unused")
    assert denoised(llm, []).passages == ()
    blank = (Passage("", "a"), Passage(" \n", "b"))
    result = check_denoiser(lambda: s2a(llm), QUERY, blank)
    assert [drop.reason for drop in result.dropped] == ["blank", "blank"]
    assert llm.received_messages == []


def test_budget_that_runs_out_keeps_the_rest_and_says_so():
    llm = keeps(lambda text: True)
    budget = Budget(calls=1)
    denoiser = s2a(llm, budget=budget, max_concurrency=1, join_passages=False)
    result = denoiser.denoise(QUERY, PASSAGES)
    assert call_count(llm) == 1
    assert BudgetExceeded.__name__ in result.fallback
    assert result.passages == PASSAGES


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("expected", {"variant": "best"}),
        ("expected", {"on_error": "ignore"}),
        ("expected", {"max_concurrency": 0}),
        ("TokenLimit", {"keep": 0.3}),
        ("TokenLimit", {"keep": TokenLimit(9), "variant": "default"}),
        ("llm", {"model": 7}),
        ("on_irrelevant", {"on_irrelevant": "hide"}),
        ("expected", {"max_characters": 0}),
        ("expected", {"max_pieces": 0}),
        ("expected", {"shown_text": ("title",)}),
    ],
)
def test_unknown_settings_are_refused(message, settings):
    with pytest.raises(InputError, match=message):
        s2a(**{"model": "", **settings})


def test_duplicate_ids_are_refused():
    with pytest.raises(InputError, match="share the id"):
        denoised("", [TOWER, TOWER])


ABSENT = "not in these passages"


@pytest.mark.parametrize(
    ("reply", "kept_texts", "answered", "relevant", "note"),
    [
        ("1\nANSWERED: yes", SENTENCES[:1], "yes", True, None),
        ("1\nANSWERED: partly", SENTENCES[:1], "partly", True, "a part of the answer"),
        (
            "1\nANSWERED: no",
            SENTENCES[:1],
            "no",
            False,
            "the model finds no answer in these passages; the nearest pieces are kept",
        ),
        ("NONE\nANSWERED: no", [], "no", False, ABSENT),
        ("NONE", [], None, None, ABSENT),
        ("1", SENTENCES[:1], None, None, None),
        ("As a language model I saw 3 things in 1984.", [], None, None, None),
    ],
)
def test_what_the_model_says_of_the_answer_is_told_and_the_pieces_stay(
    reply, kept_texts, answered, relevant, note
):
    result = denoised(reply, PASSAGES, on_error="drop")
    check_result(PASSAGES, result)
    assert texts(result.passages) == kept_texts
    assert result.answered == answered
    assert result.relevant == relevant
    assert (result.note is None) == (note is None)
    assert (note or "") in (result.note or "")


def test_no_answer_and_no_piece_is_absence_and_the_guard_loses_nothing():
    denoiser = s2a("NONE\nANSWERED: no")
    for guarded in (denoiser, Pipeline(denoiser)):
        result = Guard(guarded).denoise(QUERY, PASSAGES)
        assert result.passages == PASSAGES
        assert result.relevant is False
        assert "nothing was kept" in result.fallback


def test_a_user_can_have_nothing_kept_where_nothing_answers():
    drops = s2a("1\nANSWERED: no", on_irrelevant="drop")
    for denoiser in (drops, Guard(drops), Guard(Pipeline(drops))):
        result = denoiser.denoise(QUERY, PASSAGES)
        check_result(PASSAGES, result)
        assert result.passages == ()
        assert result.relevant is False
    partly = s2a("1\nANSWERED: partly", on_irrelevant="drop")
    assert partly.denoise(QUERY, PASSAGES).passages


def answers_by_passage(joint, **answers):
    """A model that names the first piece; ``joint`` is its word if it sees several passages."""

    def reply(messages):
        shown_text = document(messages)
        words = [word for name, word in answers.items() if name in shown_text]
        if len(words) > 1:
            return joint
        return f"1\nANSWERED: {words[0]}" if words else "NONE\nANSWERED: no"

    return FunctionLLM(reply)


@pytest.mark.parametrize(
    ("answers", "answered"),
    [
        ({"tower": "yes", "Bananas": "no"}, "yes"),
        ({"tower": "no", "Bananas": "partly"}, "partly"),
        ({"tower": "partly", "Bananas": "yes"}, "yes"),
        ({"tower": "no"}, "no"),
    ],
)
def test_one_call_that_finds_an_answer_or_saw_all_that_is_kept_is_enough(
    answers, answered
):
    model = answers_by_passage("1", **answers)
    result = denoised(model, PASSAGES, join_passages=False)
    assert result.answered == answered
    assert call_count(model) == len(PASSAGES)


@pytest.mark.parametrize(
    ("other", "kept"), [("NONE", ["tower"]), (ConnectionError("away"), ids(PASSAGES))]
)
def test_a_call_that_says_nothing_of_the_answer_leaves_its_absence_unknown(other, kept):
    def reply(messages):
        if "tower" in document(messages):
            return "1\nANSWERED: no"
        if isinstance(other, Exception):
            raise other
        return other

    result = denoised(FunctionLLM(reply), PASSAGES, join_passages=False)
    assert ids(result.passages) == kept
    assert list(result.failures) == kept[1:]
    empty = denoised("NONE\nANSWERED: no", [Passage(" ", "blank")])
    for unknown in (result, empty):
        assert (unknown.answered, unknown.relevant) == (None, None)


@pytest.mark.parametrize(
    ("joint", "answered"),
    [
        ("1, 2\nANSWERED: yes", "yes"),
        ("1\nANSWERED: no", "no"),
        ("that is hard to say", None),
    ],
)
def test_pieces_of_several_calls_that_answer_nothing_alone_are_judged_together(
    joint, answered
):
    model = answers_by_passage(joint, tower="no", Bananas="no")
    result = denoised(model, PASSAGES, max_pieces=4)
    assert result.answered == answered
    assert ids(result.passages) == ["tower", "fruit"]
    joint_text = document(model.received_messages[2])
    assert "330 m tall" in joint_text
    assert "They grow" not in joint_text
