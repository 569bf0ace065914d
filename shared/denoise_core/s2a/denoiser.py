"""S2A as a denoiser: ask -> read -> kept and dropped text, passage by passage (paper, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, get_args

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM, expect_llm
from denoise_core.running.budget import Budget
from denoise_core.running.effects import Flow
from denoise_core.running.fallbacks import fell_back
from denoise_core.running.flow import arun, run
from denoise_core.s2a import asks, assemble, replies, second_look, selections
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.assemble import Assembled
from denoise_core.s2a.calling import Asker
from denoise_core.s2a.options import EXTRACTIVE, OnError, Options, Rule, Variant, one_of
from denoise_core.s2a.prompts import KEEP, schema
from denoise_core.s2a.question import Cleared, clear
from denoise_core.s2a.replies import Outcome
from denoise_core.s2a.result import Report, S2AResult
from denoise_core.s2a.units import units
from denoise_core.text.token_budget import CHARACTERS_PER_TOKEN, estimate_tokens
from denoise_core.types import Passage, Reply, Span, Usage, check_passages

_Known: TypeAlias = dict[Span, tuple[str, Outcome | None]]


class S2ADenoiser:
    """Has a model leave out what does not help to answer the query: the irrelevant and the opinionated
    (System 2 Attention, arXiv 2311.11829, section 2.2, step 1; variants, section 2.3).

    The question is cleared of opinion first, in a call of its own that sees no passage and is made only where it
    has more than one clause: ``result.query``, the person's own words. Passages are asked about it and never write
    it.

    The extractive variants (``select``, the default, ``remove``, ``auto``) have the model name numbered pieces, by
    a JSON schema with each piece's first words where it can be held to one: what is kept is the source's own
    characters, at exact spans. Short passages share calls of at most 60 pieces. A reply that cannot be read, or
    whose first words do not agree, is asked for once more in the same call, then passage by passage; a joint call
    that is refused (400, 413, 422) is halved until the passage is found that it is refused for. Where nothing
    at all is kept and a scorer finds a passage clearly relevant, it is looked at once more. The rewriting ones
    (``default``, ``single``, ``relevance``; ``keep_original`` and ``not_instructed`` differ from ``default`` only
    in how `S2A` answers) have it write the text again; what is shown is the source sentences that cover what it
    wrote (`Options.show`).

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
        _, calls = self._plan(query, check_passages(passages))
        asked = "".join(m.content for c in calls for m in c.messages(False))
        if self.variant in EXTRACTIVE:
            written = sum(3 * len(c.pieces) for c in calls)
        else:
            written = sum(c.size for c in calls) // CHARACTERS_PER_TOKEN
        return len(calls), Usage(estimate_tokens(asked), written, estimated=True)

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[S2AResult]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        passages = check_passages(passages)
        if not any(p.text.strip() for p in passages):
            return self._result(Cleared(query), [assemble.blank(p) for p in passages])
        cleared = yield from clear(self.llm, query, self.options, on_error=self.on_error)
        asked = tuple(p for p in passages if p.text.strip())
        known, calls = self._plan(cleared.question, asked)
        found = yield from self._found(known, calls)
        if self._kept_nothing(found):
            found = yield from self._looked_again(cleared.question, asked, found)
        if self.keep is not None:
            found = assemble.within(self.keep, passages, found)
        outcomes: dict[str, list[Outcome]] = {}
        for outcome in sorted(found, key=lambda o: o.part.span.start):
            outcomes.setdefault(outcome.part.passage.id, []).append(outcome)
        done = [
            self._assemble(cleared.question, p, outcomes[p.id]) if p.text.strip() else assemble.blank(p)
            for p in passages
        ]
        done = second_look.filled(cleared.question, passages, done, self.options)
        return self._result(cleared, done)

    def _found(self, known: _Known, calls: list[Ask]) -> Flow[list[Outcome]]:
        """The outcomes of all parts, those known before and those of the calls."""
        asker = Asker(self.llm, self.options, f"s2a.{self.variant}", self._read, self.variant in EXTRACTIVE)
        fresh = [o for outcomes in (yield from asker.outcomes(calls)) for o in outcomes]
        cache = self.options.cache
        if cache is not None and known and fresh:
            keys = [known[o.part.span][0] for o in fresh]
            selections.remember(cache, keys, fresh)
        return [o for _, o in known.values() if o is not None] + fresh

    def _kept_nothing(self, found: list[Outcome]) -> bool:
        """Whether replies of this run were read and not one piece is left."""
        return bool(found) and any(o.calls for o in found) and all(o.kept == () for o in found)

    def _looked_again(
        self, query: str, passages: tuple[Passage, ...], found: list[Outcome]
    ) -> Flow[list[Outcome]]:
        """One more call about the passages that a scorer finds clearly relevant, if any."""
        again = second_look.suspicious(query, passages, self.options)
        ids = {p.id: n for n, p in enumerate(again)}
        parts = sorted((o.part for o in found if o.part.passage.id in ids), key=lambda part: ids[part.passage.id])
        if not parts:
            return found
        group = next(asks.groups(parts, self.options.window, self.options))
        call = asks.write(query, group, self.options.prompts.confirm, KEEP, self.options, numbered=True)
        read = partial(replies.selection, variant="select")
        asker = Asker(self.llm, self.options, "s2a.confirm", read, numbered=True)
        (outcomes,) = yield from asker.outcomes([call])
        return second_look.merged(found, outcomes)

    def _plan(self, query: str, passages: Sequence[Passage]) -> tuple[_Known, list[Ask]]:
        """With a cache, what is known of each part and by which key; and the calls about the others."""
        o = self.options
        all_parts: list[Part] = []
        for p in passages:
            if p.text.strip():
                all_parts += asks.parts(p, units(p, language=o.language), o)
        prompt = o.step_1(self.variant, ranked=self.keep is not None)
        numbered = self.variant in EXTRACTIVE
        known: _Known = {}
        if o.cache is not None and numbered:
            keys = [selections.key(o.cache, query, part, prompt, o) for part in all_parts]
            before = selections.look_up(o.cache, keys, all_parts)
            known = {part.span: both for part, both in zip(all_parts, zip(keys, before), strict=True)}
        new = [part for part in all_parts if known.get(part.span, ("", None))[1] is None]
        groups = asks.groups(new, o.longest_joint(self.variant), o)
        return known, [asks.write(query, g, prompt, schema(self.variant), o, numbered=numbered) for g in groups]

    def _read(self, call: Ask, reply: Reply) -> list[Outcome]:
        if self.variant in EXTRACTIVE:
            return replies.selection(call, reply, self.variant)
        return replies.rewriting(call, reply, single=self.variant == "single")

    def _assemble(self, query: str, p: Passage, outcomes: list[Outcome]) -> Assembled:
        if self.variant in EXTRACTIVE:
            done = assemble.extracted(p, outcomes, self.on_error, context=self.options.context)
            done = done if self.options.context else assemble.bare(p, done)
        else:
            done = assemble.rewritten(p, outcomes, self.on_error, self.options, question=query)
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


def _fallback(reports: list[Report], policy: OnError) -> str | None:
    """One line that names every passage that fell back, grouped by what went wrong."""
    by_problem: dict[str, list[str]] = {}
    for report in reports:
        if report.problem is not None:
            by_problem.setdefault(report.problem, []).append(report.passage_id)
    done = "kept as they were" if policy == "keep" else "dropped"
    lines = [f"{', '.join(map(repr, ids))} {done}: {problem}" for problem, ids in by_problem.items()]
    return "; ".join(lines) or None
