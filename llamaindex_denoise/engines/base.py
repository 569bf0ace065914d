"""What our query engines share: streamed responses and prompts reachable through them."""

from __future__ import annotations

import copy
import hashlib
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

DenoiserT = TypeVar("DenoiserT", bound=Denoiser)

StreamingMode: TypeAlias = bool | Literal["draft", "checked"]
NodeSequence: TypeAlias = Sequence[NodeWithScore]


class NestedPrompts(PromptMixin):
    """A `PromptMixin` whose ``update_prompts`` also takes nested prompts.

    ``get_prompts`` lists them as
    ``query_engine:response_synthesizer:text_qa_template``, but LlamaIndex's own
    ``update_prompts`` raises ValueError for such keys.
    """

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        return

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def update_prompts(self, prompts_dict: dict[str, BasePromptTemplate]) -> None:
        """Replace prompts by their keys.

        Raises:
            InputError: ``get_prompts`` does not list a key.
        """
        known_keys = sorted(self.get_prompts())
        unknown_keys = sorted(set(prompts_dict).difference(known_keys))
        if unknown_keys:
            names = ", ".join(map(repr, unknown_keys))
            raise InputError(f"no prompt named {names}; the prompts are {known_keys}")
        direct_prompts: PromptDictType = {}
        nested_prompts: dict[str, PromptDictType] = {}
        for key, prompt_template in prompts_dict.items():
            module_name, colon, inner_key = key.partition(":")
            if colon:
                nested_prompts.setdefault(module_name, {})[inner_key] = prompt_template
            else:
                direct_prompts[key] = prompt_template
        self._update_prompts(direct_prompts)
        modules = self._get_prompt_modules()
        for module_name, prompts in nested_prompts.items():
            modules[module_name].update_prompts(prompts)


def denoiser_prompts(denoiser: Denoiser) -> PromptDictType:
    """Return the prompts that a denoiser uses; empty if it calls no model."""
    if isinstance(denoiser, Guard):
        return denoiser_prompts(denoiser.denoiser)
    from denoise_core.s2a import S2ADenoiser

    if not isinstance(denoiser, S2ADenoiser):
        return {}
    prompt = denoiser.options.prompts.step_1(denoiser.variant)
    return {f"s2a_{denoiser.variant}": prompt_to_template(prompt)}


def with_prompts(
    denoiser: DenoiserT, prompts: Mapping[str, BasePromptTemplate]
) -> DenoiserT:
    """Return a copy with these prompts; others may share the denoiser itself."""
    from denoise_core.s2a import S2ADenoiser

    denoiser_copy = copy.copy(denoiser)
    if isinstance(denoiser_copy, Guard):
        denoiser_copy.denoiser = with_prompts(denoiser_copy.denoiser, prompts)
    if isinstance(denoiser_copy, S2ADenoiser):
        prompt_template = prompts.get(f"s2a_{denoiser_copy.variant}")
        if prompt_template is not None:
            old_prompt = denoiser_copy.options.prompts.step_1(denoiser_copy.variant)
            denoiser_copy.options = replace_prompt(
                denoiser_copy.options, old_prompt, prompt_template
            )
    return denoiser_copy


def replace_prompt(
    options: Options, old_prompt: Prompt, template: BasePromptTemplate
) -> Options:
    """Return ``options`` with ``template`` instead of ``old_prompt``."""
    new_prompt = template_to_prompt(template, old_prompt)
    prompts = options.prompts
    names = [f.name for f in fields(prompts) if getattr(prompts, f.name) is old_prompt]
    return replace(options, prompts=replace(prompts, **{names[0]: new_prompt}))


def prompt_to_template(prompt: Prompt) -> ChatPromptTemplate:
    """Return the core's prompt as a LlamaIndex chat template."""
    messages = [ChatMessage(role="user", content=prompt.user)]
    if prompt.system:
        messages.insert(0, ChatMessage(role="system", content=prompt.system))
    return ChatPromptTemplate(message_templates=messages)


def template_to_prompt(template: BasePromptTemplate, old_prompt: Prompt) -> Prompt:
    """Return the core's prompt for a LlamaIndex template of any kind.

    A template without roles keeps the old system part. Variables that were bound or
    mapped keep their values.

    Raises:
        InputError: ``template`` is not a template, names a field that the step does not
            fill, or lacks one that the step needs.
    """
    if not isinstance(template, BasePromptTemplate):
        raise InputError(
            f"prompt {old_prompt.name!r}: expected a llama_index prompt template, got "
            f"{type(template).__name__}; write PromptTemplate(...)"
        )
    markers = _field_markers(template, old_prompt)
    try:
        messages = template.format_messages(**markers)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"prompt {old_prompt.name!r}: the template cannot be filled: "
            f"{format_error(error)}"
        ) from error
    system_texts: list[str] = []
    user_texts: list[str] = []
    for message in messages:
        texts = system_texts if message.role == "system" else user_texts
        texts.append(message.content or "")
    system_part = _markers_to_fields("\n\n".join(system_texts), markers)
    user_part = _markers_to_fields("\n\n".join(user_texts), markers)
    if {message.role.value for message in messages} == {"user"}:
        system_part = old_prompt.system
    wording = f"{system_part}\0{user_part}".encode("utf-8", "surrogatepass")
    version = f"custom-{hashlib.sha256(wording).hexdigest()[:12]}"
    return type(old_prompt)(old_prompt.name, version, system_part, user_part)


def _field_markers(
    prompt_template: BasePromptTemplate, old_prompt: Prompt
) -> dict[str, Any]:
    """By field of the prompt or the template, a text that no prompt contains."""
    field_names = set(old_prompt.field_names)
    mappings = prompt_template.template_var_mappings or {}
    argument_names = {variable: argument for argument, variable in mappings.items()}
    for variable in prompt_template.template_vars:
        if variable not in prompt_template.kwargs:
            field_names.add(argument_names.get(variable, variable))
    return {name: f"\0{name}\0" for name in field_names}


def _markers_to_fields(text: str, markers: Mapping[str, str]) -> str:
    """Escape the braces of a rendered text and turn its markers into fields."""
    text = text.replace("{", "{{").replace("}", "}}")
    for field_name, marker in markers.items():
        text = text.replace(marker, f"{{{field_name}}}")
    return text


class DenoiseEngine(NestedPrompts, BaseQueryEngine):
    """Base of our query engines; ``streaming=True`` streams the finished text."""

    streaming: StreamingMode = False

    def _build_response(
        self,
        text: Any,
        nodes: Sequence[NodeWithScore],
        metadata: dict[str, Any],
        *,
        is_async: bool = False,
    ) -> RESPONSE_TYPE:
        if isinstance(text, BaseModel):
            return PydanticResponse(text, list(nodes), metadata)
        if not self.streaming:
            return Response(text, list(nodes), metadata)
        if is_async:
            return AsyncStreamingResponse(_astream_whole(text), list(nodes), metadata)
        return StreamingResponse(stream_whole(text), list(nodes), metadata)


def response_metadata(
    nodes: Sequence[NodeWithScore], note: dict[str, Any]
) -> dict[str, Any]:
    """Return each source's metadata by id, as LlamaIndex has it, and our record."""
    metadata = {n.node.node_id: n.node.metadata for n in nodes}
    return {**metadata, "denoise": note}


def postprocessor_modules(
    postprocessors: Sequence[BaseNodePostprocessor],
) -> PromptMixinType:
    """Return the postprocessors that have prompts, named by their position."""
    modules: PromptMixinType = {}
    for position, postprocessor in enumerate(postprocessors):
        if isinstance(postprocessor, PromptMixin):
            modules[f"postprocessor_{position}"] = postprocessor
    return modules


_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def history_to_messages(
    history: Sequence[ChatMessage | Message],
) -> tuple[Message, ...]:
    """Return a conversation as the core's messages, without tool messages.

    Raises:
        InputError: ``history`` is not a list of LlamaIndex's or the core's messages.
    """
    if isinstance(history, (str, ChatMessage, Message)):
        raise InputError(
            f"history: expected a list of ChatMessages, got a {type(history).__name__}"
        )
    messages: list[Message] = []
    for position, message in enumerate(history):
        if isinstance(message, Message):
            messages.append(message)
            continue
        if not isinstance(message, ChatMessage):
            raise InputError(
                f"history[{position}]: expected a ChatMessage, got "
                f"{type(message).__name__}"
            )
        role = _ROLES.get(message.role.value)
        text = message.content or ""
        if role is not None and text.strip():
            messages.append(Message(role, text))
    return tuple(messages)


def response_text(response: RESPONSE_TYPE) -> str:
    """Return the text of a synchronous response; a stream is read to its end."""
    if isinstance(response, StreamingResponse):
        response = response.get_response()
    if isinstance(response, AsyncStreamingResponse):
        raise TypeError(
            "expected a synchronous response, got an AsyncStreamingResponse; call "
            "aquery instead"
        )
    return "" if response.response is None else str(response)


class _DraftOutcome:
    """Sources, metadata and answer that a draft stream gets when it ends."""

    source_nodes: list[NodeWithScore]
    metadata: dict[str, Any] | None
    _shown_text: str | None = None
    _answer_text: str | None = None

    @property
    def response_txt(self) -> str | None:
        """The answer once it is known, without the draft that was shown before."""
        return self._shown_text if self._answer_text is None else self._answer_text

    @response_txt.setter
    def response_txt(self, text: str | None) -> None:
        self._shown_text = text

    def set_answer(
        self, text: str, nodes: Sequence[NodeWithScore], metadata: dict[str, Any]
    ) -> None:
        """Fill in the outcome."""
        self._answer_text = text
        self.source_nodes = list(nodes)
        self.metadata = metadata


class DraftResponse(_DraftOutcome, StreamingResponse):
    """A streamed draft, then its verdict.

    ``source_nodes`` and ``metadata`` are empty until the stream ends.
    """


class AsyncDraftResponse(_DraftOutcome, AsyncStreamingResponse):
    """An async `DraftResponse`; the run starts when it is read."""

    def __str__(self) -> str:
        return super().__str__() if self.response_txt is None else self.response_txt


def stream_whole(text: str) -> Generator[str, None, None]:
    """A stream of one piece: the text is known."""
    yield text


async def _astream_whole(text: str) -> AsyncGenerator[str, None]:
    yield text
