"""Labels questions with a model's selection (S2A) and calibrates END on the labels."""

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

    One call a question where its passages are short. A question that they do not answer has no gold. ``progress``
    hears of questions done, and of all. If the model fails on one question, its reason takes that position; user
    errors raise.
    """
    s2a_denoiser = S2ADenoiser(llm, on_error="raise", on_irrelevant="drop")
    for n, question in enumerate(questions, 1):
        try:
            result = s2a_denoiser.denoise(question.text, question.passages)
        except Exception as error:  # the model's failure on this question
            # A wrong key or model name would fail for every question.
            if is_user_error(error):
                raise
            yield f"it could not be labelled: {format_error(error)}"
        else:
            gold_ids = frozenset(passage.id for passage in result.passages)
            if gold_ids:
                yield replace(question, gold=gold_ids)
            else:
                yield "no passage is needed, says the model"
        if progress is not None:
            progress(n, len(questions))


def write_labels(questions: Iterable[Question], path: str | Path) -> Path:
    """Questions, passages and labels as JSON lines, for a person to correct; `read_questions` reads them.

    Also writes a page for correcting them, ``path`` plus ``.html`` (needs the extra ``cli``).
    """
    json_lines = [
        {
            "question": question.text,
            "id": question.id,
            "answers": question.answers,
            "passages": [
                {
                    "is_gold": gold_ids,
                    "id": passage.id,
                    "source": str(passage.metadata.get("source", "")),
                    "text": passage.text_with_header,
                }
                for passage, gold_ids in zip(
                    question.passages, question.labels, strict=True
                )
            ],
        }
        for question in questions
    ]
    path = Path(path)
    written_lines = []
    for json_line in json_lines:
        line_text = json.dumps(json_line, ensure_ascii=False)
        written_lines.append(f"{line_text}\n")
    label_text = "".join(written_lines)
    write_whole(path, label_text)
    html_page = render_html("labels", json_lines)
    if html_page is not None:
        page_path = path.with_name(f"{path.name}.html")
        write_whole(page_path, html_page)
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
    retriever or ``llm`` may be None. ``labels`` is a file for all of them, plus an HTML page (`write_labels`).
    A question that the model fails on, or needs nothing for, is left out with a warning in the log. ``progress``
    hears of questions labelled, and of all. Raises `InputError` for a text without a retriever.
    """
    all_questions = [
        question
        if isinstance(question, Question)
        else _retrieve_question(question, retriever)
        for question in questions
    ]
    unlabelled_questions = [question for question in all_questions if not question.gold]
    model_labels = iter(
        () if llm is None else label_questions(unlabelled_questions, llm, progress)
    )
    labelled_or_reasons = [
        question if question.gold else next(model_labels, "nobody has labelled it")
        for question in all_questions
    ]
    labelled_questions = []
    for labelled in labelled_or_reasons:
        if isinstance(labelled, Question):
            labelled_questions.append(labelled)
        else:
            log.warning("a question is left out of the calibration: %s", labelled)
    if labels is not None:
        write_labels(labelled_questions, labels)
    return fit_denoiser(labelled_questions, model, risk=risk)


def _retrieve_question(text: str, retriever: Retriever | None) -> Question:
    if retriever is None:
        raise InputError(
            f"{text[:60]!r} has no passages: give a retriever, or a Question"
        )
    known_retriever = expect_retriever(retriever)
    passages = known_retriever.retrieve(text)
    written_ids = [passage.id for passage in passages]
    distinct_ids = unique_ids(written_ids)
    renamed_passages = []
    for passage, passage_id in zip(passages, distinct_ids, strict=True):
        renamed_passage = replace(passage, id=passage_id)
        renamed_passages.append(renamed_passage)
    return Question(text, tuple(renamed_passages), frozenset())
