"""LlamaIndex nodes in, passages out, and back, with a record of what was kept.

Read `convert` first: nodes to passages and back. `headers` renders metadata for prompts
and scorers, and `records` defines the record on a denoised node. A new kind of node goes
into `convert`.
"""
