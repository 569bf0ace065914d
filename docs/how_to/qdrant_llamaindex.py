"""A checked answer from a LlamaIndex query engine over Qdrant: denoised nodes, and a verdict on what is said."""

from pathlib import Path

from llama_index.core import Settings, StorageContext, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from llamaindex_denoise import Checked, DenoisePostprocessor, EmbeddedEmbedding


class Rash(CustomLLM):
    """Replaces your LLM here; it is wrong about the price until it has been asked twice."""

    asked: int = 0

    @property
    def metadata(self):
        return LLMMetadata(model_name="rash")

    def complete(self, prompt, formatted=False, **kwargs):
        self.asked += 1
        return CompletionResponse(text=f"A night in the garage costs {25 if self.asked <= 2 else 16} euros.")

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


Settings.llm = Rash()
texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
nodes = [TextNode(text=text.strip()) for text in texts]  # Qdrant wants the ids that LlamaIndex makes
store = QdrantVectorStore("handbook", client=QdrantClient(":memory:"))
storage = StorageContext.from_defaults(vector_store=store)
index = VectorStoreIndex(nodes, storage_context=storage, embed_model=EmbeddedEmbedding())
engine = index.as_query_engine(similarity_top_k=8, node_postprocessors=[DenoisePostprocessor()])


def is_stated(question: str, evidence: list[str], claim: str) -> bool:
    """A judge by its price alone: leave it out, and your LLM judges by quotes."""
    return claim.split()[-2] in " ".join(evidence).split()


checked = Checked(engine, judge=is_stated)

question = "How much does a night in the garage cost?"
print("before:", engine.query(question))
response = checked.query(question)
print("after: ", response, "|", response.metadata["denoise"]["outcome"])
