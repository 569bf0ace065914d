"""Node metadata as a passage's header, with LlamaIndex's exclusions."""

from __future__ import annotations

from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore

from denoise_core import Denoiser, Guard, Passage


def node_header(node: BaseNode, mode: MetadataMode) -> str:
    """Return the metadata that ``node.get_content(mode)`` shows; "" if it shows none.

    What a ``text_template`` of the node writes around metadata and text is left out.
    """
    return node.get_metadata_str(mode).strip()


def metadata_mode(denoiser: Denoiser) -> MetadataMode:
    """Return the metadata that a denoiser may read.

    END by a scorer reads what is embedded. Everything else may call a model and reads
    what an LLM is shown, so a key in ``excluded_llm_metadata_keys`` reaches no prompt.
    """
    from denoise_core.end import ENDDenoiser
    from denoise_core.scorers.decisions import DecisionScorer, LLMDiscrim

    while isinstance(denoiser, Guard):
        denoiser = denoiser.denoiser
    scorer = denoiser.scorer if isinstance(denoiser, ENDDenoiser) else None
    if scorer is None or isinstance(scorer, (LLMDiscrim, DecisionScorer)):
        return MetadataMode.LLM
    return MetadataMode.EMBED


class NodeMetadata(dict[str, Any]):
    """A copy of a node's metadata that remembers the node.

    Keys that an LLM must not see are left out, since prompts show a passage's title.
    """

    __slots__ = ("scored_node",)

    def __init__(self, scored_node: NodeWithScore) -> None:
        super().__init__(scored_node.node.metadata)
        for key in scored_node.node.excluded_llm_metadata_keys:
            self.pop(key, None)
        self.scored_node = scored_node

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


def source_node(passage: Passage) -> NodeWithScore:
    """Return the node that a passage was made from."""
    metadata: Any = passage.metadata  # a `NodeMetadata`
    scored_node: NodeWithScore = metadata.scored_node
    return scored_node
