"""A judge of your own: any function of the question, the evidence and a claim, for `check` and for the loop."""

from denoise_core import Augmenter, Passage
from denoise_core.augmenter.drafting import FixedText
from denoise_core.support import check
from denoise_core.text.words import content_words

passages = [Passage("The tower was finished in 1889. It has three floors and a lift.", "tower")]
answer = "It was finished in 1889. It was sold in 1925."


def has_words(question: str, evidence: list[str], claim: str) -> float:
    """The share of a claim's words that the evidence has; put your model here."""
    words = set(content_words(claim))
    return len(words & set(content_words(" ".join(evidence)))) / max(1, len(words))


verdict = check("When was it finished?", answer, passages)
print("no judge:", verdict.outcome, [str(d) for claim in verdict.claims for d in claim.differences])

verdict = Augmenter(judge=has_words).answer("When was it finished?", drafter=FixedText(answer), evidence=passages)
print("your judge:", verdict.outcome.value, "|", verdict.best.verdict.reason)
