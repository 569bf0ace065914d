"""LlamaIndex nodes to passages and back. With `clients`, the only module that knows both worlds.

Nodes are never changed: what comes back is a shallow copy with its own text, metadata and exclusion lists.
What we add sits under the one metadata key ``"denoise"``, kept out of prompts and embeddings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    Node,
    NodeRelationship,
    NodeWithScore,
    TextNode,
)

from denoise_core import DenoiseResult, InputError, Passage, unique_ids
from denoise_core.augmenter.traces.plain import plain
from denoise_core.running.record import KEY, VERSION, chunks_of, record_of

Ranges: TypeAlias = list[list[int]]
ScorePolicy: TypeAlias = Literal["keep", "replace"]


class NodeMetadata(dict[str, Any]):
    """A passage's metadata (a copy of its node's) that remembers the node it came from."""

    def __init__(self, source: NodeWithScore) -> None:
        super().__init__(source.node.metadata)
        self.source = source

    def __reduce__(self) -> tuple[type[NodeMetadata], tuple[NodeWithScore]]:
        return type(self), (self.source,)


def is_text(node: BaseNode) -> bool:
    """Whether denoising applies: a text node, or a multimodal one that holds nothing but text."""
    if isinstance(node, TextNode):
        return not isinstance(node, ImageNode)
    if isinstance(node, Node):
        others = (node.image_resource, node.audio_resource, node.video_resource)
        return node.text_resource is not None and not any(others)
    return False


def to_passages(nodes: Iterable[NodeWithScore]) -> tuple[Passage, ...]:
    """The text nodes as passages, ids made different; nodes without text are left out.

    Raises `InputError` for something that is not a node, naming its position.
    """
    listed = list(nodes)
    for position, n in enumerate(listed):
        if not isinstance(n, NodeWithScore):
            raise InputError(
                f"nodes[{position}]: expected a NodeWithScore, got {type(n).__name__}; "
                "wrap a plain node as NodeWithScore(node=...)"
            )
    texts = [n for n in listed if is_text(n.node)]
    ids = unique_ids([n.node.node_id for n in texts])
    return tuple(
        Passage(text_of(n.node), id=i, score=_float(n.score), metadata=NodeMetadata(n)) for n, i in zip(texts, ids)
    )


def text_of(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)


def source_of(passage: Passage) -> NodeWithScore | None:
    """The node a passage was made of; None when it came from elsewhere."""
    return passage.metadata.source if isinstance(passage.metadata, NodeMetadata) else None


def to_nodes(
    passages: Sequence[Passage], result: DenoiseResult, *, by: str, scores: ScorePolicy = "keep"
) -> list[NodeWithScore]:
    """What a denoiser made of ``passages`` (from `to_passages`), as nodes, in the result's order.

    ``by`` names the method. ``scores="replace"`` puts the method's own score of a node in the place of its
    retrieval score, where it has one. Each node carries a record, see `record`.
    """
    given = {p.id: p for p in passages}
    chunks = chunks_of(result)
    return [_to_node(kept, given, record_of(kept, given, result, chunks), by, scores) for kept in result.passages]


def weave(nodes: Sequence[NodeWithScore], kept: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """``kept`` with the nodes of ``nodes`` that hold no text put back where they stood."""
    untouched = [(i, n) for i, n in enumerate(nodes) if not is_text(n.node)]
    if not untouched:
        return list(kept)
    places: dict[str, int] = {}
    for position, n in enumerate(nodes):
        places.setdefault(n.node.node_id, position)
    out: list[NodeWithScore] = []
    for n in kept:
        while untouched and untouched[0][0] < places.get(n.node.node_id, -1):
            out.append(untouched.pop(0)[1])
        out.append(n)
    return out + [n for _, n in untouched]


def record(node: BaseNode) -> Mapping[str, Any] | None:
    """What we noted about a node, or None when it was not denoised; JSON-plain.

    The step itself, as in `denoise_core.running.record.record_of`: spans, scores, what was dropped, fallback. And
    the whole way from the user's node, also when several methods ran after one another:

    * ``op``: the methods, in the order they ran
    * ``origin_id``, ``origin_hash``: id and hash of the user's node; None for text made of several nodes
    * ``origin_spans``: half-open ``[start, end]`` pairs of characters of that node's text this one stands for
    * ``origin_extractive``: the text is exactly those characters joined
    * ``origin_range``: that node's own ``[start, end]`` in its document; ``doc_spans``: ``origin_spans``
      counted in the document, when the range is as long as the node's text
    * ``score_before``: the retrieval score of the user's node
    * ``previous``: what stood under the key before: an earlier record, or the user's own
    """
    found = node.metadata.get(KEY)
    if isinstance(found, str) and found.startswith('{"v":'):  # as a flat vector store keeps it
        found = json.loads(found)
    return found if isinstance(found, Mapping) and found.get("v") == VERSION and "origin_spans" in found else None


def _to_node(
    kept: Passage, given: Mapping[str, Passage], about: Mapping[str, Any], by: str, scores: ScorePolicy
) -> NodeWithScore:
    note = {**about, "op": by}
    origin = _origin(kept, given)
    source = source_of(origin) if origin else None
    node: BaseNode
    if origin is None or source is None:
        node, score = _joint(kept, given, note)
    else:
        note.update(_whole_way(source.node, origin, note))
        earlier = record(source.node)
        score = _float(source.score)
        note["score_before"] = earlier["score_before"] if earlier else score
        node = _copy(source.node, kept.text, note)
    if KEY in node.metadata:
        note["previous"] = node.metadata[KEY]
    node.metadata[KEY] = note
    for excluded in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        if KEY not in excluded:
            excluded.append(KEY)
    own = _own_score(kept, origin, about)
    note["score"] = own
    return NodeWithScore(node=node, score=own if scores == "replace" and own is not None else score)


def _origin(kept: Passage, given: Mapping[str, Passage]) -> Passage | None:
    """The one input passage a text belongs to: its namesake, or the only one it stands for."""
    behind = {s.passage_id for s in kept.covered}
    return given.get(kept.id) or (given.get(behind.pop()) if len(behind) == 1 else None)


def _own_score(kept: Passage, origin: Passage | None, about: Mapping[str, Any]) -> float | None:
    """The method's score of a passage: the one it set, or its best chunk's."""
    if about["fallback"]:
        return None
    if kept.score is not None and (origin is None or kept.score != origin.score):
        return float(kept.score)
    return max((k["score"] for k in about["kept"] if origin and k["score"] is not None), default=None)


def _whole_way(node: BaseNode, origin: Passage, note: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a record that speaks of the user's node: this step's spans carried through earlier ones."""
    text = origin.text
    spans: Ranges = note["spans"].get(origin.id, [])
    extractive = bool(note["extractive"]) and len(note["spans"]) == 1
    earlier = record(node)
    if earlier is None or earlier["origin_id"] is None:
        way: dict[str, Any] = {
            "origin_id": node.node_id,
            "origin_hash": node.hash,
            "origin_spans": spans,
            "origin_extractive": extractive,
        }
        if isinstance(node, TextNode) and node.start_char_idx is not None and node.end_char_idx is not None:
            way["origin_range"] = [node.start_char_idx, node.end_char_idx]
            if node.end_char_idx - node.start_char_idx == len(text):
                way["doc_spans"] = _shift(spans, node.start_char_idx)
        return way
    inner: Ranges = earlier["origin_spans"]
    exact = bool(earlier["origin_extractive"]) and sum(b - a for a, b in inner) == len(text)
    way = {key: earlier[key] for key in ("origin_id", "origin_hash", "origin_range") if key in earlier}
    way["op"] = f"{earlier['op']} > {note['op']}"
    way["origin_spans"] = through(spans, inner) if exact else inner
    way["origin_extractive"] = extractive and exact
    if "doc_spans" in earlier:
        way["doc_spans"] = _shift(way["origin_spans"], earlier["origin_range"][0])
    return way


def through(spans: Ranges, inner: Ranges) -> Ranges:
    """Ranges of a kept text, as ranges of the text it was kept from; ``inner``: what was kept, in order.

    >>> through([[1, 4]], [[10, 12], [20, 25]])
    [[11, 12], [20, 22]]
    """
    out: Ranges = []
    for start, end in spans:
        at = 0
        for a, b in inner:
            low, high = max(start, at), min(end, at + b - a)
            if low < high:
                out.append([a + low - at, a + high - at])
            at += b - a
    return out


def _shift(spans: Ranges, by: int) -> Ranges:
    return [[by + a, by + b] for a, b in spans]


def _copy(node: BaseNode, text: str, note: Mapping[str, Any]) -> BaseNode:
    """A shallow copy with its own mutable fields and this text; its vector is dropped if the text differs."""
    changed = text != text_of(node)
    update: dict[str, Any] = {
        "metadata": dict(node.metadata),
        "relationships": dict(node.relationships),
        "excluded_embed_metadata_keys": list(node.excluded_embed_metadata_keys),
        "excluded_llm_metadata_keys": list(node.excluded_llm_metadata_keys),
        **({"embedding": None} if changed else {}),
    }
    if changed and isinstance(node, TextNode):
        ranges = note.get("doc_spans", []) if note["origin_extractive"] else []
        start, end = ranges[0] if len(ranges) == 1 else (None, None)  # one stretch, or no true range
        update.update(text=text, start_char_idx=start, end_char_idx=end)
    elif changed and isinstance(node, Node) and node.text_resource is not None:
        update["text_resource"] = node.text_resource.model_copy(update={"text": text, "embeddings": None})
    return node.model_copy(update=update)


def _joint(kept: Passage, given: Mapping[str, Passage], note: dict[str, Any]) -> tuple[TextNode, float | None]:
    """A new node for text made of several passages: it has what its sources agree on, and the best score."""
    sources = [s for i in note["spans"] if i in given and (s := source_of(given[i])) is not None]
    nodes = [s.node for s in sources]
    note.update(origin_id=None, origin_spans=[], origin_extractive=False)
    first = nodes[0] if nodes else TextNode(metadata=plain(kept.metadata))  # no node behind it: the passage's own
    node = TextNode(
        text=kept.text,
        id_=kept.id,
        metadata={
            k: v for k, v in first.metadata.items() if k != KEY and all(n.metadata.get(k) == v for n in nodes)
        },
        excluded_embed_metadata_keys=list(first.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=list(first.excluded_llm_metadata_keys),
    )
    document = first.relationships.get(NodeRelationship.SOURCE)
    if document and all(n.relationships.get(NodeRelationship.SOURCE) == document for n in nodes):
        node.relationships[NodeRelationship.SOURCE] = document
    scores = [_float(s.score) for s in sources if s.score is not None]
    return node, max((s for s in scores if s is not None), default=_float(kept.score))


def _float(score: Any) -> float | None:
    return None if score is None else float(score)  # a numpy float would not survive model_dump_json
