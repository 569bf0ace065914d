"""Shared parts: denoisers in turn, handlers that record, a guard against blocking calls."""

import pytest
from blockbuster import blockbuster_ctx
from judging import let_words_judge
from llama_index.core import Settings
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llamaindex_denoisers import DENOISERS


@pytest.fixture(autouse=True)
def _nothing_hosted():
    """Nothing of ours may have made LlamaIndex resolve a default model, which would be a hosted one."""
    yield
    assert Settings._llm is None
    assert Settings._embed_model is None


@pytest.fixture
def no_blocking():
    """Raises when our code or LlamaIndex's blocks the event loop."""
    with blockbuster_ctx(
        scanned_modules=["denoise_core", "llamaindex_denoise", "llama_index"]
    ) as blocker:
        yield blocker


class Seen(BaseEventHandler):
    events: list[BaseEvent]

    @classmethod
    def class_name(cls):
        return "Seen"

    def handle(self, event, **kwargs):
        self.events.append(event)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def event_log():
    """What LlamaIndex's handlers are told while the test runs."""
    root = get_dispatcher()
    seen = Seen(events=[])
    root.add_event_handler(seen)
    yield seen
    root.event_handlers.remove(seen)


@pytest.fixture
def span_log():
    """The spans that end while the test runs; an id begins with the qualified name of the method."""
    root = get_dispatcher()
    spans = SimpleSpanHandler()
    root.add_span_handler(spans)
    yield spans.completed_spans
    root.span_handlers.remove(spans)


@pytest.fixture(params=DENOISERS)
def denoiser(request):
    return DENOISERS[request.param]()


words_judge = pytest.fixture(autouse=True)(let_words_judge)
