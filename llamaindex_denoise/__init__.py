"""The three methods as LlamaIndex parts."""
