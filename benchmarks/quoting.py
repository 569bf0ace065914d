"""The model as judge on answers with labels that others wrote, by replies recorded from a large language model.

One call an answer. Sets: claims of SummEdits, WiCE and QAGS against their documents; answers in the forms in which
models write, with their unsupported words marked, and honest abstentions; answers over sibling records; yes/no
answers; short answers, right ones and names from a distractor. Of each set and label a half was only counted. A
hundred fabricated quotations are checked against the passages by code. Tokens are those of the encoder that ships.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeAlias

from _judged_sets import GROUNDING_SETS, SHORT_ANSWER_SETS, Case, read_cases
from _recorded import FOLDER
from harness import Benchmark

from denoise_core.embedded import shared_encoder
from denoise_core.support.check import check
from denoise_core.support.judging import AnswerVerdict
from denoise_core.support.quotations import check_quotations
from denoise_core.support.quoting import VERSION, LLMJudge
from denoise_core.testing import FunctionLLM, RecordedLLM
from denoise_core.types import Message, Passage, Reply

QUOTATION_COUNT = 100
QUOTATION_WORDS = 8
MAX_REPLY_TOKENS = 512
GROUNDING = "SummEdits, WiCE and QAGS"
FORMS = "answer forms"
GROUPS: dict[str, Sequence[str]] = {
    GROUNDING: GROUNDING_SETS,
    FORMS: ("answer_forms",),
    "records": ("records",),
    "yes/no": ("yesno",),
    "short answers (NQ, HotpotQA, XQuAD)": tuple(SHORT_ANSWER_SETS.values()),
}
# Least right ones and most wrong ones that pass.
TARGETS = {GROUNDING: (0.75, 0.11), FORMS: (0.93, 0.0)}

JudgedCase: TypeAlias = tuple[Case, AnswerVerdict]


def main() -> None:
    bench = Benchmark("quoting", __doc__)
    if bench.quick:
        report_quotations(bench, [quick_case()], bench.seed)
        bench.finish()
        return
    bench.about["prompt"] = f"version {VERSION}"
    bench.about["replies"] = "recorded from a large language model, 2026-11-28"
    cases = read_cases(bench.folder)
    llm = ReplayedLLM()
    judged_cases = judge_all(cases, llm)
    for name, sets in GROUPS.items():
        of_group = [
            (case, verdict) for case, verdict in judged_cases if case.set in sets
        ]
        report_passed(bench, name, of_group)
        if name == FORMS:
            report_forms(bench.under(f"{FORMS}: "), of_group)
    report_costs(bench, judged_cases, llm.reply_texts)
    is_unknown = []
    for _, verdict in judge_all(cases, ReplayedLLM(MAX_REPLY_TOKENS)):
        is_unknown.append(verdict.kind == "not_judged")
    bench.right(
        f"not judged, replies cut at {MAX_REPLY_TOKENS} tokens",
        is_unknown,
        at_most=0.02,
    )
    report_quotations(bench, cases, bench.seed)
    bench.finish()


class ReplayedLLM(FunctionLLM):
    """Replies as recorded, or with their first tokens alone; a second call has an empty reply."""

    def __init__(self, max_tokens: int | None = None) -> None:
        super().__init__(self._replay)
        self.recorded = RecordedLLM.from_file(FOLDER / "quoting.jsonl")
        self.max_tokens = max_tokens
        self.reply_texts: list[str] = []

    def _replay(self, messages: Sequence[Message]) -> Reply:
        text = self.recorded.replies.get(self.recorded.key(messages), "")
        if self.max_tokens is not None:
            text = cut_tokens(text, self.max_tokens)
        self.reply_texts.append(text)
        return Reply(text)


def cut_tokens(text: str, limit: int) -> str:
    """Return a beginning of the text that has at most so many tokens."""
    count = shared_encoder().count_tokens(text)
    while count > limit:
        text = text[: len(text) * limit // (count + 1)]
        count = shared_encoder().count_tokens(text)
    return text


def judge_all(cases: Sequence[Case], llm: FunctionLLM) -> list[JudgedCase]:
    judge = LLMJudge(llm)
    judged_cases = []
    for case in cases:
        verdict = check(case.question, case.answer, case.passages, judge=judge)
        judged_cases.append((case, verdict))
    return judged_cases


def report_passed(
    bench: Benchmark, name: str, judged_cases: Sequence[JudgedCase]
) -> None:
    """Add how many right and wrong answers pass, of all and of the half that was only counted."""
    least_right, most_wrong = TARGETS.get(name, (None, None))
    unseen = [
        (case, verdict) for case, verdict in judged_cases if case.half == "unseen"
    ]
    for title, part in ((name, judged_cases), (f"{name}, half only counted", unseen)):
        right = []
        wrong = []
        for case, verdict in part:
            if case.label == "right":
                right.append(verdict.passed)
            elif case.label != "abstains":
                wrong.append(verdict.passed)
        rows = bench.under(f"{title}: ")
        rows.row("right answers", len(right), "count")
        rows.right("right passed", right, at_least=least_right)
        rows.row("wrong answers", len(wrong), "count")
        rows.right("wrong passed", wrong, at_most=most_wrong)


def report_forms(bench: Benchmark, judged_cases: Sequence[JudgedCase]) -> None:
    is_known_abstention = []
    is_marked_hit = []
    for case, verdict in judged_cases:
        if case.label == "abstains":
            is_known_abstention.append(verdict.abstains)
        for words in case.unsupported:
            is_marked_hit.append(is_named_unsupported(case, verdict, words))
    bench.right("abstentions known as such", is_known_abstention, at_least=0.95)
    bench.right(
        "marked words hit by what is named unsupported", is_marked_hit, at_least=0.9
    )


def is_named_unsupported(case: Case, verdict: AnswerVerdict, words: str) -> bool:
    """Whether a range that the judge calls different overlaps the words in the answer."""
    start = case.answer.find(words)
    if start < 0:
        return False
    end = start + len(words)
    for unit in verdict.units:
        for difference in unit.differences:
            if difference.start < end and start < difference.end:
                return True
    return False


def report_costs(
    bench: Benchmark, judged_cases: Sequence[JudgedCase], reply_texts: Sequence[str]
) -> None:
    """Add calls an answer, and the tokens of all replies next to those of the answers they are about."""
    calls = [verdict.calls for _, verdict in judged_cases]
    bench.mean("calls an answer", calls, "calls", at_most=1.2)
    count = shared_encoder().count_tokens
    reply_tokens = sum(map(count, reply_texts))
    answer_tokens = 0
    for case, verdict in judged_cases:
        if verdict.calls:
            answer_tokens += count(case.answer)
    ratio = reply_tokens / answer_tokens
    bench.row("tokens of the reply", ratio, "of the answer's", at_most=1.0)


# -- quotations ------------------------------------------------------------------------


def report_quotations(bench: Benchmark, cases: Sequence[Case], seed: int) -> None:
    """Check quotations with one word changed, two words swapped or each word reversed; and true ones."""
    rng = random.Random(seed)
    fabricated_count = false_count = missed_count = 0
    while fabricated_count < QUOTATION_COUNT:
        case = rng.choice(cases)
        text = rng.choice(case.passages).text
        words = re.findall(r"\w+", text)
        if len(words) < QUOTATION_WORDS + 4:
            continue
        start = rng.randrange(len(words) - QUOTATION_WORDS)
        quoted_words = words[start : start + QUOTATION_WORDS]
        # Words as white space separates them: half of "14:00" is no true quotation.
        pattern = r"\W+".join(map(re.escape, quoted_words))
        true = re.search(rf"(?<!\S){pattern}(?=[\s.!?]|$)(?!\.\d)", text)
        change = fabricated_count % 3
        if change == 0:
            quoted_words[4] = rng.choice(words[::-1]) + "ly"
        elif change == 1:
            quoted_words[2], quoted_words[5] = quoted_words[5], quoted_words[2]
        else:
            quoted_words = [word[::-1] for word in quoted_words]
        fabricated_text = " ".join(quoted_words)
        if true is None or fabricated_text.casefold() in " ".join(words).casefold():
            continue
        fabricated_count += 1
        false_count += is_verbatim(fabricated_text, case)
        has_marks = any(mark in true[0] for mark in '"“”‘’«»…[]')
        missed_count += not has_marks and not is_verbatim(true[0], case)
    bench.row("fabricated quotations", fabricated_count, "count")
    bench.row("fabricated quotations called verbatim", false_count, "count", at_most=0)
    bench.row("true quotations missed", missed_count, "count", at_most=0)


def is_verbatim(quotation: str, case: Case) -> bool:
    quotations = check_quotations(f"It says “{quotation}”.", case.passages)
    return any(found.status == "verbatim" for found in quotations)


def quick_case() -> Case:
    text = "The tower in the old town was completed in 1889 by workers from three towns of the valley."
    passages = (Passage(text, "p"),)
    return Case("made up", "0", "When?", "In 1889.", passages, "right")


if __name__ == "__main__":
    main()
