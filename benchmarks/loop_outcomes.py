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
from typing import Any

from _recorded import FOLDER
from harness import Benchmark, arguments, read_data_set

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
class RatedAnswers:
    """A question with its evidence, and whether people rated each answer as faithful."""

    question: str
    evidence: tuple[Passage, ...]
    is_good: Mapping[str, bool]


@dataclass(frozen=True)
class NamedAnswer:
    """A question with its passages, its answer, and a name that only a distractor has."""

    question: str
    evidence: tuple[Passage, ...]
    right: str
    wrong: str


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("loop_outcomes", options)
    if options.quick:
        judge = Groundedness(FunctionJudge(is_stated))
        report_rated(bench, [quick_rated()], judge)
        report_named(bench, "NQ", [quick_named()], judge)
        return bench.finish()
    judge = Groundedness(LLMJudge(RecordedLLM.from_file(FOLDER / "loop.jsonl")))
    rated_questions = take_sample(read_rated(options.data), MTRAG_COUNT)
    report_rated(bench, rated_questions, judge)
    for name in NAME_SETS:
        named_answers = take_sample(read_named(options.folder, name), NAME_COUNT)
        report_named(bench, name, named_answers, judge)
    return bench.finish()


def take_sample(items: Sequence[Any], count: int) -> list[Any]:
    """Take ``count`` items at even distances."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


# -- answers rated by people -----------------------------------------------------------


def read_rated(data: Path | None) -> list[RatedAnswers]:
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
            rated_questions.append(
                RatedAnswers(record["question"], tuple(evidence), is_good)
            )
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
    bench: Benchmark, rated_questions: Sequence[RatedAnswers], judge: Groundedness
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


def read_named(folder: Path, set_name: str) -> list[NamedAnswer]:
    path = folder / f"{NAME_SETS[set_name]}.jsonl.gz"
    sample_ids = {question.id for question in sample_questions()}
    named_answers = []
    for question in read_questions(path).questions:
        is_recorded = question_fraction(set_name, question) >= FIRST_PLACES[set_name]
        if not is_recorded and question.id not in sample_ids:
            continue
        wrong = find_foreign_name(question)
        if wrong is not None and question.answers:
            named_answers.append(
                NamedAnswer(
                    question.text, question.passages, question.answers[0], wrong
                )
            )
    return named_answers[:NAME_POOL]


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
    named_answers: Sequence[NamedAnswer],
    judge: Groundedness,
) -> None:
    wrong_supported = []
    right_supported = []
    for answer in named_answers:
        wrong_supported.append(is_supported(answer, answer.wrong, judge))
        right_supported.append(is_supported(answer, answer.right, judge))
    rows = bench.under(f"{set_name}, {judge.name}: ")
    rows.right("distractor drafts supported", wrong_supported, at_most=0.2)
    rows.right("right answers supported", right_supported)


def is_supported(answer: NamedAnswer, draft: str, judge: Groundedness) -> bool:
    loop = Augmenter(judge=judge)
    drafter = FixedText(draft)
    sent_answer = loop.answer(
        answer.question, drafter=drafter, evidence=answer.evidence
    )
    return sent_answer.outcome is Outcome.SUPPORTED


# -- the quick form --------------------------------------------------------------------


def is_stated(question: str, evidence: Sequence[str], claim: str) -> float:
    return float(any(claim in text for text in evidence))


def quick_rated() -> RatedAnswers:
    evidence = (Passage("The tower was completed in 1889. It stands in Paris.", "a"),)
    is_good = {
        "The tower was completed in 1889.": True,
        "The tower was completed in 1925.": False,
    }
    return RatedAnswers("When was the tower completed?", evidence, is_good)


def quick_named() -> NamedAnswer:
    evidence = (
        Passage("The tower was built by Gustave Eiffel.", "a"),
        Passage("The bridge was built by Ada Stone.", "b"),
    )
    return NamedAnswer("Who built the tower?", evidence, "Gustave Eiffel", "Ada Stone")


if __name__ == "__main__":
    main()
