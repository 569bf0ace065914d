"""Query engines: S2A, the LLM-Augmenter, and checks around an engine of the user.

Read `base` first: responses, streams and prompts that all engines share. `drafter` lets
a LlamaIndex engine draft for the loop, `augmented` checks answers, `s2a` answers from
denoised context. A new kind of query engine goes here and inherits `DenoiseEngine`.
"""
