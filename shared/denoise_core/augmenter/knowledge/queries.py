"""Search queries: the question, or a model's.

A new way to make queries is a function of the memory, as `question_queries` is.
"""

from __future__ import annotations

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import history_block, question_block
from denoise_core.errors import BudgetExceeded
from denoise_core.protocols import LLM, expect_llm
from denoise_core.runtime.effects import Flow, complete
from denoise_core.runtime.fallbacks import log_fallback
from denoise_core.text.delimit import ENVELOPE_NOTE
from denoise_core.types import Message

_MAX_MODEL_QUERIES = 3
QUERIES = (
    "Write search queries that would find the facts needed to answer the question. The history, where there is "
    "one, is the conversation before it, to resolve what 'it' and 'there' stand for. "
    f"{ENVELOPE_NOTE} "
    f"Reply with at most {_MAX_MODEL_QUERIES} queries, one on each line, and nothing else."
)

_MAX_QUERY_CHARACTERS = 300


def question_queries(memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
    """The question; in a wide search also with the user's turn before it.

    A follow-up leaves unsaid what that turn says. Nothing of a draft is searched: it
    may be made up.
    """
    queries = [memory.question]
    if wide and memory.user_turns:
        queries.append(f"{memory.user_turns[-1]} {memory.question}")
    return tuple(queries)
    yield  # makes this a flow, though it asks nothing


class LLMQueries:
    """Queries that a model writes, after the question (LLM-Augmenter, section 2.3.1).

    If the model fails or writes nothing usable, only the question is searched.

    Args:
        llm: The model; None is the one that drafts.
    """

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = None if llm is None else expect_llm(llm)

    def __call__(self, memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
        """Ask the model for queries."""
        parts = []
        if memory.history:
            parts.append(history_block(memory.history))
        parts.append(question_block(memory.question))
        messages = (
            Message("system", QUERIES),
            Message("user", "\n\n".join(parts)),
        )
        default_queries = yield from question_queries(memory, wide)
        try:
            reply = yield from complete(messages, tag="queries", llm=self.llm)
            lines = reply.text.splitlines()
        except BudgetExceeded:
            raise
        except Exception as error:
            log_fallback("LLMQueries", error, "the question alone was searched for")
            return default_queries
        usable_queries = []
        for line in lines:
            query = _remove_list_mark(line).strip("\"'")
            if 0 < len(query) <= _MAX_QUERY_CHARACTERS:
                usable_queries.append(query)
        return (*default_queries, *usable_queries[:_MAX_MODEL_QUERIES])


def _remove_list_mark(line: str) -> str:
    """A line without the bullet or number of a list."""
    line = line.strip()
    mark, _, text = line.partition(" ")
    is_bullet = mark in ("-", "*", "•")
    is_number = mark[:-1].isdigit() and mark[-1] in ".)"
    if is_bullet or is_number:
        return text.strip()
    return line
