"""What the loop's outcomes are worth: real models' answers as drafts, and names from distractors as drafts.

MTRAG: answers of three writers to the same questions, rated for faithfulness by people (good is a median of 4
of 4). Each is the first draft in turn; the others follow in the order of the file when the loop asks again.
NQ, XQuAD and HotpotQA: the draft is a name from the text of a distractor or, as the control, the known answer; it
is judged with all passages as evidence. Thresholds and rules were chosen while looking at the development files,
these among them. Replies of the judge were recorded from a large language model (recorded/loop.jsonl) for a sample
of each set.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _recorded import FOLDER
from harness import Benchmark, read_data_set

from denoise_core import Passage
from denoise_core.augmenter import Augmenter, Groundedness, LoopLimits, Outcome
from denoise_core.augmenter.drafting import DraftReply, DraftRequest, FixedText
from denoise_core.embedded.sample import sample_questions
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.support.judges import FunctionJudge
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_lab.split import question_fraction

NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][a-z]+(?:\s[A-Z][a-z]+){1,3}\b")
NAME_SETS = {
    "NQ": "nq_gold_distractors20",
    "XQuAD": "xquad_en",
    "HotpotQA": "hotpotqa_distractor",
}
# Places of the questions, in the order given by a hash, for which replies were recorded.
FIRST_PLACES = {"NQ": 0.75, "XQuAD": 0.75, "HotpotQA": 0.70}
NAME_POOL = 100  # questions of a set from which the sample is taken
NAME_COUNT = 10
MTRAG_COUNT = 16
MIN_RATING = 4
NO_CORRECTION = 999.0  # drafts for each correction when there is none


@dataclass(frozen=True)
class DraftedQuestion:
    """A question with its evidence and texts to be taken as drafts, by text whether each is good."""

    question: str
    evidence: tuple[Passage, ...]
    is_good: Mapping[str, bool]


def main() -> None:
    bench = Benchmark("loop_outcomes", __doc__)
    if bench.quick:
        judge = Groundedness(FunctionJudge(is_stated))
        report_rated(bench, [QUICK_QUESTION], judge)
        report_named(bench, "NQ", [QUICK_QUESTION], judge)
    else:
        judge = Groundedness(LLMJudge(RecordedLLM.from_file(FOLDER / "loop.jsonl")))
        rated_questions = take_sample(read_rated(bench.folder), MTRAG_COUNT)
        report_rated(bench, rated_questions, judge)
        for name in NAME_SETS:
            named_questions = take_sample(read_named(bench.folder, name), NAME_COUNT)
            report_named(bench, name, named_questions, judge)
    bench.finish()


def take_sample(items: Sequence[DraftedQuestion], count: int) -> list[DraftedQuestion]:
    """Take ``count`` items at even distances."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


QUICK_QUESTION = DraftedQuestion(
    "When was the tower completed?",
    (Passage("The tower was completed in 1889. It stands in Paris.", "a"),),
    {
        "The tower was completed in 1889.": True,
        "The tower was completed in 1925.": False,
    },
)


# -- answers rated by people -----------------------------------------------------------


def read_rated(data: Path) -> list[DraftedQuestion]:
    rated_questions = []
    for record in read_data_set(data, "mtrag_human_eval"):
        evidence = []
        for number, row in enumerate(record["passages"]):
            if row["text"].strip():
                title = str(row.get("title") or "")
                evidence.append(Passage(row["text"], str(number), header=title))
        is_good = {}
        for response in record["responses"]:
            text = response["text"].strip()
            ratings = response["human"].get("faithfulness")
            if text and ratings:
                is_good[text] = statistics.median_low(ratings) >= MIN_RATING
        if evidence and len(is_good) > 1:
            question = DraftedQuestion(record["question"], tuple(evidence), is_good)
            rated_questions.append(question)
    return rated_questions


class ListedDrafts:
    """Drafts the given texts in order, and then the last one again."""

    repeatable = True

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def draft(self, request: DraftRequest) -> DraftReply:
        position = min(request.attempt, len(self.texts) - 1)
        return DraftReply(self.texts[position])

    async def adraft(self, request: DraftRequest) -> DraftReply:
        return self.draft(request)


def report_rated(
    bench: Benchmark, rated_questions: Sequence[DraftedQuestion], judge: Groundedness
) -> None:
    """Make each answer the first draft in turn."""
    loop = Augmenter(judge=judge, limits=LoopLimits(patience=3))
    outcomes: Counter[Outcome] = Counter()
    run_count = good_count = unchanged_count = bad_passed_count = 0
    extra_count = corrected_count = harmed_count = 0
    for answers in rated_questions:
        texts = list(answers.is_good)
        for position, first_text in enumerate(texts):
            drafts = ListedDrafts(texts[position:] + texts[:position])
            answer = loop.answer(
                answers.question, drafter=drafts, evidence=answers.evidence
            )
            run_count += 1
            outcomes[answer.outcome] += 1
            extra_count += answer.memory.draft_count - 1
            is_sent_good = answers.is_good[answer.text]
            if answers.is_good[first_text]:
                good_count += 1
                unchanged_count += answer.text == first_text
                harmed_count += not is_sent_good
            else:
                bad_passed_count += answer.memory.attempts[0].verdict.passed
                corrected_count += is_sent_good
    rows = bench.under(f"MTRAG, {judge.name}: ")
    rows.row("first drafts that are good", good_count / run_count, "share")
    for outcome in Outcome:
        rows.row(str(outcome), outcomes[outcome] / run_count, "share")
    rows.share("good drafts sent", unchanged_count, good_count, at_least=0.85)
    bad_count = run_count - good_count
    rows.share("bad drafts passed", bad_passed_count, bad_count, at_most=0.15)
    gain = corrected_count - harmed_count
    rows.row("corrected less harmed", gain, f"answers of {run_count}")
    rows.row("extra drafts", extra_count, "drafts")
    price = NO_CORRECTION
    if gain > 0:
        price = extra_count / gain
    rows.row("extra drafts for each net correction", price, "drafts", at_most=6)


# -- names -----------------------------------------------------------------------------


def read_named(folder: Path, set_name: str) -> list[DraftedQuestion]:
    path = folder / f"{NAME_SETS[set_name]}.jsonl.gz"
    sample_ids = {question.id for question in sample_questions()}
    named_questions = []
    for question in read_questions(path).questions:
        is_recorded = question_fraction(set_name, question) >= FIRST_PLACES[set_name]
        if not is_recorded and question.id not in sample_ids:
            continue
        wrong = find_foreign_name(question)
        if wrong is not None and question.answers:
            is_good = {question.answers[0]: True, wrong: False}
            named_questions.append(
                DraftedQuestion(question.text, question.passages, is_good)
            )
    return named_questions[:NAME_POOL]


def find_foreign_name(question: Question) -> str | None:
    """Return the first name of a distractor that gold passages, question and answers do not have."""
    known_texts = [question.text, *question.answers]
    distractors = []
    for passage in question.passages:
        if passage.id in question.gold:
            known_texts.append(passage.text)
        else:
            distractors.append(passage.text)
    known = " ".join(known_texts).casefold()
    for text in distractors:
        for name in NAME.findall(text):
            if name.casefold() not in known:
                return str(name)
    return None


def report_named(
    bench: Benchmark,
    set_name: str,
    named_questions: Sequence[DraftedQuestion],
    judge: Groundedness,
) -> None:
    loop = Augmenter(judge=judge)
    is_supported: dict[bool, list[bool]] = {False: [], True: []}
    for question in named_questions:
        for text, is_good in question.is_good.items():
            sent_answer = loop.answer(
                question.question, drafter=FixedText(text), evidence=question.evidence
            )
            is_supported[is_good].append(sent_answer.outcome is Outcome.SUPPORTED)
    rows = bench.under(f"{set_name}, {judge.name}: ")
    rows.right("distractor drafts supported", is_supported[False], at_most=0.2)
    rows.right("right answers supported", is_supported[True])


# -- the quick form --------------------------------------------------------------------


def is_stated(question: str, evidence: Sequence[str], claim: str) -> float:
    return float(any(claim in text for text in evidence))


if __name__ == "__main__":
    main()
