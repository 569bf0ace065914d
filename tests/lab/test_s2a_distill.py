"""Records survive being written and read, and only faithful ones are exported."""

from __future__ import annotations

import dataclasses
import json

import pytest
from augmenter_doubles import scripted
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.s2a import S2A
from denoise_lab.s2a import distill
from denoise_lab.s2a.distill import DistillRecord, RecordPassage

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.builds(
    DistillRecord,
    question=TEXTS,
    passages=st.lists(st.builds(RecordPassage, TEXTS, TEXTS)).map(tuple),
    clean_question=TEXTS,
    clean_passages=st.lists(
        st.builds(RecordPassage, TEXTS, TEXTS, st.just(((0, 3), (5, 9))))
    ).map(tuple),
    answer=TEXTS,
    verdict=st.sampled_from(["pass", "fail", "unknown"]),
    added=st.integers(0, 3),
    fallback=st.none() | TEXTS,
)
GOOD = DistillRecord(
    "Q?",
    (RecordPassage("a", "One. Two."),),
    "Q?",
    (RecordPassage("a", "One.", ((0, 4),)),),
    "One",
    "pass",
)


@given(st.lists(RECORDS, max_size=4))
def test_records_survive_the_file(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    assert distill.save_records(records, path) == len(records)
    assert distill.load_records(path) == records


def test_a_record_of_a_run():
    passages = [Passage("One is 1. I love two.", "a")]
    answer = S2A(scripted("1", "It is 1.")).answer("What is one?", passages)
    record = DistillRecord.from_answer("What is one?", passages, answer, verdict="pass")
    assert record.clean_passages == (RecordPassage("a", "One is 1. ", ((0, 10),)),)
    assert list(distill.filter_faithful([record], only_passed=True)) == [record]


@pytest.mark.parametrize(
    "fault", [{"added": 1}, {"fallback": "x"}, {"verdict": "fail"}, {"answer": " "}]
)
def test_unfaithful_records_are_left_out_and_unknown_verdicts_are_a_choice(fault):
    unknown = dataclasses.replace(GOOD, verdict="unknown")
    records = [GOOD, dataclasses.replace(GOOD, **fault), unknown]
    assert list(distill.filter_faithful(records)) == [GOOD, unknown]
    assert list(distill.filter_faithful(records, only_passed=True)) == [GOOD]


def test_chat_examples_survive_the_file(tmp_path):
    path = tmp_path / "chat.jsonl"
    assert distill.export_chat([GOOD, GOOD], path) == 2
    first, second = map(json.loads, path.read_text("utf-8").splitlines())
    assert first == second == distill.chat_example(GOOD)
    messages = first["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    assert messages[-1]["content"] == "One"
    assert "Two." in messages[-2]["content"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"version": 9}',
        "[" * 50_000,
        json.dumps(dataclasses.asdict(GOOD) | {"answer": None}),
    ],
)
def test_a_bad_line_is_named_by_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    distill.save_records([GOOD], path)
    with open(path, "a") as out:
        out.write(line + "\n")
    with pytest.raises(InputError, match="line 2"):
        distill.load_records(path)
    assert distill.load_records(path, skip_bad=True) == [GOOD]


def test_half_a_character_is_written(tmp_path):
    record = dataclasses.replace(
        GOOD, answer="One \ud83d", passages=(RecordPassage("a", "One.\ud800 Two."),)
    )
    path = tmp_path / "records.jsonl"
    assert distill.save_records([record], path) == 1
    (loaded,) = distill.load_records(path)
    assert loaded.answer == "One \ufffd"
    assert loaded.passages[0].text == "One.\ufffd Two."
    assert distill.export_chat([record], tmp_path / "chat.jsonl") == 1
