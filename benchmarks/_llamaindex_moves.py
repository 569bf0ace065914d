"""LlamaIndex's postprocessors and the one line in the place of each, on real questions; titles in the metadata.

Model and questions are those of `s2a_cost` (HotpotQA, twenty passages each); embeddings are the encoder that
ships, and its cosine stands in the place of a cross-encoder, the same for both. Each peer at its own defaults,
but for what it cannot do without: the share of `SentenceEmbeddingOptimizer`, which keeps all without one, and
beside `SimilarityPostprocessor`'s own cutoff of 0 one that cuts.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _peers import Part, quality
from harness import Benchmark, read
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.postprocessor import (
    LLMRerank,
    SentenceEmbeddingOptimizer,
    SentenceTransformerRerank,
    SimilarityPostprocessor,
)
from llama_index.core.schema import NodeWithScore, TextNode
from s2a_cost import Work

from denoise_core import Passage
from denoise_core.embedded import default_denoiser, embedding_scorer
from denoise_core.end import ENDDenoiser
from denoise_core.scorers.encoders import CrossEncoderScorer
from denoise_core.text.chunk import no_chunking
from denoise_lab.experiments.scripted_server import Server, tokenizer
from llamaindex_denoise import DenoisePostprocessor, EmbeddedEmbedding

SAMPLE = 60  # questions of a set, where titles are moved
CUTOFF = 0.3  # of the cosine: about what separates in this encoder's space


class ScriptedLLM(CustomLLM):
    """`s2a_cost`'s model, which finds the same sentences needed whoever asks."""

    server: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=100_000, model_name="scripted")

    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self.server.answer(prompt))

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        raise NotImplementedError("not used here")


class Cosine:
    """The cosine that ships, in a cross-encoder's place."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return embedding_scorer().score(pairs[0][0], [text for _, text in pairs])


def reranker() -> SentenceTransformerRerank:
    """LlamaIndex's reranker at its own defaults, with `Cosine` in the place of its model from a hub."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        BertTokenizerFast,
    )

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
        small = {
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
        }
        config = BertConfig(vocab_size=5, num_labels=1, **small)
        BertForSequenceClassification(config).save_pretrained(folder)
        BertTokenizerFast(vocab_file=str(Path(folder) / "vocab.txt")).save_pretrained(
            folder
        )
        made = SentenceTransformerRerank(model=folder)
    made._model = Cosine()
    return made


def pairs(server: Server) -> dict[str, tuple[Any, Any]]:
    """Each peer, and the one line in its place, as docs/llamaindex.md has them."""
    llm, e, ours = ScriptedLLM(server=server), EmbeddedEmbedding(), DenoisePostprocessor
    pair_denoiser = ENDDenoiser(CrossEncoderScorer(Cosine()), keep=2)
    halves = SentenceEmbeddingOptimizer(embed_model=e, percentile_cutoff=0.5)
    return {
        "LLMRerank": (LLMRerank(llm=llm), ours.from_llm(llm, top_n=10)),
        "SentenceEmbeddingOptimizer (0.5)": (
            halves,
            ours(embed_model=e, keep=0.5, chunks="sentences"),
        ),
        "SimilarityPostprocessor": (
            SimilarityPostprocessor(),
            ours(embed_model=e, threshold=0.0),
        ),
        f"SimilarityPostprocessor ({CUTOFF})": (
            SimilarityPostprocessor(similarity_cutoff=CUTOFF),
            ours(embed_model=e, threshold=CUTOFF),
        ),
        "SentenceTransformerRerank": (
            reranker(),
            ours(denoiser=pair_denoiser, order="score"),
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
    server = Server(tokenizer())
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


def headers(bench: Benchmark, data: Path | None, seed: int) -> None:
    """Gold passages kept of 30 %, with the title in the text and with the same title in the metadata."""
    for name in ("nq_gold_distractors20", "ottqa", "dstc11_track5"):
        questions = [
            q for q in read(data, name) if any(p["is_gold"] for p in q["passages"])
        ]
        questions = random.Random(seed).sample(questions, min(SAMPLE, len(questions)))
        part = DenoisePostprocessor(
            denoiser=default_denoiser(keep=0.3, chunker=no_chunking), on_error="raise"
        )
        shares: dict[str, list[float]] = {
            "in the text": [],
            "in the metadata": [],
            "left out": [],
        }
        for q in questions:
            for how, kept in shares.items():
                nodes = [_titled(p, how) for p in q["passages"]]
                out = {
                    n.node.node_id
                    for n in part.postprocess_nodes(nodes, query_str=q["question"])
                }
                gold = [p["id"] for p in q["passages"] if p["is_gold"]]
                kept.append(sum(i in out for i in gold) / len(gold))
        for how, kept in shares.items():
            bench.row(
                f"{name}, {len(questions)} questions: gold kept, title {how}",
                statistics.mean(kept),
                "share",
            )
        more = [a - b for a, b in zip(shares["in the metadata"], shares["in the text"])]
        bench.row(
            f"{name}: gold kept, metadata less text",
            statistics.mean(more),
            "share",
            at_least=0.0,
        )


def _titled(passage: dict[str, Any], how: str) -> NodeWithScore:
    title, text = passage.get("title") or "", passage["text"]
    if how == "in the text":
        text = f"title: {title}\n{text}"
    metadata = {"title": title} if how == "in the metadata" else {}
    return NodeWithScore(
        node=TextNode(text=text, id_=passage["id"], metadata=metadata), score=0.5
    )
