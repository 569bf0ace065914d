"""S2A on what a person wrote: the request without opinion (the paper's first use).

"I think the answer is ..., but I'm really not sure" changes what a model answers. Here
the message itself is the text: what is left of it is a context and a neutral question,
both in the message's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

from denoise_core.protocols import LLM, expect_llm
from denoise_core.result import Trace
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a.alignment import WrittenSentence
from denoise_core.s2a.denoiser import assemble_passage, resolve_outcome
from denoise_core.s2a.options import OnError, Options, Variant, check_choice
from denoise_core.s2a.pieces import PassageSlice, split_pieces
from denoise_core.s2a.prompts import CONTEXT_QUESTION_FORM, MESSAGE_FORM
from denoise_core.s2a.question import (
    MESSAGE_ID,
    choose_clauses,
    open_tag_question,
    same_question,
    split_clauses,
)
from denoise_core.s2a.replies import (
    LLMCaller,
    ReplyRecord,
    SliceOutcome,
    SliceRequest,
    read_rewriting,
)
from denoise_core.types import Drop, Message, Passage, Span

_OPINION_REASON = "opinion, or of no use to the request"


@dataclass(frozen=True, slots=True)
class NeutralMessage:
    """A message without its opinion.

    Attributes:
        context: What the assistant should know.
        question: The neutral question.
        source: The message's own text, to which the spans refer.
        dropped: What was left out, mostly opinion.
        sentences: What the model wrote as context.
        fallback: Why the message or its question was kept as it is; None if it was not.
        trace: The calls.
    """

    context: str
    question: str
    source: str
    dropped: tuple[Drop, ...] = ()
    sentences: tuple[WrittenSentence, ...] = ()
    fallback: str | None = None
    trace: Trace = field(default_factory=Trace)

    @property
    def text(self) -> str:
        """The neutral message as one text."""
        return f"{self.context}\n\n{self.question}".strip()


class MessageDenoiser:
    """Clears a person's message of opinion before a model answers it.

    System 2 Attention, section 2.2. ``select`` has the model
    name the clauses that are the request and what it depends on, so that every
    character is the person's own. ``default`` and ``relevance`` have it divide the
    message into facts and request, ``single`` write it as one, as in the paper: the
    facts are shown by the sentences of the message that cover them, and the request
    counts if `same_question` proves it.

    Of a chat, the person's turns are the message; an assistant's earlier answers are
    left out, since they influence too. A failed call or an unreadable reply leaves the
    message as it was, unless ``on_error`` is ``"raise"``; so does, in any case, what is
    not proved to ask the person's question.

    Raises:
        InputError: For an unknown setting, and for what is no `LLM`.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        variant: Variant = "select",
        on_error: OnError = "keep",
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        check_choice("variant", variant, get_args(Variant))
        check_choice("on_error", on_error, get_args(OnError))
        self.llm = expect_llm(llm)
        self.variant: Variant = variant
        self.on_error: OnError = on_error
        self.budget = budget
        self.options = options or Options()
        self.record = ReplyRecord()

    def neutralize(self, message: str | Sequence[Message]) -> NeutralMessage:
        """Return the message without opinion.

        Raises:
            Exception: What failed, with ``on_error="raise"``.
        """
        flow = self.flow(message)
        neutral_message, trace = run(flow, budget=self.budget)
        return replace(neutral_message, trace=trace)

    async def aneutralize(self, message: str | Sequence[Message]) -> NeutralMessage:
        """`neutralize` for async; the same result."""
        flow = self.flow(message)
        neutral_message, trace = await arun(flow, budget=self.budget)
        return replace(neutral_message, trace=trace)

    def flow(self, message: str | Sequence[Message]) -> Flow[NeutralMessage]:
        """The logic, for `run`, `arun` or another flow with ``yield from``."""
        source_text = message if isinstance(message, str) else _join_user_turns(message)
        if not source_text.strip():
            return NeutralMessage("", source_text, source_text)
        if self.variant == "select":
            return (yield from self._select_clauses(source_text))
        return (yield from self._rewrite_message(source_text))

    def _select_clauses(self, source_text: str) -> Flow[NeutralMessage]:
        clause_spans = split_clauses(source_text, language=self.options.language)
        if len(clause_spans) < 2:  # one clause cannot be split into request and opinion
            opened_question = open_tag_question(source_text)
            return NeutralMessage("", opened_question, source_text)
        question = yield from choose_clauses(
            self.llm,
            source_text,
            clause_spans,
            self.options,
            on_error=self.on_error,
            record=self.record,
        )
        if question.note is not None:
            return _keep_message(source_text, question.note)
        opinion_spans = [span for span in clause_spans if span not in question.kept]
        dropped_clauses = tuple(Drop(span, _OPINION_REASON) for span in opinion_spans)
        return NeutralMessage("", question.text, source_text, dropped_clauses)

    def _rewrite_message(self, source_text: str) -> Flow[NeutralMessage]:
        passage = Passage(source_text, MESSAGE_ID)
        message_pieces = split_pieces(passage, language=self.options.language)
        passage_slice = PassageSlice(passage, message_pieces)
        prompts = self.options.prompts
        prompt = prompts.message
        form = CONTEXT_QUESTION_FORM
        read_reply = partial(read_rewriting, label_names=("context", "question"))
        if self.variant == "relevance":
            prompt = prompts.message_relevance
        elif self.variant == "single":
            prompt = prompts.message_single
            form = MESSAGE_FORM
            read_reply = partial(read_rewriting, label_names=("message",))
        request = SliceRequest(
            parts=(passage_slice,),
            prompt=prompt,
            form=form,
            is_numbered=False,
        )
        caller = LLMCaller(
            llm=self.llm,
            options=self.options,
            tag=f"s2a.message.{self.variant}",
            read_reply=read_reply,
            record=self.record,
        )
        ((slice_outcome,),) = yield from caller.ask([request])
        if slice_outcome.error is not None:
            if self.on_error == "raise":
                raise slice_outcome.error
            fallback = f"the message was kept as it is: {slice_outcome.problem}"
            return _keep_message(source_text, fallback, slice_outcome.error)
        return self._assemble_rewriting(source_text, slice_outcome)

    def _assemble_rewriting(
        self, source_text: str, slice_outcome: SliceOutcome
    ) -> NeutralMessage:
        question = slice_outcome.question
        if self.variant == "single":
            written_text = slice_outcome.written_text or ""
            question = _last_question(written_text, self.options.language)
        # The message is the question itself: context pieces would bring the opinion back.
        options = replace(self.options, keep_context=False)
        outcome = resolve_outcome(slice_outcome, "drop", options, question)
        passage, drops, report = assemble_passage(
            outcome.part.passage, [outcome], options
        )
        problem = same_question(source_text, question, language=options.language)
        if problem is not None:
            fallback = f"the message was kept as it is, the model's request was not taken: {problem}"
            kept_message = _keep_message(source_text, fallback)
            return replace(kept_message, sentences=report.sentences)
        context = ""
        if passage is not None and outcome.kept_places:
            context = passage.text.strip()
        dropped_clauses = []
        for drop in drops:
            is_asked = _is_part_of(source_text, drop.span, question)
            if not is_asked:
                dropped_clauses.append(drop)
        return NeutralMessage(
            context,
            question,
            source_text,
            tuple(dropped_clauses),
            report.sentences,
        )


def _keep_message(
    source_text: str, fallback: str, error: Exception | None = None
) -> NeutralMessage:
    """Return the message as it was; the log has the error, if there was one."""
    log_fallback("MessageDenoiser", error or fallback, "the message was kept as it was")
    return NeutralMessage("", source_text, source_text, fallback=fallback)


def _join_user_turns(messages: Sequence[Message]) -> str:
    user_texts = [turn.content for turn in messages if turn.role == "user"]
    return "\n\n".join(user_texts)


def _last_question(text: str, language: str) -> str:
    """Return the last sentence that asks, or the last one."""
    last_sentence = ""
    message = Passage(text, MESSAGE_ID)
    pieces = split_pieces(message, language=language)
    for piece in reversed(pieces):
        piece_text = text[piece.start : piece.end]
        sentence = piece_text.strip()
        if "?" in sentence:
            return sentence
        last_sentence = last_sentence or sentence
    return last_sentence


def _is_part_of(text: str, span: Span, question_text: str) -> bool:
    """Whether this piece of the message is part of the question, so not left out."""
    piece_words = text[span.start : span.end].split()
    question_words = question_text.split()
    plain_piece = " ".join(piece_words)
    plain_question = " ".join(question_words)
    return plain_piece in plain_question
