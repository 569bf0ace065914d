"""Company files: is what a question needs kept, together with what says whose it is, and in how much text?

``DATA/company`` has the files and ``questions.jsonl``. ``needs`` are parts of the files, verbatim, all of which
the answer needs; ``identity`` the title, sender, date, header row or key without which they cannot be attributed.
Two sets of the same form, on which nothing was tuned, are about the files that ship with the package
(``benchmarks/data/unseen``) and about six files of a depot (``benchmarks/data/depot``). Files are given whole
and in the pieces of 600 characters that a retriever returns, with and without the position of each piece.

With a model, replayed from recorded replies: S2A's ``select`` over whole files, one call a question, and whether
the quoting judge finds right answers about one of several documents of the same form in what the default keeps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from _recorded import records, replies_by_prompt
from harness import Benchmark, json_lines
from langchain_text_splitters import RecursiveCharacterTextSplitter
from numpy.typing import NDArray

from denoise_core.embedded import default_denoiser, sample_folder
from denoise_core.result import DenoiseResult
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.support.check import check
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_core.types import Passage

UNSEEN = Path(__file__).parent / "data" / "unseen"
DEPOT = Path(__file__).parent / "data" / "depot"
PIECE_CHARACTERS = 600
DEVELOPMENT = "development half"
ON_TOPIC = "unanswerable_on_topic"
ABSENT_KINDS = (ON_TOPIC, "off_topic")
LEAST_BOTH = {
    "lookup": 0.95,
    "compare": 0.95,
    "two_step": 0.70,
    "list_all": 0.85,
    "count": 0.85,
    "superseded": 0.85,
}
LEAST_SUMMARY_PLACES = 0.85
LEAST_ABSENT = {ON_TOPIC: 0.60}
LEAST_SELECTED_ABSENT = 13 / 15
MOST_SELECTED_FALSE_ALARMS = 2 / 89
WHOLE_FILES = "whole files"
# Least both kept, most text, most called absent.
TARGETS_BY_FORM: Mapping[str, tuple[float | None, ...]] = {
    WHOLE_FILES: (0.85, 0.28, 0.03),
    "pieces": (0.75, 0.28, None),
    "pieces without positions": (None, None, None),
}
MOST_LOOKUP_TEXT = 0.25  # of lookups and comparisons together
ONE_DOCUMENT_KINDS = ("lookup", "compare")
ONE_CALL = Options(join_passages=True, max_pieces=1000, max_characters=100_000)
SIBLING_PREFIXES = ("quillon-", "incident-")
SIBLING_QUESTIONS = 10

Place: TypeAlias = Mapping[str, str]
Masks: TypeAlias = Mapping[str, NDArray[np.bool_]]
Splitter: TypeAlias = Callable[[str, str], list[Passage]]


@dataclass(frozen=True)
class CompanyQuestion:
    """A question with its files' texts and the places that its answer needs."""

    kind: str
    text: str
    files: Mapping[str, str]
    needs: Sequence[Place]
    identity: Sequence[Place]
    answer: str


@dataclass(frozen=True)
class QuestionOutcome:
    """What was kept for one question.

    Attributes:
        kind: The question's kind.
        needs_share: Share of the needed places kept in full.
        has_identity: Whether each place that identifies them is kept in full.
        text_share: Share of the files' characters kept.
        is_called_absent: Whether the result says that nothing is relevant.
    """

    kind: str
    needs_share: float
    has_identity: bool
    text_share: float
    is_called_absent: bool

    @property
    def has_needs(self) -> bool:
        return self.needs_share == 1

    @property
    def has_both(self) -> bool:
        return self.has_needs and self.has_identity


Kinded = TypeVar("Kinded", CompanyQuestion, QuestionOutcome)


def main() -> None:
    bench = Benchmark("company", __doc__)
    limit = 6 if bench.quick else None
    sets = {
        "unseen set": read_questions(UNSEEN, limit),
        "depot set": read_questions(DEPOT, limit),
    }
    if bench.data is not None:
        development = read_questions(bench.data / "company", limit)
        sets = {DEVELOPMENT: development, **sets}
    for set_name, questions in sets.items():
        rows = bench.under(f"{set_name}, ", has_targets=set_name == DEVELOPMENT)
        for form, splitter in SPLITTERS.items():
            outcomes = measure_outcomes(questions, splitter)
            if form == WHOLE_FILES:
                report_kinds(rows.under(f"{form}, "), outcomes)
            report_answerable(rows.under(f"{form}, "), outcomes, form)
        if set_name != "depot set":  # no replies are recorded for it
            missing_count, outcomes = measure_selection(questions)
            bench.row(
                f"{set_name}, select: without a reply",
                missing_count,
                "questions",
                at_most=0,
            )
            report_selection(rows, outcomes)
        if set_name == DEVELOPMENT:
            report_siblings(bench, questions)
    bench.about["tuned on"] = "the development half; nothing on the other sets"
    bench.about["model"] = "a large language model, replies recorded 2026-11-28 and 29"
    bench.finish()


def read_questions(folder: Path, limit: int | None) -> list[CompanyQuestion]:
    files_folder = sample_folder() if folder == UNSEEN else folder
    rows = json_lines(folder / "questions.jsonl")
    questions = []
    for row in rows[:limit]:
        files = {}
        for name in row["documents"]:
            files[name] = (files_folder / name).read_text("utf-8")
        questions.append(
            CompanyQuestion(
                row["type"],
                row["question"],
                files,
                row["needs"],
                row["identity"],
                row["answer"] or "",
            )
        )
    return questions


def whole_file(name: str, text: str) -> list[Passage]:
    return [Passage(text, f"{name}@0", metadata={"source": name})]


def file_pieces(name: str, text: str) -> list[Passage]:
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=PIECE_CHARACTERS, chunk_overlap=0, add_start_index=True
    )
    pieces = []
    for document in splitter.create_documents([text], [{"source": name}]):
        start = document.metadata["start_index"]
        pieces.append(
            Passage(
                document.page_content, f"{name}@{start}", metadata=document.metadata
            )
        )
    return pieces


def unplaced_pieces(name: str, text: str) -> list[Passage]:
    """Return the pieces in no order and without their positions, as a search returns them."""
    pieces = []
    for piece in file_pieces(name, text):
        pieces.append(Passage(piece.text, piece.id, metadata={"source": name}))
    random.Random(name).shuffle(pieces)
    return pieces


def measure_outcomes(
    questions: Sequence[CompanyQuestion], splitter: Splitter
) -> list[QuestionOutcome]:
    denoiser = default_denoiser()
    outcomes = []
    for question in questions:
        passages = split_files(question.files, splitter)
        result = denoiser.denoise(question.text, passages)
        outcomes.append(measure_outcome(question, result))
    return outcomes


def split_files(files: Mapping[str, str], splitter: Splitter) -> list[Passage]:
    passages = []
    for name, text in files.items():
        passages += splitter(name, text)
    return passages


def measure_outcome(
    question: CompanyQuestion, result: DenoiseResult
) -> QuestionOutcome:
    masks = {}
    for name, text in question.files.items():
        masks[name] = np.zeros(len(text), dtype=np.bool_)
    for passage in result.passages:
        for span in passage.source_spans:
            name, _, offset = span.passage_id.rpartition("@")
            start = int(offset) + span.start
            end = int(offset) + span.end
            masks[name][start:end] = True
    kept_needs = [is_place_kept(question, masks, place) for place in question.needs]
    kept_identity = [
        is_place_kept(question, masks, place) for place in question.identity
    ]
    kept_characters = sum(int(mask.sum()) for mask in masks.values())
    is_empty = not result.passages  # a model that selects nothing says so
    return QuestionOutcome(
        question.kind,
        float(np.mean(kept_needs or [True])),
        all(kept_identity),
        kept_characters / sum(map(len, masks.values())),
        result.relevant is False or is_empty,
    )


def is_place_kept(question: CompanyQuestion, masks: Masks, place: Place) -> bool:
    """Whether the characters of a place are kept; a splitter may have lost spaces."""
    text = question.files[place["file"]]
    start = text.index(place["text"])
    for position in range(start, start + len(place["text"])):
        if not masks[place["file"]][position] and not text[position].isspace():
            return False
    return True


SPLITTERS: dict[str, Splitter] = {
    WHOLE_FILES: whole_file,
    "pieces": file_pieces,
    "pieces without positions": unplaced_pieces,
}


def only_answerable(items: Sequence[Kinded]) -> list[Kinded]:
    """Return the questions, or outcomes, of kinds that the files answer."""
    return [item for item in items if item.kind not in ABSENT_KINDS]


def report_answerable(
    bench: Benchmark, outcomes: Sequence[QuestionOutcome], form: str
) -> None:
    """Add the rows of all questions that the files answer, given in this form."""
    answerable = only_answerable(outcomes)
    rows = bench.under("answerable: ")
    least, most_text, most_alarms = TARGETS_BY_FORM[form]
    report_kept(rows, answerable, least, most_text)
    report_called_absent(rows, answerable, at_most=most_alarms)


def report_kinds(bench: Benchmark, outcomes: Sequence[QuestionOutcome]) -> None:
    """Add the rows of each kind of question."""
    outcomes_by_kind: dict[str, list[QuestionOutcome]] = {}
    for outcome in outcomes:
        outcomes_by_kind.setdefault(outcome.kind, []).append(outcome)
    for kind, of_kind in sorted(outcomes_by_kind.items()):
        rows = bench.under(f"{kind}: ")
        if kind in ABSENT_KINDS:
            report_called_absent(rows, of_kind, at_least=LEAST_ABSENT.get(kind))
            continue
        report_kept(rows, of_kind, LEAST_BOTH.get(kind))
        if kind == "summary":
            places = [outcome.needs_share for outcome in of_kind]
            rows.mean("places kept", places, at_least=LEAST_SUMMARY_PLACES)
    if bench.has_targets:
        shares = []
        for kind in ONE_DOCUMENT_KINDS:
            for outcome in outcomes_by_kind[kind]:
                shares.append(outcome.text_share)
        bench.mean("lookup and compare: text", shares, at_most=MOST_LOOKUP_TEXT)


def measure_selection(
    questions: Sequence[CompanyQuestion],
) -> tuple[int, list[QuestionOutcome]]:
    """Select from whole files by recorded replies.

    Returns how many questions have no reply, and the outcomes of the others.
    """
    denoiser = S2ADenoiser(recorded_model("select"), options=ONE_CALL)
    outcomes = []
    for question in questions:
        passages = split_files(question.files, whole_file)
        result = denoiser.denoise(question.text, passages)
        if not result.failures:
            outcomes.append(measure_outcome(question, result))
    return len(questions) - len(outcomes), outcomes


def report_selection(bench: Benchmark, outcomes: Sequence[QuestionOutcome]) -> None:
    """Add the rows of S2A's ``select``."""
    answerable = only_answerable(outcomes)
    on_topic = [outcome for outcome in outcomes if outcome.kind == ON_TOPIC]
    if answerable:
        rows = bench.under("select, answerable: ")
        report_kept(rows, answerable, least=0.95, most_text=0.15)
        report_called_absent(rows, answerable, at_most=MOST_SELECTED_FALSE_ALARMS)
    if on_topic:
        rows = bench.under(f"select, {ON_TOPIC}: ")
        report_called_absent(rows, on_topic, at_least=LEAST_SELECTED_ABSENT)


def report_called_absent(
    bench: Benchmark, outcomes: Sequence[QuestionOutcome], **target: float | None
) -> None:
    is_called_absent = [outcome.is_called_absent for outcome in outcomes]
    bench.right("called absent", is_called_absent, **target)


def report_kept(
    bench: Benchmark,
    outcomes: Sequence[QuestionOutcome],
    least: float | None = None,
    most_text: float | None = None,
    both_name: str = "both",
) -> None:
    has_needs = [outcome.has_needs for outcome in outcomes]
    has_both = [outcome.has_both for outcome in outcomes]
    text_shares = [outcome.text_share for outcome in outcomes]
    bench.right("needed text", has_needs)
    bench.right(both_name, has_both, at_least=least)
    bench.mean("text", text_shares, at_most=most_text)


def report_siblings(bench: Benchmark, questions: Sequence[CompanyQuestion]) -> None:
    """Add how many right answers the judge supports by all pieces, and by what is kept."""
    judge = LLMJudge(recorded_model("siblings"))
    all_count = kept_count = 0
    for question in sibling_questions(questions):
        pieces = split_files(question.files, file_pieces)
        kept = default_denoiser().denoise(question.text, pieces).passages
        whole_verdict = check(question.text, question.answer, pieces, judge=judge)
        shortened_verdict = check(question.text, question.answer, kept, judge=judge)
        all_count += whole_verdict.passed
        kept_count += shortened_verdict.passed
    rows = bench.under("right answers on one of several like documents, supported by ")
    rows.row("all pieces", all_count, "answers")
    rows.row("what is kept", kept_count, "answers", at_least=all_count)


def sibling_questions(questions: Sequence[CompanyQuestion]) -> list[CompanyQuestion]:
    """The first lookups on one of several documents of the same form, with these alone."""
    chosen_questions = []
    for question in questions:
        if question.kind != "lookup":
            continue
        prefix = question.needs[0]["file"].partition("-")[0] + "-"
        files = {}
        for name, text in question.files.items():
            if name.startswith(prefix):
                files[name] = text
        if prefix in SIBLING_PREFIXES and len(files) > 1:
            chosen_questions.append(replace(question, files=files))
    return chosen_questions[:SIBLING_QUESTIONS]


def recorded_model(use: str) -> RecordedLLM:
    recordings = [row for row in records("company") if row["use"] == use]
    return RecordedLLM(replies_by_prompt(recordings))


if __name__ == "__main__":
    main()
