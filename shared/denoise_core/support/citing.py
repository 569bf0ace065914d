"""What an answer takes from its passages: citations, and words in a row.

One resolver serves all that reads citations: a number counts the passages as they were
shown, from 1; only what is no such number is looked up among their ids. A citation of
the model's provider counts for the sentences that have its cited text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from denoise_core.spans import Range, complement_spans
from denoise_core.support.answers import AnswerUnit, ParsedAnswer, parse_answer
from denoise_core.support.citation_marks import (
    BRACKETED,
    cited_names,
    is_worded,
    named_labels,
)
from denoise_core.support.judging import ProviderCitation
from denoise_core.support.labels import (
    LabelledEvidence,
    evidence_ranges,
    passage_header,
)
from denoise_core.support.layout import blank_ranges, trim_to_words
from denoise_core.support.normal_form import find_words, fold_text
from denoise_core.types import Passage

_MAX_STARTS = 50  # occurrences of a word tried as the start of a quotation
_SKIPPED_KINDS = frozenset(("code", "field", "reasoning"))
_SHOWN_CHARACTERS = 80  # of a cited text that no passage has


@dataclass(frozen=True, slots=True)
class Citation:
    """``[start, end)`` of the answer names the passages ``ids``.

    ``unknown`` are names of no passage, labels of no sentence, and a cited text that no
    passage has. ``labels`` are all numbers, labels and ids named, or the labels of the
    sentences that a cited text is in.
    """

    start: int
    end: int
    ids: tuple[str, ...]
    unknown: tuple[str, ...]
    labels: tuple[str, ...] = ()


def find_citations(
    answer: str,
    passages: Sequence[Passage],
    provided: Sequence[ProviderCitation] = (),
    *,
    is_numbered: bool = True,
) -> list[Citation]:
    """Find the citations of an answer, in order; their forms are those of `citation_marks`.

    Brackets with anything else, and those in code and in reasoning, cite nothing; of
    JSON only those inside its texts do. A year of four digits counts none.

    Args:
        answer: The answer.
        passages: The evidence, in the order in which citations count it.
        provided: The citations that came along with the answer's text.
        is_numbered: Whether the writer may have read the passages as numbered from 1.
            If not, a number cites only the passage that has it as its id.
    """
    passage_ids = [passage.id for passage in passages]
    parsed_answer = parse_answer(answer, ids=passage_ids)
    resolver = _CitationResolver(passages, is_numbered)
    provided_citations = _locate_provided(answer, passages, provided)
    citations = list(provided_citations)
    answer_text = citable_text(parsed_answer)
    for match in BRACKETED.finditer(answer_text):
        ids: dict[str, None] = {}
        unknown_names = []
        labels: list[str] = []
        bracket = match[0]
        for name in cited_names(bracket):
            resolved_name = resolver.resolve_name(name)
            if resolved_name is None:
                break
            cited_ids, other_names = resolved_name
            ids |= dict.fromkeys(cited_ids)
            unknown_names += other_names
            labels += named_labels(name) or (name,)
        else:
            if unknown_names and _is_copied(bracket, passages):
                continue
            all_ids = tuple(ids)
            citation = Citation(
                *match.span(), all_ids, tuple(unknown_names), tuple(labels)
            )
            citations.append(citation)
    citations.sort(key=lambda citation: citation.start)
    return citations


def unit_citations(unit: AnswerUnit, citations: Sequence[Citation]) -> list[Citation]:
    """The citations in a unit or right behind it, and those of some of its words."""
    own_citations = []
    for citation in citations:
        has_words = citation.start < unit.end and unit.start < citation.end
        citation_range = (citation.start, citation.end)
        if has_words or citation_range in unit.citations:
            own_citations.append(citation)
    return own_citations


def _locate_provided(
    answer: str, passages: Sequence[Passage], provided: Sequence[ProviderCitation]
) -> Iterator[Citation]:
    """The citations of a provider, with the sentences that have their cited text.

    A cited text that no passage has is unknown. If the answer itself has it, it names
    no source and is left out: Google's models give the answer's own words there. It is
    left out, too, where the token limit emptied a passage, which may have had it.
    """
    labelled_passages = passages if provided else ()
    evidence = LabelledEvidence(labelled_passages)
    has_all_texts = all(passage.text for passage in passages)
    for citation in provided:
        start, end = trim_to_words(answer, citation.start, citation.end)
        words = citation.cited_text.split()
        cited_text = " ".join(words)
        folded = fold_text(cited_text)
        is_empty = start == end or not folded.text
        if is_empty:
            continue
        labels = _labels_of_words(cited_text, evidence)
        if labels:
            ids: dict[str, None] = {}  # ordered, each once
            for label in labels:
                sentence = evidence.sentences[label]
                ids[sentence.passage_id] = None
            yield Citation(start, end, tuple(ids), (), labels)
        elif has_all_texts and find_words(cited_text, answer) is None:
            shown_text = cited_text[:_SHOWN_CHARACTERS]
            unknown_name = f'"{shown_text}"'
            yield Citation(start, end, (), (unknown_name,))


def _labels_of_words(text: str, evidence: LabelledEvidence) -> tuple[str, ...]:
    """The labels of the sentences with these words; () unless all of them are there.

    A provider joins what it cites of several passages: then each sentence of the text
    must be in one of them.
    """
    text_labels = _labels_with_words(text, evidence)
    labels = list(text_labels)
    if labels:
        return tuple(labels)
    for start, end in evidence_ranges(text):
        sentence_text = text[start:end]
        sentence_labels = list(_labels_with_words(sentence_text, evidence))
        if not sentence_labels:
            return ()
        labels += sentence_labels
    unique_labels = dict.fromkeys(labels)
    return tuple(unique_labels)


def _labels_with_words(text: str, evidence: LabelledEvidence) -> Iterator[str]:
    """The labels of the sentences and headers, of each passage, with words in a row."""
    all_sentences = evidence.passage_sentences
    for passage, sentences in zip(evidence.passages, all_sentences, strict=True):
        start, end = find_words(text, passage.text) or (0, 0)
        header_text = passage_header(passage)
        is_in_header = find_words(text, header_text) is not None
        for sentence in sentences:
            is_header = sentence.start == sentence.end
            has_words = sentence.start < end and start < sentence.end
            if has_words or (is_header and is_in_header):
                yield sentence.label


def _is_copied(words: str, passages: Sequence[Passage]) -> bool:
    """Whether a passage has these words itself: an interval, its own reference mark."""
    return any(words in passage.text for passage in passages)


class _CitationResolver:
    """Says which passages the names in a bracket are."""

    def __init__(self, passages: Sequence[Passage], is_numbered: bool) -> None:
        self.passages = passages
        self.is_numbered = is_numbered
        self.ids = {passage.id for passage in passages}
        self.evidence: LabelledEvidence | None = None  # cut only where a label is cited

    def resolve_name(self, name: str) -> tuple[list[str], list[str]] | None:
        """The ids of the passages a name cites, and what is unknown; None for words.

        A number behind a word is the passage's where no passage has these words: then
        they would name its tables, standards or chapters.
        """
        cited_ids = []
        unknown_names = []
        labels = named_labels(name) if self.is_numbered else ()
        for label in labels:
            passage = self._find_passage(label)
            if passage is None:
                unknown_names.append(f"[{label}]")
            else:
                cited_ids.append(passage.id)
        has_word = is_worded(name)
        required_count = max(1, len(labels))
        is_incomplete = len(cited_ids) < required_count
        if name in self.ids and (has_word or is_incomplete):
            return [name], []
        is_wording = has_word and bool(unknown_names)
        if not labels or is_wording:
            return None
        if has_word and _is_copied(name, self.passages):
            return None
        return cited_ids, unknown_names

    def _find_passage(self, label: str) -> Passage | None:
        """The passage of a label; None if there is none, or it lacks that sentence."""
        passage_number, _, sentence_number = label.partition(".")
        position = int(passage_number) - 1
        if not 0 <= position < len(self.passages):
            return None
        passage = self.passages[position]
        if not passage.text or sentence_number in ("", "0"):
            return passage
        if self.evidence is None:
            self.evidence = LabelledEvidence(self.passages)
        is_known = label in self.evidence.sentences
        return passage if is_known else None


def citable_text(parsed_answer: ParsedAnswer) -> str:
    """The answer with blanks for reasoning, code and JSON around what its texts cite."""
    skipped_ranges = []
    for unit in parsed_answer.units:
        is_field = unit.kind in ("field", "talk") and bool(unit.label)
        if is_field or unit.kind in _SKIPPED_KINDS:
            uncited_ranges = complement_spans(unit.citations, unit.start, unit.end)
            skipped_ranges += uncited_ranges
    text = blank_ranges(parsed_answer.answer, skipped_ranges)
    code_ranges = []
    for match in re.finditer(r"`[^`\n]*`", text):
        code_range = match.span()
        code_ranges.append(code_range)
    return blank_ranges(text, code_ranges)


def matching_runs(words: Sequence[str], source_words: Sequence[str]) -> Iterator[Range]:
    """Half-open ranges of ``words`` that occur in ``source_words`` word for word.

    Greedy: the longest run from the first word, then from behind it.
    """
    source_positions: dict[str, list[int]] = {}
    for position, word in enumerate(source_words):
        same_positions = source_positions.setdefault(word, [])
        same_positions.append(position)
    offset = 0
    while offset < len(words):
        longest_run = 0
        first_word = words[offset]
        word_positions = source_positions.get(first_word, [])
        tried_positions = word_positions[:_MAX_STARTS]
        for position in tried_positions:
            run_length = _common_length(words, offset, source_words, position)
            longest_run = max(longest_run, run_length)
        if longest_run:
            run_end = offset + longest_run
            yield offset, run_end
        offset += max(longest_run, 1)


def _common_length(
    words: Sequence[str], offset: int, source_words: Sequence[str], position: int
) -> int:
    """How many words from ``offset`` equal those from ``position`` of the source."""
    words_left = len(words) - offset
    source_words_left = len(source_words) - position
    limit = min(words_left, source_words_left)
    for length in range(limit):
        answer_word = words[offset + length]
        source_word = source_words[position + length]
        if answer_word != source_word:
            return length
    return limit
