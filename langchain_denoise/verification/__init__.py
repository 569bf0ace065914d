"""Answers held against what they were written from: around a chain, a runnable, or an agent's last model call."""
