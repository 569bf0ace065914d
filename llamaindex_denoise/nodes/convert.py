"""LlamaIndex nodes to passages and back.

The user's nodes are never changed: what a denoiser kept becomes copies with a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)

from denoise_core import (
    DenoiseResult,
    Drop,
    Guard,
    InputError,
    Passage,
    Span,
    unique_ids,
)
from denoise_core._frameworks import copy_model
from denoise_core.errors import format_error
from denoise_core.runtime.record import (
    RECORD_VERSION,
    RecordDetail,
    cut_text,
    result_summary,
    step_record,
)
from denoise_core.tool_results import Pin, read_result
from llamaindex_denoise.nodes.headers import (
    NodeMetadata,
    metadata_mode,
    node_header,
    source_node,
)
from llamaindex_denoise.nodes.records import (
    SOURCE_RELATION,
    origin_fields,
    relationships_with_record,
    to_float,
)

if TYPE_CHECKING:
    from denoise_core.shadow import ShadowCall


NodeOrder: TypeAlias = Literal["input", "score"]

RELEVANCE_KEYS = ("denoise_relevant", "denoise_note")
"""Metadata keys of `DenoiseResult.relevant` and ``note``, as in LangChain documents."""


def is_text_node(node: BaseNode) -> bool:
    """Whether a node can be denoised: it holds text and no picture, sound or video."""
    if isinstance(node, TextNode):
        return not isinstance(node, ImageNode)
    if isinstance(node, Node):
        has_media = node.image_resource or node.audio_resource or node.video_resource
        return node.text_resource is not None and not has_media
    return False


def can_be_evidence(node: BaseNode) -> bool:
    """Whether a node has text, if only a caption."""
    if is_text_node(node):
        return True
    return isinstance(node, (TextNode, Node)) and bool(node_text(node).strip())


def are_scored_nodes(value: Any) -> bool:
    """Whether a value is a list of nodes with scores; an empty one is not."""
    has_items = isinstance(value, list | tuple) and bool(value)
    return has_items and all(isinstance(item, NodeWithScore) for item in value)


def to_passages(
    nodes: Iterable[NodeWithScore], mode: MetadataMode = MetadataMode.LLM
) -> tuple[Passage, ...]:
    """Convert nodes to passages with unique ids; one without text becomes an empty one.

    So the n-th node stays the n-th. A captioned picture or sound becomes a passage of
    its caption: that is evidence, but must not be cut.

    Args:
        nodes: The nodes.
        mode: The metadata that becomes the passage's header.

    Raises:
        InputError: An item is not a NodeWithScore; names its position.
    """
    node_list = _checked_nodes(nodes)
    ids = unique_ids([n.node.node_id for n in node_list])
    passages = []
    for scored_node, passage_id in zip(node_list, ids):
        passage = Passage("", passage_id)
        if can_be_evidence(scored_node.node):
            passage = _to_passage(scored_node, passage_id, mode)
        passages.append(passage)
    return tuple(passages)


def _checked_nodes(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    node_list = list(nodes)
    for position, item in enumerate(node_list):
        if not isinstance(item, NodeWithScore):
            raise InputError(
                f"nodes[{position}]: expected a NodeWithScore, got "
                f"{type(item).__name__}; wrap a plain node as NodeWithScore(node=...)"
            )
    return node_list


def _to_passage(
    scored_node: NodeWithScore, passage_id: str, mode: MetadataMode
) -> Passage:
    metadata = NodeMetadata(scored_node)
    return Passage(
        node_text(scored_node.node),
        passage_id,
        to_float(scored_node.score),
        metadata,
        header=node_header(scored_node.node, mode),
    )


class NodeBatch:
    """The nodes of one call, converted to passages and back.

    A node that cannot be converted follows the guard's policy. Of nodes with the same
    text and visible metadata the first is read.

    Args:
        nodes: The nodes.
        guard: The denoiser with its policies.
        must_keep: What is in nodes that are returned whole.

    Attributes:
        passages: The nodes that could be read.
        failures: By id, why the other text nodes could not be read.
        repeated: The nodes that were left out, as the result's drops.

    Raises:
        InputError: An item is not a NodeWithScore.
    """

    def __init__(
        self,
        nodes: Iterable[NodeWithScore],
        guard: Guard,
        *,
        must_keep: Pin | None = None,
    ) -> None:
        self.nodes = _checked_nodes(nodes)
        self.guard = guard
        self.failures: dict[str, str] = {}
        self._untouched: dict[int, NodeWithScore] = {}  # by position, in order
        self._ids = unique_ids([n.node.node_id for n in self.nodes])
        self._repeats: dict[str, list[str]] = {}  # by the id of the first
        mode = metadata_mode(guard.denoiser)
        passages = []
        first_ids: dict[tuple[str, str], str] = {}  # by what a model sees of a node
        repeated = []
        for position, scored_node in enumerate(self.nodes):
            passage_id = self._ids[position]
            is_text = is_text_node(scored_node.node)
            if not is_text or _has_pin(scored_node.node, must_keep):
                self._untouched[position] = scored_node
                continue
            try:
                passage = _to_passage(scored_node, passage_id, mode)
                llm_header = node_header(scored_node.node, MetadataMode.LLM)
            except Exception as error:  # a node's template or metadata may do anything
                self._add_failure(position, passage_id, error)
                continue
            shown_text = (llm_header, passage.text)
            first_id = first_ids.setdefault(shown_text, passage_id)
            if first_id == passage_id:
                passages.append(passage)
            else:
                known_repeats = self._repeats.setdefault(first_id, [])
                known_repeats.append(passage_id)
                span = Span(passage_id, 0, len(passage.text))
                reason = f"the same as {first_id}"
                repeat_drop = Drop(span, reason, passage.score)
                repeated.append(repeat_drop)
        self.repeated = tuple(repeated)
        self.passages = tuple(passages)

    def _add_failure(self, position: int, passage_id: str, error: Exception) -> None:
        failure_reason = self.guard.handle_failed_item(f"nodes[{position}]", error)
        self.failures[passage_id] = failure_reason or format_error(error)
        if failure_reason:  # the policy keeps the node
            self._untouched[position] = self.nodes[position]

    @property
    def untouched_ids(self) -> list[str]:
        """The ids of the nodes that were not denoised, in input order."""
        return [self.nodes[n].node.node_id for n in self._untouched]

    def summary(self, result: DenoiseResult) -> dict[str, Any]:
        """Return the core's summary as plain JSON, with the unreadable nodes."""
        failures = {**result.failures, **self.failures}
        dropped = (*result.dropped, *self.repeated)
        complete = replace(result, failures=failures, dropped=dropped)
        return result_summary(self.passages, complete)

    def shadow_call(self, result: DenoiseResult) -> ShadowCall:
        """What shadow mode counts: all nodes with text, in their order.

        Untouched nodes are kept whole, and repeated ones are kept with the first.
        """
        from denoise_core.shadow import ShadowCall

        passages = []
        kept_passages = []
        for kept in result.passages:
            spans = list(kept.source_spans)
            for span in kept.source_spans:
                for repeated_id in self._repeats.get(span.passage_id, ()):
                    spans.append(replace(span, passage_id=repeated_id))
            spread_passage = replace(kept, spans=tuple(spans))
            kept_passages.append(spread_passage)
        for position, scored_node in enumerate(self.nodes):
            if not can_be_evidence(scored_node.node):
                continue
            with suppress(Exception):  # a node's template or metadata may do anything
                passage_id = self._ids[position]
                passage = _to_passage(scored_node, passage_id, MetadataMode.LLM)
                passages.append(passage)
                if position in self._untouched:
                    kept_passages.append(passage)
        shown = replace(result, passages=tuple(kept_passages))
        return ShadowCall.from_result(passages, shown)

    def to_nodes(
        self,
        result: DenoiseResult,
        *,
        method: str,
        record_detail: RecordDetail,
        order: NodeOrder,
    ) -> list[NodeWithScore]:
        """Return what the denoiser kept as nodes, with those that were not denoised.

        A passage that cannot become a node follows the guard's policy.

        Args:
            result: The denoiser's result.
            method: The name that records show.
            record_detail: How much each node's record says, see `records.record`.
            order: ``"input"`` puts the untouched nodes at their positions, ``"score"``
                behind the others, since they have no score.
        """
        positions = {passage_id: n for n, passage_id in enumerate(self._ids)}
        passages = {passage.id: passage for passage in self.passages}
        conversion = _Conversion(passages, result, method)
        placed = []
        for kept in result.passages:
            position = positions.get(kept.id, -1)
            try:
                kept_node = conversion.to_node(kept, record_detail)
            except Exception as error:  # a node may do anything when it is copied
                item = f"node {kept.id!r}"
                if self.guard.handle_failed_item(item, error):  # the policy keeps it
                    for passage in conversion.sources(kept):
                        placed.append((position, source_node(passage)))
            else:
                placed.append((position, kept_node))
        placed += self._untouched.items()
        if order == "input" and self._untouched:
            placed.sort(key=itemgetter(0))
        return [scored_node for _, scored_node in placed]


def _has_pin(node: BaseNode, must_keep: Pin | None) -> bool:
    if must_keep is None:
        return False
    tool_result = read_result(node_text(node), must_keep=must_keep)
    return tool_result.has_pin


def node_text(node: BaseNode) -> str:
    """Return the node's text without metadata."""
    if type(node) is TextNode:  # nearly all; get_content would render the metadata
        return node.text
    return node.get_content(metadata_mode=MetadataMode.NONE)


@dataclass(frozen=True, slots=True)
class _Conversion:
    """What is needed to turn kept passages of one result into nodes."""

    passages: Mapping[str, Passage]  # the input by id
    result: DenoiseResult
    method: str

    def to_node(self, kept: Passage, record_detail: RecordDetail) -> NodeWithScore:
        step = step_record(kept, self.passages, self.result)
        ranges_by_id = step.pop("spans")
        is_extract = step.pop("extractive") and len(ranges_by_id) == 1
        sources = self.sources(kept)
        source_nodes = list(map(source_node, sources))
        if len(sources) == 1:
            [origin] = sources
            [scored_node] = source_nodes
            ranges = ranges_by_id.get(origin.id, [])
            fields = origin_fields(scored_node, origin, ranges, is_extract)
            new_text = None
            if kept.text != origin.text:
                new_text = kept.text
            node = _copy_node(scored_node.node, new_text, fields)
        else:
            fields = {
                "origin_id": None,
                "origin_spans": [],
                "origin_extractive": False,
                "spans": ranges_by_id,
            }
            nodes = [scored.node for scored in source_nodes]
            node = _joint_node(kept, nodes, fields)
        if record_detail != "none":
            earlier_methods = fields.get("op")
            method = self.method
            if earlier_methods:
                method = f"{earlier_methods} > {method}"
            fallback = step["fallback"]
            new_score = None
            # A method that gives no scores leaves the retrieval score as it was.
            if kept.score != sources[0].score and not fallback:
                new_score = to_float(kept.score)
            node_record = {
                "v": RECORD_VERSION,
                **step,
                **fields,
                "op": method,
                "score": new_score,
                "fallback": fallback and cut_text(fallback),
            }
            node.relationships = relationships_with_record(node, node_record)
            _show_relevance(node, node_record)
        known_scores = [s.score for s in source_nodes if s.score is not None]
        best_score = max(known_scores, default=None)
        return NodeWithScore(node=node, score=to_float(best_score))

    def sources(self, kept: Passage) -> list[Passage]:
        """The input passages of a text: the one of the same id, or those it covers."""
        if kept.id in self.passages:
            return [self.passages[kept.id]]
        ids = dict.fromkeys(span.passage_id for span in kept.source_spans)
        return [self.passages[passage_id] for passage_id in ids]


def _joint_node(
    kept: Passage, nodes: Sequence[BaseNode], fields: Mapping[str, Any]
) -> BaseNode:
    """A new node for text of several nodes.

    It has the metadata and the source on which its nodes agree.
    """
    first = nodes[0]
    joint_node = _copy_node(first, kept.text, fields)
    joint_node.id_ = kept.id
    joint_node.relationships = {}
    document = first.relationships.get(SOURCE_RELATION)
    document_ids = {node.ref_doc_id for node in nodes}
    if document is not None and len(document_ids) == 1:
        joint_node.relationships[SOURCE_RELATION] = document
    for key, value in first.metadata.items():
        if any(node.metadata.get(key) != value for node in nodes):
            del joint_node.metadata[key]
    return joint_node


def _copy_node(
    node: BaseNode, new_text: str | None, origin_fields: Mapping[str, Any]
) -> BaseNode:
    """A copy that shares no mutable field; with ``new_text`` it loses its vector."""
    update: dict[str, Any] = {
        "metadata": dict(node.metadata),
        "relationships": dict(node.relationships),
        "excluded_embed_metadata_keys": list(node.excluded_embed_metadata_keys),
        "excluded_llm_metadata_keys": list(node.excluded_llm_metadata_keys),
    }
    if new_text is None:
        return copy_model(node, update)
    update["embedding"] = None
    if isinstance(node, TextNode):
        start, end = _document_range(origin_fields)
        update.update(text=new_text, start_char_idx=start, end_char_idx=end)
    elif isinstance(node, Node) and node.text_resource is not None:
        update["text_resource"] = node.text_resource.model_copy(
            update={"text": new_text, "embeddings": None}
        )
    return copy_model(node, update)


def _show_relevance(node: BaseNode, node_record: Mapping[str, Any]) -> None:
    """Put relevance and note of the record into a copy's metadata.

    Neither a model nor an embedding reads them there.
    """
    for key in RELEVANCE_KEYS:
        node.metadata.pop(key, None)
        name = key.removeprefix("denoise_")
        if name in node_record:
            node.metadata[key] = node_record[name]
            node.excluded_embed_metadata_keys.append(key)
            node.excluded_llm_metadata_keys.append(key)


def _document_range(fields: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Start and end in the document; two None unless it is one extracted range."""
    spans = fields["origin_spans"]
    is_one_range = fields["origin_extractive"] and len(spans) == 1
    if not is_one_range or "origin_range" not in fields:
        return None, None
    [[start, end]] = spans
    shift = fields["origin_range"][0]
    return start + shift, end + shift
