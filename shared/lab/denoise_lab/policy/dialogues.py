"""Turns of recorded dialogues, policies that never change, and what a policy gets and spends on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from denoise_core import Message, Passage
from denoise_core.augmenter.actions import Action, Draft, Search, Send
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.policy import Policy, Rules
from denoise_lab.policy import (
    Simulator,
    Turn,
)


class InTurn:
    """A fixed list of actions, then send."""

    def __init__(self, *actions: Action) -> None:
        self.actions = actions

    def choose(self, memory: WorkingMemory) -> Action:
        taken = len(memory.actions)
        return self.actions[taken] if taken < len(self.actions) else Send()


SHIPPED: dict[str, Policy] = {
    "never search (rules)": Rules(consult="never"),
    "self-ask (rules)": Rules(consult="self_ask", without_evidence="draft"),
    "always search (rules)": Rules(without_evidence="draft"),
}


LISTS: dict[str, Policy] = {
    "draft once, send": InTurn(Draft()),
    "draft twice, send": InTurn(Draft(), Draft()),
    "draft, search, draft, send": InTurn(Draft(), Search(), Draft()),
    "search, draft once, send": InTurn(Search(), Draft()),
    "search wide, draft once, send": InTurn(Search(), Search(wide=True), Draft()),
}


FIXED = SHIPPED | LISTS


def turns(rows: Sequence[dict[str, Any]]) -> list[Turn]:
    found = []
    for row in rows:
        snippets = tuple(Passage(p["text"], p["id"], metadata={"title": p["title"]}) for p in row["passages"])
        said = [Message("user" if t["speaker"] == "U" else "assistant", t["text"]) for t in row["dialog"]]
        gold = frozenset(p["id"] for p in row["passages"] if p["is_gold"])
        if gold:
            found.append(Turn(row["question"], tuple(said[:-1]), snippets, gold, row["response"]))
        earlier = [n for n, m in enumerate(said[:-2]) if m.role == "user" and said[n + 1].role == "assistant"]
        if earlier:
            at = earlier[len(earlier) // 2]
            found.append(Turn(said[at].content, tuple(said[:at]), snippets, frozenset(), said[at + 1].content))
    return found


def measure(policy: Policy, episodes: Sequence[Simulator]) -> tuple[np.ndarray, np.ndarray]:
    """Reward and cost of each episode."""
    found = []
    for episode in episodes:
        answer, reward = episode(policy)
        found.append((reward, episode.cost(answer)))
    both = np.array(found)
    return both[:, 0], both[:, 1]


def made_up(count: int) -> list[Turn]:
    found = []
    for n in range(count):
        snippets = (
            Passage(f"Breakfast at house {n} costs {n + 5} pounds.", "a", metadata={"title": f"House {n}"}),
            Passage(f"House {n} has a garden.", "b", metadata={"title": f"House {n}"}),
        )
        found.append(
            Turn(f"What does breakfast at house {n} cost?", (), snippets, frozenset(("a",)), "It is cheap.")
        )
        found.append(Turn("I need a house in the north.", (), snippets, frozenset(), "For how many nights?"))
    return found
