"""MiniLM-L6 in 16 bit, as data: ``minilm/`` beside this file holds the weights, the tokenizer and the config."""
