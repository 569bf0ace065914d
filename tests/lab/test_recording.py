"""Recorded runs: written, read again, and refused by line."""

import pytest
from augmenter_doubles import RIGHT, WRONG, recorded, recorded_drafter
from augmenter_laws import check_answer

from denoise_core import InputError, Passage
from denoise_lab.recording import answer_from_lines, answer_to_lines

ODD = "a é塔\ud83d\udc00\n"  # half a character must not make a file unwritable


def run_of_a_model(passages, question):
    odd = Passage(f"It was completed in 1889. {ODD}", ODD, None, {ODD: ODD}, header=ODD)
    found = (odd, *passages)
    return recorded(found, question, WRONG, OSError("down"), f"{RIGHT} {ODD}")


@pytest.mark.parametrize("make", [run_of_a_model, recorded_drafter])
def test_a_run_survives_being_written_and_read(passages, question, make):
    answer = make(passages, question)
    lines = list(answer_to_lines(answer))
    "\n".join(lines).encode()
    again = answer_from_lines(line + "\n" for line in lines)
    assert list(answer_to_lines(again)) == lines
    assert len(lines) == len(answer.trace.events) + 2
    for what in ("outcome", "stop_reason", "judge"):
        assert getattr(again, what) == getattr(answer, what)
    assert again.trace.usage == answer.trace.usage
    actions = [type(action) for action in again.memory.actions]
    assert actions == [type(action) for action in answer.memory.actions]
    check_answer(again)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected a line 'answer'"),
        (["{"], "line 1"),
        (["", '{"line": "nothing"}'], "line 2"),
        (['{"line": "answer", "version": 99}'], "line 1"),
        (["[]"], "line 1"),
        (['{"line": "memory", "actions": 3}'], "line 1"),
        (['{"line": "memory", "actions": ["x"]}'], "line 1"),
        (['{"line": "effect", "kind": "dream", "tag": "", "reply": null}'], "line 1"),
    ],
)
def test_other_lines_are_refused_by_number(lines, message):
    with pytest.raises(InputError, match=message):
        answer_from_lines(lines)
