"""Answers of a local model by what it reads and by how it is asked, kept so that a stopped run continues.

``answers``: from 1, 5, 10 and all 20 passages, and from what END keeps of them. ``drafts``: the loop's first draft
over five passages by its plain prompt, next to END's own prompt; a prompt is asked
once a question. Each reply is greedy and goes
into ``FOLDER/replies.jsonl`` with its CPU seconds, question by question, so that every way has the same questions
whenever a run is stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, draft_prompt
from denoise_core.end.denoiser import ENDDenoiser
from denoise_core.evaluate.metrics import contains_answer
from denoise_core.local.generation import LocalLLM
from denoise_core.protocols import Scorer
from denoise_core.question import Question
from denoise_core.support.answer_prompt import answer_messages
from denoise_core.text.delimit import copies_envelope
from denoise_core.types import Message, Passage
from denoise_lab.experiments.real_sets import cut_question

Messages: TypeAlias = tuple[Message, ...]
Ask: TypeAlias = Callable[[Question], Messages]

READ_COUNTS = (5, 1, 10, 20)
KEPT_COUNTS = (6, 3)
FIVE, PLAIN = "5 passages", "plain draft"
ALL = "20 passages"
DRAFT_WAYS = (FIVE, PLAIN)
ANSWER_WAYS = (
    *(f"{count} passages" for count in READ_COUNTS),
    *(f"END keeps {count}" for count in KEPT_COUNTS),
)
NEW_TOKENS = 24


@dataclass(frozen=True)
class ModelReply:
    """What the model replied to a question in one way, and the CPU seconds of it, scoring included."""

    text: str
    is_right: bool
    seconds: float

    @property
    def has_envelope(self) -> bool:
        return copies_envelope(self.text)


Replies: TypeAlias = Mapping[
    str, Sequence[ModelReply]
]  # by way, in one order of questions


def draft_replies(llm: LocalLLM, questions: Sequence[Question], path: Path) -> Replies:
    """END's own prompt over five passages, and the loop's first draft over the same."""
    ways: dict[str, Ask] = {
        FIVE: lambda question: _read(question, 5),
        PLAIN: _plain_draft,
    }
    return ask_all(llm, ways, questions, path)


def answer_replies(
    llm: LocalLLM, scorer: Scorer, questions: Sequence[Question], path: Path
) -> Replies:
    """From so many passages, and from so many that END keeps of all."""
    ways: dict[str, Ask] = {}
    for count in READ_COUNTS:
        ways[f"{count} passages"] = lambda question, count=count: _read(question, count)
    for count in KEPT_COUNTS:
        denoiser = ENDDenoiser(scorer, keep=count)
        ways[f"END keeps {count}"] = lambda question, denoiser=denoiser: (
            answer_messages(
                question.text,
                denoiser.denoise(question.text, question.passages).passages,
            )
        )
    return ask_all(llm, ways, questions, path)


def ask_all(
    llm: LocalLLM, ways: Mapping[str, Ask], questions: Sequence[Question], path: Path
) -> Replies:
    """The replies to each question in every way; those in ``path`` are not asked for again."""
    known = dict(_kept_replies(path))
    replies: dict[str, list[ModelReply]] = {way: [] for way in ways}
    with path.open("a", encoding="utf-8") as kept_file:
        for question in questions:
            by_prompt: dict[Messages, dict[str, Any]] = {}
            for way, ask in ways.items():
                record = known.get((way, question.id))
                if record is None:
                    record = _ask(llm, ask, question, by_prompt)
                    kept = {"way": way, "question": question.id, **record}
                    kept_file.write(json.dumps(kept, ensure_ascii=False) + "\n")
                    kept_file.flush()
                text = record["text"]
                is_right = contains_answer(text, question.answers)
                replies[way].append(ModelReply(text, is_right, record["seconds"]))
    return replies


def answered_questions(
    ways: Sequence[str], questions: Sequence[Question], path: Path
) -> list[Question]:
    """Those whose replies in all ways are kept already."""
    known = dict(_kept_replies(path))
    answered = []
    for question in questions:
        if all((way, question.id) in known for way in ways):
            answered.append(question)
    return answered


def _kept_replies(path: Path) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            yield (record["way"], record["question"]), record


def _ask(
    llm: LocalLLM,
    ask: Ask,
    question: Question,
    by_prompt: dict[Messages, dict[str, Any]],
) -> dict[str, Any]:
    """The reply and the seconds; a prompt that was asked for this question is not asked again."""
    start_time = time.process_time()
    messages = tuple(ask(question))
    if messages not in by_prompt:
        text = llm.complete(messages).text
        seconds = time.process_time() - start_time
        by_prompt[messages] = {"text": text, "seconds": seconds}
    return by_prompt[messages]


def _read(question: Question, count: int) -> Messages:
    return answer_messages(question.text, _passages(question, count))


def _passages(question: Question, count: int) -> tuple[Passage, ...]:
    """The needed passages and the first others; one that is needed if that is all that is read."""
    if count > 1:
        return cut_question(question, count).passages
    needed = [passage for passage in question.passages if passage.id in question.gold]
    return tuple(needed[:1])


def _plain_draft(question: Question) -> Messages:
    memory = WorkingMemory(question.text, evidence=_passages(question, 5))
    return draft_prompt(memory, QUESTION_ANSWERING, is_plain=True)
