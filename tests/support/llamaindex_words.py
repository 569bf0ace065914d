"""An embedding by words, for whole applications."""

import re
from zlib import crc32

from llama_index.core.base.embeddings.base import BaseEmbedding


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
