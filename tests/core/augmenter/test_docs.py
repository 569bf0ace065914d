"""Every example of the Augmenter's page runs, in its order."""

import re
from pathlib import Path

from denoise_core.augmenter import Outcome
from denoise_core.testing import ListRetriever

PAGE = Path(__file__).parents[3] / "docs" / "augmenter.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_run():
    names = {"__name__": "docs"}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 5
    for code in blocks:
        outside = (
            "from denoise_core.augmenter.knowledge" in code
        )  # its encoder is not here
        exec(compile(code, str(PAGE), "exec"), names)
        if outside:
            source = ListRetriever(names["passages"])
            names["loop"] = names["Augmenter"](names["llm"], source)
        if "Chain()" in code:
            answer = names["answer"]
            assert (answer.outcome, answer.best.draft) == (Outcome.SUPPORTED, 1)
            assert answer.trace.usage.input_tokens == 620
