"""Questions of one's own as cases: with passages or to be searched for, with gold passages, answers, or neither.

A line that cannot be used is named and passed over; nothing is guessed. Every shape that `evaluate.datasets`
reads is taken; here labels may be missing. Fields of ``passages``: ``text``, and optionally ``id``, ``title``,
``source``, ``is_gold``; a passage may be a plain text. ``gold`` names gold passages by id, source, whole text or
place from 0.

Where nobody has labelled any, a model finds the gold passages, or questions are made of documents, which is
rougher: `Case.gold_from` says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.answer import Answer, Outcome
from denoise_core.augmenter.knowledge.retrieve import BM25Retriever, DenseRetriever, HybridRetriever
from denoise_core.augmenter.traces.recording import from_lines
from denoise_core.embedded.default import encoder
from denoise_core.end.fit.data import ask_for_questions, questions_from_documents
from denoise_core.errors import InputError
from denoise_core.evaluate.datasets import BadRecord, answers_of, passages_of, question_of, records_of
from denoise_core.evaluate.metrics import holds_answer
from denoise_core.protocols import LLM
from denoise_core.question import Question
from denoise_core.running.flow import run
from denoise_core.s2a.teaching import labelled
from denoise_core.text.cutting import cut as cut_text
from denoise_core.types import Passage

GoldFrom = Literal["labels", "answers", "model", "made", "cited"]
Find = Callable[[str], Sequence[Passage]]

FIELDS = ("question", "passages", "gold", "labels", "answers", "id", "text", "title", "source", "is_gold")
_OF_A_PASSAGE = ("text", "id", "title", "source", "is_gold")
_SHAPES = ("positive_ctxs", "supporting_facts", "paragraphs")


@dataclass(frozen=True, slots=True)
class Case:
    """One question. ``place`` is its line (from 1); ``gold_from`` says where its gold passages are known from:
    ``"labels"`` that came with it, ``"answers"`` that stand in the passage, a ``"model"`` that labelled it, the
    piece it was ``"made"`` from, what a recorded answer ``"cited"``; None where nothing is known.
    """

    question: Question
    place: int
    gold_from: GoldFrom | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """What can be used, what was left out (``bad``), what is used but should be known (``noted``), and how
    questions and labels came about, where not from the user's own file (``about``).
    """

    cases: tuple[Case, ...]
    bad: tuple[BadRecord, ...] = ()
    noted: tuple[BadRecord, ...] = ()
    about: tuple[str, ...] = ()


def read_cases(path: str | Path, *, columns: Mapping[str, str] | None = None, find: Find | None = None) -> Cases:
    """The cases of a ``.jsonl`` or ``.json`` file, ``.gz``, ``.xz`` or not.

    ``columns`` gives the file's own name of one of `FIELDS`. ``find`` searches passages for a question that comes
    without. Raises `InputError` for a file that cannot be read, an unknown column, or no case at all.
    """
    return cases_of(records_of(Path(path)), columns=columns, find=find, where=str(path))


def cases_of(
    numbered: Iterable[tuple[int, Any]],
    *,
    columns: Mapping[str, str] | None = None,
    find: Find | None = None,
    where: str = "records",
) -> Cases:
    """As `read_cases`, of records with their places."""
    names = dict(columns or {})
    unknown = sorted(set(names) - set(FIELDS))
    if unknown:
        raise InputError(f"columns: {unknown[0]!r} is not known; expected one of {', '.join(FIELDS)}")
    cases: list[Case] = []
    bad: list[BadRecord] = []
    noted: list[BadRecord] = []
    for place, record in numbered:
        try:
            if isinstance(record, BadRecord):
                raise InputError(record.reason)
            if not isinstance(record, Mapping):
                raise InputError(f"expected an object, got {type(record).__name__}")
            case = _case(_renamed(record, names), place, find)
        except InputError as error:
            bad.append(BadRecord(place, str(error)))
            continue
        cases.append(case)
        if case.gold_from == "answers" and not case.question.gold:
            noted.append(BadRecord(place, "none of its answers stands in its passages"))
    if not cases:
        first = f"; the first: record {bad[0].place}: {bad[0].reason}" if bad else ""
        raise InputError(f"{where}: no question can be used{first}")
    return Cases(tuple(cases), tuple(bad), tuple(noted))


def case_of_question(question: Question, place: int) -> Case:
    """A question at hand as a case: gold as it says, else of its answers."""
    return _labelled(question, place, question.gold or None)


def _case(record: Mapping[str, Any], place: int, find: Find | None) -> Case:
    text = record.get("question")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"'question': expected a text, got {text!r}; found the fields {', '.join(record)}")
    if any(name in record for name in _SHAPES):
        made = _used(question_of(record))
        return Case(made, place, "labels")
    given = record.get("passages", record.get("ctxs"))
    flags = None
    if given is None and find is not None:
        passages: Sequence[Passage] = find(text)
        if not passages:
            raise InputError("nothing was found for it in the documents")
    elif given is None:
        raise InputError("it has no 'passages': add them, or name what to search with --documents FOLDER")
    else:
        passages, flags = _passages(given)
        if "labels" in record:
            flags = _flags(record["labels"], len(passages))
    gold = None if record.get("gold") is None else _named(record["gold"], passages)
    if gold is None and flags is not None:
        gold = frozenset(p.id for p, flag in zip(passages, flags, strict=True) if flag)
    made = Question(text, tuple(passages), gold or frozenset(), answers_of(record), str(record.get("id") or ""))
    return _labelled(_used(made), place, gold)


def _used(question: Question) -> Question:
    if not any(p.text.strip() for p in question.passages):
        raise InputError("its passages are empty; add some, or documents to search")
    return question


def _labelled(question: Question, place: int, gold: frozenset[str] | None) -> Case:
    if gold is not None:
        return Case(question, place, "labels")
    if not question.answers:
        return Case(question, place)
    found = frozenset(p.id for p in question.passages if holds_answer(p.text, question.answers))
    made = Question(question.text, question.passages, found, question.answers, question.id)
    return Case(made, place, "answers")


def _renamed(record: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The record under our names; names of a passage's fields are taken inside ``passages``."""
    out = dict(record)
    for ours, theirs in names.items():
        if theirs in record and (ours not in _OF_A_PASSAGE or ours == "id"):
            out[ours] = record[theirs]
    own = {ours: theirs for ours, theirs in names.items() if ours in _OF_A_PASSAGE}
    given = out.get("passages")
    if own and isinstance(given, list):
        out["passages"] = [
            {**p, **{o: p[t] for o, t in own.items() if t in p}} if isinstance(p, Mapping) else p for p in given
        ]
    return out


def _passages(given: Any) -> tuple[tuple[Passage, ...], list[bool] | None]:
    """The passages, and whether each is gold; None when that is not said of any."""
    if not isinstance(given, list) or not given:
        kind = "nothing" if given is None else "an empty list" if given == [] else type(given).__name__
        raise InputError(f"'passages': expected a list of texts or objects, got {kind}")
    marks = [p.get("is_gold", p.get("has_answer")) if isinstance(p, Mapping) else None for p in given]
    flags = None if all(m is None for m in marks) else _flags([m or 0 for m in marks], len(given))
    return passages_of(given), flags


def _flags(given: Any, n: int) -> list[bool]:
    if not isinstance(given, list) or len(given) != n or any(x not in (0, 1) for x in given):
        raise InputError(f"'labels': expected {n} of 0 or 1, one for each passage")
    return [bool(x) for x in given]


def _named(given: Any, passages: Sequence[Passage]) -> frozenset[str]:
    names = given if isinstance(given, list) else [given]
    found: set[str] = set()
    for name in names:
        if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < len(passages):
            found.add(passages[name].id)
        found |= {p.id for p in passages if name in (p.id, p.metadata.get("source"), p.text)}
    if names and not found:
        raise InputError(f"'gold': {names[:3]} are none of its passages, by id, source, text or place from 0")
    return frozenset(found)


ABOUT = "questions are recorded runs; gold passages are those that answers judged to be supported cite"


def is_trace(record: Any) -> bool:
    """Whether a record is the first line of a recorded run."""
    return isinstance(record, dict) and record.get("line") == "answer"


def read_traces(path: str | Path) -> Cases:
    """The runs in a file, or in every ``.jsonl`` file of a folder. ``place`` counts them from 1.

    A run that cannot be read, or that found no passage, is left out and named. Raises `InputError` when none is
    left.
    """
    path = Path(path)
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    cases: list[Case] = []
    bad: list[BadRecord] = []
    noted: list[BadRecord] = []
    place = 0
    for file in files:
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {error}") from error
        for recorded in _runs(lines):
            place += 1
            try:
                case = _of_run(from_lines(recorded), place)
            except InputError as error:
                bad.append(BadRecord(place, str(error)))
                continue
            cases.append(case)
            if case.gold_from is None:
                noted.append(BadRecord(place, "its answer was not supported or cites nothing: no gold is known"))
    if not cases:
        first = f"; the first: run {bad[0].place}: {bad[0].reason}" if bad else ""
        raise InputError(f"{path}: no recorded run can be used{first}")
    return Cases(tuple(cases), tuple(bad), tuple(noted), (ABOUT,))


def _runs(lines: Iterable[str]) -> Iterator[list[str]]:
    own: list[str] = []
    for line in lines:
        if own and _begins(line):
            yield own
            own = []
        if line.strip():
            own.append(line)
    if own:
        yield own


def _of_run(answer: Answer, place: int) -> Case:
    memory = answer.memory
    found = {p.id: p for p in (*memory.evidence, *memory.retrieved)}  # as it was found, not as it was denoised
    if not found:
        raise InputError("it found no passage")
    cited = frozenset(p.id for p in answer.citations) & found.keys()
    gold = cited if answer.outcome is Outcome.SUPPORTED else frozenset()
    question = Question(memory.question, tuple(found.values()), gold, id=str(place))
    return Case(question, place, "cited" if gold else None)


def _begins(line: str) -> bool:
    try:
        return is_trace(json.loads(line))
    except (ValueError, RecursionError):
        return False


FOUND = 20  # passages for a question
AT_ONCE = 64  # pieces that are read between two words of progress


def searching(documents: Sequence[Passage], *, k: int = FOUND, progress: Progress | None = None) -> Find:
    """A search over the pieces of ``documents``: BM25 and the embedded encoder, fused by rank.

    Each piece is a passage ``document#n`` under its heading, with the document's id as its source. All are read at
    the first search; ``progress`` hears of pieces read, and of all. Raises `InputError` when the documents hold no
    text or ``k < 1``.
    """
    own = cut(documents)

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        parts = []
        for start in range(0, len(texts), AT_ONCE):
            parts.append(encoder().vectors(texts[start : start + AT_ONCE]))
            if progress is not None and len(texts) > 1:  # the question is one
                progress(min(start + AT_ONCE, len(texts)), len(texts))
        return np.concatenate(parts)

    most = max(k, 50)
    return HybridRetriever([BM25Retriever(own, k=most), DenseRetriever(own, vectors, k=most)], k=k).retrieve


def cut(documents: Sequence[Passage]) -> tuple[Passage, ...]:
    """The pieces of ``documents``, as `searching` finds them. Raises `InputError` when there is no text."""
    own = tuple(p for d in documents for p in _cut(d))
    if not own:
        raise InputError("the documents hold no text")
    return own


def _cut(document: Passage) -> list[Passage]:
    own = cut_text(document.text)
    out = []
    for n, piece in enumerate(own.pieces, 1):
        above, said = own.read(piece)
        if not piece.frame and said.strip():
            metadata = {**document.metadata, "source": document.id}
            name = f"{document.id}#{n}"
            out.append(replace(document, text=said.strip(), id=name, metadata=metadata, header=above))
    return out


QUESTIONS = 50  # made of documents, unless told

Progress = Callable[[int, int], None]


def labelled_by(cases: Cases, llm: LLM, name: str, *, progress: Progress | None = None) -> Cases:
    """The cases of which nothing is known, with the passages as gold that ``llm`` selects (`s2a.teaching`); one in
    which it selects none, or on which it fails, stays as it is and is noted. ``name`` stands in the report."""
    out, noted = list(cases.cases), list(cases.noted)
    asked = [n for n, case in enumerate(out) if case.gold_from is None]
    for n, question in zip(asked, labelled([out[n].question for n in asked], llm, progress), strict=True):
        if isinstance(question, Question):
            out[n] = replace(out[n], question=question, gold_from="model")
        else:
            noted.append(BadRecord(out[n].place, f"{name}: {question}"))
    about = f"gold passages of {len(asked)} questions are those that {name} selects"
    return replace(cases, cases=tuple(out), noted=tuple(noted), about=(*cases.about, *((about,) if asked else ())))


def made_from(
    documents: Sequence[Passage],
    *,
    n: int = QUESTIONS,
    k: int = FOUND,
    llm: LLM | None = None,
    name: str = "a model",
    seed: int = 0,
) -> Cases:
    """Questions made of pieces of ``documents``, each among ``k`` passages, half of them those most alike.

    With ``llm`` it writes one for a piece; without, a sentence is taken out of a piece and stands as the question.
    Raises `InputError` when no question can be made.
    """
    pieces = cut(documents)
    if k < 2:
        raise InputError(f"k={k}: expected 2 passages or more, so that some are irrelevant")
    if llm is None:
        found = questions_from_documents(pieces, n=n, negatives=k - 1, seed=seed)
        how = "questions are sentences taken out of the documents; their gold passage is the rest of the piece"
    else:
        found = run(ask_for_questions(pieces, n=n, negatives=k - 1, seed=seed), llm=llm)[0]
        how = f"questions were written by {name}, each to one piece of the documents, its gold passage"
    return Cases(tuple(Case(q, n, "made") for n, q in enumerate(found, 1)), about=(how,))
