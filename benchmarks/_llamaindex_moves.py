"""LlamaIndex's postprocessors and the one line in the place of each, on real questions.

Model and questions are those of `s2a_cost` (HotpotQA, twenty passages each); embeddings are the encoder that
ships. Each peer at its own defaults, but for the share of `SentenceEmbeddingOptimizer`, which keeps all without
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _peers import Part, quality
from harness import Benchmark
from llama_index.core.postprocessor import (
    LLMRerank,
    SentenceEmbeddingOptimizer,
)
from llama_index.core.schema import NodeWithScore, TextNode
from s2a_cost import Work

from denoise_core import Passage
from denoise_core.embedded import embedding_scorer
from denoise_lab.experiments.scripted_server import (
    ScriptedServer,
    cl100k_encoder,
    llamaindex_model,
)
from llamaindex_denoise import DenoisePostprocessor, EmbeddedEmbedding


def pairs(server: ScriptedServer) -> dict[str, tuple[Any, Any]]:
    """Each peer, and the one line in its place."""
    llm, e, ours = llamaindex_model(server), EmbeddedEmbedding(), DenoisePostprocessor
    halves = SentenceEmbeddingOptimizer(embed_model=e, percentile_cutoff=0.5)
    return {
        "LLMRerank": (LLMRerank(llm=llm), ours.from_llm(llm, top_n=10)),
        "SentenceEmbeddingOptimizer (0.5)": (
            halves,
            ours(embed_model=e, keep=0.5, chunks="sentences"),
        ),
    }


def nodes_of(
    passages: Sequence[Passage], scores: Sequence[float]
) -> list[NodeWithScore]:
    """As the simple vector store finds them: scored by cosine."""
    return [
        NodeWithScore(node=TextNode(text=p.text, id_=p.id), score=float(s))
        for p, s in zip(passages, scores)
    ]


def moves(bench: Benchmark, all_work: list[Work]) -> None:
    """Gold sentences and tokens kept, and the calls it took; nodes as the simple vector store finds them."""
    server = ScriptedServer(cl100k_encoder())
    cosines = {
        w[0]: embedding_scorer().score(w[0], [p.text for p in w[1]]).tolist()
        for w in all_work
    }

    def part(postprocessor: Any) -> Part:
        def asked(question: str, passages: Sequence[Passage]) -> list[tuple[str, str]]:
            nodes = nodes_of(passages, cosines[question])
            out = postprocessor.postprocess_nodes(nodes, query_str=question)
            return [(o.node.node_id, o.node.get_content()) for o in out]

        return asked

    quality(
        bench,
        server,
        {name: (part(a), part(b)) for name, (a, b) in pairs(server).items()},
        all_work,
    )
