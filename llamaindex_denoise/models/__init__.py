"""LlamaIndex models, retrievers and embeddings for the core, and back.

Read `llm` first: a LlamaIndex LLM as the core's. `retriever` does the same for
retrievers, and `scorers` has the encoder that ships. A new kind of model gets its
adapter here.
"""
