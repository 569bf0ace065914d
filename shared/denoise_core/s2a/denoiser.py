"""S2A as a denoiser: ask -> read -> kept and dropped text, passage by passage (paper, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from denoise_core.errors import InputError, UnparsableReply, is_mistake
from denoise_core.protocols import LLM, expect_llm
from denoise_core.running.budget import Budget
from denoise_core.running.effects import Complete, Failed, Flow, batch, compute, denoise
from denoise_core.running.fallbacks import fell_back
from denoise_core.running.flow import CHARACTERS_PER_TOKEN, arun, run
from denoise_core.running.structured import held_to_schema
from denoise_core.s2a import asks, assemble
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.assemble import Assembled
from denoise_core.s2a.clearing import Cleared, clear
from denoise_core.s2a.options import EXTRACTIVE, OnError, Options, Rule, Variant
from denoise_core.s2a.replies import read
from denoise_core.s2a.replies.collected import Verb
from denoise_core.s2a.replies.read import Outcome
from denoise_core.s2a.replies.schemas import schema
from denoise_core.s2a.result import Report, S2AResult
from denoise_core.s2a.skip import SureByScore
from denoise_core.s2a.units import units
from denoise_core.types import Drop, Passage, Reply, Usage, check_passages

_LIGHT = 10_000  # characters whose work is done where it is asked for
BARE_NUMBERS_MEAN: dict[str, Verb | None] = {"select": "keep", "remove": "drop", "auto": None}


class S2ADenoiser:
    """Has a model leave out what does not help to answer the query: the irrelevant and the opinionated
    (System 2 Attention, arXiv 2311.11829, section 2.2, step 1; variants, section 2.3).

    The question is cleared of opinion first, in a call of its own that sees no passage and is made only where
    there is anything to clear: ``result.query``. Passages are asked about that question and never write it.

    The extractive variants (``select``, the default, ``remove``, ``auto``) have the model name numbered pieces:
    what is kept is the source's own characters, at exact spans, and the reply is a few numbers. Short passages
    share calls; an unreadable reply gets each of its passages a second try of its own. The rewriting ones
    (``default``, ``single``, ``relevance``; ``keep_original`` and ``not_instructed`` differ from ``default`` only
    in how `S2A` answers) have it write the text again; what it writes goes through the fidelity gate, which by
    default shows the source sentences that it stands for. Text that a model wrote is marked ``rewritten``.

    ``keep`` is a rule that chooses among what ``select`` named by the model's order of importance, such as
    ``Tokens(2000)``. Calls are made ``max_concurrency`` at a time, all within ``budget``. A passage of which
    nothing helps is dropped. ``on_error`` is what an unreadable reply or a failed call gives for the passages it
    was about, and only for them: ``"keep"`` leaves them as they were, ``"drop"`` drops them, ``"raise"`` raises;
    ``result.failures`` names each. Mistakes, such as a wrong key, raise under every policy.

    Raises `InputError` for an unknown setting, for what is no `LLM`, and for ``keep`` with another variant than
    ``select``.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        variant: Variant = "select",
        keep: Rule | None = None,
        on_error: OnError = "keep",
        max_concurrency: int = 10,
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        one_of("variant", variant, get_args(Variant))
        one_of("on_error", on_error, get_args(OnError))
        if max_concurrency < 1:
            raise InputError(f"max_concurrency={max_concurrency}: expected 1 or more")
        if keep is not None and not (callable(getattr(keep, "choose", None)) and variant == "select"):
            raise InputError(
                f"keep={keep!r} with variant={variant!r}: expected a rule such as Tokens(2000), and "
                f"variant='select'"
            )
        self.llm = expect_llm(llm)
        self.variant: Variant = variant
        self.keep = keep
        self.on_error: OnError = on_error
        self.max_concurrency = max_concurrency
        self.budget = budget
        self.options = options or Options()

    def denoise(self, query: str, passages: Sequence[Passage]) -> S2AResult:
        """Raises `InputError` for two passages with one id, and with ``on_error="raise"`` what failed."""
        flow = self.flow(query, passages)
        result, trace = run(flow, budget=self.budget, max_concurrency=self.max_concurrency)
        return replace(result, trace=trace)

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> S2AResult:
        """`denoise` for async; the same result."""
        flow = self.flow(query, passages)
        result, trace = await arun(flow, budget=self.budget, max_concurrency=self.max_concurrency)
        return replace(result, trace=trace)

    def estimate(self, query: str, passages: Sequence[Passage]) -> tuple[int, Usage]:
        """Calls about passages that `denoise` would make, before the cache, and their tokens at most.

        Clearing the question and second tries come on top; the scorer in front is not run.

        Output is the text itself for the rewriting variants, three tokens a piece for the others.
        """
        calls = self._asks(query, check_passages(passages))
        asked = sum(len(m.content) for c in calls for m in c.messages)
        if self.variant in EXTRACTIVE:
            written = sum(3 * len(c.pieces) for c in calls)
        else:
            written = sum(c.size for c in calls) // CHARACTERS_PER_TOKEN
        return len(calls), Usage(asked // CHARACTERS_PER_TOKEN, written, estimated=True)

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[S2AResult]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        passages = check_passages(passages)
        if not any(p.text.strip() for p in passages):
            return self._result(Cleared(query), [assemble.blank(p) for p in passages])
        cleared = yield from clear(self.llm, query, self.options, on_error=self.on_error)
        settled = yield from self._settled(cleared.question, passages)
        found = yield from self._asked(cleared.question, [p for p in passages if p.id not in settled])
        if self.keep is not None:
            found = assemble.within(self.keep, passages, found)
        outcomes: dict[str, list[Outcome]] = {}
        for outcome in found:
            outcomes.setdefault(outcome.part.passage.id, []).append(outcome)
        done: list[Assembled] = yield from compute(
            lambda: [settled.get(p.id) or self._assemble(cleared.question, p, outcomes[p.id]) for p in passages],
            heavy=_is_heavy(passages),
        )
        return self._result(cleared, done)

    def _asked(self, query: str, passages: Sequence[Passage]) -> Flow[list[Outcome]]:
        """The outcomes of all calls; the passages of an unreadable joint reply are asked about one by one."""
        calls = yield from compute(partial(self._asks, query, passages), heavy=_is_heavy(passages))
        if not calls:
            return []
        replies: list[Reply | Failed] = yield from batch(tuple(self._effect(c) for c in calls))
        read_first = yield from compute(
            lambda: [self._read(call, reply) for call, reply in zip(calls, replies)], heavy=_is_heavy(passages)
        )
        again: list[Ask] = []
        prompt = self.options.step_1(self.variant, ranked=self.keep is not None)
        for call, outcomes in zip(calls, read_first):
            if len(call.parts) > 1 and isinstance(outcomes[0].error, UnparsableReply):
                again += asks.alone(call, prompt, self.options, numbered=self.variant in EXTRACTIVE)
        if not again:
            return [o for outcomes in read_first for o in outcomes]
        second: list[Reply | Failed] = yield from batch(tuple(self._effect(c) for c in again))
        retried = {
            o.part.span: replace(o, notes=(*o.notes, "asked a second time, alone: the joint reply was unreadable"))
            for call, reply in zip(again, second)
            for o in self._read(call, reply)
        }
        return [retried.get(o.part.span, o) for outcomes in read_first for o in outcomes]

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
            judge = SureByScore(skip, skip.scorer, self.options.language)
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
                all_parts += asks.parts(p, units(p, language=self.options.language), o.window)
        groups = asks.groups(all_parts, longest=o.longest_joint(self.variant), window=o.window)
        prompt = o.step_1(self.variant, ranked=self.keep is not None)
        return [asks.write(query, g, prompt, o, numbered=self.variant in EXTRACTIVE) for g in groups]

    def _effect(self, call: Ask) -> Complete:
        llm = held_to_schema(self.llm, schema(self.variant)) if self.options.structured else self.llm
        if self.options.cache is not None:
            llm = self.options.cache.bind(llm, lambda reply: self._readable(call, reply))
        return Complete(call.messages, f"s2a.{self.variant}", llm)

    def _readable(self, call: Ask, reply: Reply) -> bool:
        return not any(o.problem for o in self._read(call, reply))

    def _read(self, call: Ask, reply: Reply | Failed) -> list[Outcome]:
        if isinstance(reply, Failed):
            if is_mistake(reply.error):
                raise reply.error
            return read.failed(call, reply.error)
        try:
            if self.variant in EXTRACTIVE:
                return read.selection(call, reply, verb=BARE_NUMBERS_MEAN[self.variant])
            return read.rewriting(call, reply, single=self.variant == "single")
        except UnparsableReply as error:
            return read.failed(call, error)

    def _assemble(self, query: str, p: Passage, outcomes: list[Outcome]) -> Assembled:
        if self.variant in EXTRACTIVE:
            done = assemble.extracted(p, outcomes, self.on_error, context=self.options.context)
            done = done if self.options.context else assemble.bare(p, done)
        else:
            done = assemble.rewritten(
                p,
                outcomes,
                self.on_error,
                self.options.gate,
                question=query,
                language=self.options.language,
                context=self.options.context,
            )
        if done.report.problem is not None:
            errors = [o.error for o in outcomes if o.error is not None]
            error = errors[0] if errors else UnparsableReply(f"passage {p.id!r}: {done.report.problem}")
            if self.on_error == "raise":
                raise error
            instead = "the passage was kept as it was" if self.on_error == "keep" else "the passage was dropped"
            fell_back("S2ADenoiser", error, instead)
        return done

    def _result(self, cleared: Cleared, done: list[Assembled]) -> S2AResult:
        return S2AResult(
            cleared.question,
            tuple(d.passage for d in done if d.passage is not None),
            tuple(drop for d in done for drop in d.drops),
            fallback=_fallback([d.report for d in done], self.on_error),
            failures={d.report.passage_id: d.report.problem for d in done if d.report.problem is not None},
            reports=tuple(d.report for d in done),
            question_note=cleared.note,
        )


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name}={value!r}: expected one of {', '.join(map(repr, allowed))}")


def _is_heavy(passages: Sequence[Passage]) -> bool:
    """Whether cutting them and aligning with them may hold an event loop up for more than a few milliseconds."""
    return sum(len(p.text) for p in passages) > _LIGHT


def _fallback(reports: list[Report], policy: OnError) -> str | None:
    """One line that names every passage that fell back, grouped by what went wrong."""
    by_problem: dict[str, list[str]] = {}
    for report in reports:
        if report.problem is not None:
            by_problem.setdefault(report.problem, []).append(report.passage_id)
    done = "kept as they were" if policy == "keep" else "dropped"
    lines = [f"{', '.join(map(repr, ids))} {done}: {problem}" for problem, ids in by_problem.items()]
    return "; ".join(lines) or None
