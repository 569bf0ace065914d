"""What several tests of the loop share: a right and a wrong draft, scores from a table, a denoiser of one rule."""

from denoise_core import DenoiseResult, Drop, Span
from denoise_core.augmenter import Reason, Verdict
from denoise_core.augmenter.drafting import DraftRequest
from denoise_core.augmenter.utility import without_effects

RIGHT = "It was completed in 1889 [1]."
WRONG = "It was completed in 1925 [1]."


class Scores:
    """A utility that is a table from candidate to score; passes at 0.9."""

    def __init__(self, **scores):
        self.scores = scores

    def assess(self, memory, candidate):
        score = self.scores[candidate]
        reasons = () if score >= 0.9 else (Reason("not good enough", claim=candidate),)
        return without_effects(Verdict("pass" if score >= 0.9 else "fail", score, reasons))


class HalfDenoiser:
    """Keeps the first passage, drops the others with scores."""

    def denoise(self, query, passages):
        first, *rest = passages
        drops = tuple(Drop(Span(p.id, 0, len(p.text)), "low", n / 10) for n, p in enumerate(rest))
        return DenoiseResult(query, (first,), drops)

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


class Chain:
    """Plays drafts, the last for ever; counts what it did outside."""

    def __init__(self, *drafts, repeatable=True):
        self.left = list(drafts)
        self.repeatable = repeatable
        self.asked: list[DraftRequest] = []

    def draft(self, request):
        self.asked.append(request)
        said = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(said, Exception):
            raise said
        return said

    async def adraft(self, request):
        return self.draft(request)
