"""The expensive method teaches the cheap one: a model's selection labels questions, END is calibrated on them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from denoise_core._files import write_whole
from denoise_core._optional import render_html
from denoise_core.embedded.fitted import FittedDenoiser, fit_denoiser
from denoise_core.errors import InputError, format_error, is_user_error
from denoise_core.protocols import LLM, Retriever, expect_retriever
from denoise_core.question import Question
from denoise_core.s2a.denoiser import S2ADenoiser
from denoise_core.types import unique_ids

log = logging.getLogger("denoise_core")

Progress = Callable[[int, int], None]


def label_questions(
    questions: Sequence[Question], llm: LLM, progress: Progress | None = None
) -> Iterator[Question | str]:
    """Each question with the passages as gold of which ``llm`` selects a part, or why there are none.

    One call a question where its passages are short. ``progress`` hears of questions done, and of all. That a
    model fails on one question is told in its place; mistakes raise.
    """
    selecting = S2ADenoiser(llm, on_error="raise")
    for n, question in enumerate(questions, 1):
        try:
            kept = selecting.denoise(question.text, question.passages).passages
        except Exception as error:  # the model's failure on this question
            if is_user_error(error):
                raise
            yield f"it could not be labelled: {format_error(error)}"
        else:
            gold = frozenset(p.id for p in kept)
            yield (
                replace(question, gold=gold)
                if gold
                else "no passage is needed, says the model"
            )
        if progress is not None:
            progress(n, len(questions))


def write_labels(questions: Iterable[Question], path: str | Path) -> Path:
    """Questions, passages and labels as JSON lines, for a person to correct; `read_questions` reads them.

    Beside them a page to look through and correct them in, ``path`` with ``.html`` behind it (extra ``cli``).
    """
    lines = [
        {
            "question": q.text,
            "id": q.id,
            "answers": q.answers,
            "passages": [
                {
                    "is_gold": gold,
                    "id": p.id,
                    "source": str(p.metadata.get("source", "")),
                    "text": p.text_with_header,
                }
                for p, gold in zip(q.passages, q.labels, strict=True)
            ],
        }
        for q in questions
    ]
    path = Path(path)
    write_whole(
        path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    )
    if (page := render_html("labels", lines)) is not None:
        write_whole(path.with_name(f"{path.name}.html"), page)
    return path


def calibrate(
    retriever: Retriever | None,
    questions: Iterable[str | Question],
    llm: LLM | None,
    *,
    labels: str | Path | None = None,
    model: Any = None,
    risk: float | None = None,
    progress: Progress | None = None,
) -> FittedDenoiser:
    """A denoiser calibrated on your questions: ``retriever`` finds passages, ``llm`` selects those that are
    needed, and `fit_denoiser` learns from that; ``model`` and ``risk`` are its own, and so is what it raises.

    A `Question` keeps its passages and, where it has any, its labels, so that people's take the same way; then
    retriever or ``llm`` may be None. ``labels`` is a file for all of them, with a page beside it (`write_labels`).
    A question that the model fails on, or needs nothing for, is left out with a warning in the log. ``progress``
    hears of questions labelled, and of all. Raises `InputError` for a text without a retriever.
    """
    asked = [q if isinstance(q, Question) else _found(q, retriever) for q in questions]
    unknown = [q for q in asked if not q.gold]
    made = iter(() if llm is None else label_questions(unknown, llm, progress))
    found = [q if q.gold else next(made, "nobody has labelled it") for q in asked]
    known = [q for q in found if isinstance(q, Question)]
    for reason in (why for why in found if isinstance(why, str)):
        log.warning("a question is left out of the calibration: %s", reason)
    if labels is not None:
        write_labels(known, labels)
    return fit_denoiser(known, model, risk=risk)


def _found(text: str, retriever: Retriever | None) -> Question:
    if retriever is None:
        raise InputError(
            f"{text[:60]!r} has no passages: give a retriever, or a Question"
        )
    passages = expect_retriever(retriever).retrieve(text)
    ids = unique_ids([p.id for p in passages])
    return Question(
        text,
        tuple(replace(p, id=i) for p, i in zip(passages, ids, strict=True)),
        frozenset(),
    )
