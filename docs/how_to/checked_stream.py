"""An answer shown sentence by sentence, each only after it was checked against the evidence."""

from pathlib import Path

from denoise_core import Augmenter, Passage
from denoise_core.augmenter import BM25Retriever
from denoise_core.augmenter.streaming import Revised, Text, held_back
from denoise_core.testing import FunctionLLM

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
passages = [Passage(text.strip(), f"p{n}") for n, text in enumerate(texts)]
draft = "The garage below the house has thirty places. A night costs 25 euros."  # the evidence says 16
llm = FunctionLLM(lambda messages: draft)  # replace it by your model


def is_stated(question: str, evidence: list[str], claim: str) -> bool:
    """A judge: leave it out, and your model judges by quotes."""
    return any(claim.strip() in text for text in evidence)


loop = Augmenter(llm, BM25Retriever(passages), judge=is_stated)
for event in held_back(loop, "What does the garage cost, and how large is it?"):
    if isinstance(event, Text):
        print("shown:  ", event.text.strip())
    else:
        print(
            "ended:  ",
            type(event).__name__,
            "|",
            event.answer.outcome.value,
            "|",
            event.answer.stopped_because.value,
        )
        if isinstance(event, Revised):
            print("instead:", event.answer.text)
