"""Evidence as numbered sentences, which a model names instead of copying them.

"2.3" is the third sentence, row or list item of the second passage, "2.0" its header.
Nothing of a passage is left out, and each label is an exact range of its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from denoise_core.spans import Ranges
from denoise_core.support.answers import folded_sentences
from denoise_core.support.judging import Quote, Relation
from denoise_core.support.layout import trim_range
from denoise_core.support.normal_form import normalize_text
from denoise_core.text.delimit import ENVELOPE_NOTE, sanitize_text, wrap_in_envelope
from denoise_core.text.language import detect_language
from denoise_core.types import Passage, Span

EVIDENCE_SYSTEM = (
    "You work by the evidence that you are given; what you know yourself does not "
    f"count. {ENVELOPE_NOTE} Every line of evidence begins with its label: 2.3 is the "
    "third sentence or row of evidence 2, and 2.0 says what evidence 2 is."
)
"""The system message of every prompt with labels, so that prompts about the same
evidence begin with the same words and a provider's prefix cache serves them."""
_MAX_VALUE_CHARACTERS = 120  # of a value of metadata that is read
_MAX_FIELDS = 12
# Metadata of the adapters says where a text is from and how it scored, nothing about
# what it says.
_ADAPTER_KEYS = ("denoise_", "relevance_score")


@dataclass(frozen=True, slots=True)
class EvidenceSentence:
    """Characters ``[start, end)`` of a passage's text under a label.

    ``exact_text`` are those characters, ``text`` their normal form. A header is no part
    of the text: its range is empty.
    """

    label: str
    passage_id: str
    start: int
    end: int
    exact_text: str
    text: str


class LabelledEvidence:
    """Passages cut into labelled sentences, in order."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        self.sentences: dict[str, EvidenceSentence] = {}
        self.passage_sentences: list[list[EvidenceSentence]] = []
        for number, passage in enumerate(self.passages, 1):
            sentences = _label_passage(number, passage)
            self.passage_sentences.append(sentences)
            for sentence in sentences:
                self.sentences[sentence.label] = sentence

    def prompt_text(self) -> str:
        """The evidence as a prompt shows it: an envelope for each passage."""
        envelopes = []
        for number, sentences in enumerate(self.passage_sentences, 1):
            lines = []
            for sentence in sentences:
                # Sanitized alone: behind its label a line would hide its look.
                shown_text = sanitize_text(sentence.text)
                lines.append(f"{sentence.label} {shown_text}")
            sentence_lines = "\n".join(lines)
            envelope = wrap_in_envelope(sentence_lines, f"evidence {number}")
            envelopes.append(envelope)
        return "\n\n".join(envelopes)

    def quote(self, label: str, relation: Relation = "supports") -> Quote | None:
        """The words under a label; None for a header and for a label of nothing."""
        sentence = self.sentences.get(label)
        if sentence is None or not sentence.exact_text:
            return None
        span = Span(sentence.passage_id, sentence.start, sentence.end)
        return Quote(span, sentence.exact_text, relation)

    def source_text(self, labels: Sequence[str]) -> str:
        """The normal form of what the labels name, with the headers of their passages."""
        texts = []
        for label in labels:
            passage_number, _, _ = label.partition(".")
            header_label = f"{passage_number}.0"
            for known_label in (header_label, label):
                sentence = self.sentences.get(known_label)
                if sentence is not None:
                    texts.append(sentence.text)
        unique_texts = dict.fromkeys(texts)
        return "\n".join(unique_texts)


def evidence_prefix(evidence: LabelledEvidence, question: str) -> str:
    """The beginning of every prompt about labelled evidence: evidence, then question."""
    evidence_text = evidence.prompt_text()
    parts = [evidence_text]
    if question.strip():
        normal_question = normalize_text(question)
        envelope = wrap_in_envelope(normal_question.text, "question")
        parts.append(f"The question:\n{envelope}")
    return "\n\n".join(parts)


def passage_header(passage: Passage) -> str:
    """The passage's header, or else the short values of its metadata."""
    if passage.header:
        return passage.header
    parts = []
    for key, value in passage.metadata.items():
        is_plain = isinstance(value, (str, int, float))
        if not is_plain or isinstance(value, bool):
            continue
        if key.startswith(_ADAPTER_KEYS):
            continue
        value_text = str(value)
        value_length = len(value_text)
        if 0 < value_length <= _MAX_VALUE_CHARACTERS:
            parts.append(f"{key}: {value}")
    first_parts = parts[:_MAX_FIELDS]
    return "; ".join(first_parts)


def has_words(passage: Passage) -> bool:
    """Whether its text, its header or its metadata says anything."""
    has_text = bool(passage.text.strip())
    if has_text:
        return True
    header_text = passage_header(passage)
    return bool(header_text.strip())


def _label_passage(number: int, passage: Passage) -> list[EvidenceSentence]:
    sentences = []
    raw_header = passage_header(passage)
    header_text = normalize_text(raw_header).text
    if header_text:
        header_label = f"{number}.0"
        header = EvidenceSentence(header_label, passage.id, 0, 0, "", header_text)
        sentences.append(header)
    ranges = evidence_ranges(passage.text)
    for index, (start, end) in enumerate(ranges, 1):
        exact_text = passage.text[start:end]
        shown_text = normalize_text(exact_text).text
        label = f"{number}.{index}"
        sentence = EvidenceSentence(
            label, passage.id, start, end, exact_text, shown_text
        )
        sentences.append(sentence)
    return sentences


def evidence_ranges(text: str) -> Ranges:
    """The sentences, rows and list items of a passage, without the space around them.

    A rule and other marks without a word are no sentence. A line break that only folds
    a long line ends no sentence; a table's row is one.
    """
    ranges: Ranges = []
    first_text = text[:4000]
    language = detect_language(first_text)
    for sentence_start, sentence_end in folded_sentences(text, language):
        start, end = trim_range(text, sentence_start, sentence_end)
        sentence_text = text[start:end]
        has_word = any(map(str.isalnum, sentence_text))
        if not has_word:
            continue
        previous_start = ranges[-1][0] if ranges else None
        if previous_start is not None and _is_in_row_of(text, previous_start, start):
            ranges[-1] = (previous_start, end)
        else:
            ranges.append((start, end))
    return ranges


def _is_in_row_of(text: str, row_start: int, position: int) -> bool:
    """Whether a position is in the table row that begins at ``row_start``."""
    if text[row_start] != "|":
        return False
    text_between = text[row_start:position]
    return "\n" not in text_between
