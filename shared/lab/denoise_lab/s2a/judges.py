"""Judges of answers: by rule, or by any model whose verdict is read strictly.

A judge returns a score, or None for *unknown*: a verdict that cannot be read is never a pass and never a fail.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Protocol

from denoise_core.evaluate.comparison.answering import (
    GRADER_PROMPT,
    GRADER_SYSTEM_PROMPT,
    single_word,
)
from denoise_core.evaluate.metrics import exact_match
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow, complete
from denoise_core.s2a.prompts import Prompt
from denoise_core.text.delimit import wrap_in_envelope
from denoise_lab.s2a.cases import Case

FACTUALITY = Prompt("judge_factuality", "2", GRADER_SYSTEM_PROMPT, GRADER_PROMPT)

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


class Judge(Protocol):
    """Scores one answer to a case."""

    @property
    def name(self) -> str:
        """The table's column for its scores."""
        ...

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        """The score of an answer, None if it is unknown."""
        ...


class FactualityJudge:
    """1 if a model finds that the answer says what the gold says, 0 if not (S2A paper, section 3.1.1)."""

    name = "factuality"

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = llm

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        if not answer.strip():
            return 0.0
        asked_text = f"Question: {case.clean_question}\n\nAnswer: {answer}"
        messages = FACTUALITY.render(
            by_schema=False,
            material=wrap_in_envelope(asked_text, "answer"),
            gold=" / ".join(case.gold),
        )
        reply = yield from complete(messages, tag="judge.factuality", llm=self.llm)
        verdict = single_word(reply.text).upper()
        return {"CORRECT": 1.0, "INCORRECT": 0.0}.get(verdict)


class NumberJudge:
    """1 if the last number of the answer equals the gold, 0 if not or if it has none (word problems)."""

    name = "match"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        gold_values = [_parse_number(gold_text) for gold_text in case.gold]
        if None in gold_values:
            return None
        number_texts = _NUMBER.findall(answer.replace("−", "-"))
        if not number_texts:
            return 0.0
        return float(_parse_number(number_texts[-1]) in gold_values)


class MentionJudge:
    """1 if the answer contains an accepted one as whole words, else 0. Asks no model and is easily fooled."""

    name = "mention"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        answer_words = f" {_join_words(answer)} "
        for gold_text in case.gold:
            gold_words = _join_words(gold_text)
            if gold_words and f" {gold_words} " in answer_words:
                return 1.0
        return 0.0


class ExactJudge:
    """1 if the answer, without steps before it and a full stop after it, is an accepted one, else 0."""

    name = "exact"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        _, _, final_answer = answer.rpartition("The answer is ")
        final_answer = final_answer.strip().removesuffix(".").strip()
        return float(exact_match(final_answer, case.gold))


def _parse_number(text: str) -> float | None:
    """The value of an integer, a decimal number or a fraction; None for other text."""
    numerator, _, denominator = text.replace(",", "").replace("$", "").partition("/")
    try:
        value = float(numerator)
        if denominator:
            value /= float(denominator)
    except (ValueError, ZeroDivisionError):
        return None
    return value


def _join_words(text: str) -> str:
    folded_text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded_text))
