"""S2A as a denoiser: ask -> read -> kept and dropped text, passage by passage (paper, section 2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import InputError, MissingExtra, UnparsableReply
from denoise_core.protocols import LLM, Scorer, expect_llm
from denoise_core.result import DenoiseResult
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a.alignment import WrittenSentence, align_outcome
from denoise_core.s2a.options import (
    EXTRACTIVE,
    OnError,
    Options,
    PieceRule,
    Variant,
    check_choice,
)
from denoise_core.s2a.pieces import (
    PassageSlice,
    find_context_pieces,
    group_slices,
    slice_passage,
)
from denoise_core.s2a.prompts import CONTEXT_FORM, KEEP_FORM, REPLY_FORMS
from denoise_core.s2a.question import NeutralQuestion, neutralize_question
from denoise_core.s2a.replies import (
    LLMCaller,
    SliceOutcome,
    SliceRequest,
    look_up_selection,
    read_rewriting,
    read_selection,
    selection_key,
    store_selections,
)
from denoise_core.text.chunk import extract_spans
from denoise_core.text.token_budget import CHARACTERS_PER_TOKEN
from denoise_core.types import Drop, Passage, Span, Usage, check_passages

NOT_NEEDED = "not needed for the question"
RECHECK_THRESHOLD = 3.0  # halfway from the floor of the default's scale (1.5: nothing seems to fit) to its top (4.57)
_MOST_RECHECKED = 3  # passages that are looked at again
_LOOKED_RELEVANT = (
    "nothing was kept of any passage, though this one looked relevant: asked once more"
)
_TEXT, _WRITTEN = attrgetter("text"), attrgetter("written_text")


@dataclass(frozen=True, slots=True)
class PassageReport:
    """How one passage fared.

    ``calls`` is the number of calls it took part in: 0 when it was skipped or known, more than 1 when it was too
    long for one and was split, or asked about again. ``notes`` name everything unusual that did not lose the
    reply; ``problem`` is why the passage fell back to the policy, None when it did not. ``written`` is what the
    model wrote, ``sentences`` the same sentence by sentence. ``context`` are spans that were kept only because
    another piece cannot be read without them: a table's header, a list's stem, the sentence before a pronoun."""

    passage_id: str
    call_count: int
    notes: tuple[str, ...] = ()
    problem: str | None = None
    written_text: str | None = None
    sentences: tuple[WrittenSentence, ...] = ()
    context_spans: tuple[Span, ...] = ()

    @property
    def uncovered_sentences(self) -> tuple[WrittenSentence, ...]:
        """The written sentences that no source sentence covers."""
        return tuple(s for s in self.sentences if not s.spans)

    @property
    def unsupported_sentences(self) -> tuple[WrittenSentence, ...]:
        """The written sentences that the checker does not find in the source; empty where it was not asked."""
        return tuple(s for s in self.sentences if s.supported is False)


@dataclass(frozen=True, slots=True)
class S2AResult(DenoiseResult):
    """A `DenoiseResult` with a `Report` for each input passage, in the input's order."""

    reports: tuple[PassageReport, ...] = ()


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
    ``TokenLimit(2000)``. Calls are made ``max_concurrency`` at a time, all within ``budget``. A passage of which
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
        keep: PieceRule | None = None,
        on_error: OnError = "keep",
        max_concurrency: int = 10,
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        check_choice("variant", variant, get_args(Variant))
        check_choice("on_error", on_error, get_args(OnError))
        if max_concurrency < 1:
            raise InputError(f"max_concurrency={max_concurrency}: expected 1 or more")
        if keep is not None and not (
            callable(getattr(keep, "choose", None)) and variant == "select"
        ):
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
        result, trace = run(
            flow, budget=self.budget, max_concurrency=self.max_concurrency
        )
        return replace(result, trace=trace)

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> S2AResult:
        """`denoise` for async; the same result."""
        flow = self.flow(query, passages)
        result, trace = await arun(
            flow, budget=self.budget, max_concurrency=self.max_concurrency
        )
        return replace(result, trace=trace)

    def estimate(self, query: str, passages: Sequence[Passage]) -> tuple[int, Usage]:
        """Calls about passages that `denoise` would make, before the cache, and their tokens at most.

        Clearing the question and second tries come on top; the scorer in front is not run.

        Output is the text itself for the rewriting variants, three tokens a piece for the others.
        """
        _, requests = self._plan(query, check_passages(passages))
        characters = output = 0
        for request in requests:
            characters += sum(
                len(message.content) for message in request.messages(False)
            )
            for part in request.parts:
                output += (
                    3 * len(part.pieces)
                    if request.numbered
                    else len(part.text) // CHARACTERS_PER_TOKEN
                )
        return len(requests), Usage(
            characters // CHARACTERS_PER_TOKEN, output, is_estimated=True
        )

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[S2AResult]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        passages = check_passages(passages)
        question = NeutralQuestion(query)
        outcomes: list[SliceOutcome] = []
        if any(map(str.strip, map(_TEXT, passages))):
            question = yield from neutralize_question(
                self.llm, query, self.options, on_error=self.on_error
            )
            outcomes = yield from self._ask(question.text, passages)
        if self.keep is not None:
            outcomes = apply_rule(self.keep, outcomes)
        return self._assemble(question, passages, outcomes)

    def _ask(self, query: str, passages: Sequence[Passage]) -> Flow[list[SliceOutcome]]:
        """The outcomes of all parts, those known before and those of the calls."""
        cache = self.options.cache
        known, requests = self._plan(query, passages)
        outcomes: list[SliceOutcome] = []
        if requests:
            read = partial(
                read_rewriting,
                names=("message" if self.variant == "single" else "context",),
            )
            if self.variant in EXTRACTIVE:
                read = partial(read_selection, variant=self.variant)
            caller = LLMCaller(self.llm, self.options, f"s2a.{self.variant}", read)
            outcomes = yield from caller.outcomes(requests)
            if cache is not None and self.variant in EXTRACTIVE:
                store_selections(cache, outcomes)
        for outcome in outcomes:
            if outcome.kept_places is None or outcome.kept_places:
                return known + outcomes
        if not outcomes or any(outcome.kept_places for outcome in known):
            return known + outcomes
        return (yield from self._recheck(query, passages, known + outcomes))

    def _plan(
        self, query: str, passages: Sequence[Passage]
    ) -> tuple[list[SliceOutcome], list[SliceRequest]]:
        """What the cache knows of the passages, and the calls about the others."""
        options = self.options
        numbered = self.variant in EXTRACTIVE
        prompt = options.prompts.step_1(self.variant, ranked=self.keep is not None)
        known: list[SliceOutcome] = []
        unknown: list[PassageSlice] = []
        for passage in passages:
            for part in slice_passage(passage, options) if passage.text.strip() else ():
                outcome = None
                if options.cache is not None and numbered:
                    part = replace(
                        part,
                        cache_key=selection_key(options.cache, query, part, prompt),
                    )
                    outcome = look_up_selection(options.cache, part)
                if outcome is None:
                    unknown.append(part)
                else:
                    known.append(outcome)
        longest_shared = 0
        if numbered and options.join_passages is not False:
            longest_shared = (
                options.max_characters
                if options.join_passages
                else min(options.max_joint_characters, options.max_characters)
            )
        form = REPLY_FORMS.get(self.variant, CONTEXT_FORM)
        requests: list[SliceRequest] = []
        for group in group_slices(unknown, longest_shared, options):
            requests.append(SliceRequest(tuple(group), prompt, form, numbered, query))
        return known, requests

    def _recheck(
        self, query: str, passages: Sequence[Passage], outcomes: list[SliceOutcome]
    ) -> Flow[list[SliceOutcome]]:
        """One more call about the passages that a scorer finds clearly relevant, if any."""
        options = self.options
        passages = [p for p in passages if p.text.strip()]
        scores = score_passages(query, passages, options)
        if scores is None:
            return outcomes
        least = (
            RECHECK_THRESHOLD
            if options.recheck_threshold is None
            else options.recheck_threshold
        )
        parts: list[PassageSlice] = []
        for n in np.argsort(-scores, kind="stable")[:_MOST_RECHECKED]:
            if scores[n] >= least:
                parts += [
                    o.part for o in outcomes if o.part.passage.id == passages[n].id
                ]
        if not parts:
            return outcomes
        group = group_slices(parts, options.max_characters, options)[0]
        request = SliceRequest(
            tuple(group),
            options.prompts.confirm,
            KEEP_FORM,
            numbered=True,
            question=query,
        )
        caller = LLMCaller(
            self.llm, options, "s2a.confirm", partial(read_selection, variant="select")
        )
        again = {id(o.part): o for o in (yield from caller.outcomes([request]))}
        return [_merge(first, again.get(id(first.part))) for first in outcomes]

    def _assemble(
        self,
        question: NeutralQuestion,
        passages: Sequence[Passage],
        outcomes: list[SliceOutcome],
    ) -> S2AResult:
        by_passage: dict[str, list[SliceOutcome]] = {}
        for outcome in outcomes:
            by_passage.setdefault(outcome.part.passage.id, []).append(outcome)
        assembled: list[Assembled] = []
        failures: dict[str, str] = {}
        for passage in passages:
            own = by_passage.get(passage.id, [])
            if len(own) > 1:  # what was known comes before what was asked
                own.sort(key=lambda outcome: outcome.part.pieces[0].start)
            assembled.append(
                assemble_passage(
                    passage, own, self.on_error, self.options, question=question.text
                )
            )
            problem = assembled[-1].report.problem
            if problem is not None:
                failures[passage.id] = problem
                self._fall_back(passage, problem, own)
        if self.options.min_passages:
            ensure_min_passages(question.text, passages, assembled, self.options)
        kept: list[Passage] = []
        drops: list[Drop] = []
        reports: list[PassageReport] = []
        for one in assembled:
            if one.passage is not None:
                kept.append(one.passage)
            drops += one.drops
            reports.append(one.report)
        return S2AResult(
            question.text,
            tuple(kept),
            tuple(drops),
            fallback=_describe(failures, self.on_error) if failures else None,
            failures=failures,
            reports=tuple(reports),
            question_note=question.note,
        )

    def _fall_back(
        self, passage: Passage, problem: str, outcomes: list[SliceOutcome]
    ) -> None:
        errors = [o.error for o in outcomes if o.error is not None]
        error = (
            errors[0]
            if errors
            else UnparsableReply(f"passage {passage.id!r}: {problem}")
        )
        if self.on_error == "raise":
            raise error
        instead = (
            "the passage was kept as it was"
            if self.on_error == "keep"
            else "the passage was dropped"
        )
        log_fallback("S2ADenoiser", error, instead)


def _describe(failures: Mapping[str, str], policy: OnError) -> str:
    """One line that names every passage that fell back, grouped by what went wrong."""
    by_problem: dict[str, list[str]] = {}
    for passage_id, problem in failures.items():
        by_problem.setdefault(problem, []).append(repr(passage_id))
    done = "kept as they were" if policy == "keep" else "dropped"
    return "; ".join(
        f"{', '.join(ids)} {done}: {problem}" for problem, ids in by_problem.items()
    )


@dataclass(frozen=True, slots=True)
class Assembled:
    """``passage`` is None when nothing is left of it."""

    passage: Passage | None
    drops: Sequence[Drop]
    report: PassageReport


def assemble_passage(
    passage: Passage,
    outcomes: Sequence[SliceOutcome],
    policy: OnError,
    options: Options,
    *,
    question: str = "",
) -> Assembled:
    """What the outcomes leave of a passage: kept pieces of the source, at exact spans, and what they need.

    Of a written text they are the source sentences that cover it; with ``show="written"`` it is the text itself.
    ``question`` is what a written sentence may repeat without saying anything.
    """
    if not outcomes:
        blank = Drop(Span(passage.id, 0, len(passage.text)), "blank")
        return Assembled(None, [blank], PassageReport(passage.id, 0))
    outcomes, sentences = _settle(outcomes, policy, options, question)
    pieces: list[Span] = []
    texts: list[str] = []
    kept: set[int] = set()
    reasons: list[str] = []
    problems: list[str] = []
    notes: list[str] = []
    text = "\n".join(filter(None, map(_WRITTEN, outcomes)))
    calls = 0
    for outcome in outcomes:
        for index, piece in enumerate(outcome.part.pieces):
            if index in (outcome.kept_places or ()):
                kept.add(len(pieces))
            pieces.append(piece)
            reasons.append(
                outcome.problem or outcome.drop_reasons.get(index, NOT_NEEDED)
            )
        texts += outcome.part.texts
        problems += filter(None, [outcome.problem])
        notes += outcome.notes
        calls += outcome.calls
    if len(outcomes) > 1:
        notes.append(
            f"split over {len(outcomes)} calls, because it is longer than one may be"
        )
    brought: set[int] = set()
    if options.keep_context and 0 < len(kept) < len(pieces):
        brought = find_context_pieces(texts, kept)
    spans: list[Span] = []
    drops: list[Drop] = []
    context: list[Span] = []
    for index, piece in enumerate(pieces):
        if index in brought:
            context.append(piece)
        if index in kept or index in brought:
            spans.append(piece)
        else:
            drops.append(Drop(piece, reasons[index]))
    problem = "; ".join(dict.fromkeys(problems)) or None
    report = PassageReport(
        passage.id,
        calls,
        tuple(dict.fromkeys(notes)),
        problem,
        text or None,
        tuple(sentences),
        tuple(context),
    )
    if text and options.shown_text == "written" and problem is None:
        # The model's own text; one without a source stands for the whole of it.
        source = extract_spans(passage, spans) or passage
        whole = replace(
            passage, text=text.strip(), spans=source.source_spans, is_rewritten=True
        )
        return Assembled(whole, drops if spans else [], report)
    if drops and spans and not text and not options.keep_context:
        drops += _trim_end(passage.text, spans)
    return Assembled(extract_spans(passage, spans), drops, report)


def _settle(
    outcomes: Sequence[SliceOutcome], policy: OnError, options: Options, question: str
) -> tuple[list[SliceOutcome], list[WrittenSentence]]:
    """The outcomes with what is kept of the written ones and of those with a problem; and what was written."""
    settled: list[SliceOutcome] = []
    sentences: list[WrittenSentence] = []
    offset = 0
    for outcome in outcomes:
        if outcome.written_text is not None:
            outcome, aligned = align_outcome(outcome, options, question, offset=offset)
            sentences += aligned
            offset += len(outcome.written_text or "") + 1 if outcome.written_text else 0
        if outcome.problem is not None and policy == "keep":
            outcome = replace(
                outcome, kept_places=dict.fromkeys(range(len(outcome.part.pieces)), 0)
            )
        settled.append(outcome)
    return settled, sentences


def _trim_end(text: str, spans: list[Span]) -> list[Drop]:
    """The white space behind the last piece kept, which the model did not name; it is taken off ``spans``."""
    last = spans[-1]
    end = last.start + len(text[last.start : last.end].rstrip())
    if end == last.end:
        return []
    spans[-1] = replace(last, end=end)
    return [Drop(replace(last, start=end), NOT_NEEDED)]


def apply_rule(rule: PieceRule, outcomes: Sequence[SliceOutcome]) -> list[SliceOutcome]:
    """The outcomes with only the kept pieces that ``rule`` chooses.

    A piece's score is its place in the reply that named it: the first pieces of all replies come before the second
    ones. It is measured with what it cannot be read without. Outcomes with a problem stay as they are.
    """
    candidates: list[str] = []
    places: list[int] = []
    for outcome in outcomes:
        texts = outcome.part.texts
        for index, place in (outcome.kept_places or {}).items():
            candidates.append(
                "".join(
                    texts[n]
                    for n in sorted(find_context_pieces(texts, {index}) | {index})
                )
            )
            places.append(place)
    if not candidates:
        return list(outcomes)
    mask = iter(rule.choose(-np.array(places, dtype=np.float32), candidates))
    narrowed: list[SliceOutcome] = []
    for outcome in outcomes:
        kept: dict[int, int] = {}
        reasons: dict[int, str] = {}
        for index, place in (outcome.kept_places or {}).items():
            if next(mask):
                kept[index] = place
            else:
                reasons[index] = rule.reason()
        narrowed.append(
            replace(outcome, kept_places=kept, drop_reasons=reasons)
            if outcome.kept_places
            else outcome
        )
    return narrowed


def score_passages(
    query: str, passages: Sequence[Passage], options: Options
) -> NDArray[np.float32] | None:
    """Scores by the options' scorer, or the default that ships; None, which is logged, without its extra."""
    scorer: Scorer
    if options.scorer is not None:
        scorer = options.scorer
    else:
        from denoise_core.embedded import DefaultScorer

        scorer = DefaultScorer()
    try:
        return np.asarray(
            scorer.score(query, [p.text_with_header for p in passages]),
            dtype=np.float32,
        )
    except MissingExtra as error:
        log_fallback("S2ADenoiser", error, "a selection of nothing was not confirmed")
        return None


def _merge(first: SliceOutcome, second: SliceOutcome | None) -> SliceOutcome:
    """The outcome of the second look, with what the first one cost; one that failed leaves the first."""
    if second is None:
        return first
    if second.problem is not None:
        return first.with_note(
            f"{_LOOKED_RELEVANT} in vain: {second.problem}", second.calls
        )
    note = f"{_LOOKED_RELEVANT}, and {'kept' if second.kept_places else 'confirmed'}"
    return replace(second, notes=first.notes).with_note(note, first.calls)


def ensure_min_passages(
    query: str,
    passages: Sequence[Passage],
    assembled: list[Assembled],
    options: Options,
) -> None:
    """Keep the best passages by the scorer whole, in place, where fewer than ``options.min_passages`` are kept."""
    dropped: list[int] = []
    for n, one in enumerate(assembled):
        if one.passage is None and passages[n].text.strip():
            dropped.append(n)
    missing = options.min_passages - sum(one.passage is not None for one in assembled)
    if missing <= 0 or not dropped:
        return
    scores = score_passages(query, [passages[n] for n in dropped], options)
    order = (
        range(len(dropped)) if scores is None else np.argsort(-scores, kind="stable")
    )
    for place in order[:missing]:
        n = dropped[place]
        notes = (
            *assembled[n].report.notes,
            f"kept whole: min_passages={options.min_passages} passages stay",
        )
        assembled[n] = Assembled(
            passages[n], (), replace(assembled[n].report, notes=notes)
        )
