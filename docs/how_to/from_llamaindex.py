"""From LlamaIndex's own postprocessors and retry engine to ours: before, after, and what each keeps."""

import re
from pathlib import Path

from llama_index.core import MockEmbedding, Settings, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.query_engine import RetryQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode

from denoise_core.augmenter import Groundedness
from llamaindex_denoise import Checked, DenoisePostprocessor, EmbeddedEmbedding, UtilityEvaluator


class Model(CustomLLM):
    """Replace it by yours. It needs each text with a price, and its first answer is wrong."""

    answered: int = 0

    @property
    def metadata(self):
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt, formatted=False, **kwargs):
        if "Relevance:" in prompt:  # LLMRerank numbers whole nodes
            text = "\n".join(f"Doc: {n}, Relevance: 9" for n in re.findall(r"Document (\d+):\n.*costs", prompt))
        elif pieces := re.findall(r"^(\d+) .*costs", prompt, re.MULTILINE):  # S2A numbers sentences
            text = ", ".join(pieces)
        else:
            self.answered += 1
            text = f"A night in the garage costs {25 if self.answered == 1 else 16} euros."
        return CompletionResponse(text=text)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
nodes = [NodeWithScore(node=TextNode(text=t.strip(), id_=f"p{n}"), score=0.5) for n, t in enumerate(texts)]
question, embedding = "What does a night in the garage cost?", EmbeddedEmbedding()
moves = {
    "LLMRerank": (LLMRerank(llm=Model(), top_n=5), DenoisePostprocessor.from_llm(Model(), top_n=5)),
    "SimilarityPostprocessor": (
        SimilarityPostprocessor(similarity_cutoff=0.3),
        DenoisePostprocessor.from_embed_model(embedding, threshold=0.3),
    ),
}
for name, sides in moves.items():
    for side, postprocessor in zip((name, "ours"), sides, strict=True):
        found = postprocessor.postprocess_nodes(nodes, query_str=question)
        print(f"{side:24} {len(found):2} nodes, {len(' '.join(n.node.text for n in found).split()):3} words")
index = VectorStoreIndex([n.node for n in nodes[:7]], embed_model=MockEmbedding(4))
Settings.llm = Model()  # RetryQueryEngine rewrites its query with it
judge = Groundedness(lambda q, texts, claim: any("garage" in t and claim[-9:-1] in t for t in texts))  # or an LLM
for name in ("RetryQueryEngine", "ours"):
    engine = index.as_query_engine(llm=Model(), similarity_top_k=7)
    retrying = RetryQueryEngine(engine, UtilityEvaluator(judge), max_retries=2)
    response = (retrying if name != "ours" else Checked(engine, judge=judge)).query(question)
    print(f"{name:24} {response} {(response.metadata or {}).get('denoise', {}).get('outcome', 'no verdict')}")
