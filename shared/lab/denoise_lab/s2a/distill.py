"""Records of what S2A did, from which a model can learn to do it by itself (the paper's conclusion).

One record is ``(x, x', y, verdict)``: the input, what step 1 left of it, the answer, whether that was right.
Records are kept as JSON Lines, filtered by what the runs reported, and exported as chat examples for fine-tuning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from denoise_core.errors import InputError
from denoise_core.jsonable import from_jsonable
from denoise_core.s2a.answer import S2AAnswer
from denoise_core.s2a.prompts import Prompts
from denoise_core.text.delimit import wrap_in_envelope
from denoise_core.types import Message, Passage, replace_surrogates

Verdict = Literal["pass", "fail", "unknown"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class RecordPassage:
    """A passage of a record; ``spans`` are half-open ``(start, end)`` of the input passage with this id."""

    id: str
    text: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DistillRecord:
    """One run of S2A.

    Attributes:
        question: The question as it was asked.
        passages: The input passages.
        clean_question: The question that step 1 left.
        clean_passages: What step 1 left of the passages, with spans.
        answer: The answer of step 2.
        verdict: Whether the answer was right.
        added: Number of sentences that step 1 wrote and that no source covers.
        fallback: Why S2A fell back to the input, or None.
        version: Version of the file format.
    """

    question: str
    passages: tuple[RecordPassage, ...]
    clean_question: str
    clean_passages: tuple[RecordPassage, ...]
    answer: str
    verdict: Verdict = "unknown"
    added: int = 0
    fallback: str | None = None
    version: int = VERSION

    @classmethod
    def from_answer(
        cls,
        question: str,
        passages: Sequence[Passage],
        answer: S2AAnswer,
        *,
        verdict: Verdict = "unknown",
    ) -> DistillRecord:
        """Return the record of one `S2A.answer`."""
        result = answer.result
        clean_passages = []
        for passage in result.passages:
            spans = tuple((span.start, span.end) for span in passage.source_spans)
            clean_passages.append(RecordPassage(passage.id, passage.text, spans))
        return cls(
            question,
            tuple(RecordPassage(passage.id, passage.text) for passage in passages),
            answer.question,
            tuple(clean_passages),
            answer.text,
            verdict,
            sum(len(report.uncovered_sentences) for report in result.reports),
            result.fallback,
        )


def filter_faithful(
    records: Iterable[DistillRecord], *, only_passed: bool = False
) -> Iterator[DistillRecord]:
    """Yield the records to learn from: nothing added, no fallback, an answer, and no failed verdict.

    ``only_passed`` leaves out unknown verdicts too.
    """
    for record in records:
        is_right = record.verdict != "fail"
        if only_passed:
            is_right = record.verdict == "pass"
        is_clean = not record.added and record.fallback is None
        if is_right and is_clean and record.answer.strip():
            yield record


def save_records(records: Iterable[DistillRecord], path: str | Path) -> int:
    """Append records to a JSON Lines file and return how many.

    Each is one write, so a killed process tears at most the last line.
    """
    count = 0
    with open(path, "a", encoding="utf-8") as out:
        for record in records:
            line = json.dumps(asdict(record), ensure_ascii=False)
            out.write(replace_surrogates(line) + "\n")
            out.flush()
            count += 1
    return count


def load_records(path: str | Path, *, skip_bad: bool = False) -> list[DistillRecord]:
    """Return the records of a file.

    Raises:
        InputError: A line is no record; the message names the line. Not with ``skip_bad``.
    """
    records: list[DistillRecord] = []
    with open(path, encoding="utf-8") as lines:
        for line_number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = from_jsonable(DistillRecord, json.loads(line))
                if record.version != VERSION:
                    raise ValueError(f"version {record.version}, expected {VERSION}")
                records.append(record)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                if not skip_bad:
                    raise InputError(
                        f"{path}, line {line_number}: not a record ({type(error).__name__}: {error}); "
                        "pass skip_bad=True to read the others"
                    ) from error
    return records


def chat_example(record: DistillRecord) -> dict[str, Any]:
    """Return one fine-tuning example: ``{"messages": [{"role": ..., "content": ...}, ...]}``.

    It maps the input to S2A's answer, as the paper proposes, so that a second step is no longer needed.
    """
    context = ""
    input_text = "\n\n".join(passage.text.strip() for passage in record.passages)
    if input_text:
        context = f"{wrap_in_envelope(input_text)}\n\n"
    prompt = Prompts().answer
    prompt_messages = prompt.render(context=context, question=record.question)
    messages = [*prompt_messages, Message("assistant", record.answer)]
    return {"messages": [{"role": m.role, "content": m.content} for m in messages]}


def export_chat(records: Iterable[DistillRecord], path: str | Path) -> int:
    """Write the examples of `chat_example` as JSON Lines and return how many; replaces the file."""
    lines = []
    for record in records:
        line = json.dumps(chat_example(record), ensure_ascii=False)
        lines.append(replace_surrogates(line) + "\n")
    Path(path).write_text("".join(lines), encoding="utf-8")
    return len(lines)
