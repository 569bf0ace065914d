"""Runs of the loop as plain JSON: to show, to store, to learn from.

`record` is the short form for traces and metadata; `recording` writes a whole run as
lines and reads it back.
"""
