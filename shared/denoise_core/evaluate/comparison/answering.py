"""Who answers from what was kept, models by their names, and when an answer counts as right."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from denoise_core._optional import require
from denoise_core.augmenter.loop import Augmenter
from denoise_core.errors import InputError, UnparsableReply
from denoise_core.evaluate.metrics import contains_answer, exact_match
from denoise_core.local.generation import LocalLLM
from denoise_core.protocols import LLM
from denoise_core.question import Question
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.text.replies import strip_reasoning
from denoise_core.types import Message, Passage, Reply, Usage

Rule = Literal["contains", "exact"]
Judge = Callable[[Question, str], bool | None]  # None: it cannot be told


class Answerer(Protocol):
    """Answers a question from passages. ``name`` stands in the report."""

    @property
    def name(self) -> str:
        """What its answers stand under in a table."""
        ...

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """The reply; an empty text when it finds no answer."""
        ...


def judge_of(right: Rule | Judge) -> Judge:
    """When an answer is right: it contains one of the answers, or is one, or what a function says."""
    if right == "contains":
        return lambda question, said: contains_answer(said, question.answers)
    if right == "exact":
        return lambda question, said: exact_match(said, question.answers)
    if callable(right):
        return right
    raise InputError(
        f"right={right!r}: expected 'contains', 'exact' or a function of question and reply"
    )


MAX_REPLY_TOKENS = 256  # tokens of one reply, at most
ASK = (
    "Answer the question from the text above it alone. Reply with the answer and nothing else, as short as "
    "possible. If the text does not hold the answer, reply: unknown"
)
GRADER_SYSTEM_PROMPT = f"You judge an answer. {ENVELOPE_NOTE}"
GRADER_PROMPT = """\
{material}

A right answer is: {gold}
Does the answer above say the same? Differences of wording do not matter; an answer that names several \
alternatives, or none, does not. Reply with one word, CORRECT or INCORRECT."""


class OpenAILLM:
    """A model behind an HTTP server of the OpenAI chat protocol (OpenAI, vLLM, Ollama, llama.cpp, LM Studio).

    ``url`` ends in ``/v1``. The key is taken from the environment variable OPENAI_API_KEY, where there is one.
    Replies have at most ``longest`` tokens and temperature 0. Connects at the first call; needs the extra
    ``openai``.
    """

    def __init__(
        self, url: str, model: str, *, max_tokens: int = MAX_REPLY_TOKENS
    ) -> None:
        self.url = url
        self.model = model
        self.max_tokens = max_tokens
        self._client: Any = None

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Raises what the client raises: its errors say the status."""
        if self._client is None:
            key = os.environ.get("OPENAI_API_KEY", "none")
            self._client = require("openai", extra="openai").OpenAI(
                base_url=self.url, api_key=key
            )
        found = self._client.chat.completions.create(
            model=self.model,
            messages=[{"role": m.role, "content": m.content} for m in messages],
            temperature=0,
            max_tokens=self.max_tokens,
        )
        used = found.usage
        details = getattr(used, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", 0)
        usage = (
            None
            if used is None
            else Usage.from_report(used.prompt_tokens, used.completion_tokens, cached)
        )
        return Reply(found.choices[0].message.content or "", usage)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await run_in_pool(self.complete, messages)


def llm_from_name(name: str, *, max_tokens: int = MAX_REPLY_TOKENS) -> LLM:
    """The model behind ``http://host:port/v1#name``, or a folder or hub name for this machine.

    Raises `InputError` for an address without a model's name.
    """
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        if not model:
            raise InputError(
                f"{name}: expected the model's name too, such as {url}#my-model"
            )
        return OpenAILLM(url, model, max_tokens=max_tokens)
    return LocalLLM(name, max_new_tokens=max_tokens)


class LLMAnswerer:
    """Answers by ``llm`` from what was kept; ``name`` stands in the report."""

    def __init__(self, llm: LLM, name: str) -> None:
        self.llm = llm
        self.name = name

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """One call. Raises what the model raises."""
        text = "\n\n".join(
            p.text_with_header.strip() for p in passages if p.text.strip()
        )
        reply = self.llm.complete(
            [
                Message(
                    "user", f"{wrap_in_envelope(text)}\n\n{ASK}\n\nQuestion: {question}"
                )
            ]
        )
        return Reply(reply.text.strip(), reply.usage)


class LLMGrader:
    """Whether a reply is right, by ``llm``: it is shown question, reply and accepted answers, and says CORRECT or
    INCORRECT (`RIGHT`); None for anything else. Give it the `Ledger`."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def __call__(self, question: Question, reply: str) -> bool | None:
        """Raises what the model raises."""
        if not reply.strip():
            return False
        material = wrap_in_envelope(
            f"Question: {question.text}\n\nAnswer: {reply}", "answer"
        )
        asked = GRADER_PROMPT.format(
            material=material, gold=" / ".join(question.answers)
        )
        found = self.llm.complete(
            [Message("system", GRADER_SYSTEM_PROMPT), Message("user", asked)]
        )
        return {"CORRECT": True, "INCORRECT": False}.get(
            single_word(found.text).upper()
        )


def single_word(text: str) -> str:
    """The one word that a reply consists of, without what models set around it; empty where it cannot be read."""
    try:
        return strip_reasoning(text).strip(".*`\"' ")
    except UnparsableReply:
        return ""


class LoopAnswerer:
    """The LLM-Augmenter's loop over the passages of the question: draft, check, feed back, again."""

    def __init__(self, llm: LLM, name: str) -> None:
        self.llm = llm
        self.name = f"{name}, in the loop"

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """All calls of one run. Raises what the model raises when no draft was made."""
        found = Augmenter(self.llm).answer(question, evidence=passages)
        return Reply(found.text, found.trace.usage)
