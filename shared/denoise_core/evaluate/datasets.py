"""Labelled questions from files.

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
PassageRows = list[dict[str, Any]]

QUESTION_FIELDS = (
    "question",
    "passages",
    "gold",
    "labels",
    "answers",
    "needs",
    "id",
)
PASSAGE_FIELDS = ("text", "title", "source", "is_gold", "id")
FIELDS = tuple(dict.fromkeys(QUESTION_FIELDS + PASSAGE_FIELDS))
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
        line_number: Its line in the file, or its position in the array, from 1.
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
        rejected_records: Records that cannot be used.
        warnings: What is odd about records that are used.
        notes: How questions or labels were made that are not from the user's own file.
    """

    cases: tuple[EvaluationCase, ...]
    rejected_records: tuple[RecordProblem, ...] = ()
    warnings: tuple[RecordProblem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of the cases."""
        return tuple(evaluation_case.question for evaluation_case in self.cases)


def read_questions(path: str | Path, *, skip_bad: bool = False) -> EvaluationCases:
    """Read labelled questions from a ``.jsonl`` or ``.json`` file, also ``.gz`` or ``.xz``.

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
    unknown_columns = sorted(set(columns) - set(FIELDS))
    if unknown_columns:
        raise InputError(
            f"columns: {unknown_columns[0]!r} is not known; expected one of "
            f"{', '.join(FIELDS)}"
        )
    cases: list[EvaluationCase] = []
    rejected_records: list[RecordProblem] = []
    for line_number, json_record in numbered_records:
        try:
            evaluation_case = _parse_case(
                json_record, line_number, columns, search_passages
            )
            if labelled and evaluation_case.gold_from != "labels":
                raise InputError(_NO_LABELS)
        except InputError as error:
            if not skip_bad:
                raise InputError(
                    f"{source_name}, record {line_number}: {error}"
                ) from error
            rejected_records.append(RecordProblem(line_number, str(error)))
        else:
            cases.append(evaluation_case)
    if not cases:
        error_message = f"{source_name}: no question can be used"
        if rejected_records:
            first_problem = rejected_records[0]
            error_message += f"; the first: record {first_problem.line_number}: {first_problem.reason}"
        raise InputError(error_message)
    case_warnings = tuple(
        RecordProblem(evaluation_case.line_number, NO_ANSWER)
        for evaluation_case in cases
        if evaluation_case.gold_from == "answers" and not evaluation_case.question.gold
    )
    needs_warnings = tuple(
        RecordProblem(evaluation_case.line_number, NEEDS_NOT_THERE)
        for evaluation_case in cases
        if not _has_needs(evaluation_case)
    )
    return EvaluationCases(
        tuple(cases), tuple(rejected_records), (*case_warnings, *needs_warnings)
    )


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
        raise InputError(f"expected an object, got {type(json_record).__name__}")
    json_record = _rename_columns(json_record, columns, QUESTION_FIELDS)
    query = json_record.get("question")
    if not isinstance(query, str) or not query.strip():
        raise InputError(
            f"'question': expected a text, got {query!r}; "
            f"the record has the fields {', '.join(json_record)}"
        )
    gold_ids: frozenset[str] | None = None
    passage_rows = _passage_rows(json_record, columns)
    if passage_rows is not None:
        passages = _parse_passages(passage_rows)
        gold_ids = _labelled_ids(json_record, passage_rows, passages)
    elif search_passages is not None:
        passages = tuple(search_passages(query))
        if not passages:
            raise InputError("the search found nothing for it in the documents")
    else:
        raise InputError(
            "it has no 'passages': add them, or name what to search with "
            "--documents FOLDER"
        )
    if not any(passage.text.strip() for passage in passages):
        raise InputError("its passages are empty; add some, or documents to search")
    if json_record.get("gold") is not None:
        gold_ids = _referenced_ids(json_record["gold"], passages)
    question = Question(
        query,
        passages,
        gold_ids or frozenset(),
        _parse_answers(json_record),
        str(json_record.get("id") or ""),
    )
    evaluation_case = case_from_question(
        question, line_number, labelled=gold_ids is not None
    )
    return replace(evaluation_case, needs=_parse_needs(json_record))


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


def _has_needs(evaluation_case: EvaluationCase) -> bool:
    """Whether the passages have every text that the case needs."""
    all_text = join_passages(evaluation_case.question.passages)
    return holds_texts(all_text, evaluation_case.needs)


def join_passages(passages: Iterable[Passage]) -> str:
    """Return the texts of passages with their headers, one below the other."""
    return "\n".join(passage.text_with_header for passage in passages)


def holds_texts(text: str, needed_texts: Iterable[str]) -> bool:
    """Whether a text has all the needed ones, white space aside."""
    folded_text = " ".join(text.split())
    folded_needs = [" ".join(needed_text.split()) for needed_text in needed_texts]
    return all(folded_need in folded_text for folded_need in folded_needs)


def _parse_needs(json_record: Record) -> tuple[str, ...]:
    values = json_record.get("needs") or []
    if not isinstance(values, list):
        values = [values]
    texts = []
    for value in values:
        text = value
        if isinstance(value, Mapping):
            text = value.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                "'needs': expected a list of texts, or of objects with 'text', got "
                f"{value!r}"
            )
        texts.append(text)
    return tuple(texts)


def _rename_columns(
    json_record: Record, columns: Mapping[str, str], field_names: Sequence[str]
) -> dict[str, Any]:
    """Return a record with the user's columns under our names."""
    renamed_record = dict(json_record)
    for field_name, column in columns.items():
        if field_name in field_names and column in json_record:
            renamed_record[field_name] = json_record[column]
    return renamed_record


def _passage_rows(
    json_record: Record, columns: Mapping[str, str]
) -> PassageRows | None:
    """The record's passages as objects; None when it has none."""
    raw_rows = json_record.get("passages")
    if raw_rows is None:
        return None
    if not isinstance(raw_rows, list | tuple) or not raw_rows:
        type_name = type(raw_rows).__name__
        if raw_rows in ([], ()):
            type_name = "an empty list"
        raise InputError(
            f"'passages': expected a list of texts or objects, got {type_name}"
        )
    passage_rows = []
    for raw_row in raw_rows:
        if not isinstance(raw_row, str | Mapping):
            raise InputError(
                "'passages': expected texts or objects with 'text', "
                f"got {type(raw_row).__name__}"
            )
        passage_row: dict[str, Any] = {"text": raw_row}
        if isinstance(raw_row, Mapping):
            passage_row = _rename_columns(raw_row, columns, PASSAGE_FIELDS)
        passage_rows.append(passage_row)
    return passage_rows


def _parse_passages(passage_rows: PassageRows) -> tuple[Passage, ...]:
    given_ids = []
    for passage_row in passage_rows:
        given_id = passage_row.get("id")
        if given_id is not None:
            given_id = str(given_id)
        given_ids.append(given_id)
    passage_ids = unique_ids(given_ids)
    return tuple(map(_parse_passage, passage_rows, passage_ids))


def _parse_passage(passage_row: dict[str, Any], passage_id: str) -> Passage:
    """Parse a passage; its title goes in front of a text that does not begin with it."""
    passage_text = passage_row.get("text")
    if not isinstance(passage_text, str):
        type_name = type(passage_text).__name__
        if passage_text is None:
            type_name = "nothing"
        raise InputError(f"'text': expected a text, got {type_name}")
    passage_text = replace_surrogates(passage_text)
    passage_metadata = {}
    for name in ("title", "source"):
        if passage_row.get(name):
            passage_metadata[name] = str(passage_row[name])
    page_title = passage_metadata.get("title", "").strip()
    if page_title and not passage_text.startswith(page_title):
        passage_text = f"{page_title}\n{passage_text}"
    return Passage(passage_text, passage_id, metadata=passage_metadata)


def _labelled_ids(
    json_record: Record, passage_rows: PassageRows, passages: Sequence[Passage]
) -> frozenset[str] | None:
    """The ids of passages labelled gold; None when no passage has a label."""
    gold_labels = [passage_row.get("is_gold") for passage_row in passage_rows]
    if "labels" in json_record:
        gold_labels = json_record["labels"]
    elif all(gold_label is None for gold_label in gold_labels):
        return None
    else:
        gold_labels = [gold_label or 0 for gold_label in gold_labels]
    is_list = isinstance(gold_labels, list) and len(gold_labels) == len(passage_rows)
    if not is_list or any(gold_label not in (0, 1) for gold_label in gold_labels):
        raise InputError(
            "'labels': expected true or false (1 or 0), one for each of "
            f"{len(passage_rows)} passages, got {gold_labels!r}"
        )
    labelled_ids = set()
    for passage, gold_label in zip(passages, gold_labels, strict=True):
        if gold_label:
            labelled_ids.add(passage.id)
    return frozenset(labelled_ids)


def _referenced_ids(gold: Any, passages: Sequence[Passage]) -> frozenset[str]:
    """The ids of the passages that ``gold`` refers to by id, source, text or index.

    A number is an id where a passage has it as its id, else the index from 0.
    """
    gold_references = gold
    if not isinstance(gold, list):
        gold_references = [gold]
    known_ids = {passage.id for passage in passages}
    wanted_keys: set[Any] = set()
    for reference in gold_references:
        is_number = isinstance(reference, int) and not isinstance(reference, bool)
        if is_number and str(reference) in known_ids:
            wanted_keys.add(str(reference))
        elif is_number or isinstance(reference, str):
            wanted_keys.add(reference)
    gold_ids: set[str] = set()
    for n, passage in enumerate(passages):
        passage_keys = {n, passage.id, passage.metadata.get("source"), passage.text}
        if passage_keys & wanted_keys:
            gold_ids.add(passage.id)
    if gold_references and not gold_ids:
        raise InputError(
            f"'gold': {gold_references[:3]} are none of its passages, by id, source, text or "
            "index from 0"
        )
    return frozenset(gold_ids)


def _parse_answers(json_record: Record) -> tuple[str, ...]:
    """``answers`` or ``answer``: a text, a number or a list of them."""
    given_answers = json_record.get("answers", json_record.get("answer"))
    if isinstance(given_answers, str | int | float):
        given_answers = [given_answers]
    elif given_answers is None:
        given_answers = []
    if not isinstance(given_answers, list | tuple):
        raise InputError(
            "'answers': expected a text or a list of texts, got "
            f"{type(given_answers).__name__}"
        )
    answer_texts = []
    for given_answer in given_answers:
        answer_text = str(given_answer)
        if answer_text.strip():
            answer_texts.append(answer_text)
    return tuple(dict.fromkeys(answer_texts))


def read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Read a file's records: JSON lines, a JSON array, or questions from a ``.txt`` file.

    Yields:
        The line number (or the position in the array) from 1 and the record, which is a
        `RecordProblem` when the line is not JSON.

    Raises:
        InputError: The file cannot be read.
    """
    unpack_by_suffix: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.decompress,
        ".xz": lzma.decompress,
    }
    try:
        unpack = unpack_by_suffix.get(path.suffix, bytes)
        file_bytes = unpack(path.read_bytes())
        file_text = file_bytes.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; expected .jsonl, .json or .txt in UTF-8, "
            "also as .gz or .xz"
        ) from error
    if file_text.lstrip().startswith("["):
        try:
            yield from enumerate(json.loads(file_text), 1)
            return
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}") from error
    for line_number, line in enumerate(file_text.split("\n"), 1):
        if not line.strip():
            continue
        if path.suffix == ".txt":
            yield line_number, {"question": line.strip()}
            continue
        try:
            json_record = json.loads(line)
        except (ValueError, RecursionError) as error:
            json_record = RecordProblem(line_number, f"not JSON: {error}")
        yield line_number, json_record
