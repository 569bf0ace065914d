"""S2A as a denoiser: ask -> read -> kept and dropped text, passage by passage (paper, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from denoise_core.budget import Budget
from denoise_core.chunk import extract
from denoise_core.effects import Complete, Failed, Flow, batch
from denoise_core.errors import InputError, UnparsableReply
from denoise_core.flow import arun, run
from denoise_core.protocols import LLM
from denoise_core.s2a import asks, read
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.options import EXTRACTIVE, OnUnparsable, Options, Variant
from denoise_core.s2a.parse import Verb
from denoise_core.s2a.read import Outcome
from denoise_core.s2a.result import Report, S2AResult
from denoise_core.s2a.units import units
from denoise_core.types import Drop, Passage, Reply, Span, check_passages

_BARE_NUMBERS_MEAN: dict[str, Verb | None] = {"select": "keep", "remove": "drop", "auto": None}


class S2ADenoiser:
    """Has a model leave out what does not help to answer the query: the irrelevant and the opinionated.

    The extractive variants (``select``, ``remove``, ``auto``) have the model name numbered pieces: what is kept
    is the source's own characters, at exact spans, and the reply is a few numbers. The rewriting ones
    (``default``, ``relevance``) have it write the text again, and give the question back cleared of opinion
    as ``result.query``; their passages are marked ``rewritten``.

    Passages are asked about one by one, ``max_concurrency`` calls at a time, all within ``budget``. A passage of
    which nothing helps is dropped. ``on_unparsable`` is what an unreadable reply or a failed call gives for
    the passages it was about, and only for them: ``"keep"`` leaves them as they were, ``"drop"`` drops them,
    ``"raise"`` raises; ``result.fallback`` names each. ``language`` decides abbreviations when sentences are
    cut, as in `chunk.sentences`.

    Raises `InputError` for an unknown setting.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        variant: Variant = "default",
        on_unparsable: OnUnparsable = "keep",
        max_concurrency: int = 10,
        budget: Budget | None = None,
        language: str = "en",
        options: Options | None = None,
    ) -> None:
        _one_of("variant", variant, get_args(Variant))
        _one_of("on_unparsable", on_unparsable, get_args(OnUnparsable))
        if max_concurrency < 1:
            raise InputError(f"max_concurrency={max_concurrency}: expected 1 or more")
        self.llm = llm
        self.variant = variant
        self.on_unparsable = on_unparsable
        self.max_concurrency = max_concurrency
        self.budget = budget
        self.language = language
        self.options = options or Options()

    def denoise(self, query: str, passages: Sequence[Passage]) -> S2AResult:
        """Raises `InputError` for two passages with one id, and with ``on_unparsable="raise"`` what failed."""
        flow = self.flow(query, passages)
        result, trace = run(flow, budget=self.budget, max_concurrency=self.max_concurrency)
        return replace(result, trace=trace)

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> S2AResult:
        """`denoise` for async; the same result."""
        flow = self.flow(query, passages)
        result, trace = await arun(flow, budget=self.budget, max_concurrency=self.max_concurrency)
        return replace(result, trace=trace)

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[S2AResult]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        passages = check_passages(passages)
        calls = self._asks(query, passages)
        effects = tuple(Complete(c.messages, f"s2a.{self.variant}", self.llm) for c in calls)
        replies = (yield from batch(effects)) if effects else []
        outcomes: dict[str, list[Outcome]] = {p.id: [] for p in passages}
        questions: list[str] = []
        for call, reply in zip(calls, replies):
            read_outcomes, question = self._read(call, reply)
            questions += [question] if question else []
            for outcome in read_outcomes:
                outcomes[outcome.part.passage.id].append(outcome)
        return self._result(query, passages, outcomes, questions)

    def _asks(self, query: str, passages: Sequence[Passage]) -> list[Ask]:
        o = self.options
        numbered = self.variant in EXTRACTIVE
        prompt = getattr(o.prompts, self.variant)
        all_parts: list[Part] = []
        for p in passages:
            if p.text.strip():
                all_parts += asks.parts(p, units(p, language=self.language), o.window)
        groups = asks.groups(all_parts, joint=o.joint, window=o.window)
        return [asks.write(query, g, prompt, o, numbered=numbered) for g in groups]

    def _read(self, call: Ask, reply: Reply | Failed) -> tuple[list[Outcome], str | None]:
        if isinstance(reply, Failed):
            return read.failed(call, reply.error), None
        try:
            if self.variant in EXTRACTIVE:
                return read.selection(call, reply.text, verb=_BARE_NUMBERS_MEAN[self.variant]), None
            return read.rewriting(call, reply.text)
        except UnparsableReply as error:
            return read.failed(call, error), None

    def _result(
        self,
        query: str,
        passages: tuple[Passage, ...],
        outcomes: dict[str, list[Outcome]],
        questions: list[str],
    ) -> S2AResult:
        kept: list[Passage] = []
        dropped: list[Drop] = []
        reports: list[Report] = []
        for p in passages:
            own = outcomes[p.id]
            problems = [o for o in own if o.problem is not None]
            if problems and self.on_unparsable == "raise":
                raise cast(Exception, problems[0].error)
            if not own:
                dropped.append(Drop(Span(p.id, 0, len(p.text)), "blank"))
            elif self.variant in EXTRACTIVE:
                passage, drops = self._extracted(p, own)
                kept += [passage] if passage else []
                dropped += drops
            else:
                passage, drops = self._rewritten(p, own)
                kept += [passage] if passage else []
                dropped += drops
            notes = dict.fromkeys(n for o in own for n in o.notes)
            reports.append(Report(p.id, len(own), tuple(notes), problems[0].problem if problems else None))
        return S2AResult(
            questions[0] if questions else query,
            tuple(kept),
            tuple(dropped),
            fallback=_fallback(reports, self.on_unparsable),
            reports=tuple(reports),
        )

    def _extracted(self, p: Passage, outcomes: list[Outcome]) -> tuple[Passage | None, list[Drop]]:
        keep: list[Span] = []
        drops: list[Drop] = []
        for o in outcomes:
            if o.problem is not None and self.on_unparsable == "keep":
                keep += o.part.spans
                continue
            chosen = set(o.kept or ())
            reason = o.problem or "not needed for the question"
            keep += chosen
            drops += [Drop(s, reason) for s in o.part.spans if s not in chosen]
        return extract(p, keep), drops

    def _rewritten(self, p: Passage, outcomes: list[Outcome]) -> tuple[Passage | None, list[Drop]]:
        texts: list[str] = []
        spans: list[Span] = []
        drops: list[Drop] = []
        for o in outcomes:
            if o.problem is not None and self.on_unparsable == "keep":
                texts.append(o.part.text)
                spans.append(o.part.span)
            elif o.written:
                texts.append(o.written)
                spans.append(o.part.span)
            else:
                drops.append(Drop(o.part.span, o.problem or "nothing in it helps to answer the question"))
        if not texts:
            return None, drops
        if all(o.problem is not None for o in outcomes):
            return p, drops
        return replace(p, text="\n".join(texts), spans=tuple(spans), rewritten=True), drops


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name}={value!r}: expected one of {', '.join(map(repr, allowed))}")


def _fallback(reports: list[Report], policy: OnUnparsable) -> str | None:
    """One line that names every passage that fell back, grouped by what went wrong."""
    by_problem: dict[str, list[str]] = {}
    for report in reports:
        if report.problem is not None:
            by_problem.setdefault(report.problem, []).append(report.passage_id)
    done = "kept as they were" if policy == "keep" else "dropped"
    lines = [f"{', '.join(map(repr, ids))} {done}: {problem}" for problem, ids in by_problem.items()]
    return "; ".join(lines) or None
