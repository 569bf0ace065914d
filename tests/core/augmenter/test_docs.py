"""Every example of the Augmenter's page runs, in its order."""

import re
from pathlib import Path

from augmenter_doubles import RIGHT, HalfDenoiser, scripted

from denoise_core import Passage
from denoise_core.augmenter import Groundedness, Outcome
from denoise_core.testing import ListRetriever

PAGE = Path(__file__).parents[3] / "docs" / "augmenter.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_run():
    source = ListRetriever(
        [Passage("The Eiffel Tower in Paris was completed in 1889.", "eiffel")]
    )
    names = {
        "__name__": "docs",
        "llm": scripted(RIGHT),
        "reviews": source,
        "archive": source,
        "retriever": source,
        "end_denoiser": HalfDenoiser(),
        "clear": lambda: None,
        "mask": lambda text: text,
        "stricter": Groundedness(),
    }
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 5
    for code in blocks:
        outside = (
            "from denoise_core.augmenter.knowledge" in code
        )  # its encoder is not here
        exec(compile(code, str(PAGE), "exec"), names)
        if outside:
            names["loop"] = names["Augmenter"](names["llm"], source)
        if "Chain()" in code:
            answer = names["answer"]
            assert (answer.outcome, answer.best.draft) == (Outcome.SUPPORTED, 1)
            assert answer.trace.usage.input_tokens == 620
