"""Shared parts: models that are functions, denoisers, a handler that records, a guard against blocking calls."""

import pytest
from blockbuster import blockbuster_ctx
from judging import let_words_judge
from llama_index.core import Settings
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import SimpleSpan
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import LLM, CustomLLM
from llamaindex_denoisers import DENOISERS
from llamaindex_doubles import ChatForms


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
    def class_name(cls) -> str:
        return "Seen"

    def handle(self, event, **kwargs):
        self.events.append(event)


class Spans(SimpleSpanHandler):
    """Keeps what ended; `SimpleSpan.id_` begins with the qualified name of the method."""

    @classmethod
    def class_name(cls) -> str:
        return "Spans"

    def tree(self) -> dict[str, str]:
        """Each finished span's name and its parent's, without the random part."""
        return {_name(s): _name_of(s.parent_id) for s in self.completed_spans}


def _name(span: SimpleSpan) -> str:
    return _name_of(span.id_)


def _name_of(id_: str | None) -> str:
    return (id_ or "").split("-")[0]


@pytest.fixture
def event_log():
    """``(events, spans)`` of everything LlamaIndex is told while the test runs."""
    root = get_dispatcher()
    seen, spans = Seen(events=[]), Spans()
    root.add_event_handler(seen)
    root.add_span_handler(spans)
    yield seen.events, spans
    root.event_handlers.remove(seen)
    root.span_handlers.remove(spans)


class Scripted(ChatForms, LLM):
    """A chat model with its own async form, answering by a function of the last message."""

    reply: object
    seen_prompts: list[list[ChatMessage]]
    usage: dict[str, int] | None = None

    @property
    def metadata(self):
        return LLMMetadata(is_chat_model=True, model_name="scripted")

    def chat(self, messages, **kwargs):
        self.seen_prompts.append(list(messages))
        text = self.reply(messages)
        raw = {"usage": self.usage} if self.usage else None
        return ChatResponse(
            message=ChatMessage(role="assistant", content=text), raw=raw
        )

    def stream_chat(self, messages, **kwargs):
        full_answer = self.chat(messages).message.content
        for end in range(1, len(full_answer) + 1):
            yield ChatResponse(
                message=ChatMessage(role="assistant", content=full_answer[:end]),
                delta=full_answer[end - 1 : end],
            )


class Local(CustomLLM):
    """A model of the kind whose async form LlamaIndex runs on the event loop."""

    reply: object

    @property
    def metadata(self):
        return LLMMetadata(model_name="local")

    def complete(self, prompt, formatted=False, **kwargs):
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return CompletionResponse(text=self.reply(prompt), raw={"usage": usage})

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


@pytest.fixture(params=DENOISERS)
def denoiser(request):
    """Each of the denoisers in turn."""
    return DENOISERS[request.param]()


@pytest.fixture
def scripted_llm():
    """``scripted(reply, usage=None)``: a chat model that is a function of its messages."""
    return lambda reply, usage=None: Scripted(reply=reply, usage=usage, seen_prompts=[])


@pytest.fixture
def local():
    """``local(reply)``: a completion model without an async form, a function of its prompt."""
    return lambda reply: Local(reply=reply)


words_judge = pytest.fixture(autouse=True)(let_words_judge)
