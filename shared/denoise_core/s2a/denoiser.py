"""The S2A denoiser: asks a model, reads its selection and assembles kept and dropped text (paper, section 2.2)."""

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
    ReplyRecord,
    SliceOutcome,
    SliceRequest,
    look_up_selection,
    read_rewriting,
    read_selection,
    selection_key,
    store_selections,
)
from denoise_core.spans import Ranges, clip_spans, merge_spans
from denoise_core.text.chunk import extract_spans
from denoise_core.text.documents import DocumentReader
from denoise_core.types import Drop, Passage, Span, check_passages

NOT_NEEDED = "not needed for the question"
# halfway from the floor of the default's scale (1.5: nothing seems to fit) to its top (4.57)
RECHECK_THRESHOLD = 3.0
_MOST_RECHECKED = 3  # passages that are looked at again
NOT_IN_PASSAGES = "not in these passages: the model needs nothing of any of them"
_LOOKED_RELEVANT = (
    "nothing was kept of any passage, though this one looked relevant: asked once more"
)
_GET_TEXT = attrgetter("text")
_GET_WRITTEN_TEXT = attrgetter("written_text")


@dataclass(frozen=True, slots=True)
class PassageReport:
    """What happened to one passage.

    ``call_count`` is the number of calls it took part in: 0 when it was skipped or known, more than 1 when it
    was too
    long for one and was split, or asked about again. ``call_notes`` name everything unusual that did not lose the
    reply; ``failure_reason`` is why the passage fell back to the policy, None when it did not.
    ``written_text`` is what the
    model wrote, ``sentences`` the same sentence by sentence. ``context_spans`` are spans that were kept only
    because
    another piece cannot be read without them: a table's header, a list's stem, the sentence before a pronoun.
    """

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
        uncovered_sentences = []
        for sentence in self.sentences:
            if not sentence.spans:
                uncovered_sentences.append(sentence)
        return tuple(uncovered_sentences)

    @property
    def unsupported_sentences(self) -> tuple[WrittenSentence, ...]:
        """The written sentences that the checker does not find in the source; empty where it was not asked."""
        unsupported_sentences = []
        for sentence in self.sentences:
            if sentence.supported is False:
                unsupported_sentences.append(sentence)
        return tuple(unsupported_sentences)


@dataclass(frozen=True, slots=True)
class S2AResult(DenoiseResult):
    """A `DenoiseResult` with a `Report` for each input passage, in the input's order."""

    reports: tuple[PassageReport, ...] = ()


class S2ADenoiser:
    """Has a model leave out what does not help to answer the query: the irrelevant and the opinionated
    (System 2 Attention, arXiv 2311.11829, section 2.2, step 1; variants, section 2.3).

    The question is cleared of opinion first, in a separate call that sees no passage and is made only where it
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
    ``result.failures`` names each. Mistakes, such as a wrong key, raise under every policy. A model of which
    nothing could be read in its first replies is not asked again by this denoiser (`ReplyRecord`).

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
        self.record = ReplyRecord()

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

    def flow(self, query: str, passages: Sequence[Passage]) -> Flow[S2AResult]:
        """The sans-IO flow, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        passages = check_passages(passages)
        question = NeutralQuestion(query)
        slice_outcomes: list[SliceOutcome] = []
        if any(map(str.strip, map(_GET_TEXT, passages))):
            question = yield from neutralize_question(
                self.llm,
                query,
                self.options,
                on_error=self.on_error,
                record=self.record,
            )
            slice_outcomes = yield from self._ask_model(question.text, passages)
        if self.keep is not None:
            # The rule runs over all passages at once: a token budget is one for the whole context.
            slice_outcomes = apply_rule(self.keep, slice_outcomes)
        return self._assemble_result(question, passages, slice_outcomes)

    def _ask_model(
        self, query: str, passages: Sequence[Passage]
    ) -> Flow[list[SliceOutcome]]:
        """Outcomes of all slices: from the cache, then from the model's replies."""
        cache = self.options.cache
        known_outcomes, requests = self._plan_requests(query, passages)
        slice_outcomes: list[SliceOutcome] = []
        if requests:
            read_reply = partial(
                read_rewriting,
                label_names=("message" if self.variant == "single" else "context",),
            )
            if self.variant in EXTRACTIVE:
                read_reply = partial(read_selection, variant=self.variant)
            llm_caller = LLMCaller(
                self.llm, self.options, f"s2a.{self.variant}", read_reply, self.record
            )
            slice_outcomes = yield from llm_caller.outcomes(requests)
            if cache is not None and self.variant in EXTRACTIVE:
                store_selections(cache, slice_outcomes)
        for slice_outcome in slice_outcomes:
            if slice_outcome.kept_places is None or slice_outcome.kept_places:
                return known_outcomes + slice_outcomes
        if not slice_outcomes or any(
            slice_outcome.kept_places for slice_outcome in known_outcomes
        ):
            return known_outcomes + slice_outcomes
        return (
            yield from self._recheck_relevant(
                query, passages, known_outcomes + slice_outcomes
            )
        )

    def _plan_requests(
        self, query: str, passages: Sequence[Passage]
    ) -> tuple[list[SliceOutcome], list[SliceRequest]]:
        """Returns the cached outcomes and one request for each group of other slices."""
        options = self.options
        is_numbered = self.variant in EXTRACTIVE
        prompt = options.prompts.step_1(self.variant, is_ranked=self.keep is not None)
        known_outcomes: list[SliceOutcome] = []
        unknown_slices: list[PassageSlice] = []
        for passage in passages:
            for passage_slice in (
                slice_passage(passage, options) if passage.text.strip() else ()
            ):
                slice_outcome = None
                if options.cache is not None and is_numbered:
                    passage_slice = replace(
                        passage_slice,
                        cache_key=selection_key(
                            options.cache, query, passage_slice, prompt
                        ),
                    )
                    slice_outcome = look_up_selection(options.cache, passage_slice)
                if slice_outcome is None:
                    unknown_slices.append(passage_slice)
                else:
                    known_outcomes.append(slice_outcome)
        longest_shared = 0
        if is_numbered and options.join_passages is not False:
            longest_shared = (
                options.max_characters
                if options.join_passages
                else min(options.max_joint_characters, options.max_characters)
            )
        reply_form = REPLY_FORMS.get(self.variant, CONTEXT_FORM)
        requests: list[SliceRequest] = []
        for slice_group in group_slices(unknown_slices, longest_shared, options):
            requests.append(
                SliceRequest(tuple(slice_group), prompt, reply_form, is_numbered, query)
            )
        return known_outcomes, requests

    def _recheck_relevant(
        self,
        query: str,
        passages: Sequence[Passage],
        slice_outcomes: list[SliceOutcome],
    ) -> Flow[list[SliceOutcome]]:
        """One more call about the passages that a scorer finds clearly relevant, if any."""
        options = self.options
        passages = [passage for passage in passages if passage.text.strip()]
        scores = score_passages(query, passages, options)
        if scores is None:
            return slice_outcomes
        min_score = (
            RECHECK_THRESHOLD
            if options.recheck_threshold is None
            else options.recheck_threshold
        )
        parts: list[PassageSlice] = []
        for n in np.argsort(-scores, kind="stable")[:_MOST_RECHECKED]:
            if scores[n] >= min_score:
                parts += [
                    slice_outcome.part
                    for slice_outcome in slice_outcomes
                    if slice_outcome.part.passage.id == passages[n].id
                ]
        if not parts:
            return slice_outcomes
        slice_group = group_slices(parts, options.max_characters, options)[0]
        request = SliceRequest(
            tuple(slice_group),
            options.prompts.confirm,
            KEEP_FORM,
            is_numbered=True,
            question=query,
        )
        llm_caller = LLMCaller(
            self.llm,
            options,
            "s2a.confirm",
            partial(read_selection, variant="select"),
            self.record,
        )
        new_outcomes = {
            id(slice_outcome.part): slice_outcome
            for slice_outcome in (yield from llm_caller.outcomes([request]))
        }
        return [
            _merge_recheck(first, new_outcomes.get(id(first.part)))
            for first in slice_outcomes
        ]

    def _assemble_result(
        self,
        question: NeutralQuestion,
        passages: Sequence[Passage],
        slice_outcomes: list[SliceOutcome],
    ) -> S2AResult:
        by_passage = _outcomes_by_passage(slice_outcomes)
        identity_ranges: dict[str, Ranges] = {}
        # A budget counts what it keeps; titles and dates on top would exceed it.
        if self.options.keep_context and self.keep is None:
            identity_ranges = find_identity_ranges(passages, slice_outcomes)
        passage_results: list[AssembledPassage] = []
        passage_failures: dict[str, str] = {}
        for passage in passages:
            passage_outcomes = by_passage.get(passage.id, [])
            passage_results.append(
                assemble_passage(
                    passage,
                    passage_outcomes,
                    self.on_error,
                    self.options,
                    question=question.text,
                    identity_ranges=identity_ranges.get(passage.id),
                )
            )
            failure_reason = passage_results[-1].report.problem
            if failure_reason is not None:
                passage_failures[passage.id] = failure_reason
                self._handle_failure(passage, failure_reason, passage_outcomes)
        has_text = any(passage.text.strip() for passage in passages)
        is_answer_absent = has_text and not passage_failures
        for passage_result in passage_results:
            if passage_result.passage is not None:
                is_answer_absent = False
        kept: list[Passage] = []
        dropped_spans: list[Drop] = []
        passage_reports: list[PassageReport] = []
        for passage_result in passage_results:
            if passage_result.passage is not None:
                kept.append(passage_result.passage)
            dropped_spans += passage_result.drops
            passage_reports.append(passage_result.report)
        return S2AResult(
            question.text,
            tuple(kept),
            tuple(dropped_spans),
            fallback=_describe_fallbacks(passage_failures, self.on_error)
            if passage_failures
            else None,
            failures=passage_failures,
            reports=tuple(passage_reports),
            note=NOT_IN_PASSAGES if is_answer_absent else None,
            question_note=question.note,
        )

    def _handle_failure(
        self, passage: Passage, failure_reason: str, slice_outcomes: list[SliceOutcome]
    ) -> None:
        call_errors = [
            slice_outcome.error
            for slice_outcome in slice_outcomes
            if slice_outcome.error is not None
        ]
        first_error = (
            call_errors[0]
            if call_errors
            else UnparsableReply(f"passage {passage.id!r}: {failure_reason}")
        )
        if self.on_error == "raise":
            raise first_error
        policy_effect = (
            "the passage was kept as it was"
            if self.on_error == "keep"
            else "the passage was dropped"
        )
        log_fallback("S2ADenoiser", first_error, policy_effect)


def _outcomes_by_passage(
    slice_outcomes: Sequence[SliceOutcome],
) -> dict[str, list[SliceOutcome]]:
    """The outcomes of each passage in the order of its text.

    They arrive in another order: what was cached comes before what was asked.
    """
    by_passage: dict[str, list[SliceOutcome]] = {}
    for outcome in sorted(slice_outcomes, key=lambda o: o.part.pieces[0].start):
        by_passage.setdefault(outcome.part.passage.id, []).append(outcome)
    return by_passage


def _describe_fallbacks(passage_failures: Mapping[str, str], policy: OnError) -> str:
    """One line that names every passage that fell back, grouped by reason."""
    by_problem: dict[str, list[str]] = {}
    for passage_id, failure_reason in passage_failures.items():
        by_problem.setdefault(failure_reason, []).append(repr(passage_id))
    policy_effect = "dropped"
    if policy == "keep":
        policy_effect = "kept as they were"
    return "; ".join(
        f"{', '.join(ids)} {policy_effect}: {failure_reason}"
        for failure_reason, ids in by_problem.items()
    )


@dataclass(frozen=True, slots=True)
class AssembledPassage:
    """One passage after step 1; ``passage`` is None if all of it was dropped."""

    passage: Passage | None
    drops: Sequence[Drop]
    report: PassageReport


def assemble_passage(
    passage: Passage,
    slice_outcomes: Sequence[SliceOutcome],
    policy: OnError,
    options: Options,
    *,
    question: str = "",
    identity_ranges: Ranges | None = None,
) -> AssembledPassage:
    """What the outcomes leave of a passage: kept pieces of the source, at exact spans, and what they need.

    Of a written text they are the source sentences that cover it; with ``shown_text="written"`` it is the text
    itself.
    ``question`` is what a written sentence may repeat without saying anything. ``identity_ranges``, merged, say
    what kept pieces, also of other passages, are about; they are kept in any case.
    """
    if not slice_outcomes:
        whole_span = Span(passage.id, 0, len(passage.text))
        blank_drop = Drop(whole_span, "blank")
        blank_report = PassageReport(passage.id, 0)
        return AssembledPassage(None, [blank_drop], blank_report)
    slice_outcomes, sentences = _resolve_outcomes(
        slice_outcomes, policy, options, question
    )
    piece_spans: list[Span] = []
    piece_texts: list[str] = []
    kept: set[int] = set()
    reasons: list[str] = []
    failure_reasons: list[str] = []
    call_notes: list[str] = []
    written_texts = map(_GET_WRITTEN_TEXT, slice_outcomes)
    text = "\n".join(filter(None, written_texts))
    call_count = 0
    for slice_outcome in slice_outcomes:
        for piece_index, piece in enumerate(slice_outcome.part.pieces):
            if piece_index in (slice_outcome.kept_places or ()):
                kept.add(len(piece_spans))
            piece_spans.append(piece)
            reasons.append(
                slice_outcome.problem
                or slice_outcome.drop_reasons.get(piece_index, NOT_NEEDED)
            )
        piece_texts += slice_outcome.part.piece_texts
        failure_reasons += filter(None, [slice_outcome.problem])
        call_notes += slice_outcome.notes
        call_count += slice_outcome.calls
    if len(slice_outcomes) > 1:
        call_notes.append(
            f"split over {len(slice_outcomes)} calls, because it is longer than one may be"
        )
    context_indices: set[int] = set()
    if options.keep_context and 0 < len(kept) < len(piece_spans):
        context_indices = find_context_pieces(piece_texts, kept)
    context_indices |= _find_overlapping(piece_spans, identity_ranges) - kept
    kept_spans, dropped_spans = _split_kept(
        piece_spans, kept | context_indices, reasons
    )
    context = [piece_spans[index] for index in sorted(context_indices)]
    failure_reason = "; ".join(dict.fromkeys(failure_reasons)) or None
    report = PassageReport(
        passage.id,
        call_count,
        tuple(dict.fromkeys(call_notes)),
        failure_reason,
        text or None,
        tuple(sentences),
        tuple(context),
    )
    if text and options.shown_text == "written" and failure_reason is None:
        # The model's own text; if nothing aligns, its source is the whole passage.
        source = extract_spans(passage, kept_spans) or passage
        rewritten_passage = replace(
            passage, text=text.strip(), spans=source.source_spans, is_rewritten=True
        )
        return AssembledPassage(
            rewritten_passage, dropped_spans if kept_spans else [], report
        )
    if dropped_spans and kept_spans and not text and not options.keep_context:
        dropped_spans += _trim_end(passage.text, kept_spans)
    return AssembledPassage(extract_spans(passage, kept_spans), dropped_spans, report)


def find_identity_ranges(
    passages: Sequence[Passage], slice_outcomes: Sequence[SliceOutcome]
) -> dict[str, Ranges]:
    """By passage id, what says whose the named pieces are: titles, headings, a mail's head, header rows.

    Pieces of one document share theirs (`DocumentReader`). Ranges are merged.
    """
    reader = DocumentReader(passages)
    ranges: dict[str, Ranges] = {}
    for slice_outcome in slice_outcomes:
        pieces = slice_outcome.part.pieces
        for piece_index in slice_outcome.kept_places or ():
            for span in reader.context_of(pieces[piece_index]):
                passage_ranges = ranges.setdefault(span.passage_id, [])
                passage_ranges.append((span.start, span.end))
    merged_ranges = {}
    for passage_id, passage_ranges in ranges.items():
        merged_ranges[passage_id] = merge_spans(passage_ranges)
    return merged_ranges


def _find_overlapping(piece_spans: Sequence[Span], ranges: Ranges | None) -> set[int]:
    """The indices of the pieces that share a character with merged ranges."""
    overlapping = set()
    if ranges:
        for index, piece in enumerate(piece_spans):
            if clip_spans(ranges, piece.start, piece.end):
                overlapping.add(index)
    return overlapping


def _split_kept(
    piece_spans: Sequence[Span], kept_indices: set[int], drop_reasons: Sequence[str]
) -> tuple[list[Span], list[Drop]]:
    """The kept pieces and the drops, both in the passage's order."""
    kept_spans: list[Span] = []
    dropped_spans: list[Drop] = []
    for index, piece_span in enumerate(piece_spans):
        if index in kept_indices:
            kept_spans.append(piece_span)
        else:
            dropped_spans.append(Drop(piece_span, drop_reasons[index]))
    return kept_spans, dropped_spans


def _resolve_outcomes(
    slice_outcomes: Sequence[SliceOutcome],
    policy: OnError,
    options: Options,
    question: str,
) -> tuple[list[SliceOutcome], list[WrittenSentence]]:
    """The outcomes with what is kept of the written ones and of those with a problem; and what was written."""
    resolved_outcomes: list[SliceOutcome] = []
    sentences: list[WrittenSentence] = []
    offset = 0
    for slice_outcome in slice_outcomes:
        if slice_outcome.written_text is not None:
            slice_outcome, aligned_sentences = align_outcome(
                slice_outcome, options, question, offset=offset
            )
            sentences += aligned_sentences
            offset += (
                len(slice_outcome.written_text or "") + 1
                if slice_outcome.written_text
                else 0
            )
        if slice_outcome.problem is not None and policy == "keep":
            slice_outcome = replace(
                slice_outcome,
                kept_places=dict.fromkeys(range(len(slice_outcome.part.pieces)), 0),
            )
        resolved_outcomes.append(slice_outcome)
    return resolved_outcomes, sentences


def _trim_end(text: str, kept_spans: list[Span]) -> list[Drop]:
    """The white space behind the last piece kept, which the model did not name; it is taken off ``kept_spans``."""
    last_span = kept_spans[-1]
    last_text = text[last_span.start : last_span.end]
    end = last_span.start + len(last_text.rstrip())
    if end == last_span.end:
        return []
    kept_spans[-1] = replace(last_span, end=end)
    return [Drop(replace(last_span, start=end), NOT_NEEDED)]


def apply_rule(
    rule: PieceRule, slice_outcomes: Sequence[SliceOutcome]
) -> list[SliceOutcome]:
    """The outcomes with only the kept pieces that ``rule`` chooses.

    A piece's score is its place in the reply that named it: the first pieces of all replies come before the second
    ones. It is measured with what it cannot be read without. Outcomes with a problem stay as they are.
    """
    candidate_texts: list[str] = []
    reply_places: list[int] = []
    for slice_outcome in slice_outcomes:
        piece_texts = slice_outcome.part.piece_texts
        for piece_index, reply_place in (slice_outcome.kept_places or {}).items():
            candidate_texts.append(
                "".join(
                    piece_texts[n]
                    for n in sorted(
                        find_context_pieces(piece_texts, {piece_index}) | {piece_index}
                    )
                )
            )
            reply_places.append(reply_place)
    if not candidate_texts:
        return list(slice_outcomes)
    rule_mask = iter(
        rule.choose(-np.array(reply_places, dtype=np.float32), candidate_texts)
    )
    narrowed_outcomes: list[SliceOutcome] = []
    for slice_outcome in slice_outcomes:
        kept: dict[int, int] = {}
        reasons: dict[int, str] = {}
        for piece_index, reply_place in (slice_outcome.kept_places or {}).items():
            if next(rule_mask):
                kept[piece_index] = reply_place
            else:
                reasons[piece_index] = rule.reason()
        narrowed_outcomes.append(
            replace(slice_outcome, kept_places=kept, drop_reasons=reasons)
            if slice_outcome.kept_places
            else slice_outcome
        )
    return narrowed_outcomes


def score_passages(
    query: str, passages: Sequence[Passage], options: Options
) -> NDArray[np.float32] | None:
    """Scores by the options' scorer, or the default that ships; None, which is logged, without its extra."""
    scorer: Scorer
    if options.scorer is not None:
        scorer = options.scorer
    else:
        # Imported here: the default scorer needs an extra that S2A itself does not.
        from denoise_core.embedded import DefaultScorer

        scorer = DefaultScorer()
    try:
        return np.asarray(
            scorer.score(query, [passage.text_with_header for passage in passages]),
            dtype=np.float32,
        )
    except MissingExtra as first_error:
        log_fallback(
            "S2ADenoiser", first_error, "a selection of nothing was not confirmed"
        )
        return None


def _merge_recheck(first: SliceOutcome, second: SliceOutcome | None) -> SliceOutcome:
    """The recheck's outcome plus the first one's calls; a failed recheck keeps the first outcome."""
    if second is None:
        return first
    if second.problem is not None:
        return first.with_note(
            f"{_LOOKED_RELEVANT} in vain: {second.problem}", second.calls
        )
    result_word = "confirmed"
    if second.kept_places:
        result_word = "kept"
    note = f"{_LOOKED_RELEVANT}, and {result_word}"
    recheck = replace(second, notes=first.notes)
    return recheck.with_note(note, first.calls)
