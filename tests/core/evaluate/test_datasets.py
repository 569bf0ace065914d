"""Every usual shape of a question set becomes the same thing, and a bad record is named by its place."""

import gzip
import json

import pytest

from denoise_core import InputError
from denoise_core.evaluate.datasets import parse_cases, read_questions
from denoise_core.evaluate.metrics import contains_answer

OURS = {
    "id": "q1",
    "question": "who?",
    "answers": ["Ann"],
    "passages": [
        {"id": "a", "title": "T", "text": "Ann did.", "is_gold": True},
        {"id": "b", "title": "", "text": "Bob.", "is_gold": False},
    ],
}
BY_HAND = {
    "id": "h",
    "question": "who?",
    "passages": ["T\nAnn did.", "Bob."],
    "labels": [1, 0],
}
RETRIEVED = {
    "question": "who?",
    "answers": ["Ann", "Anna"],
    "id": "m",
    "ctxs": [
        {"id": "7", "title": "T", "text": "Ann did.", "has_answer": True},
        {"title": "", "text": "Bob.", "has_answer": False},
    ],
}
RETRIEVED_COLUMNS = {"passages": "ctxs", "is_gold": "has_answer"}


def labelled(*records, skip_bad=False):
    return parse_cases(
        enumerate(records, 1),
        columns=RETRIEVED_COLUMNS,
        labelled=True,
        skip_bad=skip_bad,
    ).questions


@pytest.mark.parametrize(
    ("record", "ids", "answers"),
    [
        (OURS, ["a", "b"], ("Ann",)),
        (BY_HAND, ["passage-0", "passage-1"], ()),
        (RETRIEVED, ["7", "passage-1"], ("Ann", "Anna")),
    ],
)
def test_every_shape_gives_the_same_passages_and_gold(record, ids, answers):
    (question,) = labelled(record)
    assert (question.id, question.text) == (record["id"], "who?")
    assert [passage.text for passage in question.passages] == ["T\nAnn did.", "Bob."]
    assert [passage.id for passage in question.passages] == ids
    assert question.labels == (True, False)
    assert question.answers == answers


@pytest.mark.parametrize("file_name", ["q.jsonl", "q.jsonl.gz"])
def test_files_of_lines_packed_or_not(tmp_path, file_name):
    text = f"\ufeff{json.dumps(OURS)}\n\n{json.dumps(BY_HAND)}\n"
    pack = gzip.compress if file_name.endswith("gz") else bytes
    (tmp_path / file_name).write_bytes(pack(text.encode()))
    questions = read_questions(tmp_path / file_name).questions
    assert [question.id for question in questions] == ["q1", "h"]


def test_a_malformed_line_is_named_by_number_and_can_be_passed_over(tmp_path):
    path = tmp_path / "q.jsonl"
    lines = (json.dumps(OURS), "", "{oops", "[1]", '{"question": "x"}')
    path.write_text("\n".join([*lines, json.dumps(BY_HAND)]))
    with pytest.raises(InputError, match="record 3: not JSON"):
        read_questions(path)
    cases = read_questions(path, skip_bad=True)
    assert [question.id for question in cases.questions] == ["q1", "h"]
    assert [problem.line_number for problem in cases.problems] == [3, 4, 5]


WITHOUT = [
    ([OURS], "expected an object such as"),
    ({"passages": []}, "'question'"),
    ({"question": "q"}, "'passages'"),
    ({"question": "q", "passages": ["a", "b"], "labels": [1]}, "one for each of 2"),
    ({"question": "q", "passages": ["a"], "labels": [2]}, "true or false"),
    ({"question": "q", "passages": [{"text": "a"}]}, "is_gold"),
    ({"question": "q", "passages": [{"text": None, "is_gold": 1}]}, "'text'"),
    ({"question": "q", "passages": "abc"}, "expected a list"),
    ({"question": "q", "passages": [" "], "labels": [1]}, "passages are empty"),
    ({**BY_HAND, "answers": {"text": ["Ann"]}}, "'answers': expected a list of texts"),
    ({"question": "q", "passages": ["a"], "answers": ["a"]}, "add 'labels'"),
]


@pytest.mark.parametrize(("record", "message"), WITHOUT)
def test_what_a_record_lacks_is_said(record, message):
    with pytest.raises(InputError, match=message):
        labelled(record)
    assert len(labelled(record, OURS, skip_bad=True)) == 1


@pytest.mark.parametrize(
    ("file_name", "content"),
    [
        ("a.jsonl", b"\xff\xfe"),
        ("b.jsonl.gz", b"no gzip"),
        ("none.jsonl", None),
    ],
)
def test_an_unreadable_file(tmp_path, file_name, content):
    if content:
        (tmp_path / file_name).write_bytes(content)
    with pytest.raises(InputError, match=file_name):
        read_questions(tmp_path / file_name)


@pytest.mark.parametrize(
    ("file_text", "answers", "found"),
    [
        ("It was ANN, then.", ["ann"], True),
        ("Joanne did.", ["Ann"], False),
        ("the U.S. army", ["U.S."], True),
        ("the US army", ["U.S."], False),
        ("in 1984 it", ["984", "19"], False),
        ("Cafe\u0301 de Flore", ["caf\u00e9 de flore"], True),
        ("anything", ["", "  "], False),
        ("anything", [], False),
        ("住在東京", ["住在東京"], True),
    ],
)
def test_an_answer_is_found_as_whole_words(file_text, answers, found):
    assert contains_answer(file_text, answers) is found


def test_a_number_in_gold_is_an_id_where_a_passage_has_it():
    def parse(passages, gold):
        record = {"question": "Which?", "passages": passages, "gold": gold}
        return parse_cases([(1, record)]).questions[0]

    texts = [{"id": number, "text": f"Text {number}."} for number in (1, 2, 3)]
    assert parse(texts, [1, 3]).gold == {"1", "3"}
    by_index = parse(["a", "b"], [1])
    assert by_index.gold == {by_index.passages[1].id}
    with pytest.raises(InputError, match="none of its passages"):
        parse(texts, [None, True])
