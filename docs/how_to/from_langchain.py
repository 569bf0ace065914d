"""From LangChain's own document compressors to ours: before, after, and what each keeps."""

import re
import warnings
from pathlib import Path

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document

from denoise_core.embedded import embedding_scorer
from langchain_denoise import DenoiseCompressor, EmbeddedEmbeddings
from langchain_denoise.testing import FunctionChatModel

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_classic.retrievers.document_compressors import (
        CrossEncoderReranker,
        EmbeddingsFilter,
        LLMChainExtractor,
    )


class Encoder(BaseCrossEncoder):  # replace it by yours, such as HuggingFaceCrossEncoder
    def score(self, text_pairs):
        return embedding_scorer().score(text_pairs[0][0], [text for _, text in text_pairs]).tolist()


def reply(messages):  # replace it by your chat model; it needs every sentence with a price
    prompt = messages[-1].text
    if "Extracted relevant parts:" in prompt:
        context = prompt.split(">>>")[1]
        return ". ".join(s for s in context.split(". ") if "costs" in s).strip() or "NO_OUTPUT"
    return ", ".join(re.findall(r"^(\d+) .*costs", prompt, re.MULTILINE)) or "NONE"


texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
documents = [Document(page_content=text.strip(), id=f"p{n}") for n, text in enumerate(texts)]
model, embeddings, encoder = FunctionChatModel(reply=reply), EmbeddedEmbeddings(), Encoder()
moves = {
    "LLMChainExtractor": (LLMChainExtractor.from_llm(model), DenoiseCompressor.from_llm(model, context=False)),
    "EmbeddingsFilter": (
        EmbeddingsFilter(embeddings=embeddings, k=3),
        DenoiseCompressor.from_embeddings(embeddings, keep=3),
    ),
    "CrossEncoderReranker": (
        CrossEncoderReranker(model=encoder, top_n=3),
        DenoiseCompressor.from_cross_encoder(encoder, top_n=3),
    ),
}
for name, sides in moves.items():
    for side, compressor in zip((name, "ours"), sides, strict=True):
        found = compressor.compress_documents(documents, "What does a night in the garage cost?")
        words = sum(len(d.page_content.split()) for d in found)
        print(f"{side:22} {len(found)} documents, {words:3} words, ids: {[d.id for d in found]}")
