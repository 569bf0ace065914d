"""What our query engines share: responses that can be streamed, prompts that can be reached through them."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import BasePromptTemplate, ChatPromptTemplate
from llama_index.core.prompts.mixin import PromptDictType, PromptMixin, PromptMixinType
from llama_index.core.schema import NodeWithScore

from denoise_core import Denoiser, Guard, InputError, Message
from denoise_core.errors import format_error
from denoise_core.types import Role

if TYPE_CHECKING:
    from denoise_core.s2a import Options, Prompt

D = TypeVar("D", bound=Denoiser)

StreamingMode: TypeAlias = bool | Literal["draft", "checked"]
NodeSequence: TypeAlias = Sequence[NodeWithScore]


class NestedPrompts(PromptMixin):
    """A `PromptMixin` whose ``update_prompts`` also takes prompts two levels down, which ``get_prompts`` lists as
    ``query_engine:response_synthesizer:text_qa_template``: LlamaIndex's own raises ValueError for them."""

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        return

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def update_prompts(self, prompts_dict: dict[str, BasePromptTemplate]) -> None:
        """Raises `InputError` for a key that ``get_prompts`` does not list."""
        known = self.get_prompts()
        unknown = sorted(set(prompts_dict) - set(known))
        if unknown:
            raise InputError(
                f"no prompt named {', '.join(map(repr, unknown))}; there are {sorted(known)}"
            )
        self._update_prompts({k: v for k, v in prompts_dict.items() if ":" not in k})
        for name, module in self._get_prompt_modules().items():
            begins = f"{name}:"
            nested = {
                k.removeprefix(begins): v
                for k, v in prompts_dict.items()
                if k.startswith(begins)
            }
            if nested:
                module.update_prompts(nested)


def denoiser_prompts(denoiser: Denoiser) -> PromptDictType:
    """The prompts a denoiser uses; empty for one that asks no model."""
    if isinstance(denoiser, Guard):
        return denoiser_prompts(denoiser.denoiser)
    from denoise_core.s2a import S2ADenoiser

    if isinstance(denoiser, S2ADenoiser):
        return {
            f"s2a_{denoiser.variant}": prompt_to_template(
                denoiser.options.step_1(denoiser.variant)
            )
        }
    return {}


def with_prompts(denoiser: D, prompts: Mapping[str, BasePromptTemplate]) -> D:
    """A copy of ``denoiser`` that uses ``prompts``; the denoiser itself, which others may share, stays."""
    from denoise_core.s2a import S2ADenoiser

    changed = copy.copy(denoiser)
    if isinstance(changed, Guard):
        changed.denoiser = with_prompts(changed.denoiser, prompts)
    if isinstance(changed, S2ADenoiser):
        wanted = prompts.get(f"s2a_{changed.variant}")
        if wanted is not None:
            changed.options = replace_prompt(
                changed.options, changed.options.step_1(changed.variant), wanted
            )
    return changed


def replace_prompt(
    options: Options, old: Prompt, template: BasePromptTemplate
) -> Options:
    """``options`` with ``template`` in the place of its prompt ``old``."""
    place = next(
        f.name
        for f in fields(options.prompts)
        if getattr(options.prompts, f.name) is old
    )
    return replace(
        options,
        prompts=replace(options.prompts, **{place: template_to_prompt(template, old)}),
    )


def prompt_to_template(prompt: Prompt) -> ChatPromptTemplate:
    messages = [ChatMessage(role="user", content=prompt.user)]
    if prompt.system:
        messages.insert(0, ChatMessage(role="system", content=prompt.system))
    return ChatPromptTemplate(message_templates=messages)


def template_to_prompt(template: BasePromptTemplate, old: Prompt) -> Prompt:
    """The core's prompt, from a template of any kind; one without roles leaves the system's part as it was.

    Variables that were bound or mapped keep their values. Raises `InputError` for something that is no template,
    and for one that names a field the step does not fill or lacks one that it needs.
    """
    if isinstance(template, str) or not isinstance(template, BasePromptTemplate):
        raise InputError(
            f"prompt {old.name!r}: expected a llama_index prompt template, got {type(template).__name__}; "
            "write PromptTemplate(...)"
        )
    argument = {
        own: given for given, own in (template.template_var_mappings or {}).items()
    }
    named = {
        argument.get(n, n) for n in template.template_vars if n not in template.kwargs
    }
    marks: dict[str, Any] = {
        field: f"\0{field}\0" for field in {*old.field_names, *named}
    }
    try:
        messages = template.format_messages(**marks)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"prompt {old.name!r}: the template cannot be filled: {format_error(error)}"
        ) from error
    roles = {m.role.value for m in messages}
    system = "\n\n".join(m.content or "" for m in messages if m.role == "system")
    user = "\n\n".join(m.content or "" for m in messages if m.role != "system")
    parts = [_with_fields(text, marks) for text in (system, user)]
    if roles == {"user"}:
        parts[0] = old.system
    wording = hashlib.sha256(
        f"{parts[0]}\0{parts[1]}".encode("utf-8", "surrogatepass")
    ).hexdigest()[:12]
    return type(old)(old.name, f"custom-{wording}", parts[0], parts[1])


def _with_fields(text: str, marks: Mapping[str, str]) -> str:
    """Rendered text as the core's template: its braces are text, and the marks are its fields again."""
    text = text.replace("{", "{{").replace("}", "}}")
    for field, mark in marks.items():
        text = text.replace(mark, f"{{{field}}}")
    return text


class DenoiseEngine(NestedPrompts, BaseQueryEngine):
    """Base of our engines. With ``streaming=True`` the finished text is handed out in pieces, and no sooner."""

    streaming: StreamingMode = False

    def _build_response(
        self,
        text: Any,
        nodes: Sequence[NodeWithScore],
        metadata: dict[str, Any],
        *,
        later: bool = False,
    ) -> RESPONSE_TYPE:
        """The response, a stream for sync or async (``later``) code where one is wanted."""
        if isinstance(text, BaseModel):
            return PydanticResponse(text, list(nodes), metadata)
        if not self.streaming:
            return Response(text, list(nodes), metadata)
        if later:
            return AsyncStreamingResponse(_apieces(text), list(nodes), metadata)
        return StreamingResponse(split_words(text), list(nodes), metadata)


def response_metadata(
    nodes: Sequence[NodeWithScore], note: dict[str, Any]
) -> dict[str, Any]:
    """LlamaIndex's own form, the metadata of each source by its id, and our record beside them."""
    return {**{n.node.node_id: n.node.metadata for n in nodes}, "denoise": note}


def postprocessor_modules(
    postprocessors: Sequence[BaseNodePostprocessor],
) -> PromptMixinType:
    """The postprocessors whose prompts can be reached, by their place."""
    return {
        f"postprocessor_{i}": p
        for i, p in enumerate(postprocessors)
        if isinstance(p, PromptMixin)
    }


_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def history_to_messages(
    history: Sequence[ChatMessage | Message],
) -> tuple[Message, ...]:
    """A conversation of LlamaIndex's messages, or the core's; what tools said is left out. Raises `InputError`."""
    if isinstance(history, (str, ChatMessage, Message)):
        raise InputError(
            f"history: expected a list of ChatMessages, got a {type(history).__name__}"
        )
    out: list[Message] = []
    for place, m in enumerate(history):
        if isinstance(m, Message):
            out.append(m)
        elif not isinstance(m, ChatMessage):
            raise InputError(
                f"history[{place}]: expected a ChatMessage, got {type(m).__name__}"
            )
        elif (role := _ROLES.get(m.role.value)) is not None and (
            m.content or ""
        ).strip():
            out.append(Message(role, m.content or ""))
    return tuple(out)


def response_text(response: RESPONSE_TYPE) -> str:
    """The text of any synchronous response; a stream is read to its end."""
    if isinstance(response, StreamingResponse):
        response = response.get_response()
    if isinstance(response, AsyncStreamingResponse):
        raise TypeError(
            "expected a synchronous response, got an AsyncStreamingResponse; call aquery instead"
        )
    return "" if response.response is None else str(response)


class _Settled:
    """What a draft-first response adds: sources, metadata and the answer itself, once the stream has ended."""

    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any] | None
    _so_far: str | None = None
    _answer: str | None = None

    @property
    def response_txt(self) -> str | None:
        """The answer alone when it is known, not what was shown on the way to it."""
        return self._so_far if self._answer is None else self._answer

    @response_txt.setter
    def response_txt(self, text: str | None) -> None:
        self._so_far = text

    def set_answer(
        self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]
    ) -> None:
        self._answer = text
        self.source_nodes = list(nodes)
        self.metadata = metadata


class DraftResponse(_Settled, StreamingResponse):
    """A draft in pieces, then its verdict. ``source_nodes`` and ``metadata`` are empty until the stream ends."""


class AsyncDraftResponse(_Settled, AsyncStreamingResponse):
    """`DraftResponse` for async; the run begins when it is read."""

    def __str__(self) -> str:
        return super().__str__() if self.response_txt is None else self.response_txt


def split_words(text: str) -> Generator[str, None, None]:
    yield from re.findall(r"\S+\s*|\s+", text)


async def _apieces(text: str) -> AsyncGenerator[str, None]:
    for piece in split_words(text):
        yield piece
