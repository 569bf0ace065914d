"""What several tests of judges share: a passage, and the verdict of a utility on a candidate for it."""

from denoise_core import Passage, run
from denoise_core.augmenter import WorkingMemory
from denoise_core.augmenter.utilities import Groundedness

TEXT = (
    "Aaron Galindo plays for C.D. Toledo. The club was founded in 1928 and does not play at home on Mondays. "
    "It has 5,300 seats."
)


def memory(*texts, question="When was the club founded?"):
    """A working memory whose evidence is ``texts``."""
    return WorkingMemory(question, tuple(Passage(t, f"e{n}") for n, t in enumerate(texts)))


def judged(candidate, *texts, utility=None):
    """The verdict on ``candidate`` given ``texts``; that of `Groundedness` if no utility is named."""
    return run((utility or Groundedness()).assess(memory(*texts), candidate))[0]


def kinds(verdict):
    """The kinds of a verdict's reasons."""
    return {r.kind for r in verdict.reasons}
