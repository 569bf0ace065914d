"""Replies and models that are made once: caches by content, their stores, and loading once a process."""
