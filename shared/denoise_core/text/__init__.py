"""Text: spans that tile it, its words, numbers and names, and how it is kept apart from instructions."""
