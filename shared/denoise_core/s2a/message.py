"""S2A on what a person wrote: the request without the opinion that came with it (the paper's first use).

"I think the answer is ..., but I'm really not sure" changes what a model answers. Here the message itself is the
text: what is left of it is a context and a neutral question, both the message's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

from denoise_core.errors import is_user_error
from denoise_core.protocols import LLM, expect_llm
from denoise_core.result import Trace
from denoise_core.runtime.budget import Budget
from denoise_core.runtime.effects import Flow
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.runtime.flow import arun, run
from denoise_core.s2a.alignment import WrittenSentence
from denoise_core.s2a.denoiser import assemble_passage
from denoise_core.s2a.options import EXTRACTIVE, OnError, Options, Variant, check_choice
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
    SliceOutcome,
    SliceRequest,
    read_rewriting,
)
from denoise_core.types import Drop, Message, Passage, Span

_OPINION = "opinion, or of no use to the request"


@dataclass(frozen=True, slots=True)
class NeutralMessage:
    """A message parted in two.

    ``source`` is the message's own text, to which ``dropped`` (what was left out, opinion mostly) and the spans of
    ``sentences`` refer; these are what the model wrote as context. ``fallback`` says why the message was kept as
    it is, or its question was; None when neither."""

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
    """Clears a person's message of opinion before a model answers it (System 2 Attention, section 2.2).

    ``select``, ``remove`` and ``auto`` have the model name the clauses that are the request and what it depends
    on, so that every character is the person's own; ``default`` and ``relevance`` have it part the message in
    facts and request, ``single`` write it as one, as in the paper: the facts are shown by the sentences of the
    message that cover them, and the request counts where `same_question` proves it. Of a chat, the person's turns
    are the message; an assistant's earlier answers are left out, since they sway too. What cannot be read, or is
    not proved to ask the person's question, falls back to the message's own words, unless ``on_error`` is
    ``"raise"``; there is no other text to drop it for.

    Raises `InputError` for an unknown setting, and for what is no `LLM`.
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

    def neutralize(self, message: str | Sequence[Message]) -> NeutralMessage:
        """The message without opinion; with ``on_error="raise"``, raises what failed."""
        found, trace = run(self.flow(message), budget=self.budget)
        return replace(found, trace=trace)

    async def aneutralize(self, message: str | Sequence[Message]) -> NeutralMessage:
        """`neutral` for async; the same result."""
        found, trace = await arun(self.flow(message), budget=self.budget)
        return replace(found, trace=trace)

    def flow(self, message: str | Sequence[Message]) -> Flow[NeutralMessage]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        source = message if isinstance(message, str) else _persons_turns(message)
        if not source.strip():
            return NeutralMessage("", source, source)
        if self.variant in EXTRACTIVE:
            return (yield from self._chosen(source))
        return (yield from self._rewritten(source))

    def _chosen(self, source: str) -> Flow[NeutralMessage]:
        spans = split_clauses(source, language=self.options.language)
        if (
            len(spans) < 2
        ):  # whoever asks for a message to be cleared has every clause looked at
            return NeutralMessage("", open_tag_question(source), source)
        question = yield from choose_clauses(
            self.llm, source, spans, self.options, on_error=self.on_error
        )
        if question.note is not None:
            return _kept(source, question.note)
        drops = tuple(
            Drop(span, _OPINION) for span in spans if span not in question.kept
        )
        return NeutralMessage("", question.text, source, drops)

    def _rewritten(self, source: str) -> Flow[NeutralMessage]:
        passage = Passage(source, MESSAGE_ID)
        part = PassageSlice(
            passage, split_pieces(passage, language=self.options.language)
        )
        prompts = self.options.prompts
        if self.variant == "single":
            request = SliceRequest(
                (part,), prompts.message_single, MESSAGE_FORM, numbered=False
            )
            names: tuple[str, ...] = ("message",)
        else:
            prompt = (
                prompts.message_relevance
                if self.variant == "relevance"
                else prompts.message
            )
            request = SliceRequest(
                (part,), prompt, CONTEXT_QUESTION_FORM, numbered=False
            )
            names = ("context", "question")
        read = partial(read_rewriting, names=names)
        caller = LLMCaller(self.llm, self.options, f"s2a.message.{self.variant}", read)
        (outcome,) = yield from caller.outcomes([request])
        if outcome.error is not None:
            if self.on_error == "raise" or is_user_error(outcome.error):
                raise outcome.error
            return _kept(
                source,
                f"the message was kept as it is: {outcome.problem}",
                outcome.error,
            )
        if self.variant == "single":
            outcome = replace(
                outcome,
                question=_last_question(
                    outcome.written_text or "", self.options.language
                ),
            )
        return self._written(source, outcome)

    def _written(self, source: str, outcome: SliceOutcome) -> NeutralMessage:
        question = outcome.question
        options = replace(self.options, keep_context=False)
        done = assemble_passage(
            outcome.part.passage, [outcome], "drop", options, question=question
        )
        problem = same_question(source, question, language=options.language)
        if problem is not None:
            fallback = f"the message was kept as it is, the model's request was not taken: {problem}"
            return replace(_kept(source, fallback), sentences=done.report.sentences)
        context = done.passage.text.strip() if done.passage else ""
        drops = tuple(d for d in done.drops if not _stands_in(source, d.span, question))
        return NeutralMessage(context, question, source, drops, done.report.sentences)


def _kept(source: str, fallback: str, error: Exception | None = None) -> NeutralMessage:
    """The message as it was; the log has the error where there was one."""
    log_fallback("MessageDenoiser", error or fallback, "the message was kept as it was")
    return NeutralMessage("", source, source, fallback=fallback)


def _persons_turns(messages: Sequence[Message]) -> str:
    return "\n\n".join(m.content for m in messages if m.role == "user")


def _last_question(text: str, language: str) -> str:
    """The last sentence that asks, or the last one."""
    said = [
        text[s.start : s.end].strip()
        for s in split_pieces(Passage(text, MESSAGE_ID), language=language)
    ]
    return next((s for s in reversed(said) if "?" in s), said[-1] if said else "")


def _stands_in(text: str, span: Span, asked: str) -> bool:
    """Whether this piece of the message went into the question, and so was not left out."""
    return " ".join(text[span.start : span.end].split()) in " ".join(asked.split())
