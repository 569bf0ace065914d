"""One scripted model for every way of asking, and a count of the tokens its calls read, write and find cached.

It finds the same needed sentences for every method, and answers in the requested form: a list of numbers, a
verdict on a document, ranks, or the sentences themselves. Tokens are those of the cl100k vocabulary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core import Message, Reply, Usage

# Prices in units of an input token.
OUTPUT_PRICE, CACHED_PRICE = 4.0, 0.25
BLOCK_TOKENS = 16  # of the cache of prompt prefixes, as vLLM's
_NUMBERED_PIECE = re.compile(r"^(\d+) ", re.MULTILINE)
_DOCUMENT_START = re.compile(r"^Document (\d+):\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Calls and tokens of one way of asking; ``cached_tokens`` are those of the input that were cached."""

    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int

    @property
    def uncached_cost(self) -> float:
        """The price in units of an input token, on a server without a cache of prefixes."""
        return self.input_tokens + OUTPUT_PRICE * self.output_tokens

    @property
    def cached_cost(self) -> float:
        """The same on a server with a cache of prefixes."""
        return self.uncached_cost - self.cached_tokens * (1 - CACHED_PRICE)


class ScriptedServer:
    """The scripted model. Set ``needed_sentences`` before asking; tokens are counted, prefixes cached.

    Args:
        encode: Turns a text into token ids.
    """

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self.encode = encode
        self.needed_sentences: list[str] = []
        self.clear_cache()
        self.reset_counts()

    def reset_counts(self) -> None:
        """Count from zero; cached prefixes stay."""
        self.calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0

    def clear_cache(self) -> None:
        """Forget all cached prefixes."""
        self._prefix_hashes: set[int] = set()

    @property
    def usage(self) -> TokenUsage:
        """The counts since they were last reset."""
        return TokenUsage(
            self.calls,
            self.input_tokens,
            self.output_tokens,
            self.cached_tokens,
        )

    def reply(self, prompt: str) -> str:
        """Answer a prompt in the form that it asks for, and count its tokens."""
        reply_text = self._write_reply(prompt)
        prompt_ids = self.encode(prompt)
        self.calls += 1
        self.input_tokens += len(prompt_ids)
        self.output_tokens += len(self.encode(reply_text))
        self.cached_tokens += self._reuse_prefix(prompt_ids)
        return reply_text

    def _write_reply(self, prompt: str) -> str:
        found_sentences = [
            sentence for sentence in self.needed_sentences if sentence in prompt
        ]
        joined_sentences = " ".join(found_sentences)
        if "Extracted relevant parts:" in prompt:
            return joined_sentences or "NO_OUTPUT"
        if "Relevant (YES / NO):" in prompt:
            return "YES" if found_sentences else "NO"
        if "Relevance:" in prompt:
            return self._rank_documents(prompt)
        if "Each piece begins with its number" in prompt:
            return self._select_pieces(prompt)
        if "cut into numbered pieces" in prompt:
            return _select_all_pieces(prompt)
        return f"Context: {joined_sentences or 'NONE'}"

    def _rank_documents(self, prompt: str) -> str:
        """The reply to LlamaIndex's reranker: its documents with a needed sentence, or the first one."""
        document_texts = prompt.split("Let's try this now:")[-1]
        ranks = []
        for number, text in _split_numbered(_DOCUMENT_START, document_texts):
            if any(sentence in text for sentence in self.needed_sentences):
                ranks.append(f"Doc: {number}, Relevance: 9")
        if not ranks:
            return "Doc: 1, Relevance: 1"
        return "\n".join(ranks)

    def _select_pieces(self, prompt: str) -> str:
        """The reply to S2A's ``select``: the pieces that are needed, and whether there are any."""
        selected_pieces = {}
        for number, text in _split_pieces(prompt):
            if self._is_needed(text):
                selected_pieces[number] = text
        answered_word = "yes" if selected_pieces else "no"
        if "Reply with JSON" not in prompt:
            number_text = format_ranges(list(selected_pieces)) or "NONE"
            return f"{number_text}\nANSWERED: {answered_word}"
        kept_pieces = []
        for number, text in selected_pieces.items():
            first_words = " ".join(text.split()[:3])
            kept_pieces.append({"n": number, "starts": first_words})
        selection = {"keep": kept_pieces, "answered": answered_word}
        return json.dumps(selection, ensure_ascii=False)

    def _is_needed(self, piece_text: str) -> bool:
        """Whether a piece is part of a needed sentence or has one."""
        first_paragraph = piece_text.split("\n\n")[0].strip()
        # A lone full stop is in every sentence.
        if re.search(r"\w", first_paragraph) is None:
            return False
        for sentence in self.needed_sentences:
            if first_paragraph in sentence or sentence in first_paragraph:
                return True
        return False

    def _reuse_prefix(self, prompt_ids: list[int]) -> int:
        """Add a prompt's blocks to the cache. Returns the tokens of its prefix that were cached before."""
        prefix_hash = 0
        cached_end = 0
        is_cached = True
        for end in range(BLOCK_TOKENS, len(prompt_ids) + 1, BLOCK_TOKENS):
            block = tuple(prompt_ids[end - BLOCK_TOKENS : end])
            prefix_hash = hash((prefix_hash, block))
            is_cached = is_cached and prefix_hash in self._prefix_hashes
            if is_cached:
                cached_end = end
            self._prefix_hashes.add(prefix_hash)
        return cached_end


def _split_numbered(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    """The numbers that a pattern finds, each with the text up to the next."""
    _, *parts = pattern.split(text)
    numbers = map(int, parts[::2])
    return list(zip(numbers, parts[1::2], strict=True))


def _split_pieces(prompt: str) -> list[tuple[int, str]]:
    """The numbered pieces of S2A's prompt."""
    document = prompt.split("\nEND ")[0]
    return _split_numbered(_NUMBERED_PIECE, document)


def _select_all_pieces(prompt: str) -> str:
    """The reply to S2A's prompt about a person's message: all of it is the request."""
    piece_count = len(_split_pieces(prompt))
    if "Reply with JSON" not in prompt:
        return f"1-{piece_count}"
    return json.dumps({"request": list(range(1, piece_count + 1)), "opinion": []})


def format_ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` -> ``1-3, 7``; two neighbours are written one by one."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    run_texts = []
    for run in runs:
        if len(run) > 2:
            run_texts.append(f"{run[0]}-{run[-1]}")
        else:
            run_texts += map(str, run)
    return ", ".join(run_texts)


class ScriptedLLM:
    """The server as an `LLM` of the core."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server

    def complete(self, messages: Sequence[Message]) -> Reply:
        prompt = "\n".join(message.content for message in messages)
        return Reply(self.server.reply(prompt), Usage(0, 0))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return self.complete(messages)


class ScriptedJsonLLM(ScriptedLLM):
    """The same, with replies by a JSON schema."""

    def complete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)

    async def acomplete_json(self, messages: Sequence[Message], schema: Any) -> Reply:
        return self.complete(messages)


def langchain_model(server: ScriptedServer) -> Any:
    """The server as a chat model of LangChain."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class ScriptedChatModel(BaseChatModel):
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
            message = AIMessage(server.reply(messages[-1].text))
            return ChatResult(generations=[ChatGeneration(message=message)])

    return ScriptedChatModel()


def llamaindex_model(server: ScriptedServer) -> Any:
    """The server as a completion model of LlamaIndex."""
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

    class ScriptedCompletionModel(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=100_000)

        def complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> CompletionResponse:
            return CompletionResponse(text=server.reply(prompt))

        def stream_complete(
            self, prompt: str, formatted: bool = False, **kwargs: Any
        ) -> Any:
            raise NotImplementedError("not used here")

    return ScriptedCompletionModel()


def cl100k_encoder() -> Callable[[str], list[int]]:
    """The encoder of the cl100k vocabulary, which llama-index-core ships; no download."""
    from llama_index.core.utils import get_tokenizer

    return get_tokenizer()
