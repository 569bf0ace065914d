"""Checks around a query engine of the user.

Read `query` first: the engine that `Checked` returns. `drafter` lets a LlamaIndex engine
draft for the loop, and `base` has responses and streams. What another kind of engine
needs goes into `drafter`.
"""
