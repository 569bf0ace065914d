"""Scripted models for S2A, which read the delimited text as a model would, and S2A around one of them."""

import re
from dataclasses import fields

from augmenter_doubles import scripted
from envelopes import enclosed

from denoise_core import Reply
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionLLM

_PIECE = re.compile(r"^(\d+) ", re.MULTILINE)
_OPTION_NAMES = {field.name for field in fields(Options)}


def request(messages):
    """What the user's first message says."""
    return next(message.content for message in messages if message.role == "user")


def document(messages):
    """What stands between the first delimiters of a prompt."""
    ((_, text), *_), _ = enclosed(request(messages))
    return text


def pieces(messages):
    parts = _PIECE.split(document(messages))[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2], strict=True))


def keeps(is_needed):
    def reply(messages):
        shown = pieces(messages)
        return ", ".join(str(n) for n in shown if is_needed(shown[n])) or "NONE"

    return FunctionLLM(reply)


def copies():
    return FunctionLLM(lambda messages: f"Context: {document(messages)}")


def s2a(model, **settings):
    """S2A with this model, or with one that always gives this reply; a setting may be a field of its options."""
    llm = scripted(model) if isinstance(model, str) else model
    options = {name: settings.pop(name) for name in _OPTION_NAMES & settings.keys()}
    return S2ADenoiser(llm, options=Options(**options), **settings)


def denoised(model, passages, query="How tall is the tower?", **settings):
    """What `s2a` makes of these passages."""
    return s2a(model, **settings).denoise(query, passages)


def call_count(llm):
    return len(llm.received_messages)


def texts(passages):
    return [passage.text for passage in passages]


def ids(passages):
    return [passage.id for passage in passages]


def cut_at(text, spans):
    return [text[span.start : span.end] for span in spans]


def texts_at(text, marked):
    """The parts of a text that drops, or anything else with a span, are about."""
    return cut_at(text, [item.span for item in marked])


class Structured(FunctionLLM):
    """A model that is held to a schema; ``reply`` is a function of the messages and the schema, or None.

    ``structured`` is as an adapter has it: None until the model was asked.
    """

    def __init__(self, reply, structured=True):
        super().__init__(lambda messages: reply(messages, None))
        self.reply_to_schema = reply
        self.structured = structured
        self.schemas = []

    def complete(self, messages):
        self.schemas.append(None)
        return super().complete(messages)

    def complete_json(self, messages, schema):
        self.structured = bool(self.structured)
        self.received_messages.append(tuple(messages))
        self.schemas.append(schema)
        return Reply(self.reply_to_schema(messages, schema))

    async def acomplete_json(self, messages, schema):
        return self.complete_json(messages, schema)
