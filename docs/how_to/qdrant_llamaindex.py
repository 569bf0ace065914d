"""A checked answer from a LlamaIndex query engine over Qdrant: denoised nodes, and a verdict on what is said."""

from pathlib import Path

from llama_index.core import Settings, StorageContext, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from llamaindex_denoise import AugmentedQueryEngine, DenoisePostprocessor, EmbeddedEmbedding


class Rash(CustomLLM):
    """Stands where your LLM does: it says what it thinks first, and what the text says when it is told."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="rash")

    def complete(self, prompt, formatted=False, **kwargs):
        told = "16" in prompt.split("cost?")[-1] or "not" in prompt.split("cost?")[-1]
        return CompletionResponse(text=f"A night in the garage costs {'16' if told else '25'} euros.")

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


Settings.llm = Rash()
texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
nodes = [TextNode(text=text.strip(), id_=f"p{n}") for n, text in enumerate(texts)]
store = QdrantVectorStore("handbook", client=QdrantClient(":memory:"))
storage = StorageContext.from_defaults(vector_store=store)
index = VectorStoreIndex(nodes, storage_context=storage, embed_model=EmbeddedEmbedding())
engine = index.as_query_engine(similarity_top_k=8, node_postprocessors=[DenoisePostprocessor()])
checked = AugmentedQueryEngine.around(engine)

question = "How much does a night in the garage cost?"
print("before:", engine.query(question))
response = checked.query(question)
print("after: ", response, "|", response.metadata["denoise"]["outcome"])
