"""What LlamaIndex shows of a node beside its text: metadata by template and exclusions, as a passage's header."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore

from denoise_core import Denoiser, DenoiseResult, Guard, Passage
from denoise_core.runtime.pipeline import Pipeline

D = TypeVar("D", bound=Denoiser)

_TEMPLATE = "{metadata_str}\n\n{content}"  # LlamaIndex's own
_MARK = "\0content\0"  # stands where a template puts the text


def node_header(node: BaseNode, mode: MetadataMode) -> str:
    """What stands around the text of ``node`` in ``get_content(mode)``; "" where that is the text alone.

    With a template that begins with the metadata, as LlamaIndex's own does, `Passage.text_with_header` is
    ``get_content(mode)`` but for white space between the two; what a template writes behind the text comes first.
    """
    shown = node.get_metadata_str(mode).strip() if mode is not MetadataMode.NONE else ""
    template = getattr(node, "text_template", _TEMPLATE) if shown else _TEMPLATE
    if template == _TEMPLATE:
        return shown
    before, _, after = template.format(content=_MARK, metadata_str=shown).partition(
        _MARK
    )
    return "\n".join(p for p in (before.strip(), after.strip()) if p)


def with_metadata_mode(denoiser: D) -> D:
    """``denoiser`` with each step reading what it may: scorers what is embedded, all else what an LLM is shown.

    A key in ``excluded_llm_metadata_keys`` so never stands in a prompt, and one that is kept from embeddings
    changes no score. A step this adapter does not know may ask a model, and reads as one.
    """
    changed = copy.copy(denoiser)
    if isinstance(changed, Guard):
        changed.denoiser = with_metadata_mode(changed.denoiser)
        return changed
    if isinstance(changed, Pipeline):
        changed.denoisers = tuple(with_metadata_mode(d) for d in changed.denoisers)
        return changed
    from denoise_core.end import ENDDenoiser

    scores = isinstance(denoiser, ENDDenoiser) and not _asks(denoiser.scorer)
    mode = MetadataMode.EMBED if scores else MetadataMode.LLM
    return _named(type(denoiser).__name__)(denoiser, mode)  # type: ignore[return-value]


def _asks(scorer: object) -> bool:
    """Whether a scorer puts texts into prompts."""
    from denoise_core.scorers.decisions import DecisionScorer, LLMDiscrim

    return isinstance(scorer, (LLMDiscrim, DecisionScorer)) or bool(
        getattr(scorer, "uses_llm", False)
    )


class _Reading:
    """A denoiser that is shown its passages under the headers of one mode."""

    def __init__(self, denoiser: Denoiser, mode: MetadataMode) -> None:
        self.denoiser = denoiser
        self.mode = mode

    def denoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return self.denoiser.denoise(query, self._shown(passages))

    async def adenoise(self, query: str, passages: Sequence[Passage]) -> DenoiseResult:
        return await self.denoiser.adenoise(query, self._shown(passages))

    def _shown(self, passages: Sequence[Passage]) -> list[Passage]:
        return [with_header(p, self.mode) for p in passages]


@functools.cache
def _named(name: str) -> type[_Reading]:
    """`_Reading` under the name of the user's own denoiser, which is what is logged."""
    return type(name, (_Reading,), {})


def metadata_mode(denoiser: Denoiser) -> MetadataMode:
    """What a denoiser that `reading` gave reads first; LLM where its steps read this and that."""
    return denoiser.mode if isinstance(denoiser, _Reading) else MetadataMode.LLM


class NodeMetadata(dict[str, Any]):
    """A passage's metadata that remembers the node it came from: a copy of the node's, without what an LLM is not
    to be shown, for prompts show a passage's title."""

    __slots__ = ("_shown", "scored_node")

    def __init__(self, source: NodeWithScore) -> None:
        super().__init__(source.node.metadata)
        for key in source.node.excluded_llm_metadata_keys:
            self.pop(key, None)
        self.scored_node = source
        self._shown: tuple[MetadataMode | None, str] = (
            None,
            "",
        )  # one value, so that threads cannot mix modes

    def render_header(self, mode: MetadataMode) -> str:
        """`header_of` the node, not rendered again while the same mode is asked for."""
        of, shown = self._shown
        if of is not mode:
            shown = node_header(self.scored_node.node, mode)
            self._shown = (mode, shown)
        return shown


def source_node(passage: Passage) -> NodeWithScore | None:
    """The node a passage was made of; None when it came from elsewhere."""
    return (
        passage.metadata.scored_node
        if isinstance(passage.metadata, NodeMetadata)
        else None
    )


def with_header(passage: Passage, mode: MetadataMode) -> Passage:
    """The passage with its node's header of ``mode``; one without a node is left as it is."""
    if not isinstance(passage.metadata, NodeMetadata):
        return passage
    header = passage.metadata.render_header(mode)
    return passage if header == passage.header else replace(passage, header=header)
