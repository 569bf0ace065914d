"""The quoting judge on answers with labels by another hand, from replies recorded from a large language model.

One call an answer. Sets: claims of SummEdits, WiCE and QAGS against their documents; answers in the forms in which
models write, with their unsupported words marked, and honest abstentions; answers over sibling records; yes/no
answers; short answers, right ones and names from a distractor. Of each set and label a half was only counted. A
hundred fabricated quotes are held against the passages. Whether ``strict`` helps is shown for each set.
"""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Sequence

from _judged_sets import GROUNDING, SHORT, Case, cases
from _recorded import FOLDER
from harness import Benchmark, arguments

from denoise_core.support.check import check
from denoise_core.support.judging import AnswerVerdict
from denoise_core.support.quoting import VERSION, LLMJudge, locate_quote
from denoise_core.testing import RecordedLLM
from denoise_core.types import Passage

FABRICATED = 100
UNRECORDED = {
    ("answer_forms", "28-abstains")
}  # words knew it for an abstention when the replies were recorded
TARGETS: dict[str, tuple[float, float]] = {
    "SummEdits, WiCE and QAGS": (0.80, 0.08),
    "answer forms": (0.90, 0.05),
}


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("quoting", options)
    if options.quick:
        _fabricated(bench, [_made_up()], options.seed)
        return bench.finish()
    if options.data is None:
        raise SystemExit("this benchmark needs real data: pass --data FOLDER")
    found = cases(options.data)
    llm = RecordedLLM.from_file(FOLDER / "quoting.jsonl")
    bench.about |= {
        "prompt": f"version {VERSION}",
        "replies": "recorded from a large language model, 2026-11",
    }
    judges = {"": LLMJudge(llm), ", strict": LLMJudge(llm, strict=True)}
    groups: dict[str, Callable[[Case], bool]] = {
        "SummEdits, WiCE and QAGS": lambda c: c.set in GROUNDING,
        **{n: (lambda c, n=n: c.set == n) for n in GROUNDING},  # type: ignore[misc]
        "answer forms": lambda c: c.set == "answer_forms",
        "records": lambda c: c.set == "records",
        "yes/no": lambda c: c.set == "yesno",
        "short answers (NQ, HotpotQA, XQuAD)": lambda c: c.set in SHORT.values(),
    }
    every = [c for of in found.values() for c in of if (c.set, c.id) not in UNRECORDED]
    for suffix, judge in judges.items():
        checked = {
            (c.set, c.id): check(c.question, c.answer, c.passages, judge=judge)
            for c in every
        }
        for name, belongs in groups.items():
            mine = [c for c in every if belongs(c)]
            _passed(
                bench,
                name + suffix,
                mine,
                checked,
                TARGETS.get(name) if not suffix else None,
            )
        if not suffix:
            _proven(bench, every, checked)
            _forms(bench, [c for c in every if c.set == "answer_forms"], checked)
    _fabricated(bench, every, options.seed)
    return bench.finish()


Checked = dict[tuple[str, str], AnswerVerdict]


def _passed(
    bench: Benchmark,
    name: str,
    mine: Sequence[Case],
    checked: Checked,
    aimed: tuple[float, float] | None,
) -> None:
    for half in ("", "unseen"):
        part = [c for c in mine if not half or c.half == half]
        shown = f"{name}, half only counted" if half else name
        right = [checked[c.set, c.id].passed for c in part if c.label == "right"]
        wrong = [
            checked[c.set, c.id].passed for c in part if c.label in ("wrong", "open")
        ]
        bench.row(f"{shown}: right answers", len(right), "count")
        bench.row(
            f"{shown}: right passed",
            statistics.fmean(right),
            "share",
            at_least=aimed[0] if aimed else None,
        )
        bench.row(f"{shown}: wrong answers", len(wrong), "count")
        bench.row(
            f"{shown}: wrong passed",
            statistics.fmean(wrong),
            "share",
            at_most=aimed[1] if aimed else None,
        )


def _proven(bench: Benchmark, every: Sequence[Case], checked: Checked) -> None:
    """Every supported claim has a span, and every span stands where it says."""
    quotes = without = 0
    for case in every:
        texts = {p.id: p.text for p in case.passages}
        for claim in checked[case.set, case.id].claims:
            without += claim.supported is True and not claim.quotes
            for q in claim.quotes:
                assert texts[q.span.passage_id][q.span.start : q.span.end] == q.text
                quotes += 1
    bench.row("quotes found in their passages", quotes, "count")
    bench.row(
        "supported claims without a quote in a passage", without, "count", at_most=0
    )
    unproven = sum(
        j.kind == "unproven" for c in every for j in checked[c.set, c.id].claims
    )
    bench.row("claims said to be supported, without a proven quote", unproven, "count")


def _forms(bench: Benchmark, mine: Sequence[Case], checked: Checked) -> None:
    known = [
        checked[c.set, c.id].kind == "abstention" for c in mine if c.label == "abstains"
    ]
    bench.row(
        "answer forms: abstentions known as such",
        statistics.fmean(known),
        "share",
        at_least=0.95,
    )
    hit = [
        any(_overlap(c.answer, words, d.start, d.end) for j in checked[c.set, c.id].claims for d in j.differences)
        for c in mine for words in c.unsupported
    ]  # fmt: skip
    bench.row("answer forms: marked words hit by what is named unsupported", statistics.fmean(hit), "share",
              at_least=0.9)  # fmt: skip


def _overlap(answer: str, words: str, start: int, end: int) -> bool:
    at = answer.find(words)
    return at >= 0 and start < at + len(words) and at < end


def _fabricated(bench: Benchmark, every: Sequence[Case], seed: int) -> None:
    """Quotes with one word changed, two words exchanged, or from another case's passages."""
    rng = random.Random(seed)
    passed = made = 0
    while made < FABRICATED:
        case = rng.choice(every)
        text = rng.choice(case.passages).text
        words = re.findall(r"\w+", text)
        if len(words) < 12:
            continue
        at = rng.randrange(len(words) - 8)
        piece = words[at : at + 8]
        if made % 3 == 0:
            piece[4] = rng.choice(words[::-1]) + "ly"
        elif made % 3 == 1:
            piece[2], piece[5] = piece[5], piece[2]
        else:
            piece = [w[::-1] for w in piece]
        if " ".join(piece).casefold() in " ".join(words).casefold():
            continue
        made += 1
        passed += any(
            locate_quote(" ".join(piece), p) is not None for p in case.passages
        )
    bench.row("fabricated quotes", made, "count")
    bench.row("fabricated quotes that pass", passed, "count", at_most=0)


def _made_up() -> Case:
    text = "The tower in the old town was completed in 1889 by workers from three towns of the valley."
    return Case("made up", "0", "When?", "In 1889.", (Passage(text, "p"),), "right")


if __name__ == "__main__":
    main()
