"""An answer shown while it is written, with its verdict after it, or only once it is checked."""

from pathlib import Path

from denoise_core import Augmenter, Passage
from denoise_core.augmenter import BM25Retriever
from denoise_core.augmenter.streaming import Revised, TextReleased, stream_verified
from denoise_core.testing import FunctionLLM

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
passages = [Passage(text.strip(), f"p{n}") for n, text in enumerate(texts)]
wrong = "A night in the garage costs 25 euros."  # the evidence says 16
right = "The garage below the house has thirty places."
llm = FunctionLLM(lambda messages: right if "did not hold" in messages[-1].content else wrong)  # your model


def is_stated(question: str, evidence: list[str], claim: str) -> bool:
    """A judge: leave it out, and your model judges by quotes."""
    return any(claim.strip() in text for text in evidence)


loop = Augmenter(llm, BM25Retriever(passages), judge=is_stated)
for show in ("draft", "checked"):
    for event in stream_verified(loop, "What does the garage cost, and how large is it?", show=show):
        if isinstance(event, TextReleased):
            print(f"{show}: shown", event.text)
        else:
            print(f"{show}: ended", type(event).__name__, event.answer.outcome.value)
        if isinstance(event, Revised):
            print(f"{show}: instead", event.answer.text)
