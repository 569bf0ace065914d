"""Search queries that a model writes, after the question."""

from __future__ import annotations

import re

from denoise_core.augmenter.knowledge.consolidate import question_queries
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
        prompt_parts = []
        if memory.history:
            history_text = history_block(memory.history)
            prompt_parts.append(history_text)
        question_text = question_block(memory.question)
        prompt_parts.append(question_text)
        prompt_text = "\n\n".join(prompt_parts)
        system_message = Message("system", QUERIES)
        query_message = Message("user", prompt_text)
        messages = (system_message, query_message)
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
            unmarked_line = _remove_list_mark(line)
            query = unmarked_line.strip("\"'")
            if 0 < len(query) <= _MAX_QUERY_CHARACTERS:
                usable_queries.append(query)
        model_queries = usable_queries[:_MAX_MODEL_QUERIES]
        return (*default_queries, *model_queries)


def _remove_list_mark(line: str) -> str:
    """A line without the bullet or number of a list."""
    return re.sub(r"^\s*(?:[-*•]|\d{1,3}[.)])\s", "", line).strip()
