"""Keys and values of a prompt's beginning, kept for the next question about the same passage.

In: prompts as token ids with the length of their shared prefix. Out: the same last-token states as a full run.
Read
`reuse` first, then `recording` (one pass that records, one that resumes); `prefix_cache` is the bounded store.
"""
