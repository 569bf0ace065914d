"""Questions to a PDF: pages are read with pypdf, denoised, and what is kept is shown with page and characters."""

import sys
from pathlib import Path

from pypdf import PdfReader

from denoise_core import Passage, default_denoiser
from denoise_core.text.chunk import sentence_spans

file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("handbook.pdf")
pages = [page.extract_text() for page in PdfReader(file).pages]
passages = [Passage(text, f"page {n}") for n, text in enumerate(pages, 1)]
texts = {passage.id: passage.text for passage in passages}
denoiser = default_denoiser(keep=2, chunker=sentence_spans)  # the best two sentences of all pages
print(f"{file.name}: {len(pages)} pages, {sum(len(t) for t in pages)} characters")

for question in ("Until when is breakfast served on Sundays?", "When was the house opened?"):
    result = denoiser.denoise(question, passages)
    print(f"\n{question}")
    for kept in result.kept:
        span = kept.span
        print(f"  {kept.score:.2f}  {span.passage_id}, characters {span.start} to {span.end}:")
        print(f"        {texts[span.passage_id][span.start : span.end].strip()}")
