"""What is right: judges by any model, read strictly, and judges by rule.

A judge gives a number, or None for *unknown*: a verdict that cannot be read is never a pass and never a fail.
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
from denoise_core.protocols import LLM
from denoise_core.runtime.effects import Flow, complete
from denoise_core.s2a.prompts import Prompt
from denoise_core.text.delimit import wrap_in_envelope
from denoise_lab.s2a.cases import Case

_MATERIAL = "{material}\n\n"

FACTUALITY = Prompt("judge_factuality", "2", GRADER_SYSTEM_PROMPT, GRADER_PROMPT)

QUALITY = Prompt(
    "judge_quality",
    "2",
    GRADER_SYSTEM_PROMPT,
    _MATERIAL
    + """\
How helpful, relevant, accurate and clear is the answer? Reply with one whole number from 1 (useless) to 5 \
(excellent).""",
)

SENTIMENT = Prompt(
    "judge_sentiment",
    "2",
    GRADER_SYSTEM_PROMPT,
    _MATERIAL
    + """\
How does the answer feel about its subject? Reply with one whole number from -5 (wholly against) over 0 (neutral) \
to 5 (wholly in favour).""",
)

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


class Judge(Protocol):
    """``name`` heads the table; ``judge`` gives the score of one answer, None when it is unknown."""

    @property
    def name(self) -> str:
        """The table's column for its marks."""
        ...

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        """The mark of an answer to a case; None if it is unknown."""
        ...


class _ByModel:
    name: str
    prompt: Prompt

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = llm

    def ask(self, case: Case, answer: str) -> Flow[str]:
        material = wrap_in_envelope(
            f"Question: {case.clean_question}\n\nAnswer: {answer}", "answer"
        )
        values = {"material": material, "gold": " / ".join(case.gold)}
        messages = self.prompt.render(
            by_schema=False, **{f: values[f] for f in self.prompt.field_names}
        )
        reply = yield from complete(messages, tag=f"judge.{self.name}", llm=self.llm)
        return single_word(reply.text)


class FactualityJudge(_ByModel):
    """1 when a model finds the answer to say what the gold says, 0 when not (factual questions)."""

    name = "factuality"
    prompt = FACTUALITY

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        if not answer.strip():
            return 0.0
        word = (yield from self.ask(case, answer)).upper()
        return {"CORRECT": 1.0, "INCORRECT": 0.0}.get(word)


class QualityJudge(_ByModel):
    """1 to 5, by a model (longform answers)."""

    name = "quality"
    prompt = QUALITY

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        mark = yield from self.ask(case, answer)
        return float(mark) if re.fullmatch(r"[1-5]", mark) else None


class ObjectivityJudge(_ByModel):
    """5 - |S| with S the sentiment that a model finds, -5 to 5 (paper, section 3.1)."""

    name = "objectivity"
    prompt = SENTIMENT

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        mark = (yield from self.ask(case, answer)).replace("−", "-")
        return 5.0 - abs(int(mark)) if re.fullmatch(r"[-+]?[0-5]", mark) else None


class NumberJudge:
    """1 when the last number of the answer equals the gold (word problems); 0 when there is none."""

    name = "match"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        said = _NUMBER.findall(answer.replace("−", "-"))
        wanted = [_value(g) for g in case.gold]
        if None in wanted:
            return None
        yield from ()
        return float(bool(said) and _value(said[-1]) in wanted)


class MatchJudge:
    """1 when the answer contains a form of the gold as whole words. No model, and easily fooled: for trials."""

    name = "mention"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        text = f" {_words(answer)} "
        return float(any(f" {_words(g)} " in text for g in case.gold if _words(g)))


def _value(text: str) -> float | None:
    whole, _, under = text.replace(",", "").replace("$", "").strip().partition("/")
    try:
        return float(whole) / float(under) if under else float(whole)
    except (ValueError, ZeroDivisionError):
        return None


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
