"""Questions to a PDF: pages are read with pypdf, denoised, and the answer is shown with page and characters."""

import sys
from pathlib import Path

from pypdf import PdfReader

from denoise_core import Passage, default_denoiser
from denoise_core.embedded import answer
from denoise_core.text.chunk import sentences

file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("handbook.pdf")
pages = [page.extract_text() for page in PdfReader(file).pages]
passages = [Passage(text, f"page {n}") for n, text in enumerate(pages, 1)]
denoiser = default_denoiser(keep=2, chunker=sentences)  # the best two sentences of all pages
print(f"{file.name}: {len(pages)} pages, {sum(len(t) for t in pages)} characters")

for question in ("Until when is breakfast served on Sundays?", "When was the house opened?"):
    result = denoiser.denoise(question, passages)
    found = answer(question, result.passages)
    print(f"\n{question}")
    for kept in result.kept:
        place = f"{kept.span.passage_id}, characters {kept.span.start} to {kept.span.end}"
        print(f"  {kept.score:.2f}  {place}")
    print("  answer:", found.text if found else "none found")
