"""States of one question's texts, as the tests look at them."""

import numpy as np


def states_of(reader, query, texts, layers):
    """By layer ``(len(texts), d)``; of a text longer than the window those of its first part."""
    found = reader.read([(query, t) for t in texts], layers)
    first = np.searchsorted(found.text_index, np.arange(len(texts)))
    return {layer: rows[first] for layer, rows in found.by_layer.items()}
