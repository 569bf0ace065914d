"""Records of what S2A did, from which a model can learn to do it by itself (the paper's conclusion).

One record is ``(x, x', y, verdict)``: what came in, what step 1 left, what was answered, whether that was right.
They are kept as JSON Lines, filtered by the gate's findings, and exported as chat examples for fine-tuning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from denoise_core.errors import InputError
from denoise_core.jsonable import from_jsonable
from denoise_core.s2a.answer import S2AAnswer
from denoise_core.s2a.prompts import Prompts
from denoise_core.text.delimit import wrap_in_envelope
from denoise_core.types import Message, Passage, replace_surrogates

Target = Literal["answer", "context"]
Verdict = Literal["pass", "fail", "unknown"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Text:
    """A passage of a record: ``spans`` are ``(start, end)`` of the input passage with this id."""

    id: str
    text: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One run. ``added`` counts written sentences without a source; ``fallback`` as in the result."""

    question: str
    passages: tuple[Text, ...]
    clean_question: str
    clean_passages: tuple[Text, ...]
    answer: str
    verdict: Verdict = "unknown"
    added: int = 0
    fallback: str | None = None
    version: int = VERSION

    @classmethod
    def of(
        cls,
        question: str,
        passages: Sequence[Passage],
        answer: S2AAnswer,
        *,
        verdict: Verdict = "unknown",
    ) -> Record:
        """The record of one `S2A.answer`."""
        result = answer.result
        return cls(
            question,
            tuple(Text(p.id, p.text) for p in passages),
            answer.question,
            tuple(
                Text(p.id, p.text, tuple((s.start, s.end) for s in p.source_spans))
                for p in result.passages
            ),
            answer.text,
            verdict,
            sum(len(r.uncovered_sentences) for r in result.reports),
            result.fallback,
        )


def faithful(
    records: Iterable[Record], *, only_passed: bool = False
) -> Iterator[Record]:
    """Those worth learning from: nothing added, nothing fell back, an answer there, and no failed verdict.

    ``only_passed`` leaves out unknown verdicts too.
    """
    for record in records:
        right = record.verdict == "pass" if only_passed else record.verdict != "fail"
        if (
            right
            and not record.added
            and record.fallback is None
            and record.answer.strip()
        ):
            yield record


def save(records: Iterable[Record], path: str | Path) -> int:
    """Add records to a JSON Lines file; returns how many. Each is one write, so a kill tears at most the last."""
    count = 0
    with open(path, "a", encoding="utf-8") as out:
        for record in records:
            out.write(
                replace_surrogates(json.dumps(asdict(record), ensure_ascii=False))
                + "\n"
            )
            out.flush()
            count += 1
    return count


def load(path: str | Path, *, skip_bad: bool = False) -> list[Record]:
    """The records of a file. Raises `InputError` naming the line that is none, unless ``skip_bad``."""
    found: list[Record] = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = from_jsonable(Record, json.loads(line))
                if record.version != VERSION:
                    raise ValueError(f"version {record.version}, expected {VERSION}")
                found.append(record)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                if not skip_bad:
                    raise InputError(
                        f"{path}, line {number}: not a record ({type(error).__name__}: {error}); "
                        "pass skip_bad=True to read the others"
                    ) from error
    return found


def chat(
    record: Record, *, target: Target = "answer", prompts: Prompts | None = None
) -> dict[str, Any]:
    """One fine-tuning example: ``{"messages": [{"role": ..., "content": ...}, ...]}``.

    ``"answer"`` maps the input as it came to S2A's answer, as the paper proposes, so that no second step is
    needed any more; ``"context"`` maps it to the cleared context, for a model that takes over step 1.
    """
    if target not in get_args(Target):
        raise InputError(f"target={target!r}: expected 'answer' or 'context'")
    prompts = prompts or Prompts()
    came, left = _joined(record.passages), _joined(record.clean_passages)
    if target == "answer":
        asked = prompts.answer.render(
            context=f"{wrap_in_envelope(came)}\n\n" if came else "",
            question=record.question,
        )
        reply = record.answer
    else:
        asked = prompts.default.render(
            question=record.clean_question, document=wrap_in_envelope(came)
        )
        reply = f"Context: {left or 'NONE'}"
    messages = [*asked, Message("assistant", reply)]
    return {"messages": [{"role": m.role, "content": m.content} for m in messages]}


def export_chat(
    records: Iterable[Record],
    path: str | Path,
    *,
    target: Target = "answer",
    prompts: Prompts | None = None,
) -> int:
    """Write the examples of `chat` as JSON Lines, over what ``path`` held; returns how many."""
    chats = (chat(r, target=target, prompts=prompts) for r in records)
    lines = [replace_surrogates(json.dumps(each, ensure_ascii=False)) for each in chats]
    Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return len(lines)


def _joined(texts: Sequence[Text]) -> str:
    return "\n\n".join(t.text.strip() for t in texts)
