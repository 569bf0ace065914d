"""Questions from files: our own records and the shapes in which the usual question sets come.

A record is told by its fields, never by a file's name:

=====================================  ==================================================================
fields                                 where from
=====================================  ==================================================================
question, passages[{text, is_gold}]    this project's own sets
question, passages[str], labels[]      the shortest form to write by hand
question, passages[], gold             gold passages by id, source, whole text or place from 0
question, positive_ctxs, ...           DPR training files (``hard_negative_ctxs``, ``negative_ctxs``)
question, ctxs[{text, has_answer}]     retrieval results for NQ and TriviaQA, best first
question, context, supporting_facts    HotpotQA and 2WikiMultihopQA
question, paragraphs[is_supporting]    MuSiQue
=====================================  ==================================================================

A passage may be a plain text, or have ``id``, ``title`` and ``source`` too; one that does not say ``is_gold``
beside others that do is none. Where nothing tells, the gold passages are those that hold one of the ``answers``:
`Case.gold_from` says which it was. A line that cannot be used is named, and nothing is guessed.

The texts are other people's: they are data, whatever they say.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import contains_answer
from denoise_core.question import Question
from denoise_core.types import Passage, replace_surrogates, unique_ids

GoldFrom = Literal["labels", "answers", "model", "made"]
PassageSearch = Callable[[str], Sequence[Passage]]

FIELDS = (
    "question",
    "passages",
    "gold",
    "labels",
    "answers",
    "id",
    "text",
    "title",
    "source",
    "is_gold",
)
_OF_A_PASSAGE = ("text", "id", "title", "source", "is_gold")
_UNTOLD = (
    "nothing tells which passages are relevant: add 'labels', or 'is_gold' to each passage ('has_answer' in "
    "'ctxs'), 1 for a relevant one and 0 for others"
)


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """A record that could not be read. ``place`` is its line in the file, or its place in the array, from 1."""

    line_number: int
    reason: str


@dataclass(frozen=True, slots=True)
class EvaluationCase:
    """One question. ``place`` is its line (from 1); ``gold_from`` says where its gold passages are known from:
    ``"labels"`` that came with it, ``"answers"`` that stand in the passage, a ``"model"`` that labelled it, the
    piece it was ``"made"`` from; None where nothing is known.
    """

    question: Question
    line_number: int
    gold_from: GoldFrom | None = None


@dataclass(frozen=True, slots=True)
class EvaluationCases:
    """What can be used, what was left out (``bad``), what is used but should be known (``noted``), and how
    questions and labels came about, where not from the user's own file (``about``).
    """

    cases: tuple[EvaluationCase, ...]
    rejected_records: tuple[RecordProblem, ...] = ()
    warnings: tuple[RecordProblem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        """Those of the cases."""
        return tuple(case.question for case in self.cases)


def read_questions(path: str | Path, *, skip_bad: bool = False) -> EvaluationCases:
    """Labelled questions of a ``.jsonl`` or ``.json`` file, ``.gz``, ``.xz`` or not.

    Raises `InputError` for a file that cannot be read or used at all and, unless ``skip_bad``, for the first
    record that cannot be used or has no labels, by its place in the file.
    """
    return parse_cases(
        read_records(Path(path)),
        source_name=str(path),
        labelled=True,
        skip_bad=skip_bad,
    )


def read_cases(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    search_passages: PassageSearch | None = None,
) -> EvaluationCases:
    """The cases of a file as `read_questions` takes; here labels may be missing, and bad records are passed over.

    ``columns`` gives the file's own name of one of `FIELDS`. ``find`` searches passages for a question that comes
    without. Raises `InputError` for a file that cannot be read, an unknown column, or no case at all.
    """
    return parse_cases(
        read_records(Path(path)),
        columns=columns,
        search_passages=search_passages,
        source_name=str(path),
    )


def parse_cases(
    numbered: Iterable[tuple[int, Any]],
    *,
    columns: Mapping[str, str] | None = None,
    search_passages: PassageSearch | None = None,
    source_name: str = "records",
    labelled: bool = False,
    skip_bad: bool = True,
) -> EvaluationCases:
    """As `read_cases`, or as `read_questions` where they must be ``labelled``, of records with their places."""
    if unknown := sorted(set(columns or ()) - set(FIELDS)):
        raise InputError(
            f"columns: {unknown[0]!r} is not known; expected one of {', '.join(FIELDS)}"
        )
    cases: list[EvaluationCase] = []
    bad: list[RecordProblem] = []
    for place, record in numbered:
        try:
            case = _case(record, place, columns or {}, search_passages)
            if labelled and (
                case.gold_from is None
                or (case.gold_from == "answers" and "ctxs" not in record)
            ):
                raise InputError(_UNTOLD)
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{source_name}, record {place}: {error}") from error
            bad.append(RecordProblem(place, str(error)))
        else:
            cases.append(case)
    if not cases:
        first = (
            f"; the first: record {bad[0].line_number}: {bad[0].reason}" if bad else ""
        )
        raise InputError(f"{source_name}: no question can be used{first}")
    nowhere = [
        c.line_number for c in cases if c.gold_from == "answers" and not c.question.gold
    ]
    noted = (
        RecordProblem(place, "none of its answers stands in its passages")
        for place in nowhere
    )
    return EvaluationCases(tuple(cases), tuple(bad), tuple(noted))


def _case(
    record: Any, place: int, columns: Mapping[str, str], find: PassageSearch | None
) -> EvaluationCase:
    """One record. Raises `InputError` that names the fields it lacks."""
    if isinstance(record, RecordProblem):
        raise InputError(record.reason)
    if not isinstance(record, Mapping):
        raise InputError(f"expected an object, got {type(record).__name__}")
    record = _renamed(record, columns)
    text = record.get("question")
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"'question': expected a text, got {text!r}; found the fields {', '.join(record)}"
        )
    flags = None
    if (given := _given(record)) is not None:
        passages, flags = parse_passages(given), _flags(record, given)
    elif find is not None:
        passages = tuple(find(text))
    else:
        raise InputError(
            "it has no 'passages': add them, or name what to search with --documents FOLDER"
        )
    if not passages:
        raise InputError("nothing was found for it in the documents")
    if not any(p.text.strip() for p in passages):
        raise InputError("its passages are empty; add some, or documents to search")
    gold = None if record.get("gold") is None else _named(record["gold"], passages)
    if gold is None and flags is not None:
        gold = frozenset(p.id for p, flag in zip(passages, flags, strict=True) if flag)
    name = str(record.get("id") or record.get("_id") or "")
    made = Question(text, passages, gold or frozenset(), parse_answers(record), name)
    return case_from_question(made, place, labelled=gold is not None)


def case_from_question(
    question: Question, place: int, *, labelled: bool = False
) -> EvaluationCase:
    """A question at hand as a case: gold as it says (``labelled``: even if it names none), else of its answers."""
    if labelled or question.gold:
        return EvaluationCase(question, place, "labels")
    if not question.answers:
        return EvaluationCase(question, place)
    found = frozenset(
        p.id for p in question.passages if contains_answer(p.text, question.answers)
    )
    return EvaluationCase(replace(question, gold=found), place, "answers")


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
            {**p, **{o: p[t] for o, t in own.items() if t in p}}
            if isinstance(p, Mapping)
            else p
            for p in given
        ]
    return out


def _given(record: Mapping[str, Any]) -> Sequence[Any] | None:
    """The record's passages, texts or objects with ``text`` and, where it is told, ``is_gold``; None of none."""
    if "positive_ctxs" in record:
        return _of_dpr(record)
    if "supporting_facts" in record:
        return _of_hotpot(record)
    if "paragraphs" in record:
        names = {
            "text": "paragraph_text",
            "title": "title",
            "id": "idx",
            "is_gold": "is_supporting",
        }
        return [
            {ours: p.get(theirs) for ours, theirs in names.items()}
            for p in _objects(record, "paragraphs")
        ]
    given = record.get("passages", record.get("ctxs"))
    if given is not None and (not isinstance(given, list | tuple) or not given):
        kind = "an empty list" if given in ([], ()) else type(given).__name__
        raise InputError(f"'passages': expected a list of texts or objects, got {kind}")
    return given


def _of_dpr(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Hard negatives first, then the other negatives; a text that is also a positive is left out."""
    found = [{**row, "is_gold": 1} for row in _objects(record, "positive_ctxs")]
    known = {str(row.get("text")) for row in found}
    for name in ("hard_negative_ctxs", "negative_ctxs"):
        for row in _objects({name: [], **record}, name):
            if (text := str(row.get("text"))) not in known:
                known.add(text)
                found.append({**row, "is_gold": 0})
    return found


def _of_hotpot(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    facts, context = record["supporting_facts"], record.get("context")
    try:
        if isinstance(facts, Mapping):  # the hub's columns
            wanted = set(map(str, facts["title"]))
        else:
            wanted = {str(title) for title, _ in facts}
        if isinstance(context, Mapping):
            pages = list(zip(context["title"], context["sentences"], strict=True))
        else:
            pages = [(title, parts) for title, parts in context or ()]
        return [
            {
                "text": "".join(parts) if isinstance(parts, list) else str(parts),
                "title": title,
                "is_gold": str(title) in wanted,
            }
            for title, parts in pages
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"'context' and 'supporting_facts' are not HotpotQA's: {error!r}"
        ) from error


def _objects(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = record[name]
    if not isinstance(rows, list) or not all(isinstance(r, Mapping) for r in rows):
        raise InputError(
            f"{name!r}: expected a list of objects, got {type(rows).__name__}"
        )
    return rows


def parse_passages(given: Sequence[Any]) -> tuple[Passage, ...]:
    """Passages of texts, or of objects with ``text`` and, where they have them, ``id``, ``title`` (put in front of
    a text that does not begin with it) and ``source``. Raises `InputError` for anything else."""
    rows = [{"text": p} if isinstance(p, str) else p for p in given]
    for row in rows:
        if not isinstance(row, Mapping):
            raise InputError(
                f"'passages': expected texts or objects with 'text', got {type(row).__name__}"
            )
        if not isinstance(text := row.get("text"), str):
            kind = "nothing" if text is None else type(text).__name__
            raise InputError(f"'text': expected a text, got {kind}")
    keys = ("id", "passage_id", "psg_id")
    ids = unique_ids(
        [next((str(r[k]) for k in keys if r.get(k) is not None), None) for r in rows]
    )
    return tuple(map(_passage, rows, ids))


def _passage(row: Mapping[str, Any], name: str) -> Passage:
    told = {k: str(row[k]) for k in ("title", "source") if row.get(k)}
    text, title = replace_surrogates(row["text"]), told.get("title", "").strip()
    whole = text if not title or text.startswith(title) else f"{title}\n{text}"
    return Passage(whole, name, metadata=told)


def _flags(record: Mapping[str, Any], given: Sequence[Any]) -> list[bool] | None:
    """Whether each passage is gold; None where that is not said of any."""
    if "labels" in record:
        marks = record["labels"]
    else:
        told = [
            p.get("is_gold", p.get("has_answer")) if isinstance(p, Mapping) else None
            for p in given
        ]
        if all(mark is None for mark in told):
            return None
        marks = [mark or 0 for mark in told]
    if (
        not isinstance(marks, list)
        or len(marks) != len(given)
        or any(m not in (0, 1) for m in marks)
    ):
        raise InputError(
            f"'labels': expected true or false (1 or 0), one for each of {len(given)} passages, got {marks!r}"
        )
    return [bool(mark) for mark in marks]


def _named(given: Any, passages: Sequence[Passage]) -> frozenset[str]:
    """The passages that ``gold`` names."""
    names = given if isinstance(given, list) else [given]
    found: set[str] = set()
    for name in names:
        if (
            isinstance(name, int)
            and not isinstance(name, bool)
            and 0 <= name < len(passages)
        ):
            found.add(passages[name].id)
        found |= {
            p.id for p in passages if name in (p.id, p.metadata.get("source"), p.text)
        }
    if names and not found:
        raise InputError(
            f"'gold': {names[:3]} are none of its passages, by id, source, text or place from 0"
        )
    return frozenset(found)


def parse_answers(record: Mapping[str, Any]) -> tuple[str, ...]:
    """``answers`` or ``answer``, a text, a list or SQuAD's ``{"text": [...]}``; with ``answer_aliases``."""
    given = record.get("answers", record.get("answer"))
    if isinstance(given, Mapping):
        given = given.get("text")
    found = (
        [given]
        if isinstance(given, str | int | float)
        else list(given)
        if isinstance(given, Sequence)
        else []
    )
    found += [a for a in record.get("answer_aliases") or () if a not in found]
    return tuple(str(a) for a in found if str(a).strip())


def read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Each record of a file with its line (or its place in the array), from 1; a `BadRecord` where it is no JSON.
    Rows of CSV are records too, empty cells left out; so are the lines of a ``.txt`` file, each a question.

    Raises `InputError` for a file that cannot be read.
    """
    try:
        blob = path.read_bytes()
        unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(
            path.suffix, bytes
        )
        text = unpack(blob).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; expected UTF-8 text, .jsonl, .json or .csv, .gz, .xz or not"
        ) from error
    if text.lstrip().startswith("["):
        try:
            yield from enumerate(json.loads(text), 1)
            return
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}") from error
    if path.suffix in (".csv", ".tsv"):
        table = csv.DictReader(
            io.StringIO(text), delimiter="\t" if path.suffix == ".tsv" else ","
        )
        for row in table:
            yield table.line_num, {k: v for k, v in row.items() if k and v}
        return
    for place, line in enumerate(text.split("\n"), 1):
        if line.strip() and path.suffix == ".txt":
            yield place, {"question": line.strip()}
        elif line.strip():
            try:
                yield place, json.loads(line)
            except ValueError as error:
                yield place, RecordProblem(place, f"not JSON: {error}")
