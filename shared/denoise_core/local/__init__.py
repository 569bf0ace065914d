"""A model on this machine: loading, hidden states of its first layers, kept keys and values, generation.

In: a Hugging Face model by name, folder or object, and token ids. Out: hidden states for END's probes
(`partial_forward`) and replies (`generation`). Read `loading` first, then `layout` (prompts as token ids) and
`partial_forward`. A new model family belongs in `blocks` (how its blocks are found) and `partial_forward` (what is
checked by a trial run); its limits on positions belong in `batching`.
"""
