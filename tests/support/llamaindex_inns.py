"""A small world for whole applications: inns that only their metadata tells apart, and a judge by words."""

import re
from zlib import crc32

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode

QUESTION = "By what time must rooms be vacated at the Larkmoor Inn in Tessel?"
RIGHT = "Rooms at the Larkmoor Inn in Tessel must be vacated by 11:30."
WRONG = "Rooms at the Larkmoor Inn in Tessel must be vacated by 10:00."  # it is so in Overby
INNS = [
    ("Tessel", "11:30", "15:00"),
    ("Overby", "10:00", "14:00"),
    ("Marne", "12:15", "16:00"),
]


class Words(BaseEmbedding):
    """A bag of words, hashed: what shares words lies close."""

    def _get_text_embedding(self, text):
        values = [0.001] * 64
        for word in re.findall(r"\w+", text.lower()):
            values[crc32(word.encode()) % 64] += 1.0
        return values

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


def nodes():
    """One node an inn, its town in the metadata alone."""
    return [
        TextNode(
            text=f"Check-in opens at {opens}. Rooms must be vacated by {leaves}.",
            id_=town,
            metadata={"hotel": "Larkmoor Inn", "city": town},
        )
        for town, leaves, opens in INNS
    ]


def index(results=None):
    """A vector index of the inns."""
    return VectorStoreIndex(
        nodes() if results is None else results, embed_model=Words()
    )


def judged(response):
    """What was said of it."""
    return response.metadata["denoise"]["outcome"]
