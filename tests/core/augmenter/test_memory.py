"""Working memory: best attempt, repeats, and JSON there and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import Drop, InputError, Message, Passage, Span
from denoise_core.augmenter import AnswerVerdict, Attempt, ClaimVerdict, WorkingMemory
from denoise_core.augmenter.actions import (
    Abstain,
    Draft,
    Readmit,
    Search,
    SelfAsk,
    Send,
)
from denoise_core.augmenter.knowledge.evidence_budget import restore_dropped
from denoise_core.augmenter.traces.recording import memory_from_json, memory_to_json
from denoise_core.support.judging import Quote
from denoise_core.text.facts import Difference

text = st.text(max_size=20)
unit = st.floats(0, 1)
spans = st.builds(Span, text, st.integers(0, 9), st.integers(10, 99))
metadata = st.dictionaries(
    text,
    st.one_of(text, st.integers(), st.booleans(), st.none(), st.lists(text)),
    max_size=2,
)
passages = st.builds(
    Passage,
    text,
    text,
    st.one_of(st.none(), unit),
    metadata,
    st.lists(spans, max_size=2).map(tuple),
    st.booleans(),
    text,
    st.sampled_from(["retrieved", "tool", "user", "model"]),
)
optional_booleans = st.one_of(st.none(), st.booleans())
quotes = st.builds(Quote, spans, text, st.sampled_from(["supports", "contradicts"]))
differences = st.builds(
    Difference, text, text, text, st.integers(0, 9), st.integers(10, 99)
)
claims = st.builds(
    ClaimVerdict,
    text,
    st.integers(0, 9),
    st.integers(10, 99),
    optional_booleans,
    st.one_of(st.none(), unit),
    st.lists(quotes, max_size=2).map(tuple),
    st.lists(differences, max_size=2).map(tuple),
    text,
    text,
)
verdicts = st.builds(
    AnswerVerdict,
    optional_booleans,
    unit,
    st.lists(claims, max_size=2).map(tuple),
    optional_booleans,
    text,
    text,
    text,
)
some = st.lists(passages, max_size=3).map(tuple)
fields = st.one_of(
    st.none(),
    st.dictionaries(text, st.one_of(text, st.integers(), st.lists(text)), max_size=2),
)
attempts = st.builds(Attempt, text, verdicts, text, some, st.integers(0, 3), fields)
acts = st.one_of(
    st.builds(Search, st.booleans(), unit),
    st.builds(Readmit, st.integers(1, 5), unit),
    *(st.builds(kind, unit) for kind in (SelfAsk, Draft, Send, Abstain)),
)
memories = st.builds(
    WorkingMemory,
    text,
    some,
    st.lists(attempts, max_size=4).map(tuple),
    st.lists(
        st.builds(Message, st.sampled_from(["user", "assistant"]), text), max_size=2
    ).map(tuple),
    some,
    st.lists(st.builds(Drop, spans, text, st.one_of(st.none(), unit)), max_size=3).map(
        tuple
    ),
    st.lists(text, max_size=2).map(tuple),
    st.lists(acts, max_size=4).map(tuple),
    st.lists(st.tuples(text, text), max_size=2).map(tuple),
    st.one_of(st.none(), st.booleans()),
    some,
    st.booleans(),
    st.booleans(),
)


@given(memories)
def test_a_memory_survives_json(memory):
    there = json.loads(json.dumps(memory_to_json(memory), allow_nan=False))
    assert memory_from_json(there) == memory


@given(memories)
def test_the_best_attempt_is_the_earliest_of_the_highest_rank(memory):
    best = memory.best
    if best is None:
        assert memory.attempts == ()
        return
    if memory.last.is_abstention and best is memory.last:
        return
    ranked = [a for a in memory.attempts if a.has_text] or memory.attempts

    def kind(attempt):
        """What is to be sent first: supported, partly, unknown, abstaining, refuted."""
        verdict = attempt.verdict
        if verdict.abstains and not verdict.passed:
            return 3
        return ("pass", "partial", "unknown", "", "fail").index(verdict.outcome)

    best_kind = min(map(kind, ranked))
    ranked = [a for a in ranked if kind(a) == best_kind]
    highest = max(a.verdict.score for a in ranked)
    assert next(a for a in ranked if a.verdict.score == highest) is best


@pytest.mark.parametrize(
    "data", [None, {}, {"version": 2}, {"version": 4}, {"version": 5, "actions": 3}]
)
def test_other_json_is_refused(data):
    with pytest.raises(InputError, match="memory: "):
        memory_from_json(data)


def test_readmission_puts_a_range_back_at_its_place():
    source = Passage("One. Two. Three.", "p")
    kept_value = Passage("One. ", "p", spans=(Span("p", 0, 5),))
    drops = (Drop(Span("p", 5, 10), "low", 0.1), Drop(Span("p", 10, 16), "low", 0.2))
    memory = WorkingMemory("q", (kept_value,), retrieved=(source,), dropped=drops)
    once = restore_dropped(memory, 1)
    assert [p.text for p in once.evidence] == ["One. Three."]
    assert once.dropped == drops[:1]
    assert restore_dropped(once, 5).evidence == (source,)


def test_readmission_beside_rewritten_text_is_a_passage_of_its_own():
    source = Passage("One. Two.", "p")
    rewritten = Passage("Uno.", "p", spans=(Span("p", 0, 5),), is_rewritten=True)
    memory = WorkingMemory(
        "q", (rewritten,), retrieved=(source,), dropped=(Drop(Span("p", 5, 9), "low"),)
    )
    restored_passages = restore_dropped(memory, 1).evidence
    assert [(p.id, p.text) for p in restored_passages] == [
        ("p", "Uno."),
        ("p#2", "Two."),
    ]


def test_chunks_without_a_score_come_back_last():
    source = Passage("abc", "p")
    drops = tuple(
        Drop(Span("p", n, n + 1), "low", s) for n, s in enumerate((None, -5.0, 2.0))
    )
    memory = WorkingMemory("q", retrieved=(source,), dropped=drops)
    assert [restore_dropped(memory, n).evidence[0].text for n in (1, 2, 3)] == [
        "c",
        "bc",
        "abc",
    ]
