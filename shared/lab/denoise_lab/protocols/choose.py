"""Which tables a protocol has, on data that ships or on a file that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from denoise_core.embedded.default import DefaultScorer
from denoise_core.embedded.sample import sample_questions
from denoise_core.end.probe import Probe
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import RecordProblem, parse_cases, read_records
from denoise_core.evaluate.metrics import exact_match
from denoise_core.protocols import LLM, Scorer
from denoise_core.runtime.effects import Flow
from denoise_lab.noisy_retrieval import CHARACTERS
from denoise_lab.protocols import loops, noisy, opinions, problems
from denoise_lab.protocols.sheet import Sheet
from denoise_lab.s2a.cases import Case, from_gsm, from_opinions
from denoise_lab.s2a.judges import FactualityJudge, Judge, MatchJudge

Name = Literal["s2a", "end", "augmenter"]
PROTOCOLS: tuple[str, ...] = get_args(Name)
"""Names of the protocols, as the command takes them: one for the tables of each paper."""
QUESTIONS = 40  # of each kind, by default


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """What to run, and on which data.

    Attributes:
        protocol: One of `PROTOCOLS`.
        data: The user's file: questions, records with opinions or of GSM-IC's shape; for
            END a text that serves as prose. None for the data that ships.
        count: Questions of each kind.
        right: How answers are judged: "contains", "exact", or "judge" (the model itself).
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
    right: str = "contains"
    seed: int = 0
    extended: bool = False
    probe: Path | None = None
    model: Any = None
    characters: int | None = None
    columns: Mapping[str, str] | None = None


class ExactJudge:
    """1 when the answer, after its steps, is one of the accepted ones."""

    name = "exact"

    def judge(self, case: Case, answer: str) -> Flow[float | None]:
        yield from ()
        return float(exact_match(opinions.final(answer), case.gold))


def make_sheets(request: ProtocolRequest, llm: LLM) -> list[Sheet]:
    """The protocol's tables. Raises `InputError` for a name, a file or options that cannot be used."""
    makers = {"s2a": _s2a, "end": _end, "augmenter": _augmenter}
    if request.protocol not in makers:
        raise InputError(
            f"protocol {request.protocol!r}: expected one of {', '.join(PROTOCOLS)}"
        )
    if request.protocol != "end" and (request.extended or request.probe is not None):
        raise InputError("a probe and the extended set belong to the protocol 'end'")
    return makers[request.protocol](request, llm)


def _s2a(request: ProtocolRequest, llm: LLM) -> list[Sheet]:
    judge = judge_of(request.right, llm)
    notes: tuple[str, ...] = (_judged(request.right),)
    if request.data is None:
        made = "problems are made, the same every time, and no part of GSM-IC"
        nq = "questions of Natural Questions that ship; right and wrong answers written by hand"
        each = min(request.count or QUESTIONS, QUESTIONS)
        return [
            opinions.sheet(llm, opinions.shipped(each), judge, (nq, *notes)),
            problems.sheet(
                llm,
                problems.made(request.count or QUESTIONS // 2, seed=request.seed),
                (made,),
            ),
        ]
    records, bad = _records(request.data)
    notes = (*notes, *_left_out(bad))
    if all("new_question" in r for r in records):
        return [problems.sheet(llm, from_gsm(records[: request.count]), notes)]
    if all("opinion_type" in r for r in records):
        several = (
            None
            if request.count is None
            else request.count * len({r["opinion_type"] for r in records})
        )
        return [opinions.sheet(llm, from_opinions(records[:several]), judge, notes)]
    found = parse_cases(
        enumerate(({"passages": ["-"], **r} for r in records), 1),
        columns=request.columns,
    )
    wrong = "the wrong answer suggested is that of another question of the file"
    own = opinions.of_questions([c.question for c in found.cases][: request.count])
    return [opinions.sheet(llm, own, judge, (wrong, *notes))]


def _probe_scorer(folder: Path, model: Any) -> ProbeScorer:
    """END's scorer, with its model opened now and not after other calls.

    Raises:
        ProbeMismatch: The model is not the probe's.
        InputError: The model cannot be opened.
    """
    probe = Probe.load(folder)
    scorer = ProbeScorer(model or probe.reading.model.name, probe)
    scorer.score("?", ["?"])
    return scorer


def _end(request: ProtocolRequest, llm: LLM) -> list[Sheet]:
    text, what = noisy.prose(), "prose of the passages that ship"
    if request.data is not None:
        try:
            text, what = (
                request.data.read_text("utf-8-sig"),
                f"prose of {request.data.name}",
            )
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{request.data} cannot be read: {error}; expected a text in UTF-8 as prose"
            ) from error
    notes = [what, "an answer is right when it is the password and no other"]
    scorers: dict[str, Scorer] = {"default": DefaultScorer()}
    if request.probe is not None:
        scorers["END"] = found = _probe_scorer(request.probe, request.model)
        notes.append(
            f"END is a probe on layer {found.probe.reading.layer} of {found.probe.reading.model.name}"
        )
    else:
        notes.append(
            "'default' is the embedded default at the paper's share; END needs --probe, on a local model"
        )
    cases = noisy.made(
        text,
        request.count or QUESTIONS // 2,
        extended=request.extended,
        characters=CHARACTERS if request.characters is None else request.characters,
        seed=request.seed,
    )
    return [noisy.sheet(cases, scorers, extended=request.extended, notes=tuple(notes))]


def _augmenter(request: ProtocolRequest, llm: LLM) -> list[Sheet]:
    notes: tuple[str, ...] = (_judged(request.right),)
    if request.data is None:
        questions = list(sample_questions())
        notes = (
            "questions of Natural Questions that ship, searched in all their passages",
            *notes,
        )
    else:
        records, bad = _records(request.data)
        questions = [
            c.question
            for c in parse_cases(enumerate(records, 1), columns=request.columns).cases
        ]
        notes = (*notes, *_left_out(bad))
    cases = loops.cases_of(questions)
    corpus = loops.corpus_of(cases)
    return loops.sheets(
        llm, cases[: request.count], corpus, judge_of(request.right, llm), notes
    )


def judge_of(right: str, llm: LLM) -> Judge:
    """The judge behind ``--right``. Raises `InputError` for another name."""
    if right == "contains":
        return MatchJudge()
    if right == "exact":
        return ExactJudge()
    if right == "judge":
        return FactualityJudge(llm)
    raise InputError(f"right={right!r}: expected 'contains', 'exact' or 'judge'")


def _judged(right: str) -> str:
    said = {
        "contains": "an answer is right when it contains an accepted one",
        "exact": "an answer is right when it is an accepted one",
        "judge": "answers are judged by the model itself",
    }
    return said.get(right, right)


def _records(path: Path) -> tuple[list[dict[str, Any]], list[RecordProblem]]:
    good: list[dict[str, Any]] = []
    bad: list[RecordProblem] = []
    for place, record in read_records(path):
        if isinstance(record, RecordProblem):
            bad.append(record)
        elif isinstance(record, dict):
            good.append(record)
        else:
            bad.append(
                RecordProblem(place, f"expected an object, got {type(record).__name__}")
            )
    if not good:
        raise InputError(f"{path}: no record can be used")
    return good, bad


def _left_out(bad: list[RecordProblem]) -> tuple[str, ...]:
    return (
        (
            f"left out: {len(bad)} lines, the first {bad[0].line_number}: {bad[0].reason}",
        )
        if bad
        else ()
    )
