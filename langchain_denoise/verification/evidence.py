"""What the retrievers and tools of a chain return while it runs.

LangChain's own callbacks report it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from typing_extensions import override

from denoise_core import Passage, Usage
from denoise_core.augmenter.drafting import RetrievedEvidence
from denoise_core.tool_results import arguments_text
from denoise_core.types import Provenance
from langchain_denoise.convert.chain_values import tool_output_passages
from langchain_denoise.convert.documents import (
    passages_from_documents,
    read_documents,
)
from langchain_denoise.convert.messages import Citations, message_citations
from langchain_denoise.models.chat_llm import reply_from_message


@dataclass
class _CallbackRun:
    kind: str
    parent_id: UUID | None
    query: str = ""
    inner_kinds: set[str] = field(default_factory=set)


class EvidenceHandler(BaseCallbackHandler):
    """Evidence, tool calls and tokens of one run of a chain.

    Of nested retrievers the outermost counts: the chain reads what it returns. A tool's
    documents are retrieved, its text is a tool's. Text of a tool that called a model is
    that model's, and no evidence. A tool whose retriever reported already adds nothing.
    """

    run_inline = True  # events keep their order, also under async

    def __init__(self) -> None:
        self.retrieved: list[RetrievedEvidence] = []
        self.model_calls = 0
        self.tool_calls = 0
        # By the text of the reply: what follows the model often keeps only the text.
        self.citations: dict[str, Citations] = {}
        self._reported_usages: list[Usage] = []
        self._runs: dict[UUID, _CallbackRun] = {}
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage | None:
        """Tokens of all model calls; None if one of them reported none."""
        usages = self._reported_usages
        if not usages or len(usages) < self.model_calls:
            return None
        input_tokens = sum(usage.input_tokens for usage in usages)
        return Usage(input_tokens, sum(usage.output_tokens for usage in usages))

    def _start_run(
        self, kind: str, run_id: UUID, parent_id: UUID | None, query: str = ""
    ) -> None:
        with self._lock:
            self._runs[run_id] = _CallbackRun(kind, parent_id, query)
            self.tool_calls += kind == "tool"
            # A tool needs to know later whether a model or a retriever ran inside it.
            for outer_run in self._enclosing_runs(parent_id):
                outer_run.inner_kinds.add(kind)

    def _enclosing_runs(self, run_id: UUID | None) -> list[_CallbackRun]:
        enclosing_runs = []
        while run_id is not None and run_id in self._runs:
            enclosing_runs.append(self._runs[run_id])
            run_id = self._runs[run_id].parent_id
        return enclosing_runs

    @override
    def on_chain_start(
        self,
        *args: Any,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        self._start_run("chain", run_id, parent_run_id)

    @override
    def on_chat_model_start(
        self,
        *args: Any,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        self._start_run("llm", run_id, parent_run_id)

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
        self._start_run("retriever", run_id, parent_run_id, str(query))

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
        query = arguments_text(kwargs.get("inputs") or input_str)
        self._start_run("tool", run_id, parent_run_id, query)

    @override
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        outer_kinds = {outer.kind for outer in self._enclosing_runs(run.parent_id)}
        if "retriever" not in outer_kinds:
            document_list = read_documents(documents, "found")
            passages = passages_from_documents(document_list)
            self._add_evidence(passages, run.query)

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._runs.get(run_id)
        if run is None or "retriever" in run.inner_kinds:
            return
        author: Provenance = "model" if "llm" in run.inner_kinds else "tool"
        passages = tool_output_passages(output, author)
        if passages:
            self._add_evidence(passages, run.query)

    @override
    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        with self._lock:
            self.model_calls += 1
            for generation in chain.from_iterable(response.generations):
                message = getattr(generation, "message", None)
                if not isinstance(message, BaseMessage):
                    continue
                reply = reply_from_message(message)
                self.citations[reply.text] = message_citations(message)
                if reply.usage is not None:
                    self._reported_usages.append(reply.usage)

    def _add_evidence(self, passages: tuple[Passage, ...], query: str) -> None:
        with self._lock:
            self.retrieved.append(RetrievedEvidence(passages, query))
