"""Answers as models write them, over records, and yes/no answers, by the quoting judge.

The quoting judge answers from replies recorded from a large language model. Each answer is also a draft of the
loop, alone and judged once: a right one must not be sent worse, in any form. FixedText by another hand; half of each
set was only counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from _judged_sets import Case, cases
from _recorded import FOLDER
from harness import Benchmark, arguments

from denoise_core.augmenter import Augmenter, Groundedness
from denoise_core.augmenter.drafting import FixedText
from denoise_core.support import AnswerVerdict, check, parse_answer
from denoise_core.support.judges import FunctionJudge
from denoise_core.support.judging import Judge
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_core.types import Passage

UNRECORDED = {
    ("answer_forms", "28-abstains")
}  # words knew it for an abstention when the replies were recorded


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("answer_forms", options)
    if options.quick:
        made = [
            Case(
                "answer_forms",
                "1",
                "When?",
                "It was 1889.",
                (Passage("It was 1889.", "p"),),
                "right",
                "plain",
            )
        ]
        _shown(
            bench,
            "words",
            FunctionJudge(_in_evidence, name="words"),
            {"answer_forms": made},
        )
        return bench.finish()
    if options.data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
    found = cases(options.data)
    _shown(
        bench,
        "quoting",
        LLMJudge(RecordedLLM.from_file(FOLDER / "quoting.jsonl")),
        found,
    )
    return bench.finish()


def _in_evidence(question: str, evidence: Sequence[str], claim: str) -> float:
    return float(any(claim in text for text in evidence))


def _shown(
    bench: Benchmark, name: str, judge: Judge, found: dict[str, list[Case]]
) -> None:
    quoting = name == "quoting"
    limits = {
        "answer_forms": (0.90, 0.05) if quoting else (None, 0.15),
        "records": (0.90, 0.05) if quoting else (None, 0.10),
        "yesno": (0.92, 0.05) if quoting else (None, 1 / 13),
    }
    for set_, (right, wrong) in limits.items():
        mine = [c for c in found.get(set_, []) if (c.set, c.id) not in UNRECORDED]
        if not mine:
            continue
        checked = {
            c.id: check(c.question, c.answer, c.passages, judge=judge) for c in mine
        }
        for half in ("", ", half only counted"):
            part = [c for c in mine if not half or c.half == "unseen"]
            _rates(
                bench,
                f"{set_}, {name}{half}",
                part,
                checked,
                right if not half else None,
                wrong,
            )
        if set_ == "answer_forms":
            _forms(bench, name, mine, checked)
            _worse(bench, name, mine, judge)


def _rates(
    bench: Benchmark,
    name: str,
    mine: Sequence[Case],
    checked: dict[str, AnswerVerdict],
    right: float | None,
    wrong: float,
) -> None:
    passed = {
        label: [checked[c.id].passed for c in mine if c.label == label]
        for label in ("right", "wrong", "open")
    }
    if passed["right"]:
        bench.row(
            f"{name}: right passed",
            statistics.fmean(passed["right"]),
            "share",
            at_least=right,
        )
    if passed["wrong"]:
        bench.row(
            f"{name}: wrong passed",
            statistics.fmean(passed["wrong"]),
            "share",
            at_most=wrong,
        )
    if passed["open"]:
        bench.row(
            f"{name}: not settled, passed", statistics.fmean(passed["open"]), "share"
        )
    told = [
        (checked[c.id], c.label == "right")
        for c in mine
        if c.label in ("right", "wrong")
    ]
    decided = [
        (f.passed, right)
        for f, right in told
        if f.passed or f.supported is False or f.answers_question is False
    ]
    bench.row(f"{name}: decided", len(decided), "count")
    if decided:
        least = None if "quoting" in name or "answer_forms" not in name else 0.80
        bench.row(
            f"{name}: of these right",
            statistics.fmean(a == b for a, b in decided),
            "share",
            at_least=least,
        )


def _forms(
    bench: Benchmark, name: str, mine: Sequence[Case], checked: dict[str, AnswerVerdict]
) -> None:
    """Abstentions, and how far a form falls behind: the share of its answers judged as a person would, or not."""
    known = [checked[c.id].kind == "abstention" for c in mine if c.label == "abstains"]
    if known:
        least = 0.95 if name == "quoting" else None
        bench.row(
            f"answer_forms, {name}: abstentions known as such",
            statistics.fmean(known),
            "share",
            at_least=least,
        )
        wrong = [
            checked[c.id].supported is False for c in mine if c.label == "abstains"
        ]
        bench.row(
            f"answer_forms, {name}: abstentions called wrong",
            statistics.fmean(wrong),
            "share",
            at_most=0,
        )
    told = [
        (c.kind, checked[c.id].passed == (c.label == "right"))
        for c in mine
        if c.label in ("right", "wrong")
    ]
    by_form = {
        form: statistics.fmean(ok for f, ok in told if f == form) for form, _ in told
    }
    mean = statistics.fmean(by_form.values())
    worst = min(by_form, key=lambda f: by_form[f])
    bench.row(f"answer_forms, {name}: mean of forms, as a person would", mean, "share")
    share = by_form[worst] / mean if mean else 0.0
    bench.row(
        f"answer_forms, {name}: worst form ({worst}), of the mean",
        share,
        "share",
        at_least=0.6,
    )


def _worse(bench: Benchmark, name: str, mine: Sequence[Case], judge: Judge) -> None:
    """Count the right drafts that a loop sends as another text, and the further drafts."""
    utility = Groundedness(judge=judge)
    worse = further_drafts = 0
    for case in (c for c in mine if c.label == "right"):
        loop = Augmenter(judge=utility)
        answer = loop.answer(
            case.question, drafter=FixedText(case.answer), evidence=case.passages
        )
        worse += answer.text != parse_answer(case.answer).text_without_reasoning.strip()
        further_drafts += max(0, answer.memory.draft_count - 1)
    bench.row(
        f"answer_forms, {name}: right drafts sent worse", worse, "count", at_most=0
    )
    bench.row(
        f"answer_forms, {name}: further drafts asked for a right one",
        further_drafts,
        "count",
    )


if __name__ == "__main__":
    main()
