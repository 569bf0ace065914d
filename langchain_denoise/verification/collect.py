"""What a run found and what it cost, collected from its own callbacks: so any shape of chain can be verified."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from typing_extensions import override

from denoise_core import Passage, Usage
from denoise_core.augmenter.drafting import Found
from denoise_core.text.token_budget import estimate_tokens
from denoise_core.types import Provenance
from langchain_denoise.convert.documents import HEADER_KEYS, read_documents, text_id, to_passages
from langchain_denoise.convert.places import documents_of


@dataclass
class _Run:
    kind: str
    parent: UUID | None
    asked: str = ""
    below: set[str] = field(default_factory=set)  # the kinds of the runs inside


def _begun(kind: str, asked: Callable[[Any, dict[str, Any]], str]) -> Any:
    """The handler of a run's start; ``asked`` reads what it was given and what LangChain says beside it."""

    def begin(
        self: Collector,
        serialized: Any,
        given: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **about: Any,
    ) -> None:
        self._start(kind, run_id, parent_run_id, asked(given, about))

    return begin


class Collector(BaseCallbackHandler):
    """Evidence and usage of one run, from its retrievers', tools' and models' own events.

    Of retrievers inside one another the outermost counts: what it gave is what the chain read. A tool's documents
    are retrieved, its text is a tool's; text of a tool in which a model wrote is that model's, and no evidence; a
    tool whose retriever was heard already adds nothing.
    """

    run_inline = True  # in the order things happen, also under async

    def __init__(self, header_keys: Sequence[str] = HEADER_KEYS) -> None:
        self.header_keys = tuple(header_keys)
        self.found: list[Found] = []
        self.calls = 0
        self.tools = 0
        self._taken = 0
        self._usage = [0, 0]
        self._estimated = False
        self._runs: dict[UUID, _Run] = {}
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage | None:
        """Tokens of all model calls, estimated where a model reports none; None without calls."""
        return Usage(self._usage[0], self._usage[1], estimated=self._estimated) if self.calls else None

    def fresh(self) -> list[Found]:
        """What was found since this was last asked."""
        with self._lock:
            new = self.found[self._taken :]
            self._taken = len(self.found)
        return new

    def _start(self, kind: str, run_id: UUID, parent: UUID | None, asked: str = "") -> None:
        with self._lock:
            self._runs[run_id] = _Run(kind, parent, asked)
            self.tools += kind == "tool"
            while parent is not None and (above := self._runs.get(parent)) is not None:
                above.below.add(kind)
                parent = above.parent

    def _inside(self, run: _Run, kind: str) -> bool:
        parent = run.parent
        while parent is not None and (above := self._runs.get(parent)) is not None:
            if above.kind == kind:
                return True
            parent = above.parent
        return False

    on_chain_start = _begun("chain", lambda given, about: "")
    on_retriever_start = _begun("retriever", lambda query, about: str(query))
    on_tool_start = _begun("tool", lambda given, about: query_of(about.get("inputs") or given))
    on_chat_model_start = _begun("llm", lambda given, about: "\n".join(str(m.text) for b in given for m in b))
    on_llm_start = _begun("llm", lambda prompts, about: "\n".join(prompts))

    @override
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        if run is not None and not self._inside(run, "retriever"):
            self._brought(documents, run.asked)

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        if run is None or "retriever" in run.below:
            return
        message = output if isinstance(output, ToolMessage) else None
        if message is not None and message.status == "error":
            return
        documents = documents_of(message) if message is not None else None
        if documents is None and _are_documents(output):
            documents = list(output)
        if documents is not None:
            self._brought(documents, run.asked)
            return
        text = str(message.text) if message is not None else output if isinstance(output, str) else ""
        if text.strip():
            written: Provenance = "model" if "llm" in run.below else "tool"
            passage = Passage(text, f"tool-{text_id(text)}", provenance=written)
            with self._lock:
                self.found.append(Found((passage,), run.asked))

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        used = reported(response)
        with self._lock:
            self.calls += 1
            if used is None:
                texts = [g.text for batch in response.generations for g in batch]
                used = estimate_tokens(run.asked if run else ""), sum(map(estimate_tokens, texts))
                self._estimated = True
            self._usage[0] += used[0]
            self._usage[1] += used[1]

    def _brought(self, documents: Any, query: str) -> None:
        passages = to_passages(read_documents(documents, "found"), self.header_keys)
        with self._lock:
            self.found.append(Found(passages, query))


def query_of(arguments: Any) -> str:
    """What a tool was asked with, as one text."""
    if not isinstance(arguments, dict):
        return str(arguments)
    values = [v for v in arguments.values() if v is not None]
    return " ".join(v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, default=str) for v in values)


def reported(response: LLMResult) -> tuple[int, int] | None:
    """Input and output tokens as the model reported them: in its message, or in what came with it."""
    counts = [
        (usage["input_tokens"], usage["output_tokens"])
        for batch in response.generations
        for g in batch
        if isinstance(g, ChatGeneration) and (usage := getattr(g.message, "usage_metadata", None))
    ]
    if counts:
        return sum(c[0] for c in counts), sum(c[1] for c in counts)
    usage = (response.llm_output or {}).get("token_usage") or {}
    if "prompt_tokens" in usage:
        return int(usage["prompt_tokens"]), int(usage.get("completion_tokens", 0))
    return None


def _are_documents(output: Any) -> bool:
    return isinstance(output, (list, tuple)) and bool(output) and all(isinstance(d, Document) for d in output)
