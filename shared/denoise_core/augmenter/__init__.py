"""LLM-Augmenter."""
