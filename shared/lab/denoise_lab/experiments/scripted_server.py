"""One scripted model for every way of asking, and the count of what its calls read, write and find cached.

It finds the same sentences needed for every method, and answers in the requested form: a list of numbers, a
verdict on a document, ranks, or the sentences themselves. Tokens are those of the cl100k vocabulary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core import Message, Reply, Usage

OUTPUT, CACHED = 4.0, 0.25  # prices in units of an input token
CACHES = {
    "vLLM": (16, 0),
    "hosted": (128, 1024),
}  # tokens of a block, least tokens of a prefix
_PIECE = re.compile(r"^(\d+) ", re.MULTILINE)


@dataclass
class Spent:
    """Tokens of one way of asking; ``cached`` for each kind of cache."""

    calls: int
    read: int
    written: int
    cached: dict[str, int]

    def money(self, cache: str | None = None) -> float:
        cached = self.cached[cache] if cache else 0
        return self.read - cached * (1 - CACHED) + OUTPUT * self.written


class Server:
    """The scripted model. ``wanted`` are the sentences needed; tokens are counted, prefixes remembered."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self.encode = encode
        self.wanted: list[str] = []
        self.known: dict[str, set[int]] = {name: set() for name in CACHES}
        self.clear()

    def clear(self) -> None:
        """Count from nothing on; what is cached stays."""
        self.calls = self.read = self.written = 0
        self.cached = dict.fromkeys(CACHES, 0)

    def forget(self) -> None:
        self.known = {name: set() for name in CACHES}

    @property
    def spent(self) -> Spent:
        return Spent(self.calls, self.read, self.written, dict(self.cached))

    def answer(self, prompt: str) -> str:
        found = [s for s in self.wanted if s in prompt]
        if "Extracted relevant parts:" in prompt:
            text = " ".join(found) or "NO_OUTPUT"
        elif "Relevant (YES / NO):" in prompt:
            text = "YES" if found else "NO"
        elif "Relevance:" in prompt:
            documents = re.split(
                r"^Document (\d+):\n",
                prompt.split("Let's try this now:")[-1],
                flags=re.MULTILINE,
            )
            named = [
                n
                for n, d in zip(documents[1::2], documents[2::2])
                if any(s in d for s in self.wanted)
            ]
            text = (
                "\n".join(f"Doc: {n}, Relevance: 9" for n in named)
                or "Doc: 1, Relevance: 1"
            )
        elif "Each piece begins with its number" in prompt:
            cut = _PIECE.split(prompt.split("\nEND ")[0])[1:]
            chosen = {
                int(n): piece
                for n, piece in zip(cut[::2], cut[1::2])
                if self._needed(piece)
            }
            answered = "yes" if chosen else "no"
            text = f"{_ranges(list(chosen)) or 'NONE'}\nANSWERED: {answered}"
            if "Reply with JSON" in prompt:
                keep = [
                    {"n": n, "starts": " ".join(piece.split()[:3])}
                    for n, piece in chosen.items()
                ]
                text = json.dumps(
                    {"keep": keep, "answered": answered}, ensure_ascii=False
                )
        elif "cut into numbered pieces" in prompt:  # all of it is the request
            count = len(_PIECE.findall(prompt.split("\nEND ")[0]))
            text = (
                f"1-{count}"
                if "Reply with JSON" not in prompt
                else json.dumps({"request": list(range(1, count + 1)), "opinion": []})
            )
        else:
            text = f"Context: {' '.join(found) or 'NONE'}"
        self._count(prompt, text)
        return text

    def _needed(self, piece: str) -> bool:
        own = piece.split("\n\n")[0].strip()
        said = (
            re.search(r"\w", own) is not None
        )  # a lone full stop is in every sentence
        return any(said and (own in s or s in own) for s in self.wanted)

    def _count(self, prompt: str, text: str) -> None:
        tokens = self.encode(prompt)
        self.calls, self.read = self.calls + 1, self.read + len(tokens)
        self.written += len(self.encode(text))
        for name, (block, least) in CACHES.items():
            running, hit, open_ = 0, 0, True
            for end in range(block, len(tokens) + 1, block):
                running = hash((running, tuple(tokens[end - block : end])))
                open_ = open_ and running in self.known[name]
                hit = end if open_ else hit
                self.known[name].add(running)
            self.cached[name] += hit if hit >= least else 0


def _ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` -> ``1-3, 7``"""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(
        f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs
    )


class OurModel:
    def __init__(self, server: Server) -> None:
        self.server = server

    def complete(self, messages: Sequence[Message]) -> Reply:
        return Reply(
            self.server.answer("\n".join(m.content for m in messages)), Usage(0, 0)
        )

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return self.complete(messages)


class HeldModel(OurModel):
    """The same, held to a JSON schema."""

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)


def langchain_model(server: Server) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(
            self,
            messages: Any,
            stop: Any = None,
            run_manager: Any = None,
            **kwargs: Any,
        ) -> ChatResult:
            return ChatResult(
                generations=[
                    ChatGeneration(message=AIMessage(server.answer(messages[-1].text)))
                ]
            )

    return Model()


def llamaindex_model(server: Server) -> Any:
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

    class Model(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=100_000)

        def complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> CompletionResponse:
            return CompletionResponse(text=server.answer(prompt))

        def stream_complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> Any:
            raise NotImplementedError("not used here")

    return Model()


def tokenizer() -> Callable[[str], list[int]]:
    """Tokens of the cl100k vocabulary, which llama-index-core brings along; no download."""
    from llama_index.core.utils import get_tokenizer

    return get_tokenizer()
