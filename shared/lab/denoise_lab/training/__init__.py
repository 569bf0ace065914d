"""From nothing to weights: rows of text, a network, a curriculum, a run, and what came of it."""
