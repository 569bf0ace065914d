"""What clients of the OpenAI protocol send and get: read strictly, and refused with a reason.

A field that would change the reply and cannot be honoured is refused, never passed over in silence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from denoise_core.local.generation.llm import Ended
from denoise_core.types import Message, Role, well_formed

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_READ = {"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "stop"}
_READ |= {"stream", "stream_options"}
# They ask for nothing, or for what is so anyway.
_OF_NO_EFFECT = frozenset(("user", "metadata", "store", "service_tier", "parallel_tool_calls", "prompt_cache_key"))
# Their neutral values are what is done anyway; any other would change the reply.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "top_p": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "logit_bias": ({},),
    "modalities": (["text"],),
}
_STOPS, _STOP_LENGTH = 8, 200  # texts, and characters of one
_TEMPERATURES, _SEEDS = (0, 2), (-(2**63), 2**63 - 1)
_GREEDY = 0.01  # a temperature below it: the numbers would leave what single precision holds


class Refused(Exception):
    """A request that gets an error. ``code`` is for programs; ``param`` names the field at fault."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True, slots=True)
class Asked:
    """One chat completion that was asked for; None is the server's own setting."""

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    usage: bool = False  # at the end of the stream


def read_request(body: bytes, served: str, most_tokens: int) -> Asked:
    """The request in ``body``. Raises `Refused` (400, or 404 for a model that is not ``served``)."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}", "invalid_json") from error
    if not isinstance(found, dict):
        raise Refused(
            400, 'the body is no JSON object; expected {"model": ..., "messages": [...]}', "invalid_json"
        )
    given = {k: v for k, v in found.items() if v is not None}
    for name, value in given.items():
        if name in _NEUTRAL and not any(
            value == n and isinstance(value, bool) == isinstance(n, bool) for n in _NEUTRAL[name]
        ):
            raise Refused(400, f"{name}={_short(value)} is not supported here; leave it out", "unsupported", name)
        if name not in _NEUTRAL and name not in _READ and name not in _OF_NO_EFFECT:
            raise Refused(400, f"the field {_short(name)} is not known here; leave it out", "unknown_field", name)
    if "model" in given and given["model"] != served:
        raise Refused(
            404, f"there is no model {_short(given['model'])} here, only {served!r}", "model_not_found", "model"
        )
    limit = "max_completion_tokens" if "max_completion_tokens" in given else "max_tokens"
    temperature = _number(given, "temperature", _TEMPERATURES)
    options = given.get("stream_options", {})
    if not isinstance(options, dict):
        raise Refused(400, "stream_options is no object", "invalid_value", "stream_options")
    return Asked(
        _messages(given.get("messages")),
        cast(int | None, _number(given, limit, (1, most_tokens), whole=True)),
        None if temperature is None else temperature * (temperature >= _GREEDY),
        cast(int | None, _number(given, "seed", _SEEDS, whole=True)),
        _stops(given.get("stop", [])),
        _flag(given, "stream"),
        _flag(options, "include_usage"),
    )


def _messages(found: Any) -> tuple[Message, ...]:
    if not isinstance(found, list) or not found:
        raise Refused(
            400, "messages is missing: expected a list of one or more messages", "invalid_value", "messages"
        )
    return tuple(_message(f"messages[{n}]", m) for n, m in enumerate(found))


def _message(at: str, found: Any) -> Message:
    if not isinstance(found, dict) or found.get("role") not in _ROLES:
        raise Refused(
            400, f"{at}: expected an object with a role, one of {', '.join(_ROLES)}", "invalid_value", at
        )
    if found.get("tool_calls"):
        raise Refused(400, f"{at}: tool calls are not supported here", "unsupported", at)
    content = found.get("content")
    if isinstance(content, list):
        if not all(
            isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str) for p in content
        ):
            raise Refused(400, f"{at}: only parts of the type 'text' are supported here", "unsupported", at)
        content = "".join(p["text"] for p in content)
    if not isinstance(content, str):
        raise Refused(400, f"{at}.content: expected a text, got {type(content).__name__}", "invalid_value", at)
    return Message(_ROLES[found["role"]], well_formed(content))


def _number(
    given: Mapping[str, Any], name: str, between: tuple[float, float], *, whole: bool = False
) -> float | int | None:
    value = given.get(name)
    if value is None:
        return None
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not between[0] <= value <= between[1]:
        kind = "a whole number" if whole else "a number"
        raise Refused(
            400,
            f"{name}={_short(value)}: expected {kind} from {between[0]} to {between[1]}",
            "invalid_value",
            name,
        )
    return value


def _stops(found: Any) -> tuple[str, ...]:
    stops = [found] if isinstance(found, str) else found
    if (
        not isinstance(stops, list)
        or len(stops) > _STOPS
        or not all(isinstance(s, str) and 0 < len(s) <= _STOP_LENGTH for s in stops)
    ):
        raise Refused(
            400,
            f"stop: expected a text or at most {_STOPS} of them, each of 1 to {_STOP_LENGTH} characters",
            "invalid_value",
            "stop",
        )
    return tuple(map(well_formed, stops))


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise Refused(400, f"{name}={_short(value)}: expected true or false", "invalid_value", name)
    return value


def _short(value: Any) -> str:
    said = json.dumps(value, ensure_ascii=True)
    return said if len(said) <= 60 else said[:57] + "..."


@dataclass(frozen=True, slots=True)
class Answering:
    """What all parts of one reply say of it: its ``id``, when it was ``created`` (Unix seconds), and the model."""

    id: str
    created: int
    model: str

    def whole(self, text: str, ended: Ended) -> dict[str, Any]:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "logprobs": None,
            "finish_reason": _reason(ended),
        }
        return self._part("chat.completion", [choice]) | {"usage": _usage(ended)}

    def piece(self, text: str, *, first: bool) -> dict[str, Any]:
        delta = ({"role": "assistant"} if first else {}) | {"content": text}
        return self._chunk(delta, None)

    def last(self, ended: Ended) -> dict[str, Any]:
        return self._chunk({}, _reason(ended))

    def tokens(self, ended: Ended) -> dict[str, Any]:
        return self._part("chat.completion.chunk", []) | {"usage": _usage(ended)}

    def _chunk(self, delta: dict[str, str], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._part("chat.completion.chunk", [choice])

    def _part(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def _reason(ended: Ended) -> Literal["length", "stop"]:
    return "length" if ended.cut else "stop"


def _usage(ended: Ended) -> dict[str, int]:
    used = ended.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.total,
    }


def listed(model: str, created: int) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": created, "owned_by": "local"}
