"""The writer's own citations as a first verdict, checked by code.

A model that answers by labelled evidence names the sentence behind each statement, as
in "The tower was completed in 1889 [1.2]". A unit that repeats a whole cited sentence
word for word needs no second look. The judge is asked about all others: the same words
in another order, or without one of them, may say the opposite.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from denoise_core.support.answers import AnswerUnit
from denoise_core.support.citing import find_citations, unit_citations
from denoise_core.support.judging import ProviderCitation
from denoise_core.support.labels import LabelledEvidence
from denoise_core.support.normal_form import fold_text
from denoise_core.support.quoting import LLMJudge
from denoise_core.support.unit_replies import UnitLine

_QUESTION_MARKS = "?？؟"
_WORD_SIGNS = f"-'(){_QUESTION_MARKS}"


class CitationJudge(LLMJudge):
    """An `LLMJudge` that is asked only about units that code cannot check by itself.

    A unit is supported without the judge when it cites labels of the evidence alone, or
    the provider cites these sentences for it, and it is word for word one whole sentence
    under these labels; only case, markup and punctuation that changes no word or number
    may differ ("re-signed" is not "resigned", "(5)" not "5"). It trusts the
    writer that the sentence is about what the text around it is about: give it to the
    model that wrote, whose verdict would be its own, too.
    """

    @property
    def id(self) -> str:
        """As of `LLMJudge`, behind ``citations``."""
        return f"citations, {super().id}"

    def known_lines(
        self,
        answer: str,
        units: Sequence[AnswerUnit],
        provided: Sequence[ProviderCitation],
        evidence: LabelledEvidence,
    ) -> Mapping[int, UnitLine]:
        """The lines of the units that repeat a sentence which they cite."""
        citations = find_citations(answer, evidence.passages, provided)
        lines = {}
        for number, unit in enumerate(units, 1):
            labels: list[str] = []
            for citation in unit_citations(unit, citations):
                # The name of an unknown one is no label: the judge reads the unit.
                labels += citation.labels or citation.unknown
            if not evidence.sentences.keys() >= set(labels):
                continue
            repeated_labels = _repeated_labels(unit, labels, evidence)
            if repeated_labels:
                lines[number] = UnitLine("supported", repeated_labels)
        return lines


def _repeated_labels(
    unit: AnswerUnit, labels: Sequence[str], evidence: LabelledEvidence
) -> tuple[str, ...]:
    """The labels of the sentences that the unit repeats as a whole.

    A unit under a lead, such as an item below "These are false:", says more than its
    words; a question says less.
    """
    unit_words = fold_text(unit.shown_text).text
    if unit.label or not unit_words:
        return ()
    repeated_labels = []
    for label in labels:
        sentence = evidence.sentences[label]
        is_question = sentence.text.rstrip().endswith(tuple(_QUESTION_MARKS))
        has_same_words = fold_text(sentence.text).text == unit_words
        has_same_signs = _find_signs(sentence.text) == _find_signs(unit.shown_text)
        if not is_question and has_same_words and has_same_signs:
            repeated_labels.append(label)
    return tuple(repeated_labels)


def _find_signs(text: str) -> list[str]:
    """The signs that change a word, a number or a claim, and that folding leaves out.

    Those of mathematics such as ``<`` and ``≥``, and those inside words and around
    numbers; a list's mark is none.
    """
    signs = []
    for character in text.lstrip("-*• "):
        category = unicodedata.category(character)
        if category == "Sm" or character in _WORD_SIGNS:
            signs.append(character)
    return signs
