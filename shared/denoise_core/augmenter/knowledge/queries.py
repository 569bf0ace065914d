"""Search queries by a model, from the question and the dialogue before it (paper, section 2.3.1)."""

from __future__ import annotations

from denoise_core.augmenter.engine import history_block, question_block
from denoise_core.augmenter.knowledge.questions import question_queries
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.errors import BudgetExceeded, InputError, NotRecorded
from denoise_core.protocols import LLM, expect_llm
from denoise_core.running.effects import Flow, complete
from denoise_core.running.fallbacks import fell_back
from denoise_core.text.delimit import NOTE
from denoise_core.types import Message

QUERIES = (
    "Write search queries that would find the facts needed to answer the question. The history, where there is "
    "one, is the conversation before it, to resolve what 'it' and 'there' stand for. "
    f"{NOTE} "
    "Reply with at most {most} queries, one on each line, and nothing else."
)

_LONGEST = 300  # characters; a longer line is not a query


class LLMQueries:
    """Up to ``most`` queries, one a line, after the question itself. ``llm`` None is the model that drafts
    (LLM-Augmenter, section 2.3.1).

    A model that fails or says nothing usable leaves the question as the only query.
    """

    def __init__(self, llm: LLM | None = None, *, most: int = 3) -> None:
        if most < 1:
            raise InputError(f"most={most}: expected 1 or more")
        self.llm = None if llm is None else expect_llm(llm)
        self.most = most

    def __call__(self, memory: WorkingMemory, wide: bool) -> Flow[tuple[str, ...]]:
        parts = [history_block(memory.history)] if memory.history else []
        shown = "\n\n".join([*parts, question_block(memory.question)])
        messages = (Message("system", QUERIES.format(most=self.most)), Message("user", shown))
        plain = yield from question_queries(memory, wide)
        try:
            reply = yield from complete(messages, tag="queries", llm=self.llm)
            lines = [_unmarked(line).strip("\"'") for line in reply.text.splitlines()]
        except (BudgetExceeded, NotRecorded):
            raise
        except Exception as error:
            fell_back("LLMQueries", error, "the question alone was searched for")
            return plain
        usable = [line for line in lines if line and len(line) <= _LONGEST]
        return (*plain, *usable[: self.most])


def _unmarked(line: str) -> str:
    """A line without the mark or number of a list in front."""
    mark, _, rest = line.strip().partition(" ")
    listed = mark in ("-", "*", "•") or (mark[:-1].isdigit() and mark[-1] in ".)")
    return rest.strip() if listed else line.strip()
