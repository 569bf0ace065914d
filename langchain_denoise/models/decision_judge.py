"""A decision model (langchain-core 1.8) as a judge of drafts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from denoise_core import InputError, Message, Reply, Usage
from denoise_core.augmenter import Reason, Verdict, WorkingMemory
from denoise_core.running.effects import Flow, complete
from langchain_denoise.convert.messages import internal_config
from langchain_denoise.models.decisions import check_decision_model, decisions, probability_of_yes

SUPPORTED = "Is everything that `answer` says about `question` supported by `evidence`?"


class DecisionJudge:
    """A decision model as a judge of drafts: supported by the evidence with at least ``threshold`` probability.

    Evidence is put best first, up to ``max_characters``; without any the verdict is unknown. Below
    ``1 - threshold`` the draft fails, in between it is unknown.
    """

    def __init__(
        self,
        model: Any,
        *,
        threshold: float = 0.5,
        instructions: str = SUPPORTED,
        max_characters: int = 20_000,
    ) -> None:
        check_decision_model(model)
        if not 0.5 <= threshold <= 1:
            raise InputError(f"threshold={threshold}: expected a probability from 0.5 to 1")
        self.model = model
        self.threshold = threshold
        self.instructions = instructions
        self.max_characters = max_characters

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        """The verdict of one call. Raises what the model raises."""
        if not memory.evidence or not candidate.strip():
            why = "there is no evidence" if candidate.strip() else "there is no answer"
            return Verdict("unknown", 0.0, (Reason(why, "decision"),))
        state = {
            "question": memory.question,
            "answer": candidate,
            "evidence": _within([p.headed for p in memory.evidence], self.max_characters),
        }
        asked = _Asked(self.model, state, self.instructions)
        said = Message("user", json.dumps({"instructions": self.instructions, **state}, ensure_ascii=False))
        reply = yield from complete((said,), tag="judge", llm=asked)
        yes = float(reply.text)
        words = f"{type(self.model).__name__}: supported with probability {yes:.2f}"
        if yes >= self.threshold:
            return Verdict("pass", yes, ())
        fails = yes < 1 - self.threshold or self.threshold == 0.5
        return Verdict("fail" if fails else "unknown", yes, (Reason(words, "decision"),))


class _Asked:
    """One question to a decision model in the place of an LLM, so that the call is traced, timed and paid for."""

    def __init__(self, model: Any, state: Mapping[str, Any], instructions: str) -> None:
        self.model = model
        self.request = {"state": state, "questions": {"yes": decisions().Noul(instructions=instructions)}}

    def complete(self, messages: Sequence[Message]) -> Reply:
        return _reply(self.model.invoke(self.request, internal_config()))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return _reply(await self.model.ainvoke(self.request, internal_config()))


def _reply(response: Any) -> Reply:
    used = response.usage
    usage = Usage.reported(used["input_tokens"], used["output_tokens"]) if used else None
    return Reply(repr(probability_of_yes(response)), usage)


def _within(texts: Sequence[str], characters: int) -> list[str]:
    """The first texts that fit together; the first is cut where it alone is too long."""
    taken: list[str] = []
    for text in texts:
        if characters <= 0 or (taken and len(text) > characters):
            break
        taken.append(text[:characters])
        characters -= len(text)
    return taken
