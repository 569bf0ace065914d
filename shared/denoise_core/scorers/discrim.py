"""LLM-Discrim, the paper's baseline: a language model is asked outright, passage by passage.

`LLMDiscrim` lets any chat model write yes or no. `DecisionScorer` takes the probability of yes instead,
from one forward pass and no writing, through transformers' ``decision`` pipeline or a server that speaks
its endpoint. Early Noise Dropping, section 3.1.2, compares itself with the first; both run the whole model.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.protocols import LLM, expect_llm
from denoise_core.running.budget import Meter
from denoise_core.running.effects import Complete, Failed, Flow, batch
from denoise_core.running.engines import Engine, RemoteLimits
from denoise_core.running.flow import run
from denoise_core.running.travel import Travels
from denoise_core.scorers.discrim_prompts import CRITERIA, INSTRUCTIONS, SYSTEM, USER
from denoise_core.text.delimit import new_marker
from denoise_core.types import Message, Reply

Floats = NDArray[np.float32]
OnError = Literal["raise", "unclear"]
Decide: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]

YES, UNCLEAR, NO = 1.0, 0.5, 0.0

_THINKING = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")


class LLMDiscrim:
    """Scores 1 for a passage of which the model says yes, 0 for no, 0.5 when its reply is neither
    (the baseline of Early Noise Dropping, section 3.1.2).

    To keep what the paper's baseline keeps, and what could not be read: ``ENDDenoiser(scorer,
    threshold=0.5)``. At most ``max_concurrency`` calls run at once; a surrounding budget is drawn on. A call
    that fails raises, unless ``on_error="unclear"``.
    """

    def __init__(self, llm: LLM, *, max_concurrency: int = 10, on_error: OnError = "raise") -> None:
        if on_error not in ("raise", "unclear"):
            raise InputError(f"on_error={on_error!r}: expected 'raise' or 'unclear'")
        self.llm = expect_llm(llm)
        self.max_concurrency = max_concurrency
        self.on_error = on_error

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """1, 0.5 or 0 for each text, float32 ``(len(texts),)``."""
        scores, _ = run(self._judge(query, texts), llm=self.llm, max_concurrency=self.max_concurrency)
        return np.array(scores, dtype=np.float32)

    def _judge(self, query: str, texts: Sequence[str]) -> Flow[list[float]]:
        replies = yield from batch(tuple(Complete(messages(query, t), "discriminate") for t in texts))
        for reply in replies:
            if isinstance(reply, Failed) and self.on_error == "raise":
                raise reply.error
        return [read(r.text) if isinstance(r, Reply) else UNCLEAR for r in replies]


def messages(query: str, text: str) -> tuple[Message, ...]:
    """What is asked about one text; it stands between marks that it cannot hold."""
    user = USER.format(question=query, passage=text, marker=new_marker([query, text]))
    return Message("system", SYSTEM), Message("user", user)


def read(reply: str) -> float:
    """Yes, no, or neither: the first word that is one of them, outside a thinking block.

    >>> read("Yes."), read("<think>no</think> **YES**"), read("No - not since yesterday"), read("Maybe")
    (1.0, 1.0, 0.0, 0.5)
    """
    for word in _WORD.findall(_THINKING.sub(" ", reply).casefold()):
        if word in ("yes", "no"):
            return YES if word == "yes" else NO
    return UNCLEAR


class DecisionScorer:
    """The probability, 0 to 1, that a passage holds the answer, from one forward pass for each passage.

    ``decide`` takes a request ``{"state": ..., "questions": ...}`` and gives the answers by name: a decision
    pipeline of transformers, `local_decisions`, `served_decisions`, or a function.
    """

    def __init__(self, decide: Decide) -> None:
        self.decide = decide

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Probabilities, float32 ``(len(texts),)``. Raises `InputError` for an answer that is none."""
        asked = {"holds": {"type": "noul", "instructions": INSTRUCTIONS, "criteria": CRITERIA}}
        requests = [{"state": {"question": query, "passage": t}, "questions": asked} for t in texts]
        many = self.decide.many if isinstance(self.decide, _Served) else partial(map, self.decide)
        return np.array([self._chance(answers) for answers in many(requests)], dtype=np.float32)

    @staticmethod
    def _chance(answers: Any) -> float:
        answer = answers.get("holds") if isinstance(answers, Mapping) else None
        chance = answer.get("noul") if isinstance(answer, Mapping) else None
        if not isinstance(chance, int | float) or not 0 <= chance <= 1:
            raise InputError(f"expected an answer such as {{'holds': {{'noul': 0.9}}}}, got {str(answers)[:200]}")
        return float(chance)


def local_decisions(model: Any, *, tokenizer: Any = None) -> Decide:
    """transformers' decision pipeline on a model by name, path or object; loads at the first use.

    Any chat model will do whose vocabulary has Yes and No as single tokens. Calls take turns.
    """
    return _Local(model, tokenizer)


class _Local(Travels):
    """`local_decisions`."""

    named = ("model",)

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        self._made: Any = None

    def __call__(self, request: dict[str, Any]) -> Mapping[str, Any]:
        with self._lock:
            if self._made is None:
                transformers = require("transformers", extra="end")
                self._made = transformers.pipeline("decision", model=self.model, tokenizer=self.tokenizer)
            answers: Mapping[str, Any] = self._made(request)
            return answers


def served_decisions(
    url: str | Sequence[str], model: str, *, key_env: str | None = None, limits: RemoteLimits | None = None
) -> Decide:
    """A server that answers ``POST {url}/v1/systemone``, as ``transformers serve`` does, or several of one model.

    Passages of a call are asked about side by side, each in a request of its own: questions of one request share
    their state, and a passage put among the questions would be read as an instruction. The passages leave this
    machine for ``url``, which has no default. What is tried again and what raises: `Engine`.
    """
    return _Served(url, model, key_env, limits)


class _Served(Travels):
    """`served_decisions`."""

    def __init__(
        self, url: str | Sequence[str], model: str, key_env: str | None, limits: RemoteLimits | None
    ) -> None:
        self.engine = Engine(url, key_env=key_env, limits=limits)
        self.model = model

    def recipe(self) -> dict[str, Any]:
        asked = {"url": self.engine.urls, "key_env": self.engine.key_env, "limits": self.engine.limits}
        return asked | {"model": self.model}

    def __call__(self, request: dict[str, Any]) -> Mapping[str, Any]:
        return self.many([request])[0]

    def many(self, requests: Sequence[dict[str, Any]]) -> list[Mapping[str, Any]]:
        """The answers to each request."""
        return self.engine.run(partial(self._ask, requests))

    async def _ask(self, requests: Sequence[dict[str, Any]], meter: Meter | None) -> list[Mapping[str, Any]]:
        async def ask(url: str, positions: list[int]) -> list[Mapping[str, Any]]:
            body = {"model": self.model, **requests[positions[0]]}
            reply = await self.engine.request("POST", url, "/v1/systemone", body, meter)
            answers = reply.get("answers") if isinstance(reply, dict) else None
            if not isinstance(answers, dict):
                raise InputError(f"{url}/v1/systemone gave no 'answers': {json.dumps(reply)[:200]}")
            return [answers]

        return await self.engine.each([json.dumps(r).encode() for r in requests], 1, ask)
