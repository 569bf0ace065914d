"""Step 1 of S2A: ask a model, read its selection, assemble kept and dropped text.

Section 2.2 of the paper (arXiv 2311.11829).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import numpy as np

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM, expect_llm
from denoise_core.result import DenoiseResult
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a.alignment import WrittenSentence, align_outcome
from denoise_core.s2a.options import (
    OnError,
    OnIrrelevant,
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
from denoise_core.s2a.prompts import CONTEXT_FORM, REPLY_FORMS
from denoise_core.s2a.question import NeutralQuestion, neutralize_question
from denoise_core.s2a.replies import (
    ALONE_NOTE,
    HALVED_NOTE,
    Answered,
    LLMCaller,
    ReplyReader,
    ReplyRecord,
    SliceOutcome,
    SliceRequest,
    read_rewriting,
    read_selection,
)
from denoise_core.spans import Range, Ranges, clip_spans, merge_spans
from denoise_core.text.chunk import extract_spans
from denoise_core.text.documents import DocumentReader
from denoise_core.types import Drop, Passage, Span, check_passages

NOT_NEEDED = "not needed for the question"
NOT_IN_PASSAGES = "not in these passages: the model needs nothing of any of them"
NO_ANSWER = "the model finds no answer in these passages; the nearest pieces are kept"
NOT_JUDGED = "the pieces that several calls kept could not be judged in one"
PART_OF_ANSWER = "the model finds a part of the answer in these passages"


@dataclass(frozen=True, slots=True)
class PassageReport:
    """What happened to one passage.

    Attributes:
        passage_id: The passage's id.
        call_count: Calls that it took part in: 0 if it was skipped or known, more than
            1 if it was too long for one, or asked about again.
        notes: Everything unusual that did not lose the reply.
        problem: Why the passage fell back to the policy; None if it did not.
        written_text: What the model wrote.
        sentences: The same, sentence by sentence.
        context_spans: What was kept only because another piece cannot be read without
            it: a table's header, a list's lead, the sentence before a pronoun.
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
        return tuple(item for item in self.sentences if not item.spans)


@dataclass(frozen=True, slots=True)
class S2AResult(DenoiseResult):
    """A `DenoiseResult` with a report for each input passage, in the input's order.

    ``answered`` is what the model says of the pieces that it selected: whether they answer
    the question. ``relevant`` is False for ``"no"``, True for the others, and None if the
    model did not say.
    """

    reports: tuple[PassageReport, ...] = ()
    answered: Answered | None = None


class S2ADenoiser:
    """Has a model leave out the irrelevant and the opinionated.

    System 2 Attention, arXiv 2311.11829, section 2.2, step 1; variants, section 2.3.

    The question is cleared of opinion first, in a separate call that sees no passage
    and is made only if the question has more than one clause. ``result.query`` is the
    person's own words.

    ``select`` has the model name numbered pieces, by a JSON schema with each piece's
    first words if the model can be held to one. What is kept is the source's own characters, at exact spans. Short
    passages share a call. A reply that cannot be read is asked for once more in the
    same call, then passage by passage; a joint call that is refused (400, 413, 422) is
    halved until the passage is found.

    The rewriting variants have the model write the text again. What is shown is the
    source sentences that cover what it wrote (`Options.shown_text`).

    ``select`` also says whether the pieces answer the question (``result.answered``); if not,
    the nearest ones are kept, and ``result.relevant`` is False.

    A passage of which nothing helps is dropped. User errors, such as a wrong key, raise
    under every policy. A model of which nothing could be read in its first replies is
    asked only once a minute by this denoiser (`ReplyRecord`).

    Args:
        llm: The model.
        variant: See `options.Variant`; ``keep_original`` and ``not_instructed`` differ
            from ``default`` only in how `S2A` answers.
        keep: A rule that chooses among what ``select`` named, by the model's order of
            importance, such as ``TokenLimit(2000)``.
        on_error: What an unreadable reply or a failed call gives for the passages it
            was about: ``"keep"`` leaves them as they were, ``"drop"`` drops them,
            ``"raise"`` raises. ``result.failures`` names each.
        on_irrelevant: ``"drop"`` keeps nothing if the model finds no answer.
        max_concurrency: Calls at a time.
        budget: Limits all calls together.
        options: Everything else.

    Raises:
        InputError: For an unknown setting, for what is no `LLM`, and for ``keep`` with
            another variant than ``select``.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        variant: Variant = "select",
        keep: PieceRule | None = None,
        on_error: OnError = "keep",
        on_irrelevant: OnIrrelevant = "keep",
        max_concurrency: int = 10,
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        check_choice("variant", variant, get_args(Variant))
        check_choice("on_error", on_error, get_args(OnError))
        check_choice("on_irrelevant", on_irrelevant, get_args(OnIrrelevant))
        if max_concurrency < 1:
            raise InputError(f"max_concurrency={max_concurrency}: expected 1 or more")
        is_rule = callable(getattr(keep, "choose", None))
        is_ranked = is_rule and variant == "select"
        if keep is not None and not is_ranked:
            raise InputError(
                f"keep={keep!r} with variant={variant!r}: expected a rule such as "
                "TokenLimit(2000), and variant='select'"
            )
        if on_irrelevant == "drop" and variant != "select":
            raise InputError(
                f"on_irrelevant='drop' with variant={variant!r}: only 'select' says "
                "whether there is an answer"
            )
        self.llm = expect_llm(llm)
        self.variant: Variant = variant
        self.keep = keep
        self.on_error: OnError = on_error
        self.on_irrelevant: OnIrrelevant = on_irrelevant
        self.max_concurrency = max_concurrency
        self.budget = budget
        self.options = options or Options()
        self.record = ReplyRecord()

    def denoise(self, query: str, passages: Sequence[Passage]) -> S2AResult:
        """Return what the model needs of the passages to answer the query.

        Raises:
            InputError: For two passages with one id.
        """
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
        """The logic, for `run`, `arun` or another flow with ``yield from``."""
        passages = check_passages(passages)
        question = NeutralQuestion(query)
        outcomes: list[SliceOutcome] = []
        is_one_call = True
        if _have_text(passages):
            question = yield from neutralize_question(
                self.llm,
                query,
                self.options,
                on_error=self.on_error,
                record=self.record,
            )
            outcomes, is_one_call = yield from self._ask_model(
                question.text,
                passages,
            )
        if self.keep is not None:
            # One token budget is for the whole context, so the rule sees all passages.
            outcomes = apply_rule(self.keep, passages, outcomes, self.options)
        answered = combine_answers(outcomes)
        selecting_slices = [outcome for outcome in outcomes if outcome.kept_places]
        if answered == "no" and not is_one_call and len(selecting_slices) > 1:
            # No call saw all that is kept; together it may answer.
            result = self._assemble_result(question, passages, outcomes, answered)
            answered = yield from self._judge_together(
                question.text,
                result.passages,
            )
        if answered == "no" and self.on_irrelevant == "drop":
            log_fallback("S2ADenoiser", NOT_IN_PASSAGES, "no passage was kept")
            outcomes = [replace(outcome, kept_places={}) for outcome in outcomes]
        return self._assemble_result(question, passages, outcomes, answered)

    def _ask_model(
        self, query: str, passages: Sequence[Passage]
    ) -> Flow[tuple[list[SliceOutcome], bool]]:
        """Return the outcomes of all slices, and whether one call saw them all."""
        requests = self._plan_requests(query, passages)
        if not requests:
            return [], True
        outcomes = yield from self._caller(self.variant).outcomes(requests)
        is_one_call = len(requests) == 1 and not any(map(_was_divided, outcomes))
        return outcomes, is_one_call

    def _judge_together(
        self, query: str, kept_passages: Sequence[Passage]
    ) -> Flow[Answered | None]:
        """Return whether what several calls kept answers the question.

        None, which is logged, if it does not fit into one call, or the call fails.
        """
        answered = None
        if len(self._plan_requests(query, kept_passages)) <= 1:
            outcomes, is_one_call = yield from self._ask_model(query, kept_passages)
            if is_one_call:
                answered = combine_answers(outcomes)
        if answered is None:
            log_fallback("S2ADenoiser", NOT_JUDGED, "absence is not reported")
        return answered

    def _caller(self, variant: str) -> LLMCaller:
        """Return the caller that reads replies to a variant."""
        label_name = "message" if variant == "single" else "context"
        read_reply: ReplyReader = partial(read_rewriting, label_names=(label_name,))
        if variant == "select":
            read_reply = read_selection
        return LLMCaller(
            llm=self.llm,
            options=self.options,
            tag=f"s2a.{variant}",
            read_reply=read_reply,
            record=self.record,
        )

    def _plan_requests(
        self, query: str, passages: Sequence[Passage]
    ) -> list[SliceRequest]:
        """Return one request for each group of slices."""
        options = self.options
        is_numbered = self.variant == "select"
        prompt = options.prompts.step_1(self.variant, is_ranked=self.keep is not None)
        slices: list[PassageSlice] = []
        for passage in passages:
            slices += slice_passage(passage, options)
        longest_shared = 0
        if is_numbered and options.join_passages is None:
            longest_shared = options.max_joint_characters
        elif is_numbered and options.join_passages:
            longest_shared = options.max_characters
        reply_form = REPLY_FORMS.get(self.variant, CONTEXT_FORM)
        requests = []
        for group in group_slices(slices, longest_shared, options):
            request = SliceRequest(
                parts=tuple(group),
                prompt=prompt,
                form=reply_form,
                is_numbered=is_numbered,
                question=query,
            )
            requests.append(request)
        return requests

    def _assemble_result(
        self,
        question: NeutralQuestion,
        passages: Sequence[Passage],
        outcomes: list[SliceOutcome],
        answered: Answered | None,
    ) -> S2AResult:
        by_passage: dict[str, list[SliceOutcome]] = {}
        sentences: dict[str, list[WrittenSentence]] = {}
        for passage_id, passage_outcomes in _outcomes_by_passage(outcomes).items():
            by_passage[passage_id], sentences[passage_id] = resolve_outcomes(
                passage_outcomes, self.on_error, self.options, question.text
            )
        identity_ranges: dict[str, Ranges] = {}
        if self.options.keep_context:
            resolved_outcomes = itertools.chain.from_iterable(by_passage.values())
            identity_ranges = find_identity_ranges(passages, resolved_outcomes)
        kept_passages: list[Passage] = []
        drops: list[Drop] = []
        reports: list[PassageReport] = []
        failures: dict[str, str] = {}
        for passage in passages:
            passage_outcomes = by_passage.get(passage.id, [])
            kept_passage, passage_drops, report = assemble_passage(
                passage,
                passage_outcomes,
                sentences.get(passage.id, ()),
                self.options,
                identity_ranges=identity_ranges.get(passage.id, ()),
            )
            if kept_passage is not None:
                kept_passages.append(kept_passage)
            drops += passage_drops
            reports.append(report)
            if report.problem is not None:
                failures[passage.id] = report.problem
                self._handle_failure(report, passage_outcomes)
        note = {"no": NO_ANSWER, "partly": PART_OF_ANSWER}.get(answered or "")
        if _have_text(passages) and not kept_passages and not failures:
            note = NOT_IN_PASSAGES
        return S2AResult(
            question.text,
            tuple(kept_passages),
            tuple(drops),
            fallback=_describe_fallbacks(failures, self.on_error),
            failures=failures,
            relevant=None if answered is None else answered != "no",
            reports=tuple(reports),
            answered=answered,
            note=note,
            question_note=question.note,
        )

    def _handle_failure(
        self, report: PassageReport, outcomes: Iterable[SliceOutcome]
    ) -> None:
        """Raise what failed, or log it."""
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        message = f"passage {report.passage_id!r}: {report.problem}"
        errors.append(UnparsableReply(message))
        if self.on_error == "raise":
            raise errors[0]
        effect = "the passage was dropped"
        if self.on_error == "keep":
            effect = "the passage was kept as it was"
        log_fallback("S2ADenoiser", errors[0], effect)


def _have_text(passages: Iterable[Passage]) -> bool:
    return any(passage.text.strip() for passage in passages)


def _was_divided(outcome: SliceOutcome) -> bool:
    """Whether a joint call about the slice failed, so that others saw the rest of it."""
    return ALONE_NOTE in outcome.notes or HALVED_NOTE in outcome.notes


def combine_answers(outcomes: Iterable[SliceOutcome]) -> Answered | None:
    """Return whether all pieces together answer the question; None if that is unknown.

    What one call says of its pieces is no answer for all unless every call says "no".
    """
    words = {outcome.answered for outcome in outcomes}
    if "yes" in words:
        return "yes"
    if "partly" in words:
        return "partly"
    return "no" if words == {"no"} else None


def _outcomes_by_passage(
    outcomes: Iterable[SliceOutcome],
) -> dict[str, list[SliceOutcome]]:
    """Return the outcomes of each passage in the order of its text."""
    by_passage: dict[str, list[SliceOutcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.part.pieces[0].start):
        passage_id = outcome.part.passage.id
        by_passage.setdefault(passage_id, []).append(outcome)
    return by_passage


def _describe_fallbacks(failures: Mapping[str, str], policy: OnError) -> str | None:
    """Return one line that names every passage that fell back, grouped by reason."""
    ids_by_problem: dict[str, list[str]] = {}
    for passage_id, problem in failures.items():
        ids_by_problem.setdefault(problem, []).append(repr(passage_id))
    effect = "kept as they were" if policy == "keep" else "dropped"
    parts = []
    for problem, ids in ids_by_problem.items():
        id_list = ", ".join(ids)
        parts.append(f"{id_list} {effect}: {problem}")
    return "; ".join(parts) or None


def assemble_passage(
    passage: Passage,
    outcomes: Sequence[SliceOutcome],
    sentences: Sequence[WrittenSentence],
    options: Options,
    *,
    identity_ranges: Sequence[Range] = (),
) -> tuple[Passage | None, list[Drop], PassageReport]:
    """Return what the outcomes leave of a passage, what they drop, and a report.

    Kept are pieces of the source, at exact spans, and what they need. Of a written text
    they are the source sentences that cover it; with ``shown_text="written"`` it is the
    text itself. The passage is None if all of it is dropped.

    Args:
        passage: The passage.
        outcomes: Those of its slices, in order, from `resolve_outcomes`; none for a
            blank passage.
        sentences: What a model wrote of it.
        options: Settings.
        identity_ranges: Merged ranges that say what kept pieces, also of other
            passages, are about. They are kept in any case.
    """
    if not outcomes:
        whole_span = Span(passage.id, 0, len(passage.text))
        blank_drop = Drop(whole_span, "blank")
        blank_report = PassageReport(passage.id, call_count=0)
        return None, [blank_drop], blank_report
    pieces: list[Span] = []
    piece_texts: list[str] = []
    drop_reasons: list[str] = []
    kept: set[int] = set()
    for outcome in outcomes:
        piece_texts += outcome.part.piece_texts
        for index, piece in enumerate(outcome.part.pieces):
            if index in (outcome.kept_places or ()):
                kept.add(len(pieces))
            pieces.append(piece)
            reason = outcome.drop_reasons.get(index, NOT_NEEDED)
            drop_reasons.append(outcome.problem or reason)
    context = _overlapping_pieces(pieces, identity_ranges)
    if options.keep_context and 0 < len(kept) < len(pieces):
        context |= find_context_pieces(piece_texts, kept)
    context -= kept
    kept_spans: list[Span] = []
    drops: list[Drop] = []
    for index, piece in enumerate(pieces):
        if index in kept or index in context:
            kept_spans.append(piece)
        else:
            reason = drop_reasons[index]
            drops.append(Drop(piece, reason))
    context_spans = tuple(pieces[index] for index in sorted(context))
    report = _report_outcomes(passage, outcomes, sentences, context_spans)
    if report.written_text and options.shown_text == "written" and not report.problem:
        # The model's own text; if nothing aligns, its source is the whole passage.
        source = extract_spans(passage, kept_spans) or passage
        rewritten_passage = replace(
            passage,
            text=report.written_text.strip(),
            spans=source.source_spans,
            is_rewritten=True,
        )
        return rewritten_passage, drops if kept_spans else [], report
    if drops and kept_spans and not report.written_text and not options.keep_context:
        drops += _trim_end(passage.text, kept_spans)
    return extract_spans(passage, kept_spans), drops, report


def _overlapping_pieces(pieces: Sequence[Span], ranges: Sequence[Range]) -> set[int]:
    """Return the indices of the pieces that share a character with merged ranges."""
    indices = set()
    for index, piece in enumerate(pieces):
        if clip_spans(ranges, piece.start, piece.end):
            indices.add(index)
    return indices


def _report_outcomes(
    passage: Passage,
    outcomes: Sequence[SliceOutcome],
    sentences: Sequence[WrittenSentence],
    context_spans: tuple[Span, ...],
) -> PassageReport:
    notes: list[str] = []
    call_count = 0
    for outcome in outcomes:
        notes += outcome.notes
        call_count += outcome.calls
    if len(outcomes) > 1:
        notes.append(
            f"split over {len(outcomes)} calls, because it is longer than one may be"
        )
    problems = [outcome.problem for outcome in outcomes]
    different_problems = dict.fromkeys(filter(None, problems))
    written_texts = [outcome.written_text for outcome in outcomes]
    return PassageReport(
        passage_id=passage.id,
        call_count=call_count,
        notes=tuple(dict.fromkeys(notes)),
        problem="; ".join(different_problems) or None,
        written_text="\n".join(filter(None, written_texts)) or None,
        sentences=tuple(sentences),
        context_spans=context_spans,
    )


def find_identity_ranges(
    passages: Sequence[Passage], outcomes: Iterable[SliceOutcome]
) -> dict[str, Ranges]:
    """Return by passage id what says whose the named pieces are, as merged ranges.

    Titles, headings, a mail's head and header rows. Pieces of one document share theirs
    (`DocumentReader`).
    """
    reader = DocumentReader(passages)
    ranges: dict[str, Ranges] = {}
    for outcome in outcomes:
        if outcome.problem is not None:
            continue
        for piece_index in outcome.kept_places or ():
            piece = outcome.part.pieces[piece_index]
            for span in reader.context_of(piece):
                passage_ranges = ranges.setdefault(span.passage_id, [])
                passage_ranges.append((span.start, span.end))
    return {passage_id: merge_spans(ranges[passage_id]) for passage_id in ranges}


def resolve_outcomes(
    outcomes: Iterable[SliceOutcome],
    policy: OnError,
    options: Options,
    question: str,
) -> tuple[list[SliceOutcome], list[WrittenSentence]]:
    """Return the outcomes with kept pieces for written and failed ones, and sentences."""
    resolved_outcomes = []
    sentences: list[WrittenSentence] = []
    for outcome in outcomes:
        if outcome.written_text is not None:
            outcome, new_sentences = align_outcome(outcome, options, question)
            sentences += new_sentences
        if outcome.problem is not None and policy == "keep":
            piece_count = len(outcome.part.pieces)
            all_pieces = dict.fromkeys(range(piece_count), 0)
            outcome = replace(outcome, kept_places=all_pieces)
        resolved_outcomes.append(outcome)
    return resolved_outcomes, sentences


def _trim_end(text: str, kept_spans: list[Span]) -> list[Drop]:
    """Take the white space that the model did not name off the last kept span."""
    last_span = kept_spans[-1]
    last_text = text[last_span.start : last_span.end]
    end = last_span.start + len(last_text.rstrip())
    if end == last_span.end:
        return []
    kept_spans[-1] = replace(last_span, end=end)
    return [Drop(replace(last_span, start=end), NOT_NEEDED)]


def apply_rule(
    rule: PieceRule,
    passages: Sequence[Passage],
    outcomes: Sequence[SliceOutcome],
    options: Options,
) -> list[SliceOutcome]:
    """Return the outcomes with only the kept pieces that the rule chooses.

    A piece's score is its place in the reply that named it: the first pieces of all
    replies come before the second ones. It is measured with the context that no better
    piece has brought. Outcomes with a problem stay as they are.
    """
    reply_places: dict[Span, int] = {}
    for outcome in outcomes:
        for piece_index, reply_place in (outcome.kept_places or {}).items():
            reply_places[outcome.part.pieces[piece_index]] = reply_place
    if not reply_places:
        return list(outcomes)
    candidates = sorted(reply_places, key=reply_places.__getitem__)
    candidate_texts = _measured_texts(candidates, passages, outcomes, options)
    scores = -np.array([reply_places[piece] for piece in candidates], dtype=np.float32)
    rule_mask = rule.choose(scores, candidate_texts)
    chosen_pieces = set(itertools.compress(candidates, rule_mask))
    narrowed_outcomes = []
    for outcome in outcomes:
        kept: dict[int, int] = {}
        reasons: dict[int, str] = {}
        for piece_index, reply_place in (outcome.kept_places or {}).items():
            if outcome.part.pieces[piece_index] in chosen_pieces:
                kept[piece_index] = reply_place
            else:
                reasons[piece_index] = rule.reason()
        if outcome.kept_places:
            outcome = replace(outcome, kept_places=kept, drop_reasons=reasons)
        narrowed_outcomes.append(outcome)
    return narrowed_outcomes


def _measured_texts(
    candidates: Sequence[Span],
    passages: Sequence[Passage],
    outcomes: Iterable[SliceOutcome],
    options: Options,
) -> list[str]:
    """Return each piece's text, with the context that none before it has brought."""
    context_spans: dict[Span, list[Span]] = {piece: [piece] for piece in candidates}
    if options.keep_context:
        reader = DocumentReader(passages)
        for outcome in outcomes:
            pieces = outcome.part.pieces
            piece_texts = outcome.part.piece_texts
            for index in outcome.kept_places or ():
                spans = context_spans[pieces[index]]
                needed_indices = find_context_pieces(piece_texts, {index})
                spans += [pieces[n] for n in needed_indices]
                spans += reader.context_of(pieces[index])
    passage_texts = {passage.id: passage.text for passage in passages}
    measured_spans: set[Span] = set()
    candidate_texts: list[str] = []
    for piece in candidates:
        candidate_text = ""
        for span in context_spans[piece]:
            if span not in measured_spans:
                candidate_text += passage_texts[span.passage_id][span.start : span.end]
        measured_spans.update(context_spans[piece])
        candidate_texts.append(candidate_text)
    return candidate_texts
