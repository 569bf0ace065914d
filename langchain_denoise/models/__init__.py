"""Models of either side as the other's: chat models, embeddings, decision models, local weights."""
