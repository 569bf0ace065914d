"""LlamaIndex models, retrievers and embeddings as the core sees them, and the core's as LlamaIndex sees them."""
