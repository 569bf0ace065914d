"""The writer's own citations as a first verdict, checked by code.

A model that answers by labelled evidence names the sentence behind each statement, as
in "It was completed in 1889 [1.2]". A unit whose own words are those of the sentences it
cites needs no second look: only the others are shown to the judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from denoise_core.support.answers import AnswerUnit
from denoise_core.support.labels import LabelledEvidence
from denoise_core.support.quoting import LLMJudge
from denoise_core.support.unit_replies import UnitLine
from denoise_core.text.facts import find_differences
from denoise_core.text.wordlists import FUNCTION_WORDS, STOPWORDS
from denoise_core.text.words import split_words

# Words that change nothing of what is said; "not", "before" and "more" are not among them.
_NEUTRAL_WORDS = FUNCTION_WORDS & STOPWORDS


class CitationJudge(LLMJudge):
    """An `LLMJudge` that is asked only about units that code cannot check by itself.

    A unit is supported without a call when it cites labels of the evidence alone, and
    each of its words, numbers, dates and names is in the sentences under these labels,
    in their header or in the question. It trusts the writer that these sentences say
    it: give it to the model that wrote, whose verdict would be its own, too.
    """

    @property
    def id(self) -> str:
        """As of `LLMJudge`, behind ``citations``."""
        return f"citations, {super().id}"

    def known_lines(
        self,
        question: str,
        answer: str,
        units: Sequence[AnswerUnit],
        evidence: LabelledEvidence,
    ) -> Mapping[int, UnitLine]:
        """The lines of the units whose citations hold."""
        lines = {}
        for number, unit in enumerate(units, 1):
            labels = list(_cited_labels(answer, unit))
            are_known = labels and evidence.sentences.keys() >= set(labels)
            if are_known and _is_in_sources(question, unit, labels, evidence):
                lines[number] = UnitLine("supported", tuple(labels))
        return lines


def _cited_labels(answer: str, unit: AnswerUnit) -> Iterator[str]:
    for start, end in unit.citations:
        inner_text = answer[start + 1 : end - 1]
        separated_text = inner_text.replace(";", ",")
        for name in separated_text.split(","):
            yield name.strip()


def _is_in_sources(
    question: str, unit: AnswerUnit, labels: Sequence[str], evidence: LabelledEvidence
) -> bool:
    """Whether the sources or the question have all that a unit says, word by word."""
    source_text = evidence.source_text(labels)
    unit_text = unit.shown_text
    unit_words = set(split_words(unit_text))
    own_words = unit_words - _NEUTRAL_WORDS
    if not own_words:
        return False
    known_words = {*split_words(source_text), *split_words(question)}
    if not own_words <= known_words:
        return False
    return not find_differences(unit_text, source_text, known_text=question)
