"""A recorder of runs and custom events, as a callback handler sees them."""

from types import SimpleNamespace

from langchain_core.callbacks import BaseCallbackHandler


def _starts(kind):
    """A handler's method for the start of a run of this kind: chain, llm, retriever or tool."""

    def start(self, serialized, asked, *, run_id, parent_run_id=None, **about):
        name = about.get("name") or (serialized or {}).get("name") or kind
        self.runs[run_id] = SimpleNamespace(
            name=name,
            kind=kind,
            parent=parent_run_id,
            tags=list(about.get("tags") or []),
            metadata=dict(about.get("metadata") or {}),
            ended=False,
            error=None,
            output=None,
        )

    return start


class RunRecorder(BaseCallbackHandler):
    """Keeps every run and custom event it is told of, so that a test can ask who is under whom."""

    def __init__(self):
        self.runs = {}
        self.events = []

    def paths(self, kind):
        """For each run of a kind, in order of start: the names from the outermost run to it, as ``a/b/c``."""
        return [self._path(i) for i, run in self.runs.items() if run.kind == kind]

    def of_kind(self, kind):
        return [run for run in self.runs.values() if run.kind == kind]

    def _path(self, run_id):
        run = self.runs[run_id]
        if run.parent is None or run.parent not in self.runs:
            return run.name
        return f"{self._path(run.parent)}/{run.name}"

    def _ended(self, output, *, run_id, **kwargs):
        self.runs[run_id].ended = True
        self.runs[run_id].output = output

    def _failed(self, error, *, run_id, **kwargs):
        self.runs[run_id].ended = True
        self.runs[run_id].error = f"{type(error).__name__}: {error}"

    on_chain_start = _starts("chain")
    on_chat_model_start = _starts("llm")
    on_retriever_start = _starts("retriever")
    on_tool_start = _starts("tool")
    on_chain_end = on_llm_end = on_retriever_end = on_tool_end = _ended
    on_chain_error = on_llm_error = on_retriever_error = on_tool_error = _failed

    def on_custom_event(self, name, data, *, run_id, **kwargs):
        self.events.append((name, data, run_id))
