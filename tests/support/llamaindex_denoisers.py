"""Denoisers of every kind, ours and others', nodes to give them, and the postprocessor both ways."""

import asyncio
import re

import pytest
from envelopes import enclosed
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from denoise_core import DenoiseResult, Drop, Keep, Passage, arun, run
from denoise_core.end import ENDDenoiser
from denoise_core.runtime.effects import Batch, Complete, FailedItem
from denoise_core.s2a import S2ADenoiser
from denoise_core.s2a.replies import ReplyRecord
from denoise_core.testing import FunctionLLM, FunctionScorer
from denoise_core.text.chunk import extract_spans, sentence_spans
from denoise_core.types import Message
from llamaindex_denoise import DenoisePostprocessor

QUESTION = "Where is the red tower?"
TEXTS = (
    "The red tower is in Porto. Bread is cheap. The tower is 40 m high.",
    "Nothing here helps. It never does.",
    "⚓ برج أحمر. The red 塔 stands. 真的。",
    "",
    "A red herring.",
)


class Untouched:
    def denoise(self, query, passages):
        return DenoiseResult(query, tuple(passages))

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


class RedSentences(Untouched):
    """Extractive: keeps the sentences that say red, with a score each."""

    def denoise(self, query, passages):
        kept_items, dropped, scored = [], [], []
        for p in passages:
            spans = sentence_spans(p)
            red = [s for s in spans if "red" in p.text[s.start : s.end]]
            scored += [Keep(s, 0.75) for s in red]
            dropped += [Drop(s, "not red", 0.1) for s in spans if s not in red]
            part = extract_spans(p, red)
            kept_items += [part] if part else []
        return DenoiseResult(
            query, tuple(kept_items), tuple(dropped), kept=tuple(scored)
        )


class Shouts(Untouched):
    """Generative: writes every passage anew."""

    def denoise(self, query, passages):
        out = [
            Passage(
                passage.text.upper(),
                passage.id,
                passage.score,
                passage.metadata,
                passage.source_spans,
                is_rewritten=True,
            )
            for passage in passages
        ]
        return DenoiseResult(query.upper(), tuple(out))


class Joins(Untouched):
    """Generative over all passages at once: one text out of many."""

    def denoise(self, query, passages):
        if not passages:
            return DenoiseResult(query, ())
        spans = tuple(s for passage in passages for s in passage.source_spans)
        text = " ".join(passage.text for passage in passages)
        return DenoiseResult(
            query, (Passage(text, "joint", None, {}, spans, is_rewritten=True),)
        )


class AsksPerPassage:
    """Asks a model about each passage in one batch and keeps those it says yes to; a failure is a yes."""

    def __init__(self, llm):
        self.llm = llm

    def flow(self, query, passages):
        replies = yield Batch(
            tuple(
                Complete((Message("user", passage.text),), "ask", self.llm)
                for passage in passages
            )
        )
        kept_items = [
            p
            for p, r in zip(passages, replies)
            if isinstance(r, FailedItem) or r.text == "yes"
        ]
        failed = sum(isinstance(r, FailedItem) for r in replies)
        return DenoiseResult(
            query,
            tuple(kept_items),
            fallback=f"{failed} replies failed" if failed else None,
        )

    def denoise(self, query, passages):
        return run(self.flow(query, passages))[0]

    async def adenoise(self, query, passages):
        return (await arun(self.flow(query, passages)))[0]


class Fails(Untouched):
    def denoise(self, query, passages):
        raise ConnectionError("model is down")


def s2a_model(variant):
    """Answers each variant's prompt in its own form, keeping what says red."""

    def reply(messages):
        (_, document), *_ = enclosed(messages[-1].content)[0]
        red = [s for s in document.split(". ") if "red" in s]
        if variant == "select":
            pieces = re.findall(r"^(\d+) (.*)", document, re.MULTILINE)
            named = [n for n, piece in pieces if "red" in piece]
            return ", ".join(named)
        if variant == "single":
            return ". ".join([*red, QUESTION])
        return f"Context: {'. '.join(red) or 'NONE'}"

    return FunctionLLM(reply)


def end_red(**settings):
    scorer = FunctionScorer(lambda q, t: float("red" in t))
    return ENDDenoiser(scorer, threshold=0.5, **settings)


def s2a_red(variant):
    return S2ADenoiser(s2a_model(variant), variant=variant)


DENOISERS = {
    "end": end_red,
    "end_sentences": lambda: end_red(chunker=sentence_spans),
    "s2a_default": lambda: s2a_red("default"),
    "s2a_relevance": lambda: s2a_red("relevance"),
    "s2a_single": lambda: s2a_red("single"),
    "s2a_keep_original": lambda: s2a_red("keep_original"),
    "s2a_select": lambda: s2a_red("select"),
    "untouched": Untouched,
    "extractive": RedSentences,
    "generative": Shouts,
    "joint": Joins,
    "asks": lambda: AsksPerPassage(
        FunctionLLM(lambda messages: "yes" if "red" in messages[-1].content else "no")
    ),
    "fails": Fails,
}


def nodes_of(texts=TEXTS):
    """One scored node a text, with everything set that a denoiser must leave as it is."""
    out = []
    for i, text in enumerate(texts):
        source = RelatedNodeInfo(node_id="doc", metadata={"title": "Towers"})
        following = RelatedNodeInfo(node_id=f"n{i + 1}")
        hit = scored(
            text,
            0.9 - i / 10,
            id_=f"n{i}",
            metadata={"page": i, "tags": ["a", "b"]},
            embedding=[0.0, 1.0],
            start_char_idx=100 * i,
            end_char_idx=100 * i + len(text),
            excluded_llm_metadata_keys=["tags"],
            relationships={
                NodeRelationship.SOURCE: source,
                NodeRelationship.NEXT: following,
            },
        )
        out.append(hit)
    return out


def frozen(nodes):
    """All there is to the nodes, to compare."""
    return [hit.model_dump_json() for hit in nodes]


def both(postprocessor, nodes, query=QUESTION):
    """The result, after checking that sync and async agree.

    What S2A learned of an unreadable model is forgotten between the two.
    """
    out = postprocessor.postprocess_nodes(nodes, query_str=query)
    if hasattr(postprocessor.active_denoiser, "record"):
        postprocessor.active_denoiser.record = ReplyRecord()
    later = asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str=query))
    assert frozen(out) == frozen(later), "sync and async differ"
    return out


sync_and_async = pytest.mark.parametrize("sync", [True, False])


def processed(denoiser, nodes, query=QUESTION, **settings):
    """What the postprocessor leaves of the nodes, both ways."""
    return both(DenoisePostprocessor(denoiser=denoiser, **settings), nodes, query)


def scored(text, score=None, **fields):
    return NodeWithScore(node=TextNode(text=text, **fields), score=score)


def texts_of(hits):
    return [hit.node.text for hit in hits]


def ids_of(hits):
    return [hit.node.node_id for hit in hits]


def kept_characters(text, note):
    """The characters of ``text`` that a record names, joined."""
    pieces = []
    for start, end in note["origin_spans"]:
        pieces.append(text[start:end])
    return "".join(pieces)
