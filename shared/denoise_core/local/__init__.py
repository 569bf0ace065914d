"""A model on this machine: loading it, its first layers, keys and values, prompts as token ids, generation."""
