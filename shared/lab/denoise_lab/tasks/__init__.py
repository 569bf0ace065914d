"""What the reader is taught: conversations written with the library's own prompts, and the replies to them.

So the reader works in S2A, END and the augmenter without prompts of its own. A task is a function that draws a
conversation from a `World`, as hard as a `Difficulty` says; every assistant's message in it is to be learned.
"""

from __future__ import annotations

from collections.abc import Callable

from denoise_lab.tasks.denoising import message, relevance, rewrite, select
from denoise_lab.tasks.drills import cloze, lines, repeat, sums
from denoise_lab.tasks.parts import UNKNOWN, Conversation
from denoise_lab.tasks.reading import (
    answer,
    closed_book,
    discriminate,
    layout,
    passages,
    word_problem,
)
from denoise_lab.tasks.verifying import criticise, draft, search_query, self_ask
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import World

__all__ = ["DRILLS", "MAKERS", "TASKS", "UNKNOWN", "Conversation", "Maker"]

Maker = Callable[[World, Difficulty], Conversation]

TASKS: dict[str, tuple[float, Maker]] = {
    "answer": (4, answer),
    "passages": (4, passages),
    "layout": (4, layout),
    "discriminate": (1, discriminate),
    "rewrite": (3, rewrite),
    "select": (2, select),
    "message": (1, message),
    "closed_book": (1, closed_book),
    "word_problem": (3, word_problem),
    "relevance": (1.5, relevance),
    "draft": (3, draft),
    "criticise": (2, criticise),
    "search_query": (1, search_query),
    "self_ask": (0.3, self_ask),
}
"""The tasks by name, with how often each is drawn."""

DRILLS: dict[str, Maker] = {"cloze": cloze, "lines": lines, "repeat": repeat, "sums": sums}
"""What lessons hold besides the tasks."""

MAKERS: dict[str, Maker] = {name: make for name, (_, make) in TASKS.items()} | DRILLS
