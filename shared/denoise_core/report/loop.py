"""One run as an HTML page: attempts with their verdicts, the evidence, what was cited, every call."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.memory import Attempt
from denoise_core.augmenter.prompts import citations, titled
from denoise_core.report.checked import checked
from denoise_core.report.context import rendered
from denoise_core.types import Event, Passage

_SHOWN = 20_000  # characters of one text; more helps nobody


def to_html(answer: Answer) -> str:
    """A complete page without scripts or outside parts. All texts are escaped. Needs the extra ``cli``."""
    return rendered("run.html", **_page(answer))


def fragment(answer: Answer) -> str:
    """The same for a notebook, with its own styles."""
    return rendered("run_fragment.html", **_page(answer))


def _page(answer: Answer) -> dict[str, Any]:
    memory = answer.memory
    best = memory.best
    events = answer.trace.events
    usage = answer.trace.usage
    return {
        "answer": answer,
        **_claims(answer),
        "question": memory.question,
        "history": memory.history,
        "attempts": [_attempt(n, a, a is best) for n, a in enumerate(memory.attempts, 1)],
        "evidence": _evidence(memory.evidence, best),
        "left_out": len(memory.dropped),
        "failures": memory.failures,
        "events": [_event(n, e) for n, e in enumerate(events, 1)],
        "calls": sum(e.tag != "denoise" for e in events),
        "tokens": usage.total,
        "estimated": usage.estimated,
        "seconds": answer.trace.seconds,
    }


def _claims(answer: Answer) -> dict[str, Any]:
    """The claims of the text that was sent, each with its quotes; empty where none was judged."""
    best = answer.memory.best
    if best is None or answer.text != best.candidate or not best.verdict.claims:
        return {"pieces": [], "claims": [], "sources": []}
    mark = zlib.crc32(f"{answer.memory.question} {answer.text}".encode("utf-8", "replace"))
    name = f"c{mark:08x}-"
    return checked(answer.text, best.verdict.claims, best.evidence, name)


def _attempt(number: int, attempt: Attempt, is_best: bool) -> dict[str, Any]:
    verdict, text = attempt.verdict, attempt.candidate[:_SHOWN]
    own: dict[str, Any] = {name: getattr(verdict, name) for name in ("outcome", "score", "reasons")}
    own |= {"feedback": attempt.feedback, "sources": len(attempt.evidence), "best": is_best}
    return {"number": number, "text": text, **own}


def _evidence(evidence: Sequence[Passage], best: Attempt | None) -> list[dict[str, Any]]:
    cited = {p.id for p in citations(best.candidate, best.evidence)} if best else set()
    return [
        {"number": n, "id": p.id, "text": titled(p)[:_SHOWN], "score": p.score, "cited": p.id in cited}
        for n, p in enumerate(evidence, 1)
    ]


def _event(number: int, event: Event) -> dict[str, Any]:
    tokens = event.usage.total if event.usage else None
    return {"number": number, "tag": event.tag, "seconds": event.seconds, "tokens": tokens, "error": event.error}
