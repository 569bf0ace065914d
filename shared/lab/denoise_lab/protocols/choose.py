"""Which tables a protocol has, on data that ships or on a file that the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from denoise_core.embedded.default import DefaultScorer
from denoise_core.embedded.sample import sample_questions
from denoise_core.end.probe import Probe
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import RecordProblem, parse_cases, read_records
from denoise_core.protocols import LLM, Scorer
from denoise_lab.noisy_retrieval import PROSE_CHARACTERS
from denoise_lab.protocols import loops, noisy, opinions, problems
from denoise_lab.protocols.measure import TableSpec
from denoise_lab.s2a.cases import cases_from_gsm, cases_from_opinions
from denoise_lab.s2a.judges import ExactJudge, FactualityJudge, Judge, MentionJudge

DEFAULT_COUNT = 40  # questions of each kind
GRADING_NOTES = {
    "contains": "an answer is right when it contains an accepted one",
    "exact": "an answer is right when it is an accepted one",
    "judge": "answers are judged by the model itself",
}


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """What to run, and on which data.

    Attributes:
        protocol: The paper: "s2a", "end" or "augmenter".
        data: The user's file: questions, records with opinions or of GSM-IC's shape; for
            END a text that serves as prose. None for the data that ships.
        count: Questions of each kind; None for the default.
        grading: How answers are judged: "contains", "exact", or "judge" (the model itself).
        seed: Seed for generated questions.
        extended: Use END's longer set.
        probe: The folder of END's probe.
        model: The local model of the probe; None for the one that the probe's card names.
        characters: Characters of prose in a chunk; None for the paper's length.
        columns: Column names of the user's file.
    """

    protocol: str
    data: Path | None = None
    count: int | None = None
    grading: str = "contains"
    seed: int = 0
    extended: bool = False
    probe: Path | None = None
    model: Any = None
    characters: int | None = None
    columns: Mapping[str, str] | None = None


def choose_tables(request: ProtocolRequest, llm: LLM) -> list[TableSpec]:
    """Return the protocol's tables, not yet measured.

    Raises:
        InputError: A name, a file or options cannot be used.
    """
    makers = {"s2a": _s2a_tables, "end": _end_tables, "augmenter": _augmenter_tables}
    if request.protocol not in makers:
        raise InputError(
            f"protocol {request.protocol!r}: expected one of {', '.join(makers)}"
        )
    if request.protocol != "end" and (request.extended or request.probe is not None):
        raise InputError("a probe and the extended set belong to the protocol 'end'")
    return makers[request.protocol](request, llm)


def _s2a_tables(request: ProtocolRequest, llm: LLM) -> list[TableSpec]:
    judge = choose_judge(request.grading, llm)
    grading_note = GRADING_NOTES[request.grading]
    if request.data is None:
        return _shipped_s2a_tables(request, llm, judge, grading_note)
    return [_user_s2a_table(request, request.data, llm, judge, grading_note)]


def _user_s2a_table(
    request: ProtocolRequest, data: Path, llm: LLM, judge: Judge, grading_note: str
) -> TableSpec:
    """The table of a user's file: word problems, records with opinions, or questions."""
    records, problem_notes = _read_usable_records(data)
    notes = (grading_note, *problem_notes)
    if all("new_question" in record for record in records):
        cases = cases_from_gsm(records[: request.count])
        return problems.problem_table(llm, cases, notes)
    if all("opinion_type" in record for record in records):
        record_count = request.count
        if record_count is not None:
            record_count *= len({record["opinion_type"] for record in records})
        cases = cases_from_opinions(records[:record_count])
        return opinions.opinion_table(llm, cases, judge, notes)
    # Passages are not asked about, and a file need not have them.
    question_records = [{"passages": ["-"], **record} for record in records]
    parsed_cases = parse_cases(enumerate(question_records, 1), columns=request.columns)
    cases = opinions.user_opinion_cases(parsed_cases.questions[: request.count])
    source_note = "the wrong answer suggested is that of another question of the file"
    return opinions.opinion_table(llm, cases, judge, (source_note, *notes))


def _shipped_s2a_tables(
    request: ProtocolRequest, llm: LLM, judge: Judge, grading_note: str
) -> list[TableSpec]:
    question_count = min(request.count or DEFAULT_COUNT, DEFAULT_COUNT)
    question_note = "questions of Natural Questions that ship; right and wrong answers written by hand"
    opinion_table = opinions.opinion_table(
        llm,
        opinions.shipped_opinion_cases(question_count),
        judge,
        (question_note, grading_note),
    )
    problem_count = request.count or DEFAULT_COUNT // 2
    problem_note = "problems are made, the same every time, and no part of GSM-IC"
    problem_table = problems.problem_table(
        llm,
        problems.make_problem_cases(problem_count, seed=request.seed),
        (problem_note,),
    )
    return [opinion_table, problem_table]


def _end_tables(request: ProtocolRequest, llm: LLM) -> list[TableSpec]:
    prose_text = noisy.shipped_prose()
    prose_note = "prose of the passages that ship"
    if request.data is not None:
        prose_note = f"prose of {request.data.name}"
        try:
            prose_text = request.data.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{request.data} cannot be read: {error}; expected a text in UTF-8 as prose"
            ) from error
    scorers: dict[str, Scorer] = {"default": DefaultScorer()}
    scorer_note = "'default' is the embedded default at the paper's share; END needs --probe, on a local model"
    if request.probe is not None:
        probe_scorer = _open_probe_scorer(request.probe, request.model)
        scorers["END"] = probe_scorer
        reading = probe_scorer.probe.reading
        scorer_note = f"END is a probe on layer {reading.layer} of {reading.model.name}"
    characters = request.characters
    if characters is None:
        characters = PROSE_CHARACTERS
    cases = noisy.make_noisy_cases(
        prose_text,
        request.count or DEFAULT_COUNT // 2,
        extended=request.extended,
        characters=characters,
        seed=request.seed,
    )
    judge_note = "an answer is right when it is the password and no other"
    notes = (prose_note, judge_note, scorer_note)
    return [noisy.noisy_table(cases, scorers, extended=request.extended, notes=notes)]


def _open_probe_scorer(folder: Path, model: Any) -> ProbeScorer:
    """Return END's scorer, with its model opened now and not after other calls.

    Raises:
        ProbeMismatch: The model is not the probe's.
        InputError: The model cannot be opened.
    """
    probe = Probe.load(folder)
    scorer = ProbeScorer(model or probe.reading.model.name, probe)
    scorer.score("?", ["?"])
    return scorer


def _augmenter_tables(request: ProtocolRequest, llm: LLM) -> list[TableSpec]:
    judge = choose_judge(request.grading, llm)
    notes: tuple[str, ...] = (GRADING_NOTES[request.grading],)
    if request.data is None:
        questions = sample_questions()
        source_note = (
            "questions of Natural Questions that ship, searched in all their passages"
        )
        notes = (source_note, *notes)
    else:
        records, problem_notes = _read_usable_records(request.data)
        parsed_cases = parse_cases(enumerate(records, 1), columns=request.columns)
        questions = parsed_cases.questions
        notes = (*notes, *problem_notes)
    cases = loops.knowledge_cases(questions)
    corpus = loops.collect_corpus(cases)
    return loops.loop_tables(llm, cases[: request.count], corpus, judge, notes)


def choose_judge(grading: str, llm: LLM) -> Judge:
    """Return the judge behind ``--right``. Raises `InputError` for another name."""
    if grading == "contains":
        return MentionJudge()
    if grading == "exact":
        return ExactJudge()
    if grading == "judge":
        return FactualityJudge(llm)
    raise InputError(f"right={grading!r}: expected 'contains', 'exact' or 'judge'")


def _read_usable_records(path: Path) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The records that are objects, and a note about the lines that are left out, if any."""
    usable_records: list[dict[str, Any]] = []
    record_problems: list[RecordProblem] = []
    for line_number, record in read_records(path):
        if isinstance(record, RecordProblem):
            record_problems.append(record)
        elif isinstance(record, dict):
            usable_records.append(record)
        else:
            reason = f"expected an object, got {type(record).__name__}"
            record_problems.append(RecordProblem(line_number, reason))
    if not usable_records:
        raise InputError(f"{path}: no record can be used")
    notes = []
    if record_problems:
        first = record_problems[0]
        notes.append(
            f"left out: {len(record_problems)} lines, the first {first.line_number}: {first.reason}"
        )
    return usable_records, notes
