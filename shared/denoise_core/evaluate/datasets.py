"""Labelled questions from files: our own records and the shapes in which the usual question sets come.

A record is told by its fields, never by a file's name:

=====================================  ==================================================================
fields                                 where from
=====================================  ==================================================================
question, passages[{text, is_gold}]    this project's own sets
question, passages[str], labels[]      the shortest form to write by hand
question, passage, label               one pair a record; records of one question are joined
question, positive_ctxs, ...           DPR training files (``hard_negative_ctxs``, ``negative_ctxs``)
question, ctxs[{text, has_answer}]     retrieval results for NQ and TriviaQA, best first
question, context, supporting_facts    HotpotQA and 2WikiMultihopQA
question, paragraphs[is_supporting]    MuSiQue
=====================================  ==================================================================

The texts are other people's: they are data, whatever they say.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from denoise_core.errors import InputError
from denoise_core.evaluate.metrics import holds_answer
from denoise_core.question import Question
from denoise_core.types import Passage, unique_ids, well_formed


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read. ``place`` is its line in the file, or its place in the array, from 1."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file held: the questions in its order, and the records passed over."""

    questions: tuple[Question, ...]
    bad: tuple[BadRecord, ...] = ()


def read_questions(path: str | Path, *, skip_bad: bool = False) -> Loaded:
    """Questions of a ``.jsonl`` or ``.json`` file, ``.gz``, ``.xz`` or not.

    Raises `InputError` for a file that cannot be read and, unless ``skip_bad``, for the first record that
    cannot be used, by its place in the file.
    """
    return _read(records_of(Path(path)), str(path), skip_bad)


def from_records(records: Iterable[Mapping[str, Any]], *, skip_bad: bool = False) -> Loaded:
    """Questions of records at hand; see the module's docstring for their fields. Raises as `read_questions`."""
    return _read(enumerate(records, 1), "records", skip_bad)


def _read(numbered: Iterable[tuple[int, Any]], where: str, skip_bad: bool) -> Loaded:
    found: list[Question] = []
    pairs: dict[str, _Pairs] = {}
    bad: list[BadRecord] = []
    for place, record in numbered:
        try:
            if isinstance(record, BadRecord):
                raise InputError(record.reason)
            if not isinstance(record, Mapping):
                raise InputError(f"expected an object, got {type(record).__name__}")
            if "passage" in record and "label" in record:
                text, gold = _text(record, "question"), _flag(record, "label")
                row = _Row(_text(record, "passage"), str(record.get("title") or ""), record.get("passage_id"))
                of_one = pairs.setdefault(text, _Pairs(text, len(found) + len(pairs), [], []))
                of_one.rows.append(row)
                of_one.gold.append(gold)
            else:
                found.append(question_of(record))
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{where}, record {place}: {error}") from error
            bad.append(BadRecord(place, str(error)))
    for of_one in sorted(pairs.values(), key=lambda p: p.place):
        found.insert(of_one.place, of_one.question())
    return Loaded(tuple(found), tuple(bad))


def question_of(record: Mapping[str, Any]) -> Question:
    """One record as a `Question`. Raises `InputError` that names the fields it lacks."""
    text = _text(record, "question")
    if "positive_ctxs" in record:
        passages, gold = _from_dpr(record)
    elif "ctxs" in record:
        passages, gold = _from_retrieval(record)
    elif "supporting_facts" in record:
        passages, gold = _from_hotpot(record)
    elif "paragraphs" in record:
        rows = _rows(record, "paragraphs")
        passages = [_Row(_text(r, "paragraph_text"), str(r.get("title") or ""), r.get("idx")) for r in rows]
        gold = [_flag(r, "is_supporting") for r in rows]
    elif "passages" in record:
        passages, gold = _from_passages(record)
    else:
        raise InputError(
            f"expected 'passages', 'ctxs', 'positive_ctxs', 'paragraphs' or 'supporting_facts', got "
            f"{sorted(record)}"
        )
    made = _passages(passages)
    chosen = frozenset(p.id for p, is_gold in zip(made, gold, strict=True) if is_gold)
    return Question(text, made, chosen, answers_of(record), str(record.get("id") or record.get("_id") or ""))


def titled(title: str, text: str) -> str:
    """The text under its title, unless it begins with it or there is none."""
    title = title.strip()
    return text if not title or text.startswith(title) else f"{title}\n{text}"


@dataclass(frozen=True, slots=True)
class _Row:
    text: str
    title: str = ""
    id: Any = None
    source: str = ""


@dataclass(slots=True)
class _Pairs:
    """Records of one question and one passage each."""

    text: str
    place: int
    rows: list[_Row]
    gold: list[bool]

    def question(self) -> Question:
        made = _passages(self.rows)
        return Question(self.text, made, frozenset(p.id for p, g in zip(made, self.gold, strict=True) if g))


def _from_passages(record: Mapping[str, Any]) -> tuple[list[_Row], list[bool]]:
    given = record["passages"]
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(f"'passages': expected a list, got {type(given).__name__}")
    rows = [_Row(p) if isinstance(p, str) else _row(p, "passages") for p in given]
    if "labels" in record:
        labels = record["labels"]
        if not isinstance(labels, Sequence) or len(labels) != len(rows):
            raise InputError(f"'labels': expected one for each of {len(rows)} passages, got {labels!r}")
        return rows, [_flag({"label": x}, "label") for x in labels]
    if any(isinstance(p, str) for p in given):
        raise InputError("'passages' are plain texts: add 'labels', 1 for a relevant passage and 0 for others")
    return rows, [_flag(p, "is_gold") for p in given]


def _from_dpr(record: Mapping[str, Any]) -> tuple[list[_Row], list[bool]]:
    """Hard negatives first, then the other negatives; a text that is also a positive is left out."""
    positive = [_row(r, "positive_ctxs") for r in _rows(record, "positive_ctxs")]
    known = {r.text for r in positive}
    negative: list[_Row] = []
    for name in ("hard_negative_ctxs", "negative_ctxs"):
        for row in (_row(r, name) for r in _rows(record, name, optional=True)):
            if row.text not in known:
                known.add(row.text)
                negative.append(row)
    return positive + negative, [True] * len(positive) + [False] * len(negative)


def _from_retrieval(record: Mapping[str, Any]) -> tuple[list[_Row], list[bool]]:
    """``has_answer`` where it stands, else whether the text holds one of the answers."""
    rows = _rows(record, "ctxs")
    answers = answers_of(record)
    gold = []
    for r in rows:
        if "has_answer" in r:
            gold.append(_flag(r, "has_answer"))
        elif answers:
            gold.append(holds_answer(_text(r, "text"), answers))
        else:
            raise InputError("'ctxs' need 'has_answer', or the record needs 'answers', to tell what is relevant")
    return [_row(r, "ctxs") for r in rows], gold


def _from_hotpot(record: Mapping[str, Any]) -> tuple[list[_Row], list[bool]]:
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
        rows = [
            _Row("".join(parts) if isinstance(parts, list) else str(parts), str(title)) for title, parts in pages
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"'context' and 'supporting_facts' are not HotpotQA's: {error!r}") from error
    return rows, [r.title in wanted for r in rows]


def _passages(rows: Sequence[_Row]) -> tuple[Passage, ...]:
    ids = unique_ids([None if r.id is None else str(r.id) for r in rows])
    return tuple(
        Passage(titled(r.title, r.text), i, metadata={k: v for k in ("title", "source") if (v := getattr(r, k))})
        for r, i in zip(rows, ids, strict=True)
    )


def passages_of(given: Sequence[Any]) -> tuple[Passage, ...]:
    """A record's ``passages``, texts or objects with ``text`` and, where they have them, ``id``, ``title`` and
    ``source``. Raises `InputError` for anything else."""
    return _passages([_Row(p) if isinstance(p, str) else _row(p, "passages") for p in given])


def _row(record: Any, where: str) -> _Row:
    if not isinstance(record, Mapping):
        raise InputError(f"{where!r}: expected objects with 'text', got {type(record).__name__}")
    identity = next((record[k] for k in ("id", "passage_id", "psg_id") if record.get(k) is not None), None)
    title, source = (str(record.get(k) or "") for k in ("title", "source"))
    return _Row(well_formed(_text(record, "text")), title, identity, source)


def _rows(record: Mapping[str, Any], name: str, *, optional: bool = False) -> list[Mapping[str, Any]]:
    rows = record.get(name, [] if optional else None)
    if not isinstance(rows, list) or not all(isinstance(r, Mapping) for r in rows):
        raise InputError(f"{name!r}: expected a list of objects, got {type(rows).__name__}")
    return rows


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name!r}: expected a text, got {'nothing' if value is None else type(value).__name__}")
    return value


def _flag(record: Mapping[str, Any], name: str) -> bool:
    value = record.get(name)
    if value not in (0, 1):  # True and False are 1 and 0
        raise InputError(f"{name!r}: expected true or false (1 or 0), got {value!r}")
    return bool(value)


def answers_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """``answers`` or ``answer``, a text, a list or SQuAD's ``{"text": [...]}``; with ``answer_aliases``."""
    given = record.get("answers", record.get("answer"))
    if isinstance(given, Mapping):
        given = given.get("text")
    found = (
        [given]
        if isinstance(given, str | int | float)
        else list(given or ())
        if isinstance(given, Sequence)
        else []
    )
    found += [a for a in record.get("answer_aliases") or () if a not in found]
    return tuple(str(a) for a in found if str(a).strip())


def records_of(path: Path) -> Iterator[tuple[int, Any]]:
    """Each record of a file with its line (or its place in the array), from 1; a `BadRecord` where it is no JSON.
    Rows of CSV are records too, empty cells left out; so are the lines of a ``.txt`` file, each a question.

    Raises `InputError` for a file that cannot be read.
    """
    try:
        blob = path.read_bytes()
        unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)
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
        table = csv.DictReader(io.StringIO(text), delimiter="\t" if path.suffix == ".tsv" else ",")
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
                yield place, BadRecord(place, f"not JSON: {error}")
