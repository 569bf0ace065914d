"""S2A as a denoiser: ask -> read -> kept and dropped text, passage by passage (paper, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM
from denoise_core.running.budget import Budget
from denoise_core.running.effects import Complete, Failed, Flow, batch, denoise
from denoise_core.running.flow import CHARACTERS_PER_TOKEN, arun, run
from denoise_core.running.structured import held_to_schema
from denoise_core.s2a import asks, assemble
from denoise_core.s2a.alignment.gate import question_problem
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.assemble import Assembled
from denoise_core.s2a.options import EXTRACTIVE, OnUnparsable, Options, Variant
from denoise_core.s2a.replies import read
from denoise_core.s2a.replies.parse import Verb
from denoise_core.s2a.replies.read import Outcome
from denoise_core.s2a.result import Report, S2AResult
from denoise_core.s2a.skip import SureByScore
from denoise_core.s2a.units import units
from denoise_core.types import Drop, Passage, Reply, Usage, check_passages

_BARE_NUMBERS_MEAN: dict[str, Verb | None] = {"select": "keep", "remove": "drop", "auto": None}


class S2ADenoiser:
    """Has a model leave out what does not help to answer the query: the irrelevant and the opinionated.

    The extractive variants (``select``, ``remove``, ``auto``) have the model name numbered pieces: what is kept
    is the source's own characters, at exact spans, and the reply is a few numbers. The rewriting ones
    (``default``, ``single``, ``relevance``; ``keep_original`` and ``not_instructed`` differ from ``default``
    only in how `S2A` answers) have it write the text again, and give the question back cleared of opinion as
    ``result.query``; what it writes goes through the fidelity gate, and is marked ``rewritten`` unless it
    is the source's own text throughout.

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
        self.variant: Variant = variant
        self.on_unparsable: OnUnparsable = on_unparsable
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

    def estimate(self, query: str, passages: Sequence[Passage]) -> tuple[int, Usage]:
        """Calls and tokens that `denoise` would take at most, before the cache; the scorer in front is not run.

        Output is the text itself for the rewriting variants, three tokens a piece for the others.
        """
        calls = self._asks(query, check_passages(passages))
        asked = sum(len(m.content) for c in calls for m in c.messages)
        if self.variant in EXTRACTIVE:
            written = sum(3 * len(c.pieces) for c in calls)
        else:
            written = sum(c.size + len(query) for c in calls) // CHARACTERS_PER_TOKEN
        return len(calls), Usage(asked // CHARACTERS_PER_TOKEN, written, estimated=True)

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[S2AResult]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        passages = check_passages(passages)
        settled = yield from self._settled(query, passages)
        calls = self._asks(query, [p for p in passages if p.id not in settled])
        replies: list[Reply | Failed] = []
        if calls:
            replies = yield from batch(tuple(self._effect(c) for c in calls))
        outcomes: dict[str, list[Outcome]] = {}
        questions: list[str] = []
        for number, (call, reply) in enumerate(zip(calls, replies), 1):
            found, question = self._read(call, reply)
            if self.options.joint and len(calls) > 1:
                note = f"asked jointly, in call {number} of {len(calls)}: all together are longer than one may be"
                found = [replace(o, notes=(*o.notes, note)) for o in found]
            questions += [question] if question else []
            for outcome in found:
                outcomes.setdefault(outcome.part.passage.id, []).append(outcome)
        done: list[Assembled] = []
        for p in passages:
            done.append(settled.get(p.id) or self._assemble(query, p, outcomes[p.id]))
            questions += done[-1].questions
        return self._result(query, done, questions)

    def _settled(self, query: str, passages: tuple[Passage, ...]) -> Flow[dict[str, Assembled]]:
        """The passages that need no call."""
        skip = self.options.skip
        settled = {p.id: assemble.blank(p) for p in passages if not p.text.strip()}
        rest = tuple(p for p in passages if p.id not in settled)
        total = sum(len(p.text) for p in rest)
        if total < skip.shorter_than:
            note = f"not asked: {total} characters in all, fewer than {skip.shorter_than}"
            settled |= {p.id: assemble.untouched(p, note) for p in rest}
        elif skip.scorer is not None and rest:
            judge = SureByScore(skip, skip.scorer, self.language)
            sure = yield from denoise(query, rest, tag="s2a.skip", denoiser=judge)
            kept = {p.id: p for p in sure.passages}
            drops: dict[str, list[Drop]] = {}
            for drop in sure.dropped:
                drops.setdefault(drop.span.passage_id, []).append(drop)
            for name in kept.keys() | drops.keys():
                report = Report(name, 0, ("not asked: the scorer is sure of every piece",))
                settled[name] = Assembled(kept.get(name), tuple(drops.get(name, ())), report)
        return settled

    def _asks(self, query: str, passages: Sequence[Passage]) -> list[Ask]:
        o = self.options
        all_parts: list[Part] = []
        for p in passages:
            if p.text.strip():
                all_parts += asks.parts(p, units(p, language=self.language), o.window)
        groups = asks.groups(all_parts, joint=o.joint, window=o.window)
        prompt = o.step_1(self.variant)
        return [asks.write(query, g, prompt, o, numbered=self.variant in EXTRACTIVE) for g in groups]

    def _effect(self, call: Ask) -> Complete:
        llm = held_to_schema(self.llm, self.variant) if self.options.structured else self.llm
        if self.options.cache is not None:
            llm = self.options.cache.bind(llm, lambda reply: self._readable(call, reply))
        return Complete(call.messages, f"s2a.{self.variant}", llm)

    def _readable(self, call: Ask, reply: Reply) -> bool:
        return not any(o.problem for o in self._read(call, reply)[0])

    def _read(self, call: Ask, reply: Reply | Failed) -> tuple[list[Outcome], str | None]:
        if isinstance(reply, Failed):
            return read.failed(call, reply.error), None
        if not isinstance(reply.text, str):  # a model wrapper that passes on an empty message
            return read.failed(call, TypeError(f"expected a text as reply, got {type(reply.text).__name__}")), None
        try:
            if self.variant in EXTRACTIVE:
                return read.selection(call, reply.text, verb=_BARE_NUMBERS_MEAN[self.variant]), None
            return read.rewriting(call, reply.text, single=self.variant == "single")
        except UnparsableReply as error:
            return read.failed(call, error), None

    def _assemble(self, query: str, p: Passage, outcomes: list[Outcome]) -> Assembled:
        if self.variant in EXTRACTIVE:
            done = assemble.extracted(p, outcomes, self.on_unparsable)
        else:
            gate, question = self.options.gate, query if self.variant == "single" else ""
            done = assemble.rewritten(
                p, outcomes, self.on_unparsable, gate, question=question, language=self.language
            )
        if done.report.problem is not None and self.on_unparsable == "raise":
            errors = [o.error for o in outcomes if o.error is not None]
            raise (errors[0] if errors else UnparsableReply(f"passage {p.id!r}: {done.report.problem}"))
        return done

    def _result(self, query: str, done: list[Assembled], questions: list[str]) -> S2AResult:
        problems = [question_problem(query, q) if self.options.gate else None for q in questions]
        good = [q for q, problem in zip(questions, problems) if problem is None]
        note = None
        if questions and not good:
            note = f"the user's question was kept, the model's was refused: {problems[0]}"
        return S2AResult(
            good[0] if good else query,
            tuple(d.passage for d in done if d.passage is not None),
            tuple(drop for d in done for drop in d.drops),
            fallback=_fallback([d.report for d in done], self.on_unparsable),
            reports=tuple(d.report for d in done),
            question_note=note,
        )


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
