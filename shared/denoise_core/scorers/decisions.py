"""Decision models: the probability of yes from one forward pass, without writing.

`DecisionScorer` asks whether a passage holds the answer: LLM-Discrim (Early Noise Dropping, section 3.1.2) read
from probabilities, through transformers' ``decision`` pipeline or a server that answers typed questions.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadReply, InputError
from denoise_core.running.budget import Meter
from denoise_core.running.engines import Engine, RemoteLimits, lowest
from denoise_core.running.recipes import Travels
from denoise_core.scorers.discrim import CRITERIA, INSTRUCTIONS

Floats = NDArray[np.float32]
Decide: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
Shape = Literal["systemone", "decisions"]


class DecisionScorer:
    """The probability, 0 to 1, that a passage holds the answer, from one forward pass for each passage.

    ``decide`` takes a request ``{"state": ..., "questions": ...}`` and gives the answers by name: a decision
    pipeline of transformers, `LocalDecisions`, `ServedDecisions`, or a function.
    """

    def __init__(self, decide: Decide) -> None:
        self.decide = decide

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Probabilities, float32 ``(len(texts),)``. Raises `BadReply` for an answer that is none."""
        asked = {"holds": {"type": "noul", "instructions": INSTRUCTIONS, "criteria": CRITERIA}}
        requests = [{"state": {"question": query, "passage": t}, "questions": asked} for t in texts]
        many = getattr(self.decide, "many", None) or partial(map, self.decide)
        served = isinstance(self.decide, ServedDecisions)
        return lowest([None if served and found is None else self._chance(found) for found in many(requests)])

    @staticmethod
    def _chance(answers: Any) -> float:
        answer = answers.get("holds") if isinstance(answers, Mapping) else None
        chance = answer.get("noul") if isinstance(answer, Mapping) else None
        if not isinstance(chance, int | float) or not 0 <= chance <= 1:
            raise BadReply("expected an answer such as {'holds': {'noul': 0.9}}, with a chance of 0 to 1")
        return float(chance)


class LocalDecisions(Travels):
    """transformers' decision pipeline on a model by name, path or object; loads at the first use.

    Any chat model will do whose vocabulary has Yes and No as single tokens. Calls take turns.
    """

    named = ("model",)

    def __init__(self, model: Any, *, tokenizer: Any = None) -> None:
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


class ServedDecisions(Travels):
    """A server of a decision model, or several of one model, at addresses before ``/v1``.

    ``shape`` is what it speaks: "systemone" (``POST {url}/v1/systemone``, as ``transformers serve`` does) or
    "decisions" (``POST {url}/v1/decisions``, OpenAI's shape: a predicate about an input). Passages of a call are
    asked about side by side, each in a request of its own: questions of one request share what they are about, and
    a passage put among the questions would be read as an instruction. The passages leave this machine for ``url``,
    which has no default. What is tried again and what raises: `Engine`.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        model: str,
        *,
        shape: Shape = "systemone",
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
    ) -> None:
        if shape not in _WIRES:
            raise InputError(f"shape={shape!r}: expected 'systemone' or 'decisions'")
        self.engine = Engine(url, key_env=key_env, limits=limits)
        self.model = model
        self.shape = shape

    def recipe(self) -> dict[str, Any]:
        return self.engine.settings | {"model": self.model, "shape": self.shape}

    def __call__(self, request: dict[str, Any]) -> Mapping[str, Any]:
        found = self.many([request])[0]
        assert found is not None  # one that is refused alone raises
        return found

    def many(self, requests: Sequence[dict[str, Any]]) -> list[Mapping[str, Any] | None]:
        """The answers to each request; None for one that the server refused by itself."""
        return self.engine.run(partial(self._ask, requests))

    async def _ask(
        self, requests: Sequence[dict[str, Any]], meter: Meter | None
    ) -> list[Mapping[str, Any] | None]:
        wire = _WIRES[self.shape]

        async def ask(url: str, positions: list[int]) -> list[Mapping[str, Any]]:
            body = {"model": self.model, **wire.written(requests[positions[0]])}
            reply = await self.engine.request("POST", url, wire.path, body, meter)
            answers = wire.read(reply.get("answers")) if isinstance(reply, dict) else None
            if answers is None:
                raise BadReply(f"{url}{wire.path} gave no 'answers'")
            return [answers]

        return await self.engine.each([json.dumps(r).encode() for r in requests], 1, ask)


def _predicates(request: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's shape of a request: the state as JSON text, and criteria among the instructions."""
    questions = [
        {
            "type": "predicate",
            "name": name,
            "instructions": f"{asked['instructions']} True: {asked['criteria']['true']} "
            f"False: {asked['criteria']['false']}",
        }
        for name, asked in request["questions"].items()
    ]
    return {"input": json.dumps(request["state"], ensure_ascii=False), "questions": questions}


def _listed(answers: Any) -> Mapping[str, Any] | None:
    """OpenAI's shape of answers by name; a refusal stays as it is, and is no probability."""
    if not isinstance(answers, list) or not all(isinstance(a, Mapping) and "name" in a for a in answers):
        return None
    return {a["name"]: {"noul": a["probability"]} if "probability" in a else dict(a) for a in answers}


class _Wire(NamedTuple):
    """What a shape looks like on the wire."""

    path: str
    written: Callable[[dict[str, Any]], dict[str, Any]]
    read: Callable[[Any], Mapping[str, Any] | None]


_WIRES: Mapping[str, _Wire] = {
    "systemone": _Wire("/v1/systemone", dict, lambda answers: answers if isinstance(answers, Mapping) else None),
    "decisions": _Wire("/v1/decisions", _predicates, _listed),
}
