"""LlamaIndex nodes to passages and back, their records, and the way from a citation to its source."""
