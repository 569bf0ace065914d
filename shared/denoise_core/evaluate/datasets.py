"""Labelled questions from files, one JSON object a line.

The fields of a record decide how it is read, never the name of its file:

=====================================  ===============================================
fields                                 form
=====================================  ===============================================
question, passages[{text, is_gold}]    each passage with its label
question, passages[str], labels[]      the shortest form to write by hand
question, passages[], gold             gold by id, source, whole text or index from 0
=====================================  ===============================================

A passage is a text, or an object that can also have ``id``, ``title`` and ``source``. When
some passages have ``is_gold``, those without it are not gold. Without any label the gold
passages are those that contain one of the ``answers``; `EvaluationCase.gold_from` tells
which it was. ``needs`` lists the exact texts that a reader needs, such as a fact and the
title that says what the fact is about. A record that cannot be used is reported with its
line, and nothing is guessed.

Fields with other names are renamed by ``columns``. The texts are other people's: data,
never instructions.
"""

from __future__ import annotations

import gzip
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
Record = Mapping[str, Any]

FIELDS = (
    "question",
    "passages",
    "gold",
    "labels",
    "answers",
    "needs",
    "id",
    "text",
    "title",
    "source",
    "is_gold",
)
EXAMPLE = '{"question": "When?", "passages": ["In 1889.", "Rain."], "labels": [1, 0]}'
NO_ANSWER = "no answer in the retrieved passages"
NEEDS_NOT_THERE = "a text of 'needs' is in none of its passages"
_NO_LABELS = (
    "the relevant passages are not labelled: add 'labels', or 'is_gold' to each passage, "
    "1 for a relevant one and 0 for others"
)


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """Why a record cannot be used, or what is odd about it.

    Attributes:
        line_number: Its line in the file, from 1.
        reason: The problem in words.
    """

    line_number: int
    reason: str


@dataclass(frozen=True, slots=True)
class EvaluationCase:
    """One question of a file.

    Attributes:
        question: The question with its passages.
        line_number: Its line in the file, from 1.
        gold_from: Where its gold passages are known from: ``"labels"`` in the record,
            ``"answers"`` that occur in a passage, a ``"model"`` that labelled it, or the
            passage that the question was ``"made"`` from. None when no gold is known.
        needs: Texts of the passages that a reader needs, all of them.
    """

    question: Question
    line_number: int
    gold_from: GoldFrom | None = None
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationCases:
    """The usable questions of a file.

    Attributes:
        cases: The questions.
        problems: Records that are left out, and what is odd about others.
        notes: How questions or labels were made that are not from the user's own file.
    """

    cases: tuple[EvaluationCase, ...]
    problems: tuple[RecordProblem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of the cases."""
        return tuple(evaluation_case.question for evaluation_case in self.cases)


def read_questions(path: str | Path, *, skip_bad: bool = False) -> EvaluationCases:
    """Read labelled questions from a file of JSON lines, also packed: ``.gz``, ``.xz``.

    Raises:
        InputError: The file cannot be read or has no usable record. Unless ``skip_bad``,
            also for the first record that cannot be used or has no labels.
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
    """Read questions whose labels may be missing; bad records are skipped and reported.

    Args:
        path: A file as `read_questions` takes, or a ``.txt`` file with a question a line.
        columns: The file's own names of some of `FIELDS`.
        search_passages: Finds passages for a question that has none.

    Raises:
        InputError: The file cannot be read, a column is unknown, or no record is usable.
    """
    return parse_cases(
        read_records(Path(path)),
        columns=columns,
        search_passages=search_passages,
        source_name=str(path),
    )


def parse_cases(
    numbered_records: Iterable[tuple[int, Any]],
    *,
    columns: Mapping[str, str] | None = None,
    search_passages: PassageSearch | None = None,
    source_name: str = "records",
    labelled: bool = False,
    skip_bad: bool = True,
) -> EvaluationCases:
    """Parse records with their line numbers, as `read_cases` and `read_questions` do.

    Args:
        numbered_records: Line numbers and records, or `Question`s.
        columns: As in `read_cases`.
        search_passages: As in `read_cases`.
        source_name: The name of the records' source in errors.
        labelled: Whether a record without labels is bad.
        skip_bad: Whether a bad record is skipped; otherwise it raises.

    Raises:
        InputError: A column is unknown, no record is usable, or a bad record is not
            skipped.
    """
    columns = columns or {}
    for column in columns:
        if column not in FIELDS:
            known_fields = ", ".join(FIELDS)
            raise InputError(
                f"columns: {column!r} is not known; expected one of {known_fields}"
            )
    cases: list[EvaluationCase] = []
    problems: list[RecordProblem] = []
    for line_number, json_record in numbered_records:
        try:
            case = _parse_case(json_record, line_number, columns, search_passages)
            if labelled and case.gold_from != "labels":
                raise InputError(_NO_LABELS)
        except InputError as error:
            if not skip_bad:
                raise InputError(
                    f"{source_name}, record {line_number}: {error}"
                ) from error
            record_problem = RecordProblem(line_number, f"left out: {error}")
            problems.append(record_problem)
        else:
            cases.append(case)
            problems += _case_warnings(case)
    if not cases:
        message = f"{source_name}: no question can be used; expected {EXAMPLE}"
        for problem in problems[:1]:
            message += f"; line {problem.line_number}: {problem.reason}"
        raise InputError(message)
    return EvaluationCases(tuple(cases), tuple(problems))


def _parse_case(
    json_record: Any,
    line_number: int,
    columns: Mapping[str, str],
    search_passages: PassageSearch | None,
) -> EvaluationCase:
    """Parse one record. Raises `InputError` that names the fields it lacks."""
    if isinstance(json_record, RecordProblem):
        raise InputError(json_record.reason)
    if isinstance(json_record, Question):
        return case_from_question(json_record, line_number)
    if not isinstance(json_record, Mapping):
        raise InputError(f"expected an object such as {EXAMPLE}")
    json_record = _rename_columns(json_record, columns)
    query = json_record.get("question")
    if not isinstance(query, str) or not query.strip():
        found_fields = ", ".join(json_record)
        raise InputError(
            f"'question': expected a text, got {query!r}; "
            f"the record has the fields {found_fields}"
        )
    passage_rows: Sequence[Record] = []
    raw_rows = json_record.get("passages")
    if raw_rows is not None:
        passage_rows = _passage_rows(raw_rows, columns)
        passages = _parse_passages(passage_rows)
    elif search_passages is not None:
        found_passages = search_passages(query)
        passages = tuple(found_passages)
    else:
        raise InputError(
            "it has no 'passages': add them, or name what to search with "
            "--documents FOLDER"
        )
    if not any(passage.text.strip() for passage in passages):
        raise InputError("its passages are empty; add some, or documents to search")
    gold_ids = _gold_ids(json_record, passage_rows, passages)
    answers = _texts_of(json_record, "answers")
    raw_id = json_record.get("id") or ""
    question_id = str(raw_id)
    question = Question(query, passages, gold_ids or frozenset(), answers, question_id)
    case = case_from_question(question, line_number, labelled=gold_ids is not None)
    needed_texts = _texts_of(json_record, "needs")
    return replace(case, needs=needed_texts)


def case_from_question(
    question: Question, line_number: int, *, labelled: bool = False
) -> EvaluationCase:
    """Make a case of a question.

    Args:
        question: The question.
        line_number: Its number in the report.
        labelled: Whether its gold is known even if it is empty. Otherwise a question
            without gold gets the passages that contain one of its answers.
    """
    if labelled or question.gold:
        return EvaluationCase(question, line_number, "labels")
    if not question.answers:
        return EvaluationCase(question, line_number)
    gold_ids = set()
    for passage in question.passages:
        if contains_answer(passage.text, question.answers):
            gold_ids.add(passage.id)
    answered_question = replace(question, gold=frozenset(gold_ids))
    return EvaluationCase(answered_question, line_number, "answers")


def _case_warnings(case: EvaluationCase) -> list[RecordProblem]:
    warnings = []
    if case.gold_from == "answers" and not case.question.gold:
        answer_problem = RecordProblem(case.line_number, NO_ANSWER)
        warnings.append(answer_problem)
    all_text = join_passages(case.question.passages)
    if not holds_texts(all_text, case.needs):
        needs_problem = RecordProblem(case.line_number, NEEDS_NOT_THERE)
        warnings.append(needs_problem)
    return warnings


def join_passages(passages: Iterable[Passage]) -> str:
    """Return the texts of passages with their headers, one below the other."""
    passage_texts = [passage.text_with_header for passage in passages]
    return "\n".join(passage_texts)


def holds_texts(text: str, needed_texts: Iterable[str]) -> bool:
    """Whether a text has all the needed ones, white space aside."""
    folded_text = " ".join(text.split())
    for needed_text in needed_texts:
        folded_need = " ".join(needed_text.split())
        if folded_need not in folded_text:
            return False
    return True


def _expect_type(name: str, value: Any, types: Any, expected: str) -> None:
    if not isinstance(value, types):
        type_name = type(value).__name__
        raise InputError(f"{name}: expected {expected}, got {type_name}")


def _rename_columns(json_record: Record, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return a record or a passage with the user's columns under our names."""
    renamed_record = dict(json_record)
    for field_name, column in columns.items():
        if column in json_record:
            renamed_record[field_name] = json_record[column]
    return renamed_record


def _passage_rows(raw_rows: Any, columns: Mapping[str, str]) -> Sequence[Record]:
    """The record's passages as objects."""
    expected = "a list of texts or objects"
    _expect_type("'passages'", raw_rows, (list, tuple), expected)
    passage_rows = []
    for raw_row in raw_rows:
        passage_row = raw_row
        if isinstance(raw_row, str):
            passage_row = {"text": raw_row}
        _expect_type(
            "'passages'", passage_row, Mapping, "texts, or objects with 'text'"
        )
        renamed_row = _rename_columns(passage_row, columns)
        passage_rows.append(renamed_row)
    return passage_rows


def _parse_passages(passage_rows: Sequence[Record]) -> tuple[Passage, ...]:
    """Parse passages; a title goes in front of a text that does not begin with it."""
    passages = []
    given_ids: list[str | None] = []
    for passage_row in passage_rows:
        text: Any = passage_row.get("text")
        _expect_type("'text'", text, str, "a text")
        text = replace_surrogates(text)
        metadata = {}
        for name in ("title", "source"):
            field_value = passage_row.get(name)
            if field_value:
                metadata[name] = str(field_value)
        title = metadata.get("title", "").strip()
        if title and not text.startswith(title):
            text = f"{title}\n{text}"
        unnamed_passage = Passage(text, "", metadata=metadata)
        passages.append(unnamed_passage)
        given_id = passage_row.get("id")
        if given_id is not None:
            given_id = str(given_id)
        given_ids.append(given_id)
    named_passages = []
    passage_ids = unique_ids(given_ids)
    for passage, passage_id in zip(passages, passage_ids, strict=True):
        named_passage = replace(passage, id=passage_id)
        named_passages.append(named_passage)
    return tuple(named_passages)


def _gold_ids(
    json_record: Record, passage_rows: Sequence[Record], passages: Sequence[Passage]
) -> frozenset[str] | None:
    """The ids of the gold passages; None when the record does not label any passage."""
    gold_references = json_record.get("gold")
    if gold_references is not None:
        listed_references = _listed(gold_references)
        return _referenced_ids(listed_references, passages)
    labels = json_record.get("labels")
    if labels is None:
        labels = [passage_row.get("is_gold") for passage_row in passage_rows]
        if not any(label is not None for label in labels):
            return None
        labels = [label or 0 for label in labels]
    is_complete = isinstance(labels, list) and len(labels) == len(passages)
    is_valid = is_complete and all(label in (0, 1) for label in labels)
    if not is_valid:
        raise InputError(
            "'labels': expected true or false (1 or 0), one for each of "
            f"{len(passages)} passages, got {labels!r}"
        )
    labelled_passages = zip(passages, labels, strict=True)
    gold_ids = set()
    for passage, label in labelled_passages:
        if label:
            gold_ids.add(passage.id)
    return frozenset(gold_ids)


def _referenced_ids(
    references: Sequence[Any], passages: Sequence[Passage]
) -> frozenset[str]:
    """The ids of the passages that ``gold`` refers to by id, source, text or index.

    A number is an id where a passage has it as its id, else the index from 0.
    """
    ids = [passage.id for passage in passages]
    wanted_names: list[str | int] = []
    for reference in references:
        is_flag = isinstance(reference, bool)
        is_number = isinstance(reference, int) and not is_flag
        reference_text = str(reference)
        if is_number and reference_text not in ids:
            wanted_names.append(reference)
        else:
            wanted_names.append(reference_text)
    gold_ids: set[str] = set()
    for index, passage in enumerate(passages):
        source_name = passage.metadata.get("source")
        names = (index, passage.id, source_name, passage.text)
        if any(name in wanted_names for name in names):
            gold_ids.add(passage.id)
    if references and not gold_ids:
        raise InputError(
            f"'gold': {references[:3]} are none of its passages, by id, source, text or "
            "index from 0"
        )
    return frozenset(gold_ids)


def _listed(value: Any) -> list[Any]:
    """A field that may hold one value or several as a list."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _texts_of(json_record: Record, field_name: str) -> tuple[str, ...]:
    """The texts or numbers of a field, each once."""
    texts = []
    field_value = json_record.get(field_name)
    for value in _listed(field_value):
        _expect_type(f"'{field_name}'", value, str | int | float, "a list of texts")
        text = str(value)
        if text.strip() and text not in texts:
            texts.append(text)
    return tuple(texts)


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, with their numbers from 1."""
    # A JSON text may hold characters that splitlines would split at.
    text_lines = text.split("\n")
    numbered = enumerate(text_lines, 1)
    return [(number, line) for number, line in numbered if line.strip()]


def read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Read a file's records: JSON lines, or questions from a ``.txt`` file.

    Yields:
        The line number from 1 and the record, which is a `RecordProblem` when the line is
        not JSON.

    Raises:
        InputError: The file cannot be read.
    """
    unpack_by_suffix: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.decompress,
        ".xz": lzma.decompress,
    }
    try:
        unpack = unpack_by_suffix.get(path.suffix, bytes)
        packed_bytes = path.read_bytes()
        file_bytes = unpack(packed_bytes)
        file_text = file_bytes.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; expected JSON lines in UTF-8, also as .gz "
            "or .xz, or .txt"
        ) from error
    for line_number, line in numbered_lines(file_text):
        if path.suffix == ".txt":
            question_text = line.strip()
            yield line_number, {"question": question_text}
            continue
        try:
            json_record = json.loads(line)
        except (ValueError, RecursionError) as error:
            json_record = RecordProblem(
                line_number, f"not JSON: {error}; expected a line such as {EXAMPLE}"
            )
        yield line_number, json_record
