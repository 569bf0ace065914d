"""Query engines: the LLM-Augmenter, and checks around an engine of the user.

Read `base` first: responses, streams and prompts that all engines share. `drafter` lets
a LlamaIndex engine draft for the loop, `augmented` checks answers. A new kind of query
engine goes here and inherits `VerifiedEngine`.
"""
