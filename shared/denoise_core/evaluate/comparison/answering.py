"""Models by name, who answers from the kept text, and when an answer counts as right."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from denoise_core._optional import require
from denoise_core.augmenter.loop import Augmenter
from denoise_core.errors import InputError, ServerUnreachable, UnparsableReply
from denoise_core.evaluate.metrics import contains_answer, exact_match
from denoise_core.local.generation import LocalLLM
from denoise_core.protocols import LLM
from denoise_core.question import Question
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.text.delimit import ENVELOPE_NOTE, wrap_in_envelope
from denoise_core.text.replies import strip_reasoning
from denoise_core.types import Message, Passage, Reply, Usage

MatchRule = Literal["contains", "exact"]
AnswerGrader = Callable[[Question, str], bool | None]  # None: undecided
MATCH_RULES: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "contains": contains_answer,
    "exact": exact_match,
}


class Answerer(Protocol):
    """Answers a question from passages."""

    @property
    def name(self) -> str:
        """The name in the report."""
        ...

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """Return the answer; an empty text when it finds none."""
        ...


def make_grader(grader: MatchRule | AnswerGrader) -> AnswerGrader:
    """Return the function that decides whether an answer is right.

    Args:
        grader: "contains" (the reply contains an accepted answer), "exact" (it is one), or
            such a function.
    """
    if callable(grader):
        return grader
    if grader not in MATCH_RULES:
        raise InputError(
            f"grader={grader!r}: expected 'contains', 'exact' or a function of question "
            "and reply"
        )
    matches = MATCH_RULES[grader]
    return lambda question, model_reply: matches(model_reply, question.answers)


MAX_REPLY_TOKENS = 256
ANSWER_PROMPT = (
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
    """A model behind an HTTP server of the OpenAI chat protocol, at temperature 0.

    OpenAI, vLLM, Ollama, llama.cpp and LM Studio have such servers. It connects at the first
    call and needs the extra ``openai``. The key comes from the environment variable
    OPENAI_API_KEY, if it is set.

    Args:
        url: The server's address, which ends in ``/v1``.
        model: The model's name there.
        max_tokens: The longest reply.
    """

    def __init__(
        self, url: str, model: str, *, max_tokens: int = MAX_REPLY_TOKENS
    ) -> None:
        self.url = url
        self.model = model
        self.max_tokens = max_tokens
        self._client: Any = None

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Ask the model.

        Raises:
            ServerUnreachable: Nothing answers at the address. Other errors are the
                client's own, which name the status.
        """
        openai = require("openai", extra="openai")
        if self._client is None:
            api_key = os.environ.get("OPENAI_API_KEY", "none")
            self._client = openai.OpenAI(base_url=self.url, api_key=api_key)
        try:
            chat_response = self._client.chat.completions.create(
                model=self.model,
                messages=[{"role": m.role, "content": m.content} for m in messages],
                temperature=0,
                max_tokens=self.max_tokens,
            )
        except openai.APITimeoutError:
            raise
        except openai.APIConnectionError as error:
            raise ServerUnreachable(
                f"{self.url} could not be reached: start the server, or correct the "
                "address"
            ) from error
        first_choice = chat_response.choices[0]
        reply_text = first_choice.message.content or ""
        if chat_response.usage is None:
            return Reply(reply_text)
        usage_details = getattr(chat_response.usage, "prompt_tokens_details", None)
        token_usage = Usage.from_report(
            chat_response.usage.prompt_tokens,
            chat_response.usage.completion_tokens,
            getattr(usage_details, "cached_tokens", 0),
        )
        return Reply(reply_text, token_usage)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        """Ask the model in a thread."""
        return await run_in_pool(self.complete, messages)


def llm_from_name(name: str, *, max_tokens: int = MAX_REPLY_TOKENS) -> LLM:
    """Open a model by its name.

    Args:
        name: ``http://host:port/v1#model``, or a folder or hub name for this machine.
        max_tokens: The longest reply.

    Raises:
        InputError: An address has no model's name.
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
    """Answers with one call to ``llm``; ``name`` is the name in the report."""

    def __init__(self, llm: LLM, name: str) -> None:
        self.llm = llm
        self.name = name

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """Ask the model. Raises what it raises."""
        passage_texts = []
        for passage in passages:
            if passage.text.strip():
                passage_text = passage.text_with_header.strip()
                passage_texts.append(passage_text)
        joined_texts = "\n\n".join(passage_texts)
        wrapped_passages = wrap_in_envelope(joined_texts)
        prompt = f"{wrapped_passages}\n\n{ANSWER_PROMPT}\n\nQuestion: {question}"
        user_message = Message("user", prompt)
        model_reply = self.llm.complete([user_message])
        answer_text = model_reply.text.strip()
        return Reply(answer_text, model_reply.usage)


class LLMGrader:
    """Asks ``llm`` whether a reply is right: it sees question, reply and accepted answers.

    Give it the `ReplyLog`, so that its calls count for the budget.
    """

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def __call__(self, question: Question, model_reply: str) -> bool | None:
        """Return the verdict; None when it is neither CORRECT nor INCORRECT."""
        if not model_reply.strip():
            return False
        wrapped_answer = wrap_in_envelope(
            f"Question: {question.text}\n\nAnswer: {model_reply}", "answer"
        )
        accepted_answers = " / ".join(question.answers)
        prompt = GRADER_PROMPT.format(material=wrapped_answer, gold=accepted_answers)
        messages = [Message("system", GRADER_SYSTEM_PROMPT), Message("user", prompt)]
        verdict_reply = self.llm.complete(messages)
        verdict_word = single_word(verdict_reply.text).upper()
        known_verdicts = {"CORRECT": True, "INCORRECT": False}
        return known_verdicts.get(verdict_word)


def single_word(text: str) -> str:
    """Strip reasoning and markup from a reply of one word; "" if it cannot be read."""
    try:
        plain_text = strip_reasoning(text)
        return plain_text.strip(".*`\"' ")
    except UnparsableReply:
        return ""


class LoopAnswerer:
    """Answers with the LLM-Augmenter's loop over the question's passages."""

    def __init__(self, llm: LLM, name: str) -> None:
        self.llm = llm
        self.name = f"{name}, in the loop"

    def answer(self, question: str, passages: Sequence[Passage]) -> Reply:
        """Run the loop. Raises what the model raises before a first draft."""
        augmenter = Augmenter(self.llm)
        answer = augmenter.answer(question, evidence=passages)
        return Reply(answer.text, answer.trace.usage)
