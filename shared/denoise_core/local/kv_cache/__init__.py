"""Keys and values of a prompt's beginning, kept for the next question about the same passage.

In: prompts as token ids with the length of their shared prefix. Out: the same pooled states as a full run.
Read `prefix_reader` first (texts read once, looked up and kept), then `reuse` (prompts resumed) and `recording`
(one pass behind what was kept); `prefix_cache` is the bounded store. `local.block_attention` reads heads by it.
"""
