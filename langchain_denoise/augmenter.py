"""`AugmentedRunnable`: the whole LLM-Augmenter loop as one runnable.

A question goes in, a checked answer comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict, override

from denoise_core import InputError, Message
from denoise_core.augmenter import Answer, Augmenter
from denoise_core.augmenter.traces.record import answer_record
from langchain_denoise.convert.documents import describe_value, evidence_documents
from langchain_denoise.convert.messages import to_core_messages
from langchain_denoise.observe import Record
from langchain_denoise.verification.runnable import LoopRun, VerifyingRunnable


class AugmentedInput(TypedDict):
    """A question, and the messages before it if there are any."""

    question: str
    history: NotRequired[Sequence[BaseMessage]]


class AugmentedOutput(TypedDict):
    """``answer`` and how far to trust it.

    ``outcome`` is supported, partly supported, unsupported, unknown, abstained or failed. ``context`` is
    the evidence that the answer was written from, in the order of its citations (``[1]``
    is the first). ``denoise`` is the record of the run in plain JSON: why it stopped,
    every attempt with its score, reasons and feedback, searches, failures, calls, tokens.
    """

    question: str
    answer: str
    outcome: str
    context: list[Document]
    denoise: Record


class AugmentedRunnable(VerifyingRunnable[str | AugmentedInput, AugmentedOutput]):
    """Runs a `denoise_core.augmenter.Augmenter` as a step of a chain.

    Build it from ``Augmenter(ChatModelLLM(model), RetrieverAdapter(retriever), ...)``.
    Searches, drafts and judgements are children of this run in a trace; drafts never
    reach a user's token stream.

    >>> from denoise_core import Passage
    >>> from denoise_core.testing import FunctionLLM, ListRetriever
    >>> fact = "The tower is 330 m tall."
    >>> loop = Augmenter(FunctionLLM(lambda messages: fact), ListRetriever([Passage(fact, "a")]))
    >>> AugmentedRunnable(augmenter=loop).invoke("How tall is the tower?")["answer"]
    'The tower is 330 m tall.'
    """

    augmenter: Augmenter
    """The loop, with its utility, policy, limits and budget."""

    @override
    def _loop_run(self, input: str | AugmentedInput, options: Record) -> LoopRun:
        question, history = _question_and_history(input)
        return LoopRun(self.augmenter, question, history, _build_output)


def _question_and_history(
    chain_input: str | AugmentedInput,
) -> tuple[str, tuple[Message, ...]]:
    if isinstance(chain_input, str):
        return chain_input, ()
    if isinstance(chain_input, dict) and "question" in chain_input:
        history = to_core_messages(chain_input.get("history", ()))
        return chain_input["question"], history
    raise InputError(
        "expected a question as a str, or {'question': ..., 'history': [...]}, "
        f"got {describe_value(chain_input)}"
    )


def _build_output(answer: Answer) -> AugmentedOutput:
    memory = answer.memory
    evidence = memory.best.evidence if memory.best else memory.evidence
    return {
        "question": memory.question,
        "answer": answer.text,
        "outcome": str(answer.outcome),
        "context": evidence_documents(evidence, memory.retrieved, memory.question),
        "denoise": answer_record(answer),
    }
