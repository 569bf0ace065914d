"""What a large language model does with this package's prompts, replayed from recorded replies.

``select``, rewriting and the quoting judge, next to what needs no model. A reply is found by its prompt, which is
written anew from the data; a prompt that has changed is counted. Replies to version 4 of S2A's prompts (the data
folder) are found by the numbered text and the question, which are as they were; their rows name the version.
Cosine keeps sentences, as many characters of each question as the method it is compared with. Answers on ordinary
files are written from the whole file, from what the default keeps and from what cosine keeps in as many
characters; one is right when it supports the known answer, by the quoting judge. With
``--data``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _judged_sets import Case, read_cases
from _recorded import FOLDER, records, replies_by_prompt
from harness import Benchmark, json_lines, read_data_set
from ordinary import FileQuestion, read_files

from denoise_core import Message, Passage, Reply
from denoise_core.embedded import default_denoiser, embedding_scorer
from denoise_core.end import ENDDenoiser, TokenLimit
from denoise_core.runtime.flow import run
from denoise_core.s2a import Prompts, S2ADenoiser
from denoise_core.s2a.answer import answer_from_passages
from denoise_core.s2a.denoiser import S2AResult
from denoise_core.support.check import check
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import RecordedLLM
from denoise_core.text.chunk import sentence_spans
from denoise_core.text.lexemes import tokenize_text
from denoise_core.text.stems import content_stems

SETS = {"hotpotqa_distractor": "HotpotQA", "musique": "MuSiQue"}
CURRENT = "prompts 6"
EARLIER = "prompts 4"
QUESTION_STEP = 4  # every so many questions about ordinary files are answered


def main() -> None:
    bench = Benchmark("real_model", __doc__)
    bench.about = {
        "model": "a large language model",
        "date": "2026-11",
        "replies": "recorded, replayed by prompt",
    }
    if bench.quick:
        count = len(records("s2a")) + len(records("quoting"))
        bench.row("recorded replies", count, "replies")
    else:
        report_selection(bench, bench.folder)
        report_rewriting(bench)
        report_answers(bench, bench.folder)
        report_judges(bench, read_cases(bench.folder))
    bench.finish()


# -- recorded replies ------------------------------------------------------------------


class SchemaLLM(RecordedLLM):
    """Recorded from a model that was held to a JSON schema, where ``structured`` says so."""

    def __init__(self, replies: Mapping[str, str], structured: bool = False) -> None:
        super().__init__(replies)
        self.structured = structured

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)


class EarlierLLM(SchemaLLM):
    """Finds a reply by what the prompt has between its markers, whatever else it says."""

    @staticmethod
    def key(messages: Sequence[Message]) -> str:
        text = "\n".join(message.content for message in messages)
        return "".join(re.findall(r"^BEGIN (.*?)^END ", text, re.M | re.S))


def current_records(kind: str) -> list[dict[str, Any]]:
    return [record for record in records("s2a") if record["kind"] == kind]


def earlier_records(data: Path) -> list[dict[str, Any]]:
    """Read the recordings of version 4, with the prompt that `EarlierLLM` finds them by."""
    recordings = json_lines(data / "recorded" / "select.jsonl")
    for recording in recordings:
        messages = [Message(**message) for message in recording["messages"]]
        recording["prompt"] = EarlierLLM.key(messages)
    return recordings


# -- selection -------------------------------------------------------------------------


@dataclass(frozen=True)
class SelectionQuestion:
    """A question over passages as they were shown, and the model that selects."""

    set_name: str
    text: str
    passages: list[Passage]
    gold_ids: set[str]
    answers: list[str]
    llm: RecordedLLM


def current_questions(data: Path) -> list[SelectionQuestion]:
    """Read the questions that were asked with the current prompts; a title is before each text."""
    selections = current_records("select")
    replies = replies_by_prompt(selections)  # some questions took two prompts
    recordings = {recording["id"]: recording for recording in selections}
    questions = []
    for file_name, set_name in SETS.items():
        for record in read_data_set(data, file_name):
            if record["id"] not in recordings:
                continue
            passages = []
            gold_ids = set()
            for number, row in enumerate(record["passages"]):
                text = f"{row['title']}: {row['text']}"
                passages.append(Passage(text, str(number)))
                if row["is_gold"]:
                    gold_ids.add(str(number))
            questions.append(
                SelectionQuestion(
                    f"{set_name}, {CURRENT}",
                    record["question"],
                    passages,
                    gold_ids,
                    record["answers"],
                    SchemaLLM(replies, recordings[record["id"]]["held"]),
                )
            )
    return questions


def earlier_questions(data: Path) -> list[SelectionQuestion]:
    recordings = earlier_records(data)
    llm = EarlierLLM(replies_by_prompt(recordings))
    questions = []
    for recording in recordings:
        texts = enumerate(recording["passages"])
        questions.append(
            SelectionQuestion(
                f"{SETS[recording['set']]}, {EARLIER}",
                recording["question"],
                [Passage(text, str(number)) for number, text in texts],
                set(map(str, recording["gold"])),
                recording["answers"],
                llm,
            )
        )
    return questions


def report_selection(bench: Benchmark, data: Path) -> None:
    """Add what ``select``, the default and cosine keep of the questions of each set."""
    by_set: dict[str, list[SelectionQuestion]] = {}
    for question in [*current_questions(data), *earlier_questions(data)]:
        by_set.setdefault(question.set_name, []).append(question)
    for set_name, questions in by_set.items():
        report_selected_set(bench.under(f"{set_name}: "), questions)


def report_selected_set(
    bench: Benchmark, questions: Sequence[SelectionQuestion]
) -> None:
    is_current = questions[0].set_name.endswith(CURRENT)
    most_changed = 0 if is_current else None
    gold: dict[str, list[float]] = {}
    has_answer: dict[str, list[bool]] = {}
    text: dict[str, list[float]] = {}
    is_absent = []
    for question in questions:
        selection = S2ADenoiser(question.llm).denoise(question.text, question.passages)
        if selection.failures:
            continue
        is_absent.append(selection.relevant is False)
        for method, kept in keep_by_methods(question, selection).items():
            kept_ids = {passage.id for passage in kept}
            kept_gold = question.gold_ids & kept_ids
            gold.setdefault(method, []).append(len(kept_gold) / len(question.gold_ids))
            share = count_characters(kept) / count_characters(question.passages)
            text.setdefault(method, []).append(share)
            if has_any_answer(question.answers, question.passages):
                is_there = has_any_answer(question.answers, kept)
                has_answer.setdefault(method, []).append(is_there)
    bench.row(
        "prompts that have changed",
        len(questions) - len(is_absent),
        "questions",
        at_most=most_changed,
    )
    bench.row("questions", len(is_absent), "questions")
    for method in gold:
        bench.mean(f"gold passages kept, {method}", gold[method])
        bench.mean(f"answer kept, {method}", has_answer[method])
        bench.mean(f"text kept, {method}", text[method])
    if is_current:
        bench.right("called absent, select", is_absent)


def keep_by_methods(
    question: SelectionQuestion, selection: S2AResult
) -> dict[str, Sequence[Passage]]:
    """Return what each method keeps of a question's passages."""
    default = default_denoiser().denoise(question.text, question.passages)
    by_method: dict[str, Sequence[Passage]] = {
        "everything": question.passages,
        "select": selection.passages,
        "the default": default.passages,
    }
    for method in ("select", "the default"):
        as_much = keep_by_cosine(
            question.text, question.passages, count_characters(by_method[method])
        )
        by_method[f"cosine, as much as {method}"] = as_much
    return by_method


def keep_by_cosine(
    query: str, passages: Sequence[Passage], characters: int
) -> Sequence[Passage]:
    """Keep the best sentences by cosine, up to so many characters."""
    limit = TokenLimit(characters, count=len)
    denoiser = ENDDenoiser(embedding_scorer(), keep=limit, chunker=sentence_spans)
    return denoiser.denoise(query, passages).passages


def count_characters(passages: Sequence[Passage]) -> int:
    return sum(len(passage.text) for passage in passages)


def has_any_answer(answers: Sequence[str], passages: Sequence[Passage]) -> bool:
    """Whether a passage has an answer; letter case and white space do not count."""
    for passage in passages:
        text = normalize_text(passage.text)
        if any(normalize_text(answer) in text for answer in answers):
            return True
    return False


def normalize_text(text: str) -> str:
    return " ".join(text.split()).casefold()


# -- rewriting -------------------------------------------------------------------------


def report_rewriting(bench: Benchmark) -> None:
    recordings = current_records("rewrite")
    replies = replies_by_prompt(recordings)
    failed_count = empty_count = sentence_count = uncovered_count = 0
    for recording in recordings:
        llm = SchemaLLM(replies, recording["held"])
        passages = [Passage(recording["passage"], "p")]
        denoiser = S2ADenoiser(llm, variant="default")
        result = denoiser.denoise(recording["question"], passages)
        failed_count += bool(result.failures)
        for report in result.reports:
            empty_count += not report.sentences
            sentence_count += len(report.sentences)
            uncovered_count += len(report.uncovered_sentences)
    rows = bench.under("rewriting, prompts 5: ")
    rows.row("documents", len(recordings), "documents")
    rows.row("nothing written", empty_count, "documents")
    rows.row("sentences written", sentence_count, "sentences")
    rows.row("sentences without a source", uncovered_count, "sentences")
    rows.row("fell back", failed_count, "documents", at_most=0)


# -- answers about ordinary files ------------------------------------------------------


def report_answers(bench: Benchmark, data: Path) -> None:
    """Answer every fourth question about ordinary files that its file answers, from shorter and shorter text."""
    llm = RecordedLLM.from_file(FOLDER / "answers.jsonl")
    questions = [q for q in read_files(data / "ordinary") if q.needed]
    questions = questions[::QUESTION_STEP]
    is_right: dict[str, list[bool]] = {}
    text: dict[str, list[float]] = {}
    for question in questions:
        for source, passages in answer_sources(question).items():
            answered_right = is_answered_right(llm, question, passages)
            is_right.setdefault(source, []).append(answered_right)
            share = count_characters(passages) / len(question.text)
            text.setdefault(source, []).append(share)
    rows = bench.under("ordinary files: ")
    rows.row("asked", len(questions), "questions")
    for source in is_right:
        rows.right(f"answers right, from {source}", is_right[source])
        rows.mean(f"text shown, {source}", text[source])


def answer_sources(question: FileQuestion) -> dict[str, Sequence[Passage]]:
    """Return what an answer is written from, by name."""
    file_passages = [question.passage]
    default = default_denoiser().denoise(question.question, file_passages).passages
    as_much = keep_by_cosine(
        question.question, file_passages, count_characters(default)
    )
    return {
        "the whole file": file_passages,
        "what the default keeps": default,
        "what cosine keeps in as much": as_much,
    }


def is_answered_right(
    llm: RecordedLLM, question: FileQuestion, passages: Sequence[Passage]
) -> bool:
    """Whether the model's answer supports the known one."""
    answering = answer_from_passages(llm, Prompts().answer, question.question, passages)
    reply_text, _ = run(answering)
    header = f"The answer to: {question.question}"
    evidence = [Passage(reply_text, "answer", header=header)]
    verdict = check(question.question, question.answer, evidence, judge=LLMJudge(llm))
    return verdict.supported is True


# -- judges ----------------------------------------------------------------------------


def report_judges(bench: Benchmark, cases: Sequence[Case]) -> None:
    """Add the right and wrong answers that each judge passes, on the half that was only counted.

    An answer passes by its words from the share on that separates the other half best.
    """
    labelled_cases = [case for case in cases if case.label in ("right", "wrong")]
    looked_cases = [case for case in labelled_cases if case.half == "looked"]
    least_share = best_separation(looked_cases)
    bench.about["words"] = f"passed from {least_share:.2f} on"
    judge = LLMJudge(RecordedLLM.from_file(FOLDER / "quoting.jsonl"))
    for label in ("right", "wrong"):
        passed_by_judge = []
        passed_by_words = []
        for case in labelled_cases:
            if case.half == "unseen" and case.label == label:
                verdict = check(case.question, case.answer, case.passages, judge=judge)
                passed_by_judge.append(verdict.passed)
                passed_by_words.append(shared_word_share(case) >= least_share)
        rows = bench.under(f"{label} answers")
        rows.right(" passed, judge by units, prompts 2", passed_by_judge)
        rows.right(" passed, words", passed_by_words)
        rows.row("", len(passed_by_judge), "answers")


def best_separation(cases: Sequence[Case]) -> float:
    """Return the share of words from which on most answers are labelled right, and below it wrong."""
    shares = np.array([shared_word_share(case) for case in cases])
    is_right = np.array([case.label == "right" for case in cases])
    hits = [int(((shares >= share) == is_right).sum()) for share in shares]
    return float(shares[np.argmax(hits)])


def shared_word_share(case: Case) -> float:
    """Return the share of the answer's stems and numbers that its best passage has."""
    answer_terms = text_terms(case.answer)
    counts = []
    for passage in case.passages:
        shared_terms = answer_terms & text_terms(passage.text_with_header)
        counts.append(len(shared_terms))
    return max(counts) / max(1, len(answer_terms))


def text_terms(text: str) -> set[str]:
    """Return the stems of an English text's content words, and its numbers."""
    lexemes = tokenize_text(text)
    numbers = {lexeme.text for lexeme in lexemes if lexeme.kind == "number"}
    return numbers | set(content_stems(lexemes, "en"))


if __name__ == "__main__":
    main()
