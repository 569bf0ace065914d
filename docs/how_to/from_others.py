"""Our half of the moves from FlashRank and LLMLingua, whose own models are on a hub: what each keeps."""

from pathlib import Path

from langchain_core.documents import Document

from denoise_core.end import Tokens
from langchain_denoise import DenoiseCompressor

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
documents = [Document(page_content=text.strip(), id=f"p{n}") for n, text in enumerate(texts)]
moves = {
    "FlashrankRerank(top_n=3)": DenoiseCompressor(top_n=3),
    "LLMLinguaCompressor(target_token=60)": DenoiseCompressor(keep=Tokens(60)),
}
for name, ours in moves.items():
    found = ours.compress_documents(documents, "What does a night in the garage cost?")
    words = sum(len(d.page_content.split()) for d in found)
    print(f"instead of {name:37} {len(found)} documents, {words:2} words, ids: {[d.id for d in found]}")
