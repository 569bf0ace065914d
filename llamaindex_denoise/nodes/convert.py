"""LlamaIndex nodes to passages and back. Nodes are never changed: what comes back are copies with a record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    MetadataMode,
    Node,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from denoise_core import DenoiseResult, Guard, InputError, Passage, unique_ids
from denoise_core._frameworks import copy_model
from denoise_core.errors import format_error
from denoise_core.runtime.record import (
    RECORD_VERSION,
    Chunks,
    fallback_for,
    group_chunks,
    passage_record,
    result_summary,
    source_coverage,
)
from llamaindex_denoise.nodes.headers import NodeMetadata, metadata_mode, source_node
from llamaindex_denoise.nodes.records import (
    SOURCE_RELATION,
    RecordDetail,
    build_record,
    document_ranges,
    origin_record,
    record,
    relationships_with_record,
)

ScorePolicy: TypeAlias = Literal["keep", "replace"]
Given: TypeAlias = Mapping[str, Passage]


def _no_origin() -> dict[str, Any]:
    return {"origin_id": None, "origin_spans": [], "origin_extractive": False}


def is_text_node(node: BaseNode) -> bool:
    """Whether denoising applies: a text node, or a multimodal one that holds nothing but text."""
    if isinstance(node, TextNode):
        return type(node) is TextNode or not isinstance(node, ImageNode)
    if isinstance(node, Node):
        others = (node.image_resource, node.audio_resource, node.video_resource)
        return node.text_resource is not None and not any(others)
    return False


def can_be_evidence(node: BaseNode) -> bool:
    """Whether the node can be evidence: it has text, if only the caption of a picture."""
    return is_text_node(node) or bool(
        isinstance(node, (TextNode, Node)) and node_text(node).strip()
    )


def to_passages(
    nodes: Iterable[NodeWithScore],
    mode: MetadataMode = MetadataMode.LLM,
    *,
    include_captions: bool = False,
) -> tuple[Passage, ...]:
    """The text nodes as passages, ids made different; nodes without text are left out.

    ``mode`` says which metadata is their header (`headers.header_of`). ``captions`` also takes what a picture or a
    sound is captioned with: evidence, not to be cut. Raises `InputError` naming the place of what is no node.
    """
    taken = can_be_evidence if include_captions else is_text_node
    texts = [n for n in _checked(nodes) if taken(n.node)]
    return tuple(
        _to_passage(n, i, mode)
        for n, i in zip(texts, unique_ids([n.node.node_id for n in texts]))
    )


def _checked(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    listed: list[NodeWithScore] = (
        [nodes] if isinstance(nodes, NodeWithScore) else list(nodes)
    )
    for position, n in enumerate(listed):
        if not isinstance(n, NodeWithScore):
            raise InputError(
                f"nodes[{position}]: expected a NodeWithScore, got {type(n).__name__}; "
                "wrap a plain node as NodeWithScore(node=...)"
            )
    return listed


def _to_passage(n: NodeWithScore, id: str, mode: MetadataMode) -> Passage:
    metadata = NodeMetadata(n)
    return Passage(
        node_text(n.node),
        id,
        _float(n.score),
        metadata,
        header=metadata.render_header(mode),
    )


class NodeBatch:
    """Nodes on their way in and out, under a guard's policy for each that cannot be converted.

    ``passages`` is what was made of those that can be read, ``failures`` why the others could not, by id;
    ``beside`` are those that stay as they are. Raises `InputError` for something that is not a node.
    """

    def __init__(self, nodes: Iterable[NodeWithScore], guard: Guard) -> None:
        self.nodes = _checked(nodes)
        self.guard = guard
        self.failures: dict[str, str] = {}
        self._beside = {
            at: n for at, n in enumerate(self.nodes) if not is_text_node(n.node)
        }
        mode = metadata_mode(guard.denoiser)
        texts = [(at, n) for at, n in enumerate(self.nodes) if at not in self._beside]
        found = []
        for (at, n), i in zip(texts, unique_ids([n.node.node_id for _, n in texts])):
            try:
                found.append(_to_passage(n, i, mode))
            except Exception as error:  # whatever a node's template or metadata does: its failure is its own
                why = guard.handle_failed_item(f"nodes[{at}]", error)
                self.failures[i] = why or format_error(error)
                if why:
                    self._beside[at] = with_fallback_record(
                        n, why, type(guard.denoiser).__name__
                    )
        self.passages = tuple(found)
        self.has_text = any(p.text.strip() for p in found)

    @property
    def untouched_nodes(self) -> list[NodeWithScore]:
        return [self._beside[at] for at in sorted(self._beside)]

    def summary(self, result: DenoiseResult) -> dict[str, Any]:
        """What became of them, plain JSON; those that could not be read are among its failures."""
        return result_summary(
            self.passages,
            replace(result, failures={**result.failures, **self.failures}),
        )

    def build_nodes(
        self,
        result: DenoiseResult,
        *,
        by: str,
        scores: ScorePolicy = "keep",
        detail: RecordDetail = "spans",
    ) -> list[NodeWithScore]:
        """The denoised nodes of a result, see `to_nodes`."""
        return to_nodes(
            self.passages,
            result,
            method=by,
            score_policy=scores,
            record_detail=detail,
            guard=self.guard,
        )

    def restore_order(self, kept: Sequence[NodeWithScore]) -> list[NodeWithScore]:
        """``kept`` with what was not denoised put back where it stood."""
        untouched = sorted(self._beside.items())
        if not untouched:
            return list(kept)
        places = {n.node.node_id: at for at, n in reversed(list(enumerate(self.nodes)))}
        out: list[NodeWithScore] = []
        for n in kept:
            while untouched and untouched[0][0] < places.get(n.node.node_id, -1):
                out.append(untouched.pop(0)[1])
            out.append(n)
        return out + [n for _, n in untouched]


def with_fallback_record(n: NodeWithScore, why: str, by: str) -> NodeWithScore:
    """A node that could not be converted, with the reason in its record where one can be written."""
    with suppress(
        Exception
    ):  # whatever a broken node does when it is copied: then it stays what it is
        note = {
            "v": RECORD_VERSION,
            "op": by,
            "score": None,
            "fallback": why,
            "coverage": 1.0,
            **_no_origin(),
        }
        node = copy_model(
            n.node, {"relationships": relationships_with_record(n.node, note)}
        )
        return NodeWithScore(node=node, score=n.score)
    return n


def node_text(node: BaseNode) -> str:
    if (
        type(node) is TextNode
    ):  # nearly all are: what the line below gives, without the metadata it renders
        return node.text
    return node.get_content(metadata_mode=MetadataMode.NONE)


def to_nodes(
    passages: Sequence[Passage],
    result: DenoiseResult,
    *,
    method: str,
    score_policy: ScorePolicy = "keep",
    record_detail: RecordDetail = "spans",
    guard: Guard | None = None,
) -> list[NodeWithScore]:
    """What a denoiser made of ``passages`` (from `to_passages`), as nodes, in the result's order.

    ``by`` names the method. ``scores="replace"`` puts the method's own score of a node in the place of its
    retrieval score, where it has one. Each node carries a record of that ``detail``, see `records.record`.
    What cannot be made a node again follows the policy of ``guard``, and raises without one.
    """
    given = {p.id: p for p in passages}
    chunks = group_chunks(result)
    made = []
    for kept in result.passages:
        try:
            made.append(
                _to_node(
                    kept,
                    given,
                    _about(kept, given, result, chunks, record_detail),
                    method,
                    score_policy,
                    record_detail,
                )
            )
        except Exception as error:  # whatever stands in a node: its failure is its own
            if guard is None:
                raise
            why = guard.handle_failed_item(f"node {kept.id!r}", error)
            ids = (
                [kept.id]
                if kept.id in given
                else dict.fromkeys(s.passage_id for s in kept.source_spans)
            )
            sources = [n for i in ids if (n := source_node(given[i])) is not None]
            made += (
                [with_fallback_record(n, why, method) for n in sources] if why else []
            )
    return made


def _about(
    kept: Passage,
    given: Given,
    result: DenoiseResult,
    chunks: Chunks,
    detail: RecordDetail,
) -> dict[str, Any]:
    """`passage_record` what became ``kept``: short of the scored chunks, unless they are asked for; and its best score,
    None where the method failed."""
    if detail == "full":
        about = passage_record(kept, given, result, chunks)
    else:
        spans, coverage = source_coverage(kept, given)
        about = {
            "spans": spans,
            "coverage": coverage,
            "extractive": not kept.is_rewritten,
        }
        about["fallback"] = (
            fallback_for(spans, result) if result.fallback or result.failures else None
        )
        if result.question_note is not None:
            about["question_note"] = result.question_note
    of = (
        ()
        if about["fallback"]
        else (k.score for i in about["spans"] if i in chunks for k in chunks[i][0])
    )
    return about | {
        "best": max((float(s) for s in of if math.isfinite(s)), default=None)
    }


def _to_node(
    kept: Passage,
    given: Given,
    about: Mapping[str, Any],
    by: str,
    scores: ScorePolicy,
    detail: RecordDetail,
) -> NodeWithScore:
    origin = _origin(kept, given)
    source = source_node(origin) if origin else None
    own = _own_score(kept, origin, about)
    if origin is None or source is None:
        joint, score = _joint(kept, given, about)
        if detail != "none":
            way = {**_no_origin(), "spans": about["spans"], "score_before": None}
            joint.relationships = relationships_with_record(
                joint, build_record(about, by=by, way=way, score=own, detail=detail)
            )
        node: BaseNode = joint
    else:
        score = _float(source.score)
        earlier = record(source.node)
        way = origin_record(source.node, origin, about, by, earlier)
        note = None
        if detail != "none":
            way["score_before"] = earlier.get("score_before") if earlier else score
            note = build_record(about, by=by, way=way, score=own, detail=detail)
        node = _copy(
            source.node, kept.text, way, note, changed=kept.text != origin.text
        )
    return NodeWithScore(
        node=node, score=own if scores == "replace" and own is not None else score
    )


def _origin(kept: Passage, given: Given) -> Passage | None:
    """The one input passage a text belongs to: its namesake, or the only one it stands for."""
    behind = {s.passage_id for s in kept.source_spans}
    return given.get(kept.id) or (given.get(behind.pop()) if len(behind) == 1 else None)


def _own_score(
    kept: Passage, origin: Passage | None, about: Mapping[str, Any]
) -> float | None:
    """The method's score of a passage: the one it set, or its best chunk's."""
    set_by_it = kept.score is not None and (
        origin is None or kept.score != origin.score
    )
    own = kept.score if set_by_it else about["best"] if origin else None
    return None if about["fallback"] else _float(own)


def _copy(
    node: BaseNode,
    text: str,
    way: Mapping[str, Any],
    note: dict[str, Any] | None,
    *,
    changed: bool,
) -> BaseNode:
    """A shallow copy with its own mutable fields, this text and this note; its vector is dropped if the text
    differs."""
    update: dict[str, Any] = {
        "metadata": dict(node.metadata),
        "relationships": dict(node.relationships)
        if note is None
        else relationships_with_record(node, note),
        "excluded_embed_metadata_keys": list(node.excluded_embed_metadata_keys),
        "excluded_llm_metadata_keys": list(node.excluded_llm_metadata_keys),
    }
    if changed:
        update["embedding"] = None
    if changed and isinstance(node, TextNode):
        ranges = (
            document_ranges(way, way["origin_spans"])
            if way["origin_extractive"]
            else []
        )
        start, end = (
            ranges[0] if len(ranges) == 1 else (None, None)
        )  # one stretch, or no true range
        update.update(text=text, start_char_idx=start, end_char_idx=end)
    elif changed and isinstance(node, Node) and node.text_resource is not None:
        update["text_resource"] = node.text_resource.model_copy(
            update={"text": text, "embeddings": None}
        )
    return copy_model(node, update)


def _joint(
    kept: Passage, given: Given, about: Mapping[str, Any]
) -> tuple[TextNode, float | None]:
    """A new node for text made of several passages: it has what its sources agree on, and the best score."""
    from denoise_core.jsonable import to_jsonable

    sources = [
        s
        for i in about["spans"]
        if i in given and (s := source_node(given[i])) is not None
    ]
    nodes = [s.node for s in sources]
    first = (
        nodes[0] if nodes else TextNode(metadata=to_jsonable(kept.metadata))
    )  # no node behind it: the passage's own
    node = TextNode(
        text=kept.text,
        id_=kept.id,
        metadata={
            k: v
            for k, v in first.metadata.items()
            if all(n.metadata.get(k) == v for n in nodes)
        },
        excluded_embed_metadata_keys=list(first.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=list(first.excluded_llm_metadata_keys),
    )
    shared = first.relationships.get(SOURCE_RELATION)
    if isinstance(shared, RelatedNodeInfo) and {n.ref_doc_id for n in nodes} <= {
        shared.node_id
    }:
        node.relationships[SOURCE_RELATION] = shared
    scores = [_float(s.score) for s in sources if s.score is not None]
    return node, max((s for s in scores if s is not None), default=_float(kept.score))


def _float(score: Any) -> float | None:
    return (
        None if score is None else float(score)
    )  # a numpy float would not survive model_dump_json
