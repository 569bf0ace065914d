"""Words that made-up passages are drawn from."""

WORDS = [
    "tower", "harbour", "bread", "rain", "clerk", "field", "river", "bridge", "goat", "swan", "market", "ship",
]  # fmt: skip
