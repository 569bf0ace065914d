"""`AugmentedRunnable`: a question in, a checked answer out; the whole LLM-Augmenter loop as one runnable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NotRequired

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict, override

from denoise_core import InputError, Message
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.traces.record import answer_record
from langchain_denoise.convert.documents import evidence_documents
from langchain_denoise.convert.messages import to_core_messages
from langchain_denoise.verification.runnable import LoopRun, VerifyingRunnable


class AugmentedInput(TypedDict):
    """A question, and the messages before it if there are any."""

    question: str
    history: NotRequired[Sequence[BaseMessage]]


class AugmentedOutput(TypedDict):
    """``answer`` and how far to trust it.

    ``outcome`` is supported, unsupported, unknown, abstained or failed; ``context`` the evidence the answer was
    written from, in the order of its citations (``[1]`` is the first); ``denoise`` the record of the run in plain
    JSON: why it stopped, every attempt with its score, reasons and feedback, searches, failures, calls, tokens.
    """

    question: str
    answer: str
    outcome: str
    context: list[Document]
    denoise: dict[str, Any]


class AugmentedRunnable(VerifyingRunnable[str | AugmentedInput, AugmentedOutput]):
    """Runs a `denoise_core.augmenter.Augmenter` as a step of a chain.

    Build it from ``Augmenter(ChatModelLLM(model), RetrieverAdapter(retriever), ...)``. Searches, drafts and
    judgements are children of this run in a trace; drafts never reach a user's token stream.

    >>> from denoise_core import Passage
    >>> from denoise_core.testing import FunctionLLM, ListRetriever
    >>> told = "The tower is 330 m tall."
    >>> loop = Augmenter(FunctionLLM(lambda messages: told), ListRetriever([Passage(told, "a")]))
    >>> AugmentedRunnable(augmenter=loop).invoke("How tall is the tower?")["answer"]
    'The tower is 330 m tall.'
    """

    augmenter: Augmenter
    """The loop, with its utility, policy, limits and budget."""

    on_answer: Callable[[Answer], Any] | None = None
    """Called with each `denoise_core.augmenter.Answer`: to record it, to replay it, to learn from it."""

    @override
    def _loop_run(
        self, input: str | AugmentedInput, options: dict[str, Any]
    ) -> LoopRun:
        question, history = _read(input)
        return LoopRun(self.augmenter, question, history, self._heard, _output)

    def _heard(self, answer: Answer) -> Answer:
        if self.on_answer is not None:
            self.on_answer(answer)
        return answer


def _read(input: str | AugmentedInput) -> tuple[str, tuple[Message, ...]]:
    if isinstance(input, str):
        return input, ()
    if not isinstance(input, dict) or "question" not in input:
        got = (
            f"a dict with the keys {sorted(input)}"
            if isinstance(input, dict)
            else f"a {type(input).__name__}"
        )
        raise InputError(
            f"expected a question as a str, or {{'question': ..., 'history': [...]}}, got {got}"
        )
    return input["question"], to_core_messages(input.get("history", ()))


def _output(answer: Answer) -> tuple[AugmentedOutput, dict[str, Any]]:
    memory, record = answer.memory, answer_record(answer)
    evidence = memory.best.evidence if memory.best else memory.evidence
    output: AugmentedOutput = {
        "question": memory.question,
        "answer": answer.text,
        "outcome": str(answer.outcome),
        "context": evidence_documents(evidence, memory.retrieved, memory.question),
        "denoise": record,
    }
    return output, record
