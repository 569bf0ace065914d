"""In which order the reader learns: finding the asked fact first, from few to many, then the tasks, then length.

Trained on everything at once a small model only learns to copy some fact's value. With two facts, asked in the
words they were stated in, right after the context, it learns to find the one that is meant; the rest builds on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from denoise_lab.tasks import TASKS
from denoise_lab.worlds.scene import Difficulty


@dataclass(frozen=True, slots=True)
class Lesson:
    """One kind of batch: ``rows`` x ``length`` tokens of conversations drawn from ``tasks`` by weight.

    ``plain`` says everything in one wording; ``echo`` is the weight of learning later questions' texts too;
    ``coin`` is the share of wordings with words of no meaning (`World.coined`).
    """

    difficulty: Difficulty
    tasks: dict[str, float] = field(hash=False)
    rows: int
    length: int
    plain: bool = False
    echo: float = 0.0
    coin: float = 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Lessons, taken in turn, a step each; ``shallow`` ones use the first blocks of the network only.

    A stage ends after ``most`` tokens, or sooner when the first tokens of replies are right at the rate
    ``passes``; one with neither lasts until the rate begins anew (`TrainingSettings.anew`), the last to the end.
    Shallow stages have the RoPE base for learning to find (`Shape.rope`), the others that of the finished model
    (`Shape.far`).
    """

    name: str
    lessons: tuple[Lesson, ...]
    most: int | None = None
    passes: float | None = None
    shallow: bool = False


_ALL = {name: weight for name, (weight, _) in TASKS.items()}
_FIND = {"cloze": 1.0}
_COPY = {"cloze": 1.0, "lines": 0.3}
_BOTH = {"cloze": 1.0, "answer": 1.0, "lines": 0.7, "sums": 0.3}
_ASK = {
    "cloze": 1.5,
    "answer": 2.0,
    "passages": 1.0,
    "layout": 1.0,
    "lines": 1.0,
    "sums": 0.5,
    "word_problem": 0.5,
}
_CLEARING = {name: _ALL[name] for name in ("rewrite", "select", "message", "relevance")}
_OTHERS = {name: weight for name, weight in _ALL.items() if name not in _CLEARING}
_SOURCES = {"passages": 3.0, "answer": 1.0, "draft": 1.0}
_CHUNKS = {"layout": 3.0, "discriminate": 1.0, "select": 1.0, "passages": 2.0, "rewrite": 1.0}

_HALF = ("things", "things", "people", "towns")  # things are the hardest to tell apart

_READ = Lesson(Difficulty(8, 4, 2, 40, _HALF), {"answer": 3.0, "passages": 1.0, "cloze": 0.5}, 4, 512, False, 0.1)
_TASKS = Lesson(Difficulty(6, 4, 3, 120, _HALF), _OTHERS | {"lines": 1.5}, 4, 512)
_CLEAR = Lesson(Difficulty(6, 4, 3, 120, _HALF), _CLEARING, 3, 704)  # its prompts are the longest
_COUNT = Lesson(Difficulty(2), {"sums": 1.0, "word_problem": 2.0}, 8, 256)
_MORE = Lesson(Difficulty(10, 4, 8, 250, _HALF), _ALL, 2, 1024)
_CHUNK = Lesson(Difficulty(4, 4, 4, 1200, _HALF), _CHUNKS, 2, 1024)
_PAGE = Lesson(Difficulty(13, 4, 13, 1000, _HALF), _SOURCES, 1, 2048)
_BOOK = Lesson(Difficulty(13, 4, 13, 2400, _HALF), _SOURCES, 1, 4096)
_LONG = Lesson(Difficulty(13, 4, 13, 3000, _HALF), _SOURCES, 1, 5120)  # as long as NoisyRetrieval's standard set
_SAY = Lesson(Difficulty(2), {"repeat": 1.0, "lines": 0.6}, 8, 256)
_COINED = (
    *(_SAY, _TASKS, _CLEAR, _READ, _TASKS, _CLEAR, _MORE, _COUNT),
    *(_SAY, _TASKS, _CLEAR, _CHUNK, _PAGE, _TASKS, _CLEAR, _LONG),
)
_LAST = (_CLEAR, _TASKS, _CLEAR, _CHUNK, _CLEAR, _READ, _CLEAR, _COUNT, _CLEAR, _MORE)

STAGES = (
    Stage("two facts", (Lesson(Difficulty(2), _FIND, 8, 256, True, 0.3),), 3_000_000, 0.89, True),
    Stage(
        "one relation", (Lesson(Difficulty(2, 1, kinds=_HALF), _FIND, 8, 256, True, 0.3),), 1_600_000, 0.90, True
    ),
    Stage("wordings", (Lesson(Difficulty(3, 1, kinds=_HALF), _COPY, 8, 256, False, 0.3),), 1_500_000, 0.87, True),
    Stage("more facts", (Lesson(Difficulty(5, 2, kinds=_HALF), _BOTH, 8, 256),), 2_000_000, 0.87, True),
    Stage("shared attributes", (Lesson(Difficulty(6, 3, 2, 60, _HALF), _ASK, 8, 256),), 2_000_000, 0.87, True),
    Stage("tasks", (_READ, _TASKS, _CLEAR, _COUNT, _TASKS, _CLEAR, _CHUNK, _TASKS), 6_000_000),
    Stage(
        "length",
        (_TASKS, _CHUNK, _CLEAR, _READ, _TASKS, _PAGE, _CLEAR, _COUNT, _TASKS, _MORE, _CLEAR, _BOOK),
    ),
    Stage("coined words", tuple(replace(lesson, coin=0.35) for lesson in _COINED), 16_000_000),
    Stage("clearing", tuple(replace(lesson, coin=0.35) for lesson in _LAST)),
)
