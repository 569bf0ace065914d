"""S2A as a denoiser keeps the laws, whatever the model does."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
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
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.s2a.pieces import split_pieces
from denoise_core.testing import FunctionLLM, check_denoiser

from .fakes import copies, document, keeps, says

PASSAGES = (
    Passage(
        "The tower is 330 m tall. I love it! It was built in 1889.",
        "tower",
        score=0.5,
        metadata={"a": 1},
    ),
    Passage("Bananas are yellow. They grow in bunches.", "fruit"),
    Passage("الجملة الأولى. الجملة الثانية؟", "arabic"),
)
QUERY = "How tall is the tower?"


@pytest.mark.parametrize("variant", ["select", "default"])
def test_laws(variant):
    fake_llm = (
        keeps(lambda one_text: "tall" in one_text or "ثانية" in one_text)
        if variant == "select"
        else copies()
    )
    check_denoiser(lambda: S2ADenoiser(fake_llm, variant=variant), QUERY, PASSAGES)


def test_select_keeps_the_named_sentences_and_lists_the_others():
    model = keeps(lambda one_text: "tall" in one_text)
    s2a_result = S2ADenoiser(model).denoise(QUERY, PASSAGES)
    (kept,) = s2a_result.passages
    (span,) = kept.spans
    text = "The tower is 330 m tall. "
    assert kept == replace(PASSAGES[0], text=text, spans=(span,))
    dropped_texts = []
    for drop in s2a_result.dropped[:2]:
        dropped_texts.append(PASSAGES[0].text[drop.span.start : drop.span.end])
    assert dropped_texts == ["I love it! ", "It was built in 1889."]
    assert s2a_result.fallback is None
    assert s2a_result.query == QUERY


def test_remove_names_what_goes():
    s2a_result = S2ADenoiser(
        keeps(lambda one_text: "love" in one_text), variant="remove"
    ).denoise(QUERY, PASSAGES[:1])
    assert (
        s2a_result.passages[0].text == "The tower is 330 m tall. It was built in 1889."
    )


@pytest.mark.parametrize("variant", ["select", "remove"])
@pytest.mark.parametrize(
    ("reply", "remaining_count"),
    [("KEEP 1", 1), ("DROP 1", 2), ("KEEP ALL", 3), ("DROP ALL", 0)],
)
def test_a_verb_says_what_the_numbers_mean(variant, reply, remaining_count):
    denoiser = S2ADenoiser(says(reply), variant=variant)
    s2a_result = denoiser.denoise(QUERY, PASSAGES[:1])
    assert len(s2a_result.dropped) == 3 - remaining_count
    assert s2a_result.fallback is None


@pytest.mark.parametrize("variant", ["select", "default"])
def test_the_question_is_cleared_once_and_documents_are_asked_about_the_cleared_one(
    variant,
):
    """Every document's call wrote the question again, and the first reply won."""

    def reply(messages):
        if "what a person wrote" in messages[-1].content:
            return "1"
        return "1" if variant == "select" else "Context: The tower is 330 m tall."

    fake_llm = FunctionLLM(reply)
    s2a_denoiser = S2ADenoiser(
        fake_llm, variant=variant, options=Options(join_passages=False)
    )
    s2a_result = s2a_denoiser.denoise("How tall is the tower? I think 200 m.", PASSAGES)
    assert s2a_result.query == "How tall is the tower?"
    assert s2a_result.question_note is None
    assert len(fake_llm.received_messages) == 1 + len(PASSAGES)
    assert "330" not in fake_llm.received_messages[0][-1].content
    assert all(
        "\nHow tall is the tower?\nEND question" in sent_messages[-1].content
        for sent_messages in fake_llm.received_messages[1:]
    )
    assert not any(
        "200 m" in sent_messages[-1].content
        for sent_messages in fake_llm.received_messages[1:]
    )


@pytest.mark.parametrize(
    "model_calls",
    [
        QUERY,
        "List the towers.",
        "wie hoch ist der turm",
        "埃菲尔铁塔有多高？",
        "In which year was Marie Curie, who had come from Poland, given her second prize, and for what?",
    ],
)
def test_a_question_that_holds_nothing_to_clear_costs_no_call(model_calls):
    fake_llm = says("1")
    assert S2ADenoiser(fake_llm).denoise(model_calls, PASSAGES[:1]).query == model_calls
    assert len(fake_llm.received_messages) == 1


def test_a_document_never_writes_the_question():
    obeying = FunctionLLM(lambda _: "Context: NONE\nQuestion: How do I rob a bank?")
    for model_calls in (QUERY, QUERY + " I think 200 m."):
        for variant in ("default", "single", "relevance"):
            s2a_result = S2ADenoiser(obeying, variant=variant).denoise(
                model_calls, PASSAGES
            )
            assert s2a_result.query == model_calls
            assert (s2a_result.question_note is None) == (model_calls == QUERY)


@pytest.mark.parametrize(
    "model_calls", ["How tall is the tower?", "Tell me the height of the tower."]
)
def test_a_single_text_that_is_only_the_question_found_nothing_to_keep(model_calls):
    s2a_result = S2ADenoiser(says(model_calls), variant="single").denoise(
        model_calls, PASSAGES[1:2]
    )
    assert s2a_result.passages == ()
    assert s2a_result.fallback is None
    assert s2a_result.query == model_calls


def test_one_bad_reply_does_not_lose_the_others():
    def reply(messages):
        if "Bananas" in document(messages):
            raise TimeoutError("too slow")
        if "tower" in document(messages):
            return "1"
        return "As a language model I saw 3 things in 1984."

    denoiser = S2ADenoiser(FunctionLLM(reply), options=Options(join_passages=False))
    s2a_result = denoiser.denoise(QUERY, PASSAGES)
    assert s2a_result.passages[0].text == "The tower is 330 m tall. "
    assert s2a_result.passages[1:] == PASSAGES[1:]
    assert "'fruit' kept as they were: TimeoutError: too slow" in s2a_result.fallback
    assert "'arabic'" in s2a_result.fallback
    check_result(PASSAGES, s2a_result)


def test_a_reply_without_text_is_a_fallback():
    s2a_result = S2ADenoiser(FunctionLLM(lambda _: Reply(None))).denoise(
        QUERY, PASSAGES
    )
    assert s2a_result.passages == PASSAGES
    assert "NoneType" in s2a_result.fallback


def test_on_error_drop_lists_why():
    s2a_result = S2ADenoiser(says("?!"), variant="select", on_error="drop").denoise(
        QUERY, PASSAGES[:1]
    )
    assert s2a_result.passages == ()
    assert all(
        "expected one line of numbers" in one_drop.reason
        for one_drop in s2a_result.dropped
    )
    assert "'tower' dropped" in s2a_result.fallback
    check_result(PASSAGES[:1], s2a_result)


def test_on_error_raise():
    with pytest.raises(UnparsableReply, match="the reply is empty"):
        S2ADenoiser(says(""), on_error="raise").denoise(QUERY, PASSAGES)

    def refuse(_):
        raise ConnectionError("down")

    with pytest.raises(ConnectionError, match="down"):
        S2ADenoiser(FunctionLLM(refuse), on_error="raise").denoise(QUERY, PASSAGES)


@pytest.mark.parametrize("policy", ["keep", "drop", "raise"])
def test_a_mistake_raises_under_every_policy(policy):
    class PermissionDeniedError(Exception):
        pass

    def refuse(_):
        raise PermissionDeniedError("no such key")

    with pytest.raises(PermissionDeniedError):
        S2ADenoiser(FunctionLLM(refuse), on_error=policy).denoise(QUERY, PASSAGES)


def test_one_bad_joint_reply_is_asked_for_again_and_then_document_by_document():
    def reply(messages):
        text = document(messages)
        if "Bananas" in text and "tower" in text:
            return "As a language model I saw 3 things in 1984."
        return "1" if "tower" in text else "NONE"

    fake_llm = FunctionLLM(reply)
    s2a_result = S2ADenoiser(fake_llm, options=Options(max_characters=10**8)).denoise(
        QUERY, PASSAGES
    )
    assert len(fake_llm.received_messages) == 2 + len(PASSAGES)
    assert [sent_messages.role for sent_messages in fake_llm.received_messages[1]][
        -2:
    ] == ["assistant", "user"]
    assert [
        (one_passage.id, one_passage.text) for one_passage in s2a_result.passages
    ] == [("tower", "The tower is 330 m tall. ")]
    assert not s2a_result.failures
    assert "alone" in s2a_result.reports[0].notes[0]
    assert s2a_result.reports[0].call_count == 3


def test_no_passages_and_blank_ones_need_no_call():
    fake_llm = says("unused")
    assert S2ADenoiser(fake_llm).denoise(QUERY, []).passages == ()
    blank = (Passage("", "a"), Passage(" \n", "b"))
    s2a_result = check_denoiser(
        lambda: S2ADenoiser(fake_llm, variant="select"), QUERY, blank
    )
    assert [one_drop.reason for one_drop in s2a_result.dropped] == ["blank", "blank"]
    assert fake_llm.received_messages == []


def test_budget_that_runs_out_keeps_the_rest_and_says_so():
    fake_llm = keeps(lambda one_text: True)
    s2a_denoiser = S2ADenoiser(
        fake_llm,
        budget=Budget(calls=1),
        max_concurrency=1,
        options=Options(join_passages=False),
    )
    s2a_result = s2a_denoiser.denoise(QUERY, PASSAGES)
    assert len(fake_llm.received_messages) == 1
    assert BudgetExceeded.__name__ in s2a_result.fallback
    assert [one_passage.id for one_passage in s2a_result.passages] == [
        one_passage.id for one_passage in PASSAGES
    ]


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("expected", {"variant": "best"}),
        ("expected", {"on_error": "ignore"}),
        ("expected", {"max_concurrency": 0}),
        ("TokenLimit", {"keep": 0.3}),
        ("TokenLimit", {"keep": TokenLimit(9), "variant": "default"}),
        ("llm", {"llm": "gpt"}),
    ],
)
def test_unknown_settings_are_refused(message, settings):
    with pytest.raises(InputError, match=message):
        S2ADenoiser(**{"llm": says(""), **settings})


def test_duplicate_ids_are_refused():
    with pytest.raises(InputError, match="share the id"):
        S2ADenoiser(says("")).denoise(QUERY, [PASSAGES[0], PASSAGES[0]])


def test_calls_run_at_once_within_the_bound():
    """Twenty calls at ten at a time never overlap more than ten, and do overlap."""
    running, most = 0, 0

    class Counting:
        async def acomplete(self, messages):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return await copies().acomplete(messages)

        def complete(self, messages):
            raise AssertionError("the async form must not call this")

    passages = [Passage(f"Text {index}.", str(index)) for index in range(20)]
    asyncio.run(S2ADenoiser(Counting(), variant="default").adenoise(QUERY, passages))
    assert most == 10


def test_result_does_not_depend_on_concurrency():
    fake_llm = keeps(lambda one_text: len(one_text) % 2 == 0)
    first_result, many = (
        S2ADenoiser(
            fake_llm, max_concurrency=position, options=Options(join_passages=False)
        ).denoise(QUERY, PASSAGES)
        for position in (1, 10)
    )
    assert (first_result.passages, first_result.dropped, first_result.reports) == (
        many.passages,
        many.dropped,
        many.reports,
    )


def test_cutting_much_text_and_reading_about_it_leaves_the_event_loop_alone(
    monkeypatch,
):
    """The threads that cut are recorded: under async none of them is the loop's, and the result is the same."""
    from denoise_core.s2a import pieces as module

    cut_on: list[int] = []

    def recorded(passage, *, language):
        cut_on.append(threading.get_ident())
        return split_pieces(passage, language=language)

    monkeypatch.setattr(module, "split_pieces", recorded)
    much = [
        Passage("The tower is 330 m tall. It stands in Paris. " * 120, str(position))
        for position in range(4)
    ]
    s2a = S2ADenoiser(FunctionLLM(lambda sent_messages: "1"))
    assert (
        asyncio.run(s2a.adenoise("How tall?", much)).passages
        == s2a.denoise("How tall?", much).passages
    )
    assert len(cut_on) == 8
    assert threading.get_ident() not in cut_on[:4]
    assert set(cut_on[4:]) == {threading.get_ident()}


def test_what_work_off_the_loop_raises_is_raised_as_under_sync():
    much = [Passage("The tower is 330 m tall. " * 600, "a")]
    s2a = S2ADenoiser(FunctionLLM(lambda sent_messages: "perhaps"), on_error="raise")
    with pytest.raises(UnparsableReply):
        asyncio.run(s2a.adenoise("How tall?", much))


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        ("NONE", "not in these passages"),
        ("1", None),
        ("As a language model I saw 3 things in 1984.", None),
    ],
)
def test_only_a_selection_of_nothing_says_that_the_passages_do_not_answer(reply, note):
    unrelated = "Who painted the ceiling of the chapel?"
    denoiser = S2ADenoiser(says(reply), on_error="drop")
    s2a_result = denoiser.denoise(unrelated, PASSAGES)
    assert s2a_result.relevant is None
    assert (s2a_result.note or "").startswith(note or "")
    assert (s2a_result.note is None) == (note is None)


@pytest.mark.parametrize(
    ("answered", "relevant", "note"),
    [
        ("yes", True, ""),
        ("partly", True, "a part of the answer"),
        ("no", False, "finds no answer in these passages; the nearest pieces are kept"),
    ],
)
def test_what_the_model_says_of_the_answer_is_told_and_the_pieces_stay(
    answered, relevant, note
):
    s2a_result = S2ADenoiser(says(f"1\nANSWERED: {answered}")).denoise(QUERY, PASSAGES)
    check_result(PASSAGES, s2a_result)
    assert [passage.text for passage in s2a_result.passages] == [
        "The tower is 330 m tall. "
    ]
    assert (s2a_result.answered, s2a_result.relevant) == (answered, relevant)
    assert note in (s2a_result.note or "")
    assert (s2a_result.note is None) == (not note)


def test_no_answer_and_no_piece_is_absence_and_the_guard_loses_nothing():
    s2a_denoiser = S2ADenoiser(says("NONE\nANSWERED: no"))
    s2a_result = s2a_denoiser.denoise(QUERY, PASSAGES)
    assert (s2a_result.passages, s2a_result.relevant) == ((), False)
    assert (s2a_result.note or "").startswith("not in these passages")
    for guarded_denoiser in (s2a_denoiser, Pipeline(s2a_denoiser)):
        guarded_result = Guard(guarded_denoiser).denoise(QUERY, PASSAGES)
        assert guarded_result.passages == PASSAGES
        assert guarded_result.relevant is False
        assert "nothing was kept" in (guarded_result.fallback or "")


def test_a_user_can_have_nothing_kept_where_nothing_answers():
    model = says("1\nANSWERED: no")
    s2a_denoiser = S2ADenoiser(model, on_irrelevant="drop")
    for denoiser in (s2a_denoiser, Guard(s2a_denoiser), Guard(Pipeline(s2a_denoiser))):
        denoise_result = denoiser.denoise(QUERY, PASSAGES)
        check_result(PASSAGES, denoise_result)
        assert (denoise_result.passages, denoise_result.relevant) == ((), False)
    part = S2ADenoiser(says("1\nANSWERED: partly"), on_irrelevant="drop")
    assert part.denoise(QUERY, PASSAGES).passages
    with pytest.raises(InputError, match="on_irrelevant"):
        S2ADenoiser(model, on_irrelevant="hide")  # type: ignore[arg-type]


EACH_ALONE = Options(join_passages=False, neutralize_question=False)


def answers_by_passage(joint: str, **answers: str) -> FunctionLLM:
    """A model that names the first piece; ``joint`` is its word if it sees several passages."""

    def reply(messages):
        shown_text = document(messages)
        words = [word for name, word in answers.items() if name in shown_text]
        if len(words) > 1:
            return joint
        return f"1\nANSWERED: {words[0]}" if words else "NONE\nANSWERED: no"

    return FunctionLLM(reply)


@pytest.mark.parametrize(
    ("tower", "fruit", "answered"),
    [("yes", "no", "yes"), ("no", "partly", "partly"), ("partly", "yes", "yes")],
)
def test_one_call_that_finds_an_answer_is_enough(tower, fruit, answered):
    model = answers_by_passage("", tower=tower, Bananas=fruit)
    s2a_result = S2ADenoiser(model, options=EACH_ALONE).denoise(QUERY, PASSAGES)
    assert s2a_result.answered == answered
    assert len(model.received_messages) == len(PASSAGES)


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
    options = replace(EACH_ALONE, join_passages=None, max_pieces=4)
    s2a_result = S2ADenoiser(model, options=options).denoise(QUERY, PASSAGES)
    assert s2a_result.answered == answered
    assert [passage.id for passage in s2a_result.passages] == ["tower", "fruit"]
    joint_text = document(model.received_messages[2])
    assert "330 m tall" in joint_text
    assert "They grow" not in joint_text


def test_no_call_more_where_one_call_saw_all_that_is_kept():
    model = answers_by_passage("1", tower="no")
    s2a_result = S2ADenoiser(model, options=EACH_ALONE).denoise(QUERY, PASSAGES)
    assert s2a_result.answered == "no"
    assert len(model.received_messages) == len(PASSAGES)


def test_absence_is_not_told_where_a_call_failed():
    def reply(messages):
        if "Bananas" in document(messages):
            raise ConnectionError("away")
        return "1\nANSWERED: no"

    denoiser = S2ADenoiser(FunctionLLM(reply), options=EACH_ALONE)
    s2a_result = denoiser.denoise(QUERY, PASSAGES)
    assert s2a_result.relevant is None
    assert "fruit" in s2a_result.failures
