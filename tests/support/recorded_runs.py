"""A recorder of runs and custom events, as a callback handler sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from typing_extensions import override


@dataclass
class RecordedRun:
    """One run as a callback handler sees it. ``kind`` is chain, llm, retriever or tool."""

    name: str
    kind: str
    parent: UUID | None
    tags: list[str]
    metadata: dict[str, Any]
    ended: bool = False
    error: str | None = None
    output: Any = None


def _starts(kind: str) -> Any:
    """A handler's method for the start of a run of this kind."""

    def start(
        self: RunRecorder,
        serialized: Any,
        asked: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **about: Any,
    ) -> None:
        """Notes that a run has begun."""
        name = about.get("name") or (serialized or {}).get("name") or kind
        tags, metadata = about.get("tags") or [], about.get("metadata") or {}
        self.runs[run_id] = RecordedRun(
            name, kind, parent_run_id, list(tags), dict(metadata)
        )

    return start


class RunRecorder(BaseCallbackHandler):
    """Keeps every run and custom event it is told of, so that a test can ask who is under whom."""

    def __init__(self) -> None:
        self.runs: dict[UUID, RecordedRun] = {}
        self.events: list[tuple[str, Any, UUID]] = []

    def paths(self, kind: str) -> list[str]:
        """For each run of a kind, in order of start: the names from the outermost run to it, as ``a/b/c``."""
        return [self._path(i) for i, run in self.runs.items() if run.kind == kind]

    def of_kind(self, kind: str) -> list[RecordedRun]:
        """The runs of a kind, such as "retriever" or "chain", in the order they began."""
        return [run for run in self.runs.values() if run.kind == kind]

    def _path(self, run_id: UUID) -> str:
        run = self.runs[run_id]
        if run.parent is None or run.parent not in self.runs:
            return run.name
        return f"{self._path(run.parent)}/{run.name}"

    def _ended(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Notes that a run has ended, and with what."""
        self.runs[run_id].ended = True
        self.runs[run_id].output = output

    def _failed(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Notes that a run has failed, and with what."""
        self.runs[run_id].ended = True
        self.runs[run_id].error = f"{type(error).__name__}: {error}"

    on_chain_start = _starts("chain")
    on_chat_model_start = _starts("llm")
    on_retriever_start = _starts("retriever")
    on_tool_start = _starts("tool")
    on_chain_end = on_llm_end = on_retriever_end = on_tool_end = _ended
    on_chain_error = on_llm_error = on_retriever_error = on_tool_error = _failed

    @override
    def on_custom_event(
        self, name: str, data: Any, *, run_id: UUID, **kwargs: Any
    ) -> None:
        self.events.append((name, data, run_id))
