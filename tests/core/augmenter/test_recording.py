"""Recorded runs: written and read again, redacted, shown as a page."""

import asyncio
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from augmenter_doubles import RIGHT, WRONG, recorded, scripted
from augmenter_laws import check_answer
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import InputError, Passage
from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.traces.recording import from_lines, to_lines
from denoise_core.jsonable import to_jsonable
from denoise_core.report.loop import to_html
from denoise_core.testing import ListRetriever


def through_json(answer):
    return from_lines(line + "\n" for line in to_lines(answer))


def test_a_run_survives_being_written_and_read(passages, question):
    answer = recorded(passages, question, WRONG, OSError("down"), RIGHT)
    second_answer = through_json(answer)
    for what in ("text", "outcome", "stop_reason", "memory", "citations"):
        assert getattr(second_answer, what) == getattr(answer, what)
    assert second_answer.trace.usage == answer.trace.usage
    assert [(event.tag, event.error) for event in second_answer.trace.events] == [
        (event.tag, event.error) for event in answer.trace.events
    ]
    lines = list(to_lines(answer))
    assert list(to_lines(second_answer)) == lines
    kinds = [json.loads(line)["line"] for line in lines]
    assert kinds == ["answer", *["effect"] * len(answer.trace.events), "memory"]
    check_answer(second_answer)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected a line 'answer'"),
        (["{"], "line 1"),
        (["", '{"line": "nothing"}'], "line 2"),
        (['{"line": "answer", "version": 99}'], "line 1"),
        (["[]"], "line 1"),
        (
            [
                '{"line": "effect", "kind": "dream", "tag": "", "usage": null, "reply": null}'
            ],
            "line 1",
        ),
    ],
)
def test_other_lines_are_refused_by_number(lines, message):
    with pytest.raises(InputError, match=message):
        from_lines(lines)


OURS = st.sampled_from(
    [
        "role",
        "kind",
        "tag",
        "line",
        "outcome",
        "judge",
        "provenance",
        "action",
        "prompts",
        "x",
    ]
)
SECRET = "4711"
VALUES = st.recursive(
    st.sampled_from(
        [SECRET, f"a {SECRET} b", int(SECRET), 0.4711, -4711.5, True, None, "plain"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(OURS | st.just(SECRET), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    metadata=st.dictionaries(OURS | st.just(SECRET), VALUES, max_size=4), fields=VALUES
)
@settings(max_examples=40, deadline=None)
def test_redaction_is_by_position_and_reaches_keys_and_numbers(metadata, fields):
    passage = Passage(
        f"It was completed in 1889, {SECRET}.",
        f"id-{SECRET}",
        metadata=metadata,
        header=SECRET,
    )
    answer = recorded(
        [passage], f"When was {SECRET} completed?", OSError(SECRET), f"{RIGHT} {SECRET}"
    )
    attempts = tuple(
        replace(item, fields=to_jsonable({SECRET: fields}))
        for item in answer.memory.attempts
    )
    answer = replace(answer, memory=replace(answer.memory, attempts=attempts))
    events = tuple(
        replace(event, seconds=0) for event in answer.trace.events
    )  # a time may hold any digits
    answer = replace(answer, trace=replace(answer.trace, events=events))
    lines = list(to_lines(answer, redact=lambda text: text.replace(SECRET, "####")))
    assert SECRET not in "\n".join(lines)
    assert "####" in lines[0]
    second_answer = from_lines(lines)
    assert (second_answer.outcome, second_answer.stop_reason) == (
        answer.outcome,
        answer.stop_reason,
    )
    assert [m.role for m in second_answer.memory.history] == [
        m.role for m in answer.memory.history
    ]
    assert [event.tag for event in second_answer.trace.events] == [
        event.tag for event in answer.trace.events
    ]
    assert [type(action) for action in second_answer.memory.actions] == [
        type(action) for action in answer.memory.actions
    ]


@given(st.text(st.sampled_from('a é塔\ud83d\udc00\n"'), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_half_a_character_makes_no_trace_unwritable(text):
    passage = Passage(
        f"It was completed in 1889. {text}",
        f"id {text}",
        metadata={text: text},
        header=text,
    )
    answer = recorded(
        [passage], f"When was it completed? {text}", OSError(text), f"{RIGHT} {text}"
    )
    lines = list(to_lines(answer))
    "\n".join(lines).encode()
    from_lines(lines)
    to_html(answer)


class Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_the_page_shows_attempts_verdicts_evidence_and_what_was_cited(
    passages, question
):
    page = Text()
    page.feed(to_html(recorded(passages, question, WRONG, RIGHT)))
    for words in (
        question,
        WRONG,
        RIGHT,
        "supported",
        "unsupported",
        "missing: 1925",
        "cited",
        "Bananas",
        "draft",
        "20 tokens",
    ):
        assert words in page.text


def test_the_page_escapes_what_came_from_outside():
    evil = "<script>alert(1)</script><img src=x onerror=y>"
    answer = recorded((Passage(evil, evil),), evil, evil, OSError(evil))
    page = Text()
    page.feed(to_html(answer))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert evil in page.text


def test_a_page_without_attempts_is_a_page(question):
    assert "None was made." in to_html(
        asyncio.run(Augmenter(scripted(""), ListRetriever([])).aanswer(question))
    )
