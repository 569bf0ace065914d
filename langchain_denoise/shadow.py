"""`ShadowReport`: a callback that collects what parts with ``shadow=True`` would drop."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from denoise_core import InputError
from denoise_core.shadow import ShadowCall, ShadowLog
from langchain_denoise.convert.claims import extract_output_claims


class ShadowReport(BaseCallbackHandler):
    """Collects what parts with ``shadow=True`` would drop, and the answers.

    A request is one call of the outermost chain, agent or graph. Its id is that of the
    trace: ``config={"run_id": ...}`` chooses it. The answer is the output of that call,
    or its answer key or last message.

    >>> report = ShadowReport()
    >>> # chain.invoke(question, {"callbacks": [report]})
    >>> report.log.summary()["requests"]
    0

    Args:
        path: JSON lines for ``rag-denoise report``, without any text of the user's.
        meter: An OpenTelemetry meter to count with.
    """

    def __init__(self, path: str | Path | None = None, *, meter: Any = None) -> None:
        self.log = ShadowLog(path, meter=meter)
        self._root_ids: dict[UUID, UUID] = {}
        self._lock = threading.Lock()

    def on_chain_start(
        self,
        *args: Any,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Note which request a run belongs to."""
        with self._lock:
            outer_id = parent_run_id or run_id
            self._root_ids[run_id] = self._root_ids.get(outer_id, outer_id)

    on_retriever_start = on_chain_start
    on_tool_start = on_chain_start

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Read the answer where the run is the request."""
        if not self._close_run(run_id):
            return
        try:
            answer = extract_output_claims(outputs, None).text or None
        except InputError:  # such as the documents of a compressor that is called alone
            answer = None
        self.log.add_answer(str(run_id), answer)

    def on_chain_error(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        """Count a request that has no answer, or has it elsewhere."""
        if self._close_run(run_id):
            self.log.add_answer(str(run_id), None)

    on_retriever_end = on_chain_error
    on_retriever_error = on_chain_error
    on_tool_end = on_chain_error
    on_tool_error = on_chain_error

    def add_call(self, run_id: UUID | None, call: ShadowCall) -> None:
        """Count a call that a part made in this run."""
        with self._lock:
            root_id = None if run_id is None else self._root_ids.get(run_id, run_id)
        self.log.add_call(str(root_id), call)

    def _close_run(self, run_id: UUID) -> bool:
        """Forget the run; whether it is a request."""
        with self._lock:
            return self._root_ids.pop(run_id, run_id) == run_id


def report_call(handlers: Iterable[Any], run_id: UUID | None, call: ShadowCall) -> None:
    """Give a call to each `ShadowReport` among the handlers of a run."""
    for handler in handlers:
        if isinstance(handler, ShadowReport):
            handler.add_call(run_id, call)
