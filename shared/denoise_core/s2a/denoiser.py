"""Step 1 of S2A: ask a model, read its selection, assemble kept and dropped text.

Section 2.2 of the paper (arXiv 2311.11829).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import get_args

import numpy as np

from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM, expect_llm
from denoise_core.result import DenoiseResult
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a.alignment import WrittenSentence, align_text
from denoise_core.s2a.options import (
    OnError,
    OnIrrelevant,
    Options,
    PieceRule,
    Variant,
    check_choice,
)
from denoise_core.s2a.pieces import (
    find_context_spans,
    group_slices,
    slice_passage,
)
from denoise_core.s2a.prompts import CONTEXT_FORM, REPLY_FORMS
from denoise_core.s2a.question import NeutralQuestion, neutralize_question
from denoise_core.s2a.replies import (
    Answered,
    LLMCaller,
    ReplyReader,
    ReplyRecord,
    SliceOutcome,
    SliceRequest,
    read_rewriting,
    read_selection,
)
from denoise_core.spans import complement_spans, merge_spans
from denoise_core.text.chunk import extract_spans
from denoise_core.text.documents import DocumentReader
from denoise_core.types import Drop, Passage, Span, check_passages

NOT_NEEDED = "not needed for the question"
UNCOVERED = "no sentence of the text covers anything that was written"
NOT_COVERED = "no written sentence matches it"
NOT_IN_PASSAGES = "not in these passages: the model needs nothing of any of them"
NONE_FITS = "none is kept of the pieces that the model named: 'keep' leaves no room"
NO_ANSWER = "the model finds no answer in these passages; the nearest pieces are kept"
NO_ANSWER_FITS = f"the model finds no answer in these passages; {NONE_FITS}"
NOT_JUDGED = "the pieces that several calls kept could not be judged in one"
PART_OF_ANSWER = "the model finds a part of the answer in these passages"
_START = attrgetter("start")
_FALLBACKS = {
    "keep": "the passage was kept as it was",
    "drop": "the passage was dropped",
}


@dataclass(frozen=True, slots=True)
class PassageReport:
    """What happened to one passage.

    Attributes:
        passage_id: The passage's id.
        problem: Why the passage fell back to the policy; None if it did not.
        written_text: What the model wrote.
        sentences: The same, sentence by sentence.
        context_spans: What was kept only because another piece cannot be read without
            it: a table's header, a list's lead, the sentence before a pronoun.
    """

    passage_id: str
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
    same call; a joint call that is refused (400, 413, 422) is made for each passage
    alone.

    The rewriting variants have the model write the text again. What is shown is the
    source sentences that cover what it wrote (`Options.shown_text`).

    ``select`` also says whether the pieces answer the question (``result.answered``); if not,
    the nearest ones are kept, and ``result.relevant`` is False.

    A passage of which nothing helps is dropped. User errors, such as a wrong key, raise
    under every policy. A model of which nothing could be read in its first replies is
    not asked for a minute by this denoiser (`ReplyRecord`).

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
        choose_method = getattr(keep, "choose", None)
        is_rule = callable(choose_method)
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
        call_count = 0
        if have_text(passages):
            question = yield from neutralize_question(
                self.llm,
                query,
                self.options,
                on_error=self.on_error,
                record=self.record,
            )
            outcomes, call_count = yield from self._ask_model(question.text, passages)
        if self.keep is not None:
            # One token budget is for the whole context, so the rule sees all passages.
            outcomes = apply_rule(self.keep, passages, outcomes, self.options)
        answered = combine_answers(outcomes)
        selecting_slices = [outcome for outcome in outcomes if outcome.kept_places]
        has_several_slices = len(selecting_slices) > 1
        if answered == "no" and call_count > 1 and has_several_slices:
            # No call saw all that is kept; together it may answer.
            result = self._assemble_result(question, passages, outcomes, answered)
            answered = yield from self._judge_together(question.text, result.passages)
        if answered == "no" and self.on_irrelevant == "drop":
            log_fallback("S2ADenoiser", NOT_IN_PASSAGES, "no passage was kept")
            outcomes = [replace(outcome, kept_places={}) for outcome in outcomes]
        return self._assemble_result(question, passages, outcomes, answered)

    def _ask_model(
        self, query: str, passages: Sequence[Passage]
    ) -> Flow[tuple[list[SliceOutcome], int]]:
        """Return the outcomes of all slices, and how many calls they were read from."""
        label_name = "message" if self.variant == "single" else "context"
        read_reply: ReplyReader = partial(read_rewriting, label_names=(label_name,))
        if self.variant == "select":
            read_reply = read_selection
        caller = LLMCaller(
            llm=self.llm,
            options=self.options,
            tag=f"s2a.{self.variant}",
            read_reply=read_reply,
            record=self.record,
        )
        requests = self._plan_requests(query, passages)
        results = yield from caller.ask(requests)
        call_count = len(results)
        all_outcomes = itertools.chain.from_iterable(results)
        return list(all_outcomes), call_count

    def _judge_together(
        self, query: str, kept_passages: Sequence[Passage]
    ) -> Flow[Answered | None]:
        """Return whether what several calls kept answers the question.

        None, which is logged, if it does not fit into one call, or the call fails.
        """
        answered = None
        planned_requests = self._plan_requests(query, kept_passages)
        if len(planned_requests) <= 1:
            outcomes, call_count = yield from self._ask_model(query, kept_passages)
            if call_count == 1:
                answered = combine_answers(outcomes)
        if answered is None:
            log_fallback("S2ADenoiser", NOT_JUDGED, "absence is not reported")
        return answered

    def _plan_requests(
        self, query: str, passages: Sequence[Passage]
    ) -> list[SliceRequest]:
        """Return one request for each group of slices."""
        options = self.options
        is_numbered = self.variant == "select"
        is_ranked = self.keep is not None
        prompt = options.prompts.step_1(self.variant, is_ranked=is_ranked)
        slices = []
        for passage in passages:
            slices += slice_passage(passage, options)
        longest_shared = 0
        if is_numbered and options.join_passages is None:
            longest_shared = options.max_joint_characters
        elif is_numbered and options.join_passages:
            longest_shared = options.max_characters
        reply_form = REPLY_FORMS.get(self.variant, CONTEXT_FORM)
        requests = []
        slice_groups = group_slices(slices, longest_shared, options)
        for slice_group in slice_groups:
            request = SliceRequest(
                parts=tuple(slice_group),
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
        outcomes: Iterable[SliceOutcome],
        answered: Answered | None,
    ) -> S2AResult:
        options = self.options
        resolved_outcomes = []
        by_passage: dict[str, list[SliceOutcome]] = {}
        for outcome in outcomes:
            resolved = resolve_outcome(outcome, self.on_error, options, question.text)
            resolved_outcomes.append(resolved)
            passage_id = outcome.part.passage.id
            passage_outcomes = by_passage.setdefault(passage_id, [])
            passage_outcomes.append(resolved)
        identity_pieces: set[Span] = set()
        if options.keep_context:
            identity_pieces = find_identity_pieces(passages, resolved_outcomes)
        kept_passages = []
        drops = []
        reports = []
        failures = {}
        for passage in passages:
            passage_outcomes = by_passage.get(passage.id, [])
            kept_passage, passage_drops, report = assemble_passage(
                passage, passage_outcomes, options, identity_pieces=identity_pieces
            )
            if kept_passage is not None:
                kept_passages.append(kept_passage)
            drops += passage_drops
            reports.append(report)
            if report.problem is not None:
                failures[passage.id] = report.problem
        self._handle_failures(resolved_outcomes)
        answer_notes = {"no": NO_ANSWER, "partly": PART_OF_ANSWER}
        note = answer_notes.get(answered or "")
        is_all_dropped = have_text(passages) and not kept_passages
        if is_all_dropped and not failures:
            note = NOT_IN_PASSAGES
            is_narrowed = any(outcome.drop_reasons for outcome in resolved_outcomes)
            if is_narrowed and answered != "no":
                note = NONE_FITS
            elif is_narrowed and self.on_irrelevant == "keep":
                note = NO_ANSWER_FITS
        failure_line = _describe_failures(failures, self.on_error)
        is_relevant = None if answered is None else answered != "no"
        return S2AResult(
            question.text,
            tuple(kept_passages),
            tuple(drops),
            fallback=failure_line,
            failures=failures,
            relevant=is_relevant,
            reports=tuple(reports),
            answered=answered,
            note=note,
            question_note=question.note,
        )

    def _handle_failures(self, outcomes: Iterable[SliceOutcome]) -> None:
        """Raise the first error, or log each."""
        for outcome in outcomes:
            if outcome.error is None:
                continue
            if self.on_error == "raise":
                raise outcome.error
            fallback_effect = _FALLBACKS[self.on_error]
            log_fallback("S2ADenoiser", outcome.error, fallback_effect)


def have_text(passages: Iterable[Passage]) -> bool:
    """Whether a passage is not blank."""
    return any(passage.text.strip() for passage in passages)


def combine_answers(outcomes: Iterable[SliceOutcome]) -> Answered | None:
    """Return whether all pieces together answer the question; None if that is unknown.

    What one call says of its pieces is no answer for all unless every call says "no".
    """
    stated_words = {outcome.answered for outcome in outcomes}
    if "yes" in stated_words:
        return "yes"
    if "partly" in stated_words:
        return "partly"
    says_no = stated_words == {"no"}
    return "no" if says_no else None


def _describe_failures(failures: Mapping[str, str], policy: OnError) -> str | None:
    """Return one line that names every passage that fell back, grouped by reason."""
    ids_by_problem: dict[str, list[str]] = {}
    for passage_id, problem in failures.items():
        shown_id = repr(passage_id)
        problem_ids = ids_by_problem.setdefault(problem, [])
        problem_ids.append(shown_id)
    effect = "dropped" if policy == "drop" else "kept as they were"
    problem_lines = []
    for problem, problem_ids in ids_by_problem.items():
        id_list = ", ".join(problem_ids)
        problem_lines.append(f"{id_list} {effect}: {problem}")
    return "; ".join(problem_lines) or None


def resolve_outcome(
    outcome: SliceOutcome, policy: OnError, options: Options, question: str
) -> SliceOutcome:
    """Return the outcome with the pieces to keep also of written text and of a failure."""
    part = outcome.part
    if outcome.written_text is not None:
        sentences = align_text(outcome.written_text, part, question, options.language)
        covered_pieces: set[Span] = set()
        for sentence in sentences:
            covered_pieces.update(sentence.spans)
        kept_places = {}
        for index, piece in enumerate(part.pieces):
            if piece in covered_pieces:
                kept_places[index] = 0
        error = None
        shows_source = options.shown_text == "source"
        if sentences and not kept_places and shows_source:
            error = UnparsableReply(UNCOVERED)
        outcome = replace(
            outcome, sentences=sentences, kept_places=kept_places, error=error
        )
    if outcome.error is not None and policy == "keep":
        piece_count = len(part.pieces)
        all_places = dict.fromkeys(range(piece_count), 0)
        outcome = replace(outcome, kept_places=all_places)
    return outcome


def assemble_passage(
    passage: Passage,
    outcomes: Sequence[SliceOutcome],
    options: Options,
    *,
    identity_pieces: AbstractSet[Span] = frozenset(),
) -> tuple[Passage | None, list[Drop], PassageReport]:
    """Return what the outcomes leave of a passage, what they drop, and a report.

    Kept are pieces of the source, at exact spans, and what they need. Of a written text
    they are the source sentences that cover it; with ``shown_text="written"`` it is the
    text itself. The passage is None if all of it is dropped.

    Args:
        passage: The passage.
        outcomes: Those of its slices, in any order, from `resolve_outcome`; none for a
            blank passage.
        options: Settings.
        identity_pieces: Those that say what kept pieces, also of other passages, are
            about. They are kept in any case.
    """
    if not outcomes:
        text_length = len(passage.text)
        whole_span = Span(passage.id, 0, text_length)
        blank_drop = Drop(whole_span, "blank")
        empty_report = PassageReport(passage.id)
        return None, [blank_drop], empty_report
    outcomes = sorted(outcomes, key=lambda outcome: outcome.part.pieces[0].start)
    pieces: list[Span] = []
    piece_texts = []
    drop_reasons = {}
    kept_indices = set()
    context_spans = []
    for outcome in outcomes:
        is_written = outcome.written_text is not None
        unused_reason = NOT_COVERED if is_written else NOT_NEEDED
        default_reason = outcome.problem or unused_reason
        piece_texts += outcome.part.piece_texts
        for index, piece in enumerate(outcome.part.pieces):
            passage_index = len(pieces)
            if index in outcome.kept_places:
                kept_indices.add(passage_index)
            elif piece in identity_pieces:
                context_spans.append(piece)
            pieces.append(piece)
            drop_reason = outcome.drop_reasons.get(index, default_reason)
            drop_reasons[piece] = drop_reason
    is_partly_kept = 0 < len(kept_indices) < len(pieces)
    if options.keep_context and is_partly_kept:
        context_spans += find_context_spans(pieces, piece_texts, kept_indices)
    kept_spans = [pieces[index] for index in kept_indices]
    kept_spans += context_spans
    drops = _drop_rest(kept_spans, drop_reasons)
    report = _report_outcomes(passage, outcomes, context_spans)
    kept_passage = extract_spans(passage, kept_spans)
    shows_written = options.shown_text == "written" and not report.problem
    if report.sentences and shows_written:
        if kept_passage is None:
            log_fallback("S2ADenoiser", UNCOVERED, _FALLBACKS["keep"])
            return passage, [], report
        written_text = report.written_text or ""
        kept_passage = replace(
            passage,
            text=written_text.strip(),
            spans=kept_passage.source_spans,
            is_rewritten=True,
        )
    return kept_passage, drops, report


def _drop_rest(
    kept_spans: Iterable[Span], drop_reasons: Mapping[Span, str]
) -> list[Drop]:
    """Return what is not kept of each piece, with the piece's reason."""
    kept_ranges = merge_spans((span.start, span.end) for span in kept_spans)
    drops = []
    for piece, drop_reason in drop_reasons.items():
        for start, end in complement_spans(kept_ranges, piece.start, piece.end):
            dropped_span = Span(piece.passage_id, start, end)
            drops.append(Drop(dropped_span, drop_reason))
    return drops


def _report_outcomes(
    passage: Passage,
    outcomes: Sequence[SliceOutcome],
    context_spans: Iterable[Span],
) -> PassageReport:
    slice_problems = [outcome.problem for outcome in outcomes]
    stated_problems = filter(None, slice_problems)
    different_problems = dict.fromkeys(stated_problems)
    slice_texts = [outcome.written_text for outcome in outcomes]
    written_texts = filter(None, slice_texts)
    sentences: list[WrittenSentence] = []
    for outcome in outcomes:
        sentences += outcome.sentences
    return PassageReport(
        passage_id=passage.id,
        problem="; ".join(different_problems) or None,
        written_text="\n".join(written_texts) or None,
        sentences=tuple(sentences),
        context_spans=tuple(sorted(set(context_spans), key=_START)),
    )


class IdentityReader:
    """Finds the pieces that say whose a piece is: titles, headings, header rows.

    Pieces of one document share theirs (`DocumentReader`).
    """

    def __init__(
        self, passages: Sequence[Passage], outcomes: Iterable[SliceOutcome]
    ) -> None:
        self.reader = DocumentReader(passages)
        self.pieces: defaultdict[str, list[Span]] = defaultdict(list)
        for outcome in outcomes:
            part = outcome.part
            self.pieces[part.passage.id] += part.pieces

    def pieces_of(self, piece: Span) -> list[Span]:
        """Return the pieces, maybe of other passages, that a piece must not be without."""
        identity_pieces = []
        for span in self.reader.context_of(piece):
            pieces = self.pieces[span.passage_id]
            first_after = bisect_right(pieces, span.start, key=_START)
            end = bisect_left(pieces, span.end, key=_START)
            identity_pieces += pieces[first_after - 1 : end]
        return identity_pieces


def find_identity_pieces(
    passages: Sequence[Passage], outcomes: Sequence[SliceOutcome]
) -> set[Span]:
    """Return the pieces that say whose the named pieces are."""
    identity_reader = IdentityReader(passages, outcomes)
    identity_pieces = set()
    for outcome in outcomes:
        if outcome.error is not None:
            continue
        for piece_index in outcome.kept_places:
            piece = outcome.part.pieces[piece_index]
            identity_pieces.update(identity_reader.pieces_of(piece))
    return identity_pieces


def apply_rule(
    rule: PieceRule,
    passages: Sequence[Passage],
    outcomes: Sequence[SliceOutcome],
    options: Options,
) -> list[SliceOutcome]:
    """Return the outcomes with only the kept pieces that the rule chooses.

    A piece's score is its place in the reply that named it: the first pieces of all
    replies come before the second ones. It is measured with the context that no better
    piece has brought.
    """
    named_pieces = []
    for number, outcome in enumerate(outcomes):
        for index, reply_place in outcome.kept_places.items():
            named_piece = (reply_place, number, index)
            named_pieces.append(named_piece)
    if not named_pieces:
        return list(outcomes)
    named_pieces.sort()
    identity_reader = IdentityReader(passages, outcomes)
    passage_texts = {passage.id: passage.text for passage in passages}
    measured_spans = set()
    candidate_texts = []
    for _, number, index in named_pieces:
        part = outcomes[number].part
        piece = part.pieces[index]
        spans = [piece]
        if options.keep_context:
            spans += find_context_spans(part.pieces, part.piece_texts, {index})
            spans += identity_reader.pieces_of(piece)
        candidate_text = ""
        for span in spans:
            if span not in measured_spans:
                measured_spans.add(span)
                passage_text = passage_texts[span.passage_id]
                candidate_text += passage_text[span.start : span.end]
        candidate_texts.append(candidate_text)
    reply_places = [reply_place for reply_place, _, _ in named_pieces]
    place_array = np.array(reply_places, dtype=np.float32)
    rule_mask = rule.choose(-place_array, candidate_texts)
    narrowed_outcomes = list(outcomes)
    for (_, number, index), is_chosen in zip(named_pieces, rule_mask, strict=True):
        if not is_chosen:
            outcome = narrowed_outcomes[number]
            kept_places = dict(outcome.kept_places)
            del kept_places[index]
            drop_reasons = dict(outcome.drop_reasons)
            drop_reasons[index] = rule.reason()
            narrowed_outcomes[number] = replace(
                outcome, kept_places=kept_places, drop_reasons=drop_reasons
            )
    return narrowed_outcomes
