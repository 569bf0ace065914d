"""What the retrievers and tools of a chain brought while it ran, from LangChain's own callbacks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.outputs import LLMResult
from typing_extensions import override

from denoise_core import Passage, Usage
from denoise_core.augmenter.drafting import RetrievedEvidence
from denoise_core.tool_results import arguments_text
from denoise_core.types import Provenance
from langchain_denoise.convert.chain_values import artifact_documents
from langchain_denoise.convert.documents import (
    HEADER_KEYS,
    id_from_text,
    passages_from_documents,
    read_documents,
)


@dataclass
class _Run:
    kind: str
    parent_id: UUID | None
    query: str = ""
    inner_kinds: set[str] = field(default_factory=set)


class EvidenceHandler(BaseCallbackHandler):
    """Evidence, tool calls and tokens of one run of a chain.

    Of retrievers inside one another the outermost counts: what it gave is what the chain read. A tool's documents
    are retrieved, its text is a tool's; text of a tool in which a model wrote is that model's, and no evidence; a
    tool whose retriever was heard already adds nothing.
    """

    run_inline = True  # in the order things happen, also under async

    def __init__(self) -> None:
        self.retrieved: list[RetrievedEvidence] = []
        self.model_calls = 0
        self.tool_calls = 0
        self._usages: list[Usage] = []
        self._yielded = 0
        self._runs: dict[UUID, _Run] = {}
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage | None:
        """Tokens of all model calls; None where one of them reported none."""
        if not self._usages or len(self._usages) < self.model_calls:
            return None
        return Usage(
            sum(u.input_tokens for u in self._usages),
            sum(u.output_tokens for u in self._usages),
        )

    def new_evidence(self) -> list[RetrievedEvidence]:
        """What was found since this was last asked."""
        with self._lock:
            new = self.retrieved[self._yielded :]
            self._yielded = len(self.retrieved)
        return new

    def _start(
        self, kind: str, run_id: UUID, parent_id: UUID | None, query: str = ""
    ) -> None:
        with self._lock:
            self._runs[run_id] = _Run(kind, parent_id, query)
            self.tool_calls += kind == "tool"
            for outer in self._runs_around(parent_id):
                outer.inner_kinds.add(kind)

    def _runs_around(self, run_id: UUID | None) -> list[_Run]:
        around: list[_Run] = []
        while run_id is not None and run_id in self._runs:
            around.append(self._runs[run_id])
            run_id = self._runs[run_id].parent_id
        return around

    @override
    def on_chain_start(
        self, *args: Any, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self._start("chain", run_id, parent_run_id)

    @override
    def on_chat_model_start(
        self, *args: Any, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self._start("llm", run_id, parent_run_id)

    on_llm_start = on_chat_model_start

    @override
    def on_retriever_start(
        self,
        serialized: Any,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        self._start("retriever", run_id, parent_run_id, str(query))

    @override
    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        self._start(
            "tool",
            run_id,
            parent_run_id,
            arguments_text(kwargs.get("inputs") or input_str),
        )

    @override
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        if run is None or any(
            outer.kind == "retriever" for outer in self._runs_around(run.parent_id)
        ):
            return
        self._add_documents(documents, run.query)

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        if run is None or "retriever" in run.inner_kinds:
            return
        message = output if isinstance(output, ToolMessage) else None
        if message is not None and message.status == "error":
            return
        documents = artifact_documents(message) if message is not None else None
        if documents is None and _are_documents(output):
            documents = list(output)
        if documents is not None:
            self._add_documents(documents, run.query)
            return
        text = str(message.text) if message is not None else output
        if isinstance(text, str) and text.strip():
            author: Provenance = "model" if "llm" in run.inner_kinds else "tool"
            self._add(
                RetrievedEvidence(
                    (Passage(text, f"tool-{id_from_text(text)}", provenance=author),),
                    run.query,
                )
            )

    @override
    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        messages = [
            getattr(g, "message", None) for batch in response.generations for g in batch
        ]
        reported = [getattr(message, "usage_metadata", None) for message in messages]
        counts = [usage for usage in reported if usage]
        with self._lock:
            self.model_calls += 1
            if counts:
                input_tokens = sum(c["input_tokens"] for c in counts)
                self._usages.append(
                    Usage(input_tokens, sum(c["output_tokens"] for c in counts))
                )

    def _add_documents(self, documents: Any, query: str) -> None:
        self._add(
            RetrievedEvidence(
                passages_from_documents(
                    read_documents(documents, "found"), HEADER_KEYS
                ),
                query,
            )
        )

    def _add(self, found: RetrievedEvidence) -> None:
        with self._lock:
            self.retrieved.append(found)


def _are_documents(output: Any) -> bool:
    return (
        isinstance(output, (list, tuple))
        and bool(output)
        and all(isinstance(d, Document) for d in output)
    )
