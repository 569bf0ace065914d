"""The model as judge on answers with labels by another hand, from replies recorded from a large language model.

One call an answer. Sets: claims of SummEdits, WiCE and QAGS against their documents; answers in the forms in which
models write, with their unsupported words marked, and honest abstentions; answers over sibling records; yes/no
answers; short answers, right ones and names from a distractor. Of each set and label a half was only counted. A
hundred fabricated quotations are checked against the passages by code. Tokens are those of the encoder that ships.
"""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Sequence
from itertools import chain

from _judged_sets import GROUNDING, SHORT, Case, cases
from _recorded import FOLDER
from harness import Benchmark, arguments

from denoise_core.embedded import shared_encoder
from denoise_core.support.check import check
from denoise_core.support.judging import ABSTENTION, AnswerVerdict
from denoise_core.support.quotations import check_quotations
from denoise_core.support.quoting import VERSION, LLMJudge
from denoise_core.testing import FunctionLLM, RecordedLLM
from denoise_core.types import Message, Passage, Reply

FABRICATED = 100
CUT = 512  # tokens after which a reply is cut, once
TARGETS: dict[str, tuple[float, float]] = {
    "SummEdits, WiCE and QAGS": (0.75, 0.11),
    "answer forms": (0.93, 0.0),
}
Checked = dict[tuple[str, str], AnswerVerdict]


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("quoting", options)
    if options.quick:
        _fabricated(bench, [_made_up()], options.seed)
        return bench.finish()
    every = list(chain.from_iterable(cases(options.folder).values()))
    recorded = RecordedLLM.from_file(FOLDER / "quoting.jsonl")
    bench.about |= {
        "prompt": f"version {VERSION}",
        "replies": "recorded from a large language model, 2026-11-28",
    }
    groups: dict[str, Callable[[Case], bool]] = {
        "SummEdits, WiCE and QAGS": lambda c: c.set in GROUNDING,
        **{n: (lambda c, n=n: c.set == n) for n in GROUNDING},  # type: ignore[misc]
        "answer forms": lambda c: c.set == "answer_forms",
        "records": lambda c: c.set == "records",
        "yes/no": lambda c: c.set == "yesno",
        "short answers (NQ, HotpotQA, XQuAD)": lambda c: c.set in SHORT.values(),
    }
    replies: list[Reply] = []
    checked = _checked(every, _first_calls(recorded, replies))
    for name, belongs in groups.items():
        mine = [case for case in every if belongs(case)]
        _passed(bench, name, mine, checked)
    _proven(bench, every, checked)
    _forms(bench, [case for case in every if case.set == "answer_forms"], checked)
    _cost(bench, every, checked, replies)
    cut = _checked(every, _first_calls(recorded, [], CUT))
    unknown = [verdict.kind == "not_judged" for verdict in cut.values()]
    share = statistics.fmean(unknown)
    bench.row(
        f"not judged, replies cut at {CUT} tokens",
        share,
        "share",
        at_most=0.02,
    )
    _fabricated(bench, every, options.seed)
    return bench.finish()


def _first_calls(
    recorded: RecordedLLM, replies: list[Reply], cut: int | None = None
) -> FunctionLLM:
    """The recorded replies, also put into ``replies``; second calls were not recorded and are empty."""

    def reply(messages: Sequence[Message]) -> Reply:
        text = recorded.replies.get(recorded.key(messages), "")
        if cut is not None:
            text = _cut(text, cut)
        replies.append(Reply(text))
        return replies[-1]

    return FunctionLLM(reply)


def _cut(text: str, tokens: int) -> str:
    """The beginning of a text that has at most so many tokens."""
    count = shared_encoder().count_tokens
    while count(text) > tokens:
        text = text[: len(text) * tokens // (count(text) + 1)]
    return text


def _checked(every: Sequence[Case], llm: FunctionLLM) -> Checked:
    judge = LLMJudge(llm)
    return {
        (c.set, c.id): check(c.question, c.answer, c.passages, judge=judge)
        for c in every
    }


def _passed(
    bench: Benchmark, name: str, mine: Sequence[Case], checked: Checked
) -> None:
    aimed = TARGETS.get(name)
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
    """Every label is an exact range; what code did not accept of the model's word."""
    quotes = 0
    kinds: dict[str, int] = dict.fromkeys(("unproven", "differs", "inferred"), 0)
    for case in every:
        texts = {p.id: p.text for p in case.passages}
        for unit in checked[case.set, case.id].units:
            for q in unit.quotes:
                assert texts[q.span.passage_id][q.span.start : q.span.end] == q.text
                quotes += 1
            if unit.kind in kinds:
                kinds[unit.kind] += 1
    bench.row("sentences named", quotes, "count")
    for kind, count in kinds.items():
        bench.row(f"units that are {kind}", count, "count")


def _forms(bench: Benchmark, mine: Sequence[Case], checked: Checked) -> None:
    known = [checked[c.set, c.id].abstains for c in mine if c.label == "abstains"]
    bench.row(
        "answer forms: abstentions known as such",
        statistics.fmean(known),
        "share",
        at_least=0.95,
    )
    right = [checked[c.set, c.id] for c in mine if c.label == "right"]
    bench.row(
        "answer forms: right passed, or sent as the abstention it says it is",
        statistics.fmean(v.passed or v.kind == ABSTENTION for v in right),
        "share",
    )
    hit = []
    for case in mine:
        units = checked[case.set, case.id].units
        differences = [d for unit in units for d in unit.differences]
        for words in case.unsupported:
            hits = (_overlap(case.answer, words, d.start, d.end) for d in differences)
            hit.append(any(hits))
    bench.row(
        "answer forms: marked words hit by what is named unsupported",
        statistics.fmean(hit),
        "share",
        at_least=0.9,
    )


def _cost(
    bench: Benchmark, every: Sequence[Case], checked: Checked, replies: Sequence[Reply]
) -> None:
    """Calls an answer, and how long the replies are, as a share of the answers of each set."""
    calls = [checked[c.set, c.id].calls for c in every]
    bench.row(
        "calls an answer",
        statistics.fmean(calls),
        "calls",
        at_most=1.2,
    )
    count = shared_encoder().count_tokens
    position = 0
    sizes: dict[str, list[int]] = {}
    for case, case_calls in zip(every, calls, strict=True):
        reply_texts = [r.text for r in replies[position : position + case_calls]]
        position += case_calls
        name = "short answers" if case.set in SHORT.values() else case.set
        size = sizes.setdefault(name, [0, 0])
        size[0] += sum(map(count, reply_texts))
        size[1] += count(case.answer) if case_calls else 0
    for name, (reply_tokens, answer_tokens) in sizes.items():
        ratio = reply_tokens / max(1, answer_tokens)
        bench.row(f"{name}: tokens of the reply", ratio, "of the answer's")
    totals = [sum(column) for column in zip(*sizes.values(), strict=True)]
    ratio = totals[0] / max(1, totals[1])
    bench.row(
        "tokens of the reply",
        ratio,
        "of the answer's",
        at_most=1.0,
    )


def _overlap(answer: str, words: str, start: int, end: int) -> bool:
    at = answer.find(words)
    return at >= 0 and start < at + len(words) and at < end


def _fabricated(bench: Benchmark, every: Sequence[Case], seed: int) -> None:
    """Quotations with one word changed, two words exchanged, or each word reversed; and true ones."""
    rng = random.Random(seed)
    passed = missed = made = 0
    while made < FABRICATED:
        case = rng.choice(every)
        text = rng.choice(case.passages).text
        words = re.findall(r"\w+", text)
        if len(words) < 12:
            continue
        at = rng.randrange(len(words) - 8)
        piece = words[at : at + 8]
        # Words as white space separates them: half of "14:00" is no true quotation.
        pattern = r"\W+".join(map(re.escape, piece))
        true = re.search(rf"(?<!\S){pattern}(?=[\s.!?]|$)(?!\.\d)", text)
        if made % 3 == 0:
            piece[4] = rng.choice(words[::-1]) + "ly"
        elif made % 3 == 1:
            piece[2], piece[5] = piece[5], piece[2]
        else:
            piece = [w[::-1] for w in piece]
        if true is None or " ".join(piece).casefold() in " ".join(words).casefold():
            continue
        made += 1
        passed += _is_verbatim(" ".join(piece), case)
        has_marks = any(mark in true[0] for mark in '"“”‘’«»…[]')
        missed += not has_marks and not _is_verbatim(true[0], case)
    bench.row("fabricated quotations", made, "count")
    bench.row(
        "fabricated quotations called verbatim",
        passed,
        "count",
        at_most=0,
    )
    bench.row(
        "true quotations missed",
        missed,
        "count",
        at_most=0,
    )


def _is_verbatim(quoted: str, case: Case) -> bool:
    found = check_quotations(f"It says “{quoted}”.", case.passages)
    return any(quotation.status == "verbatim" for quotation in found)


def _made_up() -> Case:
    text = "The tower in the old town was completed in 1889 by workers from three towns of the valley."
    return Case("made up", "0", "When?", "In 1889.", (Passage(text, "p"),), "right")


if __name__ == "__main__":
    main()
