"""Models of either side as the other's: chat models, embeddings, local weights."""
