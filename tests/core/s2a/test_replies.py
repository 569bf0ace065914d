"""The strict grammar of replies, one corrective turn, first words that agree: nothing is read that was not
said."""

import contextlib
import json
import random
import time
from pathlib import Path

import pytest
from augmenter_doubles import scripted
from growing_texts import numbered_texts, passages_of
from growth import slope
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Passage, UnparsableReply
from denoise_core.s2a.replies import parse_selection, parse_texts
from denoise_core.testing import FunctionLLM

from .fakes import Structured, call_count, denoised, pieces, texts

CORPUS = Path(__file__).parents[2] / "data" / "replies"
TOWER = Passage("The tower is 330 m tall. I love it! It was built in 1889.", "tower")
FRUIT = Passage("Bananas are yellow. They grow in bunches.", "fruit")


@given(st.sets(st.integers(1, 60)), st.sampled_from([", ", ",", "\n", "; ", " "]))
def test_a_list_is_read_as_it_was_written(numbers, between):
    listed = sorted(numbers)
    for reply in (
        between.join(map(str, listed)) or "NONE",
        json.dumps({"keep": listed}),
        f"```json\n{listed}\n```",
    ):
        assert parse_selection(reply, 60).numbers == tuple(listed)


@pytest.mark.parametrize(
    ("reply", "numbers", "answered"),
    [
        ("2, 5-7", (2, 5, 6, 7), None),
        ("<think>1 or 8?</think>\n\n2", (2,), None),
        ("２,５–7", (2, 5, 6, 7), None),
        ("NONE. No piece is about it.", (), None),
        ('{"keep": []}', (), None),
        ("**NONE**", (), None),
        ('{"keep": [{"n": 4, "starts": "The tower"}]}', (4,), None),
        ("2, 5-7\nANSWERED: no", (2, 5, 6, 7), "no"),
        ("NONE\nANSWERED: no", (), "no"),
        ("**2**\n\n**ANSWERED:** Partly.", (2,), "partly"),
        ("2, 5 ANSWERED: yes", (2, 5), "yes"),
        ("2, 5\r\nANSWERED: yes\r\n", (2, 5), "yes"),
        ('{"keep": [{"n": 4, "starts": "The"}], "answered": "no"}', (4,), "no"),
        ('{"keep": [], "answered": "no"}', (), "no"),
        ('{"keep": [2], "answered": "perhaps"}', (2,), None),
    ],
)
def test_what_the_grammar_has(reply, numbers, answered):
    selection = parse_selection(reply, 8)
    assert selection.numbers == numbers
    assert selection.answered == answered


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Piece 4 is the one.",
        "4 and one more: 6",
        "two, and five through seven",
        "Needed: 2, 5. Not needed: 1",
        "Not 4",
        "ALL",
        "NONE are irrelevant, keep all",
        "KEEP 2",
        "DROP 2",
        '{"drop": [2]}',
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
        "ANSWERED: no",
        "2, 5\nANSWERED: perhaps",
        "2, 5\nANSWERED: yes, by 2",
        "The question is answered: yes",
        "2\nANSWERED: yes\nANSWERED: no",
    ],
)
def test_what_it_has_not_is_never_guessed(reply):
    with pytest.raises(UnparsableReply):
        parse_selection(reply, 8)


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
    for read, expected in (
        (parse_selection, 8),
        (parse_texts, "context"),
        (parse_texts, "message"),
    ):
        with contextlib.suppress(UnparsableReply):
            read(text, expected)


@pytest.mark.parametrize(
    ("reply", "written"),
    [
        ("Context: The tower.\nIt is tall.", "The tower.\nIt is tall."),
        ("context: NONE", ""),
        ("**Context:** The **red** tower.", "The **red** tower."),
        ("Context:**Red** is the **tower**", "**Red** is the **tower**"),
        ('{"context": ""}', ""),
        ('```json\n{"context": "The tower."}\n```', "The tower."),
    ],
)
def test_written_text_stands_under_its_label(reply, written):
    assert parse_texts(reply, "context") == (written,)


@pytest.mark.parametrize(
    "reply", ["The tower.", "Sure! Context: The tower.", "Context: a\nContext: b"]
)
def test_text_that_stands_elsewhere_is_not_read(reply):
    with pytest.raises(UnparsableReply):
        parse_texts(reply, "context")


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem
)
def test_no_list_of_the_corpus_is_misread(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        is_list = record["request"] in ("numbers", "grouped_numbers")
        if not is_list or record["asked"] != "keep":
            continue
        with contextlib.suppress(UnparsableReply):
            selection = parse_selection(record["reply"], record["n"])
            assert sorted(selection.numbers) == record["read"], record["id"]


def in_turn(*replies):
    """A function that gives one reply after the other, whatever it is asked."""
    remaining = iter(replies)
    return lambda *asked: next(remaining)


def test_one_corrective_turn_shows_the_reply_and_asks_for_json():
    llm = scripted("Piece 1 is the one.", '{"keep": [1]}')
    result = denoised(llm, [TOWER])
    assert texts(result.passages) == ["The tower is 330 m tall. "]
    first, (*repeated, own_reply, correction) = llm.received_messages
    assert tuple(repeated) == first
    assert own_reply.content == "Piece 1 is the one."
    assert '{"keep": [numbers], "answered"' in correction.content
    assert result.fallback is None


class StatusError(Exception):
    def __init__(self, status_code):
        self.status_code = status_code


@pytest.mark.parametrize(
    ("refused", "calls"), [({7}, 21), ({2, 17}, 21), (set(), 1), (set(range(20)), 3)]
)
def test_one_refused_document_costs_one_document(refused, calls):
    """A model that refuses everything is not asked about each."""
    passages = passages_of(numbered_texts("Fact {n} is known. So is more.", 20))

    def reply(messages):
        if any(f"Fact {n} " in messages[-1].content for n in refused):
            raise StatusError(400)
        return ", ".join(map(str, pieces(messages)))

    llm = FunctionLLM(reply)
    result = denoised(llm, passages)
    assert set(map(int, result.failures)) == refused
    assert result.passages == tuple(passages)
    assert call_count(llm) == calls


@pytest.mark.parametrize(
    "error", [StatusError(503), TimeoutError("late"), ConnectionError("gone")], ids=repr
)
def test_what_fails_for_the_moment_is_not_asked_again(error):
    llm = scripted(error)
    assert len(denoised(llm, [TOWER, FRUIT]).failures) == 2
    assert call_count(llm) == 1


def starting(number):
    return json.dumps({"keep": [{"n": number, "starts": "It was built"}]})


def test_first_words_that_do_not_agree_are_asked_again():
    llm = Structured(in_turn(starting(2), starting(3)))
    result = denoised(llm, [TOWER], keep_context=False)
    assert texts(result.passages) == ["It was built in 1889."]
    assert "piece 2 does not begin with" in llm.received_messages[1][-1].content


def test_what_never_agrees_loses_nothing():
    llm = Structured(lambda *asked: starting(2))
    result = denoised(llm, [TOWER])
    assert result.passages == (TOWER,)
    assert "does not begin with" in result.failures["tower"]


def test_schemas_are_strict_and_the_prompt_asks_for_json():
    llm = Structured(lambda *asked: '{"keep": []}')
    denoised(llm, [TOWER])
    (schema,) = llm.schemas
    items = schema["properties"]["keep"]["items"]
    assert schema["required"] == ["keep", "answered"]
    assert items["required"] == ["n", "starts"]
    assert schema["additionalProperties"] is items["additionalProperties"] is False
    assert schema["properties"]["answered"]["enum"] == ["yes", "partly", "no"]
    prompt = llm.received_messages[0][-1].content
    assert '{"keep": [{"n": 2, "starts"' in prompt
    assert "NONE" not in prompt


def test_whether_a_model_can_is_found_by_asking_once():
    llm = Structured(in_turn("1", "1", "NONE"), structured=None)
    denoised(llm, [TOWER, FRUIT, Passage("X.", "x")], join_passages=False)
    assert list(map(bool, llm.schemas)) == [True, False, False]


@pytest.mark.parametrize("answered", ["yes", "partly"])
def test_no_piece_that_answers_is_a_contradiction_and_is_asked_for_again(answered):
    llm = scripted(f"NONE\nANSWERED: {answered}", "1\nANSWERED: yes")
    result = denoised(llm, [TOWER])
    assert texts(result.passages) == ["The tower is 330 m tall. "]
    assert result.answered == "yes"
    assert call_count(llm) == 2
