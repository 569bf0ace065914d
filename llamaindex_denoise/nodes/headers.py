"""Node metadata as a passage's header, rendered by LlamaIndex's templates and exclusions."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore

from denoise_core import Denoiser, DenoiseResult, Guard, Passage
from denoise_core.runtime.pipeline import Pipeline

DenoiserT = TypeVar("DenoiserT", bound=Denoiser)

_DEFAULT_TEMPLATE = "{metadata_str}\n\n{content}"  # LlamaIndex's default
_CONTENT_MARK = "\0content\0"  # replaces the text while a template is rendered


def node_header(node: BaseNode, mode: MetadataMode) -> str:
    """Return what ``node.get_content(mode)`` shows besides the text; "" if nothing.

    For a template that begins with the metadata, as LlamaIndex's default does,
    `Passage.text_with_header` equals ``get_content(mode)`` up to white space. What a
    template writes after the text is part of the header too.
    """
    if mode is MetadataMode.NONE:
        return ""
    metadata_text = node.get_metadata_str(mode).strip()
    text_template = getattr(node, "text_template", _DEFAULT_TEMPLATE)
    if not metadata_text or text_template == _DEFAULT_TEMPLATE:
        return metadata_text
    rendered_text = text_template.format(
        content=_CONTENT_MARK, metadata_str=metadata_text
    )
    before, _, after = rendered_text.partition(_CONTENT_MARK)
    return "\n".join(filter(None, (before.strip(), after.strip())))


def with_metadata_mode(denoiser: DenoiserT) -> DenoiserT:
    """Return a copy in which each step reads the metadata that it may read.

    Scorers read what is embedded, everything else what an LLM is shown. So a key in
    ``excluded_llm_metadata_keys`` never reaches a prompt, and a key excluded from
    embeddings changes no score. An unknown step may call a model and reads as one.
    """
    denoiser_copy = copy.copy(denoiser)
    if isinstance(denoiser_copy, Guard):
        denoiser_copy.denoiser = with_metadata_mode(denoiser_copy.denoiser)
        return denoiser_copy
    if isinstance(denoiser_copy, Pipeline):
        denoiser_copy.denoisers = tuple(
            map(with_metadata_mode, denoiser_copy.denoisers)
        )
        return denoiser_copy
    from denoise_core.end import ENDDenoiser

    mode = MetadataMode.LLM
    if isinstance(denoiser, ENDDenoiser) and not _scorer_uses_llm(denoiser.scorer):
        mode = MetadataMode.EMBED
    adapter_class = _header_class(type(denoiser).__name__)
    return adapter_class(denoiser, mode)  # type: ignore[return-value]


def _scorer_uses_llm(scorer: object) -> bool:
    """Whether a scorer puts texts into prompts."""
    from denoise_core.scorers.decisions import DecisionScorer, LLMDiscrim

    if isinstance(scorer, (LLMDiscrim, DecisionScorer)):
        return True
    return bool(getattr(scorer, "uses_llm", False))


class _HeaderDenoiser:
    """A denoiser whose passages get the headers of one metadata mode."""

    def __init__(self, denoiser: Denoiser, mode: MetadataMode) -> None:
        self.denoiser = denoiser
        self.mode = mode

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return self.denoiser.denoise(query, self._with_headers(passages))

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return await self.denoiser.adenoise(query, self._with_headers(passages))

    def _with_headers(self, passages: Sequence[Passage]) -> list[Passage]:
        return [with_header(passage, self.mode) for passage in passages]


@functools.cache
def _header_class(class_name: str) -> type[_HeaderDenoiser]:
    """`_HeaderDenoiser` under the user's class name, since logs and errors show it."""
    return type(class_name, (_HeaderDenoiser,), {})


def metadata_mode(denoiser: Denoiser) -> MetadataMode:
    """Return the mode that a denoiser of `with_metadata_mode` reads; LLM if mixed."""
    if isinstance(denoiser, _HeaderDenoiser):
        return denoiser.mode
    return MetadataMode.LLM


class NodeMetadata(dict[str, Any]):
    """A copy of a node's metadata that remembers the node.

    Keys that an LLM must not see are left out, since prompts show a passage's title.
    """

    __slots__ = ("_cached_header", "scored_node")

    def __init__(self, scored_node: NodeWithScore) -> None:
        super().__init__(scored_node.node.metadata)
        for key in scored_node.node.excluded_llm_metadata_keys:
            self.pop(key, None)
        self.scored_node = scored_node
        # One tuple, so that two threads cannot mix a mode with another mode's header.
        self._cached_header: tuple[MetadataMode | None, str] = (None, "")

    @property
    def document_place(self) -> tuple[str, int | None] | None:
        """Which document the node is a piece of, and where it begins there.

        None if the node has no source.
        """
        node = self.scored_node.node
        document_id = node.ref_doc_id
        if document_id is None:
            return None
        return document_id, getattr(node, "start_char_idx", None)

    def render_header(self, mode: MetadataMode) -> str:
        """Return `node_header`, cached for the last mode."""
        cached_mode, header = self._cached_header
        if cached_mode is not mode:
            header = node_header(self.scored_node.node, mode)
            self._cached_header = (mode, header)
        return header


def source_node(passage: Passage) -> NodeWithScore | None:
    """Return the node a passage was made from, or None for another passage."""
    metadata = passage.metadata
    return metadata.scored_node if isinstance(metadata, NodeMetadata) else None


def with_header(passage: Passage, mode: MetadataMode) -> Passage:
    """Return the passage with its node's header of ``mode``, if it has a node."""
    if not isinstance(passage.metadata, NodeMetadata):
        return passage
    header = passage.metadata.render_header(mode)
    return passage if header == passage.header else replace(passage, header=header)
