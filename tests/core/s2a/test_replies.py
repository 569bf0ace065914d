"""The strict grammar of replies, one corrective turn, first words that agree: nothing is read that was not
said."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from growth import slope
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage, Reply, UnparsableReply
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.s2a.replies import parse_selection, parse_texts
from denoise_core.testing import FunctionLLM

CORPUS = Path(__file__).parents[2] / "data" / "replies"
TOWER = Passage("The tower is 330 m tall. I love it! It was built in 1889.", "tower")
FRUIT = Passage("Bananas are yellow. They grow in bunches.", "fruit")


@given(st.sets(st.integers(1, 60)), st.sampled_from([", ", ",", "\n", "; ", " "]))
def test_a_list_is_read_as_it_was_written(numbers, between):
    text = between.join(map(str, sorted(numbers))) or "NONE"
    assert parse_selection(text, 60).numbers == tuple(sorted(numbers))
    for shown_pieces in (
        json.dumps({"keep": sorted(numbers)}),
        f"```json\n{json.dumps(sorted(numbers))}\n```",
    ):
        assert parse_selection(shown_pieces, 60).numbers == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("2, 5-7", (2, 5, 6, 7)),
        ("<think>1 or 8?</think>\n\n2", (2,)),
        ("Answer: 2, 5", (2, 5)),
        ("２，５–7", (2, 5, 6, 7)),
        ("None of these pieces are relevant.", ()),
        ('{"keep": ["NONE"]}', ()),
        ('{"keep": []}', ()),
        ("**NONE**", ()),
        ("ALL", (1, 2, 3, 4, 5, 6, 7, 8)),
        ('{"keep": [{"n": 4, "starts": "The tower"}]}', (4,)),
        ('{"name": "reply", "arguments": {"keep": [2, "5-7"]}}', (2, 5, 6, 7)),
    ],
)
def test_what_the_grammar_has(reply, numbers):
    assert parse_selection(reply, 8).numbers == numbers


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Piece 4 is the one.",
        "4 and one more: 6",
        "two, and five through seven",
        "Needed: 2, 5. Not needed: 1",
        "Not 4",
        "2, 5 (7 is optional)",
        "2, 5, 12",
        "0",
        "7-5",
        "2..4",
        "2, 5\n\n3, 6",
        "[2, 5",
        "```\n2, 5",
        "<think>2, 5",
        '{"keep": [2], "also": [3]}',
        '[{"id": 2, "relevant": false}]',
        '{"keep": [true]}',
        "The tower was built in 1889.",
    ],
)
def test_what_it_has_not_is_never_guessed(reply):
    with pytest.raises(UnparsableReply):
        parse_selection(reply, 8)


PROSE = f"{', '.join(map(str, range(1, 61)))} are relevant."


def test_prose_behind_a_list_of_numbers_is_refused_at_once():
    """The time doubled with each number: 24 froze the process, in compiled code that nothing interrupts."""
    script = (
        "from denoise_core.s2a.replies import parse_selection\n"
        f"try: parse_selection({PROSE!r}, 60)\n"
        "except ValueError: print('refused')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "refused\n"


@pytest.mark.parametrize(
    "tail", ["", " are relevant.", "\n\n7", "-", " ,", "\n```", "]"]
)
@pytest.mark.parametrize(
    "between", [", ", "; ", " and ", "\n", ",\n ", " ", "  ,  ", "-"]
)
def test_reading_a_list_takes_time_in_proportion_to_its_length(between, tail):
    generator = random.Random(7)
    numbers = [str(generator.randint(1, 60)) for _ in range(4_000)]

    def read(count):
        reply = between.join(numbers[:count]) + tail

        def attempt():
            with contextlib.suppress(UnparsableReply):
                parse_selection(reply, 60)

        return attempt

    assert slope(read, (1_000, 2_000, 4_000)) <= 1.05


def seconds_for(reply):
    times = []
    for _ in range(3):
        began = time.thread_time()
        with contextlib.suppress(UnparsableReply):
            parse_selection(reply, 8)
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize(
    "tags",
    ["</s>", "<|im_end|> ", "[/INST]", "<think></think>", "```\n", "<answer>", "* "],
)
def test_a_reply_of_many_tags_takes_time_in_proportion_to_its_length(tags):
    """Tags at the end were cut off one by one, and the rest copied each time. Copies are no operations of Python,
    so this is timed: linear work takes four times as long, quadratic work sixteen times."""
    short, long = ("2" + tags * (size // len(tags)) for size in (200_000, 800_000))
    assert seconds_for(long) < 8 * seconds_for(short) + 0.05


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text):
    for read in (
        lambda: parse_selection(text, 8),
        lambda: parse_texts(text, "context"),
        lambda: parse_texts(text, "message"),
    ):
        try:
            read()
        except UnparsableReply:
            continue


@pytest.mark.parametrize(
    ("reply", "actual_result"),
    [
        ("Context: The tower.\nIt is tall.", "The tower.\nIt is tall."),
        ("context: NONE", ""),
        ('{"context": ""}', ""),
        ('```json\n{"context": "The tower."}\n```', "The tower."),
        ("The tower.", None),
        ("Sure! Context: The tower.", None),
        ("Context: a\nContext: b", None),
    ],
)
def test_written_text_stands_under_its_label(reply, actual_result):
    if actual_result is None:
        with pytest.raises(UnparsableReply):
            parse_texts(reply, "context")
    else:
        assert parse_texts(reply, "context") == (actual_result,)


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("*.jsonl")), ids=lambda one_passage: one_passage.stem
)
def test_no_list_of_the_corpus_is_misread(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["request"] not in ("numbers", "grouped_numbers"):
            continue
        try:
            actual_result = parse_selection(record["reply"], record["n"])
        except UnparsableReply:
            continue
        model_calls = {"keep": "keep", "leave_out": "drop"}[record["asked"]]
        got = sorted(actual_result.numbers)
        if actual_result.verb not in (None, model_calls):
            got = [
                position
                for position in range(1, record["n"] + 1)
                if position not in got
            ]
        assert got == record["read"], record["id"]


def test_one_corrective_turn_shows_the_reply_and_asks_for_json():
    fake_llm = FunctionLLM(
        lambda sent_messages: (
            '{"keep": [1]}' if len(sent_messages) > 2 else "Piece 1 is the one."
        )
    )
    s2a_result = S2ADenoiser(fake_llm).denoise("How tall?", [TOWER])
    assert [one_passage.text for one_passage in s2a_result.passages] == [
        "The tower is 330 m tall. "
    ]
    system, user, own_value, correction = fake_llm.received_messages[1]
    assert (system, user) == fake_llm.received_messages[0]
    assert own_value.content == "Piece 1 is the one."
    assert '{"keep": [numbers], "answered"' in correction.content
    assert "unreadable" in s2a_result.reports[0].notes[0]
    assert s2a_result.reports[0].call_count == 2


class RefusedError(Exception):
    """What a content filter answers."""

    status_code = 400


@pytest.mark.parametrize(
    "error",
    [RefusedError("content_filter"), RuntimeError("blocked by the policy")],
    ids=repr,
)
@pytest.mark.parametrize("bad", [{7}, {2, 17}, set(), set(range(20))], ids=len)
def test_one_refused_document_costs_one_document(error, bad):
    texts = [
        Passage(f"Fact {index} is known. So is more.", f"p{index}")
        for index in range(20)
    ]

    def reply(messages):
        if any(f"Fact {index} " in messages[-1].content for index in bad):
            raise error
        return "ALL"

    fake_llm = FunctionLLM(reply)
    s2a_result = S2ADenoiser(fake_llm).denoise("What is known?", texts)
    reply_list = (
        bad if isinstance(error, RefusedError) or len(bad) < 2 else range(20)
    )  # both halves: it may be the moment
    assert set(s2a_result.failures) == {f"p{index}" for index in reply_list}
    assert [one_passage.text for one_passage in s2a_result.passages] == [
        one_passage.text for one_passage in texts
    ]
    assert len(fake_llm.received_messages) <= (
        7 if len(bad) == 20 else 1 + 10 * len(bad)
    )
    assert bool(bad) is any(
        "refused" in position
        for one_record in s2a_result.reports
        for position in one_record.notes
    )


class BusyError(Exception):
    status_code = 503


@pytest.mark.parametrize(
    "error", [BusyError(), TimeoutError("late"), ConnectionError("gone")], ids=repr
)
def test_what_fails_for_the_moment_is_not_halved(error):
    def reply(messages):
        raise error

    fake_llm = FunctionLLM(reply)
    assert len(S2ADenoiser(fake_llm).denoise("How tall?", [TOWER, FRUIT]).failures) == 2
    assert len(fake_llm.received_messages) == 1


class Holding:
    """Held to a schema: its first words say which piece it means. ``structured`` as an adapter has it."""

    def __init__(self, *replies, structured=True):
        self.replies, self.structured, self.received_messages = (
            list(replies),
            structured,
            [],
        )

    def complete(self, messages):
        self.received_messages.append((messages, None))
        return Reply(self.replies.pop(0))

    async def acomplete(self, messages):
        return self.complete(messages)

    def complete_json(self, messages, schema):
        self.received_messages.append((messages, schema))
        if self.structured is None:
            self.structured = False
        return Reply(self.replies.pop(0))

    async def acomplete_json(self, messages, schema):
        return self.complete_json(messages, schema)


def starting(position, first_words):
    return json.dumps({"keep": [{"n": position, "starts": first_words}]})


def test_first_words_that_do_not_agree_are_asked_again():
    fake_llm = Holding(starting(2, "It was built"), starting(3, "It was built"))
    s2a_result = S2ADenoiser(fake_llm).denoise("When?", [TOWER])
    assert [one_passage.text for one_passage in s2a_result.passages] == [
        "I love it! It was built in 1889."
    ]  # a pronoun brings the one before
    assert "piece 2 does not begin with" in fake_llm.received_messages[1][0][-1].content


def test_what_never_agrees_loses_nothing():
    fake_llm = Holding(*[starting(2, "It was built")] * 2)
    s2a_result = S2ADenoiser(fake_llm).denoise("When?", [TOWER])
    assert s2a_result.passages == (TOWER,)
    assert "does not begin with" in s2a_result.failures["tower"]


def test_schemas_are_strict_and_the_prompt_asks_for_json():
    fake_llm = Holding(starting(1, "The tower"))
    S2ADenoiser(fake_llm).denoise("How tall?", [TOWER])
    ((messages, schema),) = fake_llm.received_messages
    items = schema["properties"]["keep"]["items"]
    assert schema["required"] == ["keep", "answered"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["answered"]["enum"] == ["yes", "partly", "no"]
    assert (items["required"], items["additionalProperties"]) == (
        ["n", "starts"],
        False,
    )
    assert '{"keep": [{"n": 2, "starts"' in messages[-1].content
    assert "NONE" not in messages[-1].content


def test_whether_a_model_can_is_found_by_asking_once():
    fake_llm = Holding("1", "1", "NONE", structured=None)
    S2ADenoiser(
        fake_llm, options=Options(join_passages=False, neutralize_question=False)
    ).denoise("How tall?", [TOWER, FRUIT, Passage("X.", "x")])
    assert [schema is None for _, schema in fake_llm.received_messages] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("reply", "numbers", "answered"),
    [
        ("2, 5-7\nANSWERED: no", (2, 5, 6, 7), "no"),
        ("NONE\nANSWERED: no", (), "no"),
        ("**2**\n\n**ANSWERED:** Partly.", (2,), "partly"),
        ("Keep: 2\nAnswered: YES", (2,), "yes"),
        ("2, 5 ANSWERED: yes", (2, 5), "yes"),
        ('{"keep": [{"n": 4, "starts": "The"}], "answered": "no"}', (4,), "no"),
        ('{"keep": [], "answered": "no"}', (), "no"),
        ("2, 5", (2, 5), None),
        ('{"keep": [2], "answered": "perhaps"}', (2,), None),
        ('{"keep": [2], "answered": true}', (2,), None),
    ],
)
def test_a_reply_says_whether_the_pieces_answer(reply, numbers, answered):
    selection = parse_selection(reply, 8)
    assert (selection.numbers, selection.answered) == (numbers, answered)


@pytest.mark.parametrize(
    "reply",
    [
        "ANSWERED: no",
        "2, 5\nANSWERED: perhaps",
        "2, 5\nANSWERED: yes, by 2",
        "The question is answered: yes",
        "2\nANSWERED: yes\nANSWERED: no",
    ],
)
def test_what_is_said_of_the_answer_in_other_words_is_not_read(reply):
    with pytest.raises(UnparsableReply):
        parse_selection(reply, 8)


@pytest.mark.parametrize("answered", ["yes", "partly"])
def test_no_piece_that_answers_is_a_contradiction_and_is_asked_for_again(answered):
    replies = iter([f"NONE\nANSWERED: {answered}", "1\nANSWERED: yes"])
    fake_llm = FunctionLLM(lambda sent_messages: next(replies))
    s2a_result = S2ADenoiser(fake_llm).denoise("How tall?", [TOWER])
    assert [passage.id for passage in s2a_result.passages] == ["tower"]
    assert s2a_result.answered == "yes"
    assert len(fake_llm.received_messages) == 2
