"""What a run hands back, and the record of how it got there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from denoise_core._optional import render_html
from denoise_core.errors import InputError, format_error, is_user_error
from denoise_core.types import Drop, Event, Keep, Passage, Span, Usage

_ON_ERROR = "__denoise_trace__"  # the attribute of an exception that a trace travels on


@dataclass(frozen=True, slots=True)
class Trace:
    """Every effect of one run, in the order it was asked for."""

    events: tuple[Event, ...] = ()

    @property
    def seconds(self) -> float:
        """Summed time of the effects; concurrent ones count each, so it can pass the wall clock."""
        return sum(e.seconds for e in self.events)

    @property
    def usage(self) -> Usage:
        """Tokens over all events that report any."""
        used = [e.usage for e in self.events if e.usage is not None]
        return Usage(
            sum(u.input_tokens for u in used),
            sum(u.output_tokens for u in used),
            is_estimated=any(u.is_estimated for u in used),
            cached_tokens=sum(u.cached_tokens for u in used),
        )

    def __add__(self, other: Trace) -> Trace:
        return Trace(self.events + other.events)


@dataclass(frozen=True, slots=True)
class DenoiseResult:
    """What was kept, what was dropped and why.

    ``query`` differs from the asked one only when the method rewrites it (S2A). ``fallback`` is None when
    the method did its work; otherwise it says what went wrong and what was done instead. ``kept`` lists the
    chunks behind ``passages`` with their scores, when the method scores (END); it is empty otherwise.
    ``relevant`` is False when nothing seems to bear on the query, None when the method cannot tell. ``note`` is
    what the method says about its own work, such as that it could not tell the passages apart.

    ``failures`` says of each input passage that the policy was applied to, by id, what had failed: a passage
    that is not there was denoised as it should be. ``question_note`` says why the user's own question was asked
    with where clearing it of opinion failed or was refused (S2A).
    """

    query: str
    passages: tuple[Passage, ...]
    dropped: tuple[Drop, ...] = ()
    trace: Trace = Trace()
    fallback: str | None = None
    kept: tuple[Keep, ...] = ()
    relevant: bool | None = None
    note: str | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    question_note: str | None = None

    def __repr__(self) -> str:
        """One line, whatever was denoised."""
        gone = sum(len(d.span) for d in self.dropped)
        kept = sum(len(p.text) for p in self.passages)
        told = "".join(
            f", {n}={v!r}"
            for n, v in (("relevant", self.relevant), ("fallback", self.fallback))
            if v is not None
        )
        return (
            f"DenoiseResult({self.query[:60]!r}: {len(self.passages)} passages kept, {kept:,} characters; "
            f"{gone:,} dropped{told})"
        )

    def _repr_html_(self) -> str | None:
        return render_html("result", self)

    def as_json(self) -> dict[str, Any]:
        """Plain values: ``passages`` as they are left, ``kept`` and ``dropped`` ranges with scores."""
        return {
            "query": self.query,
            "passages": [
                {
                    "id": p.id,
                    "text": p.text,
                    "rewritten": p.is_rewritten,
                    "spans": [_range(s) for s in p.source_spans],
                    "metadata": dict(p.metadata),
                }
                for p in self.passages
            ],
            "kept": [{**_range(k.span), "score": k.score} for k in self.kept],
            "dropped": [
                {**_range(d.span), "score": d.score, "reason": d.reason}
                for d in self.dropped
            ],
            "relevant": self.relevant,
            "note": self.note,
            "fallback": self.fallback,
            "question_note": self.question_note,
        }


def _range(span: Span) -> dict[str, Any]:
    return {"id": span.passage_id, "start": span.start, "end": span.end}


def trace_of(error: BaseException) -> Trace:
    """The trace that travelled on an exception out of `run` or `arun`; empty if it came from elsewhere."""
    found = getattr(error, _ON_ERROR, None)
    return found if isinstance(found, Trace) else Trace()


def attach_trace(error: BaseException, events: Iterable[Event]) -> None:
    """Put the events on ``error``; they hold those of inner runs already, so older ones are replaced."""
    try:
        setattr(error, _ON_ERROR, Trace(tuple(events)))
    except AttributeError:  # an exception class with __slots__: nothing to hang it on
        return


def copy_without_trace(error: BaseException) -> BaseException:
    """A twin of ``error`` for another caller: class, arguments, fields, traceback and cause, but no trace, which
    may hold what is the first caller's alone.

    A class that cannot be made anew in this way gives a `RuntimeError` that says what happened.
    """
    twin: BaseException
    try:
        twin = type(error).__new__(type(error), *error.args)
        twin.args = error.args
        twin.__dict__.update(
            {k: v for k, v in vars(error).items() if k not in (_ON_ERROR, "__notes__")}
        )
    except Exception:
        twin = (InputError if is_user_error(error) else RuntimeError)(
            format_error(error)
        )
    twin.__cause__ = error.__cause__
    return twin.with_traceback(error.__traceback__)
