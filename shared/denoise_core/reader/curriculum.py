"""In which order the reader learns: finding the asked fact first, from few to many, then the tasks, then length.

Trained on everything at once a small model only learns to copy some fact's value. With two facts, asked in the
words they were stated in, right after the context, it learns to find the one that is meant; the rest builds on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from denoise_core.reader.scene import Difficulty
from denoise_core.reader.tasks import TASKS


@dataclass(frozen=True, slots=True)
class Stage:
    """``rows`` x ``length`` tokens a step. Ends after ``share`` of the run's tokens, or when the first tokens of
    replies are right at the rate ``passes`` (after ``least`` tokens); what is saved goes to the last stage.
    ``depth`` is how many blocks are in use, ``plain`` says everything in one wording.
    """

    name: str
    difficulty: Difficulty
    tasks: dict[str, float] = field(hash=False)
    rows: int
    length: int
    share: float
    passes: float | None = None
    least: int = 200_000
    plain: bool = False
    depth: int | None = None


_ALL = {name: weight for name, (weight, _) in TASKS.items()}
_FIND = {"cloze": 1.0}
_ASK = {"cloze": 2.0, "answer": 2.0, "passages": 1.0, "word_problem": 0.5}

STAGES = (
    Stage("two facts", Difficulty(2, 0), _FIND, 16, 128, 0.15, 0.95, plain=True, depth=4),
    Stage("wordings", Difficulty(3, 0), _FIND, 16, 128, 0.10, 0.93, depth=4),
    Stage("more facts", Difficulty(5, 1), {"cloze": 1.0, "answer": 1.0}, 8, 256, 0.10, 0.93, depth=4),
    Stage("shared attributes", Difficulty(6, 3, 2, 60), _ASK, 8, 256, 0.12, 0.93, depth=4),
    Stage("tasks", Difficulty(6, 4, 3, 120), _ALL | {"cloze": 3.0}, 6, 512, 0.25),
    Stage("length", Difficulty(10, 4, 8, 250), _ALL, 4, 1024, 1.0),
)
