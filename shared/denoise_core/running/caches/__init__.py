"""Replies and models that are made once: caches by content, and where things are kept."""
