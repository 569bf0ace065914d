"""S2A on what a person wrote: the request without the opinion that came with it (the paper's first use).

"I think the answer is ..., but I'm really not sure" changes what a model answers. Here the message itself is the
text: what is left of it is a context and a neutral question, both checked against the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from denoise_core.errors import UnparsableReply, is_mistake, said
from denoise_core.protocols import LLM, expect_llm
from denoise_core.result import Trace
from denoise_core.running.budget import Budget
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.running.fallbacks import fell_back
from denoise_core.running.flow import arun, run
from denoise_core.running.structured import held_to_schema
from denoise_core.s2a import asks, assemble
from denoise_core.s2a.alignment.question import why_not_same
from denoise_core.s2a.asks import Ask, Part
from denoise_core.s2a.denoiser import BARE_NUMBERS_MEAN, one_of
from denoise_core.s2a.options import EXTRACTIVE, OnError, Options, Variant
from denoise_core.s2a.replies import fields, read
from denoise_core.s2a.replies.read import Outcome
from denoise_core.s2a.replies.schemas import message_schema
from denoise_core.s2a.result import Sentence
from denoise_core.s2a.units import units
from denoise_core.types import Drop, Message, Passage, Reply, Span

ID = "message"
"""The passage id that spans of a message carry."""


@dataclass(frozen=True, slots=True)
class Neutral:
    """A message parted in two.

    ``source`` is the message's own text, to which ``dropped`` (what was left out, opinion mostly) and the spans
    of ``sentences`` refer; these are the context's, as checked by the gate. ``fallback`` says why the message
    was kept as it is, or its question was; None when neither.
    """

    context: str
    question: str
    source: str
    dropped: tuple[Drop, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    fallback: str | None = None
    trace: Trace = field(default_factory=Trace)

    @property
    def text(self) -> str:
        """The neutral message as one text."""
        return f"{self.context}\n\n{self.question}".strip()


class MessageDenoiser:
    """Clears a person's message of opinion before a model answers it (System 2 Attention, section 2.2).

    Each ``variant`` asks by an instruction of its own. ``select``, ``remove`` and ``auto`` have the model name
    pieces of the message, so that every character is the person's own; ``default`` and ``relevance`` have it part
    the message in facts and request, ``single`` write it as one. Of a chat, the person's turns
    are the message; an assistant's earlier answers are left out, since they sway too. What cannot be read, or
    does not ask the person's question, falls back to the message's own words, unless ``on_error`` is ``"raise"``;
    there is no other text to drop it for.

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
        one_of("variant", variant, get_args(Variant))
        one_of("on_error", on_error, get_args(OnError))
        self.llm = expect_llm(llm)
        self.variant: Variant = variant
        self.on_error: OnError = on_error
        self.budget = budget
        self.options = options or Options()

    def neutral(self, message: str | Sequence[Message]) -> Neutral:
        """The message without opinion; with ``on_error="raise"``, raises what failed."""
        found, trace = run(self.flow(message), budget=self.budget)
        return replace(found, trace=trace)

    async def aneutral(self, message: str | Sequence[Message]) -> Neutral:
        """`neutral` for async; the same result."""
        found, trace = await arun(self.flow(message), budget=self.budget)
        return replace(found, trace=trace)

    def flow(self, message: str | Sequence[Message]) -> Flow[Neutral]:
        """The logic, to be driven by `run` or `arun`, or from within another flow with ``yield from``."""
        source = message if isinstance(message, str) else _persons_turns(message)
        passage = Passage(source, ID)
        spans = units(passage, language=self.options.language)
        if not source.strip():
            return Neutral("", source, source)
        numbered = self.variant in EXTRACTIVE
        prompt = self.options.message(self.variant)
        call = asks.write("", (Part(passage, spans),), prompt, self.options, numbered=numbered)
        llm = held_to_schema(self.llm, message_schema(self.variant)) if self.options.structured else self.llm
        if self.options.cache is not None:
            llm = self.options.cache.bind(llm, lambda reply: self._is_readable(call, reply))
        effect = Complete(call.messages, f"s2a.message.{self.variant}", llm)
        reply: Reply | Failed = (yield from batch((effect,)))[0]
        try:
            if isinstance(reply, Failed):
                raise reply.error
            return self._read(call, passage, reply)
        except Exception as error:
            if self.on_error == "raise" or is_mistake(error):
                raise
            why = said(str(error) if isinstance(error, UnparsableReply) else error)
            fell_back("MessageDenoiser", error, "the message was kept as it was")
            return Neutral("", source, source, fallback=f"the message was kept as it is: {why}")

    def _read(self, call: Ask, passage: Passage, reply: Reply) -> Neutral:
        if self.variant in EXTRACTIVE:
            return self._kept(passage, read.selection(call, reply, verb=BARE_NUMBERS_MEAN[self.variant])[0])
        if self.variant == "single":
            outcome = read.rewriting(call, reply, single=True)[0]
            return self._written(passage, outcome, fields.asked_in(outcome.written or ""))
        return self._written(passage, *read.parted(call, reply))

    def _is_readable(self, call: Ask, reply: Reply) -> bool:
        try:
            self._read(call, call.parts[0].passage, reply)
        except UnparsableReply:
            return False
        return True

    def _kept(self, passage: Passage, outcome: Outcome) -> Neutral:
        """The named pieces; the message stays as it is when its question is not among them."""
        done = assemble.extracted(passage, [outcome], "keep", context=False)
        left = done.passage.text if done.passage else ""
        problem = why_not_same(passage.text, left, language=self.options.language)
        if problem is not None:
            return Neutral("", passage.text, passage.text, fallback=f"the message was kept as it is: {problem}")
        return Neutral("", left.strip(), passage.text, done.drops)

    def _written(self, passage: Passage, outcome: Outcome, question: str) -> Neutral:
        done = assemble.rewritten(
            passage,
            [outcome],
            "drop",
            self.options.gate,
            question=question,
            language=self.options.language,
            context=False,
        )
        problem = why_not_same(passage.text, question, language=self.options.language)
        context = done.passage.text.strip() if done.passage else ""
        if problem is not None:
            fallback = f"the message was kept as it is: {problem}"
            return Neutral("", passage.text, passage.text, sentences=done.report.sentences, fallback=fallback)
        drops = tuple(d for d in done.drops if not _asks_it(passage.text, d.span, question))
        return Neutral(context, question, passage.text, drops, done.report.sentences)


def _persons_turns(messages: Sequence[Message]) -> str:
    return "\n\n".join(m.content for m in messages if m.role == "user")


def _asks_it(text: str, span: Span, question: str) -> bool:
    """Whether this piece of the message went into the question, and so was not left out."""
    return why_not_same(text[span.start : span.end], question) is None
