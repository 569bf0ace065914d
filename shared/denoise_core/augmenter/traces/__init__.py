"""Runs of the loop as plain JSON: to show, to keep, to learn from."""
