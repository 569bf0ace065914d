"""What the loop's outcomes are worth: real models' answers as drafts, and drafts from distractors.

MTRAG: answers of three writers to the same questions, rated for faithfulness by people (good is a median of 4
of 4). Each is the first draft in turn, the others follow in the order of the file when the loop asks again.
NQ, XQuAD and HotpotQA: a drafted name is taken from the text of a distractor or, as the control, from the
answers; each stands alone and is judged with all passages as evidence. Thresholds and rules were chosen while
looking at the development files, these among them. The quoting judge sees a sample of each, with replies
recorded from a large language model (recorded/loop.jsonl).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from _recorded import FOLDER
from harness import Benchmark, Options, arguments, read_data_set

from denoise_core import Passage
from denoise_core.augmenter import Answer, Augmenter, Groundedness, LoopLimits, Outcome
from denoise_core.augmenter.drafting import DraftReply, DraftRequest, FixedText
from denoise_core.embedded.sample import sample_questions
from denoise_core.evaluate.datasets import read_questions
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_lab.split import question_fraction

_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][a-z]+(?:\s[A-Z][a-z]+){1,3}\b")
_NAMED = {
    "NQ": "nq_gold_distractors20",
    "XQuAD": "xquad_en",
    "HotpotQA": "hotpotqa_distractor",
}
_FROM = {
    "NQ": 0.75,
    "XQuAD": 0.75,
    "HotpotQA": 0.70,
}  # places of the questions that replies were recorded for
_MOST = 100  # questions of each
_SAMPLE = {
    "MTRAG": 16,
    "NQ": 10,
    "XQuAD": 10,
    "HotpotQA": 10,
}  # questions with recorded replies


class Drafts:
    """Plays the answers to one question, the last for ever."""

    repeatable = True

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)

    def draft(self, request: DraftRequest) -> DraftReply:
        return DraftReply(self.texts[min(request.attempt, len(self.texts) - 1)])

    async def adraft(self, request: DraftRequest) -> DraftReply:
        return self.draft(request)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("loop_outcomes", options)
    rows = _made_up() if options.quick else _rated(options)
    named = {
        name: _made_up_names() if options.quick else _names(options, name)
        for name in _NAMED
    }
    if options.quick:
        quoting = Groundedness(
            lambda question, evidence, claim: float(any(claim in e for e in evidence))
        )
    else:
        quoting = Groundedness(LLMJudge(RecordedLLM.from_file(FOLDER / "loop.jsonl")))
    _real_drafts(bench, sampled(rows, _SAMPLE["MTRAG"]), quoting)
    for name, questions in named.items():
        _distractors(bench, name, sampled(questions, _SAMPLE[name]), quoting, 0.2)
    return bench.finish()


def sampled(rows: Sequence[Any], count: int) -> Sequence[Any]:
    """``count`` rows, at even distances."""
    return [rows[n * len(rows) // count] for n in range(min(count, len(rows)))]


def _rated(options: Options) -> list[tuple[str, tuple[Passage, ...], dict[str, bool]]]:
    """Questions with evidence and what people thought of each text."""
    found = []
    for row in read_data_set(options.data, "mtrag_human_eval"):
        evidence = _passages(row["passages"])
        rated = {
            r["text"].strip(): statistics.median_low(r["human"]["faithfulness"]) >= 4
            for r in row["responses"]
            if r["human"].get("faithfulness") and r["text"].strip()
        }
        if evidence and len(rated) > 1:
            found.append((row["question"], evidence, rated))
    return found


def _passages(listed: Sequence[dict[str, Any]]) -> tuple[Passage, ...]:
    return tuple(
        Passage(p["text"], f"{n}", header=str(p.get("title") or ""))
        for n, p in enumerate(listed)
        if p["text"].strip()
    )


def _real_drafts(
    bench: Benchmark,
    rows: Sequence[tuple[str, tuple[Passage, ...], dict[str, bool]]],
    utility: Groundedness,
) -> None:
    good = sent_as_written = bad_passed = extra = corrected = harmed = runs = 0
    outcomes: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
    loop = Augmenter(judge=utility, limits=LoopLimits(patience=3))
    by = f"MTRAG, {utility.name}:"
    for question, evidence, rated in rows:
        texts = list(rated)
        for first in range(len(texts)):
            order = texts[first:] + texts[:first]
            answer = loop.answer(question, drafter=Drafts(order), evidence=evidence)
            runs += 1
            outcomes[answer.outcome] += 1
            extra += answer.memory.draft_count - 1
            good += rated[order[0]]
            sent_as_written += rated[order[0]] and answer.text == order[0]
            passed = answer.memory.attempts[0].verdict.passed
            bad_passed += passed and not rated[order[0]]
            corrected += rated[answer.text] and not rated[order[0]]
            harmed += rated[order[0]] and not rated[answer.text]
    bench.row(f"{by} first drafts that are good", good / max(1, runs), "share")
    for outcome, count in outcomes.items():
        bench.row(f"{by} {outcome}", count / max(1, runs), "share")
    bench.share(
        f"{by} good drafts sent",
        sent_as_written,
        good,
        at_least=0.85,
    )
    bench.share(
        f"{by} bad drafts passed",
        bad_passed,
        runs - good,
        at_most=0.15,
    )
    bench.row(
        f"{by} corrected less harmed", corrected - harmed, "answers of " + str(runs)
    )
    bench.row(f"{by} extra drafts", extra, "drafts")
    price = extra / (corrected - harmed) if corrected > harmed else 999.0
    bench.row(
        f"{by} extra drafts for each net correction",
        price,
        "drafts",
        at_most=6,
    )


def _names(
    options: Options, name: str
) -> list[tuple[str, tuple[Passage, ...], str, str]]:
    """(question, evidence, right answer, a name that a distractor has and neither gold nor answers)."""
    assert options.data is not None
    found = []
    shown = {q.id for q in sample_questions()}
    for q in read_questions(options.data / f"{_NAMED[name]}.jsonl.gz").questions:
        if q.id not in shown and question_fraction(name, q) < _FROM[name]:
            continue
        gold = " ".join(p.text for p in q.passages if p.id in q.gold)
        known = f"{gold} {q.text} {' '.join(q.answers)}".casefold()
        others = (p.text for p in q.passages if p.id not in q.gold)
        wrong = next(
            (
                n
                for text in others
                for n in _NAME.findall(text)
                if n.casefold() not in known
            ),
            None,
        )
        if wrong and q.answers:
            found.append((q.text, q.passages, q.answers[0], wrong))
    return found[:_MOST]


def _distractors(
    bench: Benchmark,
    name: str,
    rows: Sequence[tuple[str, tuple[Passage, ...], str, str]],
    utility: Groundedness,
    most: float,
) -> None:
    """``most``: the share of wrong drafts that may be called supported."""

    loop = Augmenter(judge=utility)

    def judged(question: str, evidence: tuple[Passage, ...], draft: str) -> Answer:
        return loop.answer(question, drafter=FixedText(draft), evidence=evidence)

    wrong = [
        judged(question, evidence, foreign) for question, evidence, _, foreign in rows
    ]
    right = [
        judged(question, evidence, answer) for question, evidence, answer, _ in rows
    ]
    by = f"{name}, {utility.name}:"
    bench.share(
        f"{by} distractor drafts supported", _supported(wrong), len(rows), at_most=most
    )
    bench.share(f"{by} right answers supported", _supported(right), len(rows))


def _supported(answers: Sequence[Answer]) -> int:
    return sum(answer.outcome is Outcome.SUPPORTED for answer in answers)


def _made_up() -> list[tuple[str, tuple[Passage, ...], dict[str, bool]]]:
    tower = (Passage("The tower was completed in 1889. It stands in Paris.", "a"),)
    said = {
        "The tower was completed in 1889.": True,
        "The tower was completed in 1925.": False,
    }
    return [("When was the tower completed?", tower, said)] * 3


def _made_up_names() -> list[tuple[str, tuple[Passage, ...], str, str]]:
    both = (
        Passage("The tower was built by Gustave Eiffel.", "a"),
        Passage("The bridge was built by Ada Stone.", "b"),
    )
    return [("Who built the tower?", both, "Gustave Eiffel", "Ada Stone")] * 3


if __name__ == "__main__":
    main()
