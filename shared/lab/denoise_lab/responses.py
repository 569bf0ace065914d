"""The paper's measures of a response, by well-kept libraries, and what a loop costs.

KF1, BLEU-4, chrF, ROUGE-1 and METEOR need no weights. METEOR counts synonyms only where WordNet is installed
for nltk; without it the measure is exact words and stems, and is called ``meteor_nosyn``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from denoise_core._optional import require
from denoise_core.augmenter.answer import Answer
from denoise_core.errors import InputError
from denoise_core.support.citation_marks import remove_citations
from denoise_lab.overlap import knowledge_f1

LAB = "rag-denoise-lab"  # brings what the measures need


def response_scores(
    candidates: Sequence[str],
    references: Sequence[str],
    knowledge: Sequence[str] | None = None,
) -> dict[str, float]:
    """Means over the responses, in percent as the papers print them; citations are taken out first.

    ``knowledge`` is what each response should rest on (for KF1). ``length`` is in words. Raises `InputError`
    when the lists differ in length or are empty.
    """
    said = _checked(candidates, references, knowledge)
    sacrebleu = require("sacrebleu", extra="evaluate", package=LAB)
    scores = {
        "bleu4": float(sacrebleu.corpus_bleu(said, [list(references)]).score),
        "chrf": float(sacrebleu.corpus_chrf(said, [list(references)]).score),
        "rouge1": 100 * _mean(_rouge(said, references)),
        **_meteor(said, references),
        "length": _mean([len(s.split()) for s in said]),
    }
    if knowledge is not None:
        scores["kf1"] = 100 * _mean(
            [knowledge_f1(s, [k]) for s, k in zip(said, knowledge, strict=True)]
        )
    return scores


@dataclass(frozen=True, slots=True)
class LoopCost:
    """What verifying changed, over many answers. ``corrected`` were wrong at the first draft and right as sent,
    ``harmed`` the reverse. ``extra_calls`` are calls beyond the first search and draft; ``calls_per_correction``
    is None when nothing was corrected."""

    answers: int
    right_first: int
    right_sent: int
    corrected: int
    harmed: int
    extra_calls: int
    extra_tokens: int

    @property
    def harm_rate(self) -> float:
        """Harmed, of those that were right at first; 0.0 when none was."""
        return self.harmed / self.right_first if self.right_first else 0.0

    @property
    def calls_per_correction(self) -> float | None:
        return self.extra_calls / self.corrected if self.corrected else None


def loop_cost(
    answers: Sequence[Answer], right: Sequence[Callable[[str], bool]]
) -> LoopCost:
    """``right[n]`` says whether a text is right for the n-th answer; an answer without a draft was wrong at
    first. Raises `InputError` when there are not as many of each."""
    if len(answers) != len(right):
        raise InputError(
            f"{len(answers)} answers and {len(right)} judges: expected as many of each"
        )
    first = [
        bool(a.memory.attempts) and ok(a.memory.attempts[0].candidate)
        for a, ok in zip(answers, right)
    ]
    sent = [ok(a.text) for a, ok in zip(answers, right, strict=True)]
    extra = [_extra(a) for a in answers]
    return LoopCost(
        len(answers),
        sum(first),
        sum(sent),
        sum(s and not f for f, s in zip(first, sent, strict=True)),
        sum(f and not s for f, s in zip(first, sent, strict=True)),
        sum(calls for calls, _ in extra),
        sum(tokens for _, tokens in extra),
    )


def _extra(answer: Answer) -> tuple[int, int]:
    """Calls and tokens beyond the first search and the first draft; denoising is neither."""
    calls = [e for e in answer.trace.events if e.tag != "denoise"]
    for tag in ("search", "draft"):
        at = next((n for n, e in enumerate(calls) if e.tag == tag), None)
        if at is not None:
            del calls[at]
    return len(calls), sum(e.usage.total for e in calls if e.usage)


def _checked(
    candidates: Sequence[str],
    references: Sequence[str],
    knowledge: Sequence[str] | None,
) -> list[str]:
    sizes = {
        len(candidates),
        len(references),
        len(candidates if knowledge is None else knowledge),
    }
    if len(sizes) != 1 or not candidates:
        raise InputError(
            "expected as many references (and knowledge) as candidates, and one or more"
        )
    return [remove_citations(c) for c in candidates]


def _rouge(said: Sequence[str], references: Sequence[str]) -> list[float]:
    # Given its tokenizer, the scorer does not log that it took the default one. That one line goes through absl,
    # which calls logging.basicConfig(): from then on every logger of the process would write to stderr.
    tokenizer = require(
        "rouge_score.tokenizers", extra="evaluate", package=LAB
    ).DefaultTokenizer(use_stemmer=True)
    scorer = require(
        "rouge_score.rouge_scorer", extra="evaluate", package=LAB
    ).RougeScorer(["rouge1"], tokenizer=tokenizer)
    return [
        float(scorer.score(r, s)["rouge1"].fmeasure)
        for s, r in zip(said, references, strict=True)
    ]


def _meteor(said: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    meteor = require(
        "nltk.translate.meteor_score", extra="evaluate", package=LAB
    ).meteor_score
    wordnet = require("nltk.corpus", extra="evaluate", package=LAB).wordnet
    name = "meteor"
    try:
        wordnet.ensure_loaded()
    except LookupError:
        name, wordnet = "meteor_nosyn", _NoSynonyms()
    values = [
        float(meteor([r.split()], s.split(), wordnet=wordnet))
        for s, r in zip(said, references, strict=True)
    ]
    return {name: 100 * _mean(values)}


class _NoSynonyms:
    """In the place of WordNet: nothing has a synonym."""

    def synsets(self, word: str) -> list[Any]:
        return []


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
