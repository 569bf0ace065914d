"""What the S2A benchmarks share: scripted questions, and sentences of a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness import Benchmark, read_data_set

from denoise_core import Passage
from denoise_core.s2a.pieces import split_pieces

MIN_CHARACTERS = 20  # of a sentence: shorter ones occur in several documents
QUOTATION_MARKS = '" '  # some sentences end in the mark that opens the next one
QUICK_TEXTS = (
    "Marie Curie was born in Warsaw on 7 November 1867. She moved to Paris in 1891 (with little money). "
    "Curie won the Nobel Prize in Physics in 1903, and her husband shared it with her. "
    "The Eiffel Tower is 330 metres tall. Gustave Eiffel was the owner of the company that built it.",
    "Albert Einstein was born in Ulm on 14 March 1879. He was a clerk at the patent office in Bern in 1905. "
    "Einstein received the Nobel Prize in Physics in 1921 (for the photoelectric effect). "
    "Lake Geneva has a surface of 580 square kilometres. The lake is shared by France and Switzerland.",
)


@dataclass(frozen=True)
class ScriptedQuestion:
    """A question for the scripted model.

    Attributes:
        text: The question.
        passages: Twenty documents: ten of the question and ten of another one.
        gold_sentences: The supporting sentences.
        gold_paragraphs: All sentences of the supporting paragraphs.
    """

    text: str
    passages: list[Passage]
    gold_sentences: list[str]
    gold_paragraphs: list[str]


def scripted_questions(bench: Benchmark, limit: int) -> list[ScriptedQuestion]:
    """Return the first HotpotQA questions, or a small one for the quick form."""
    if bench.quick:
        passages = [Passage(text, str(n)) for n, text in enumerate(QUICK_TEXTS)]
        sentences = split_sentences(QUICK_TEXTS[0])
        question = "Where was Marie Curie born?"
        return [ScriptedQuestion(question, passages, sentences[:1], sentences)]
    records = []
    for record in read_data_set(bench.data, "hotpotqa_distractor"):
        if len(record["passages"]) == 10:
            records.append(record)
    questions = []
    for record, other_record in zip(records, records[1:] + records[:1]):
        passages = titled_passages(record, "")
        passages += titled_passages(other_record, "other-")
        gold_sentences: list[str] = []
        gold_paragraphs: list[str] = []
        for paragraph in record["passages"]:
            sentences = [sentence.strip() for sentence in paragraph["sentences"]]
            for number, sentence in enumerate(sentences):
                if len(sentence) < MIN_CHARACTERS:
                    continue
                if number in paragraph["gold_sentences"]:
                    gold_sentences.append(sentence)
                if paragraph["is_gold"]:
                    gold_paragraphs.append(sentence)
        if gold_sentences:
            questions.append(
                ScriptedQuestion(
                    record["question"], passages, gold_sentences, gold_paragraphs
                )
            )
    return questions[:limit]


def titled_passages(record: dict[str, Any], id_prefix: str) -> list[Passage]:
    passages = []
    for row in record["passages"]:
        metadata = {"title": row.get("title", "")}
        passages.append(
            Passage(row["text"], f"{id_prefix}{row['id']}", metadata=metadata)
        )
    return passages


def count_kept(sentences: Sequence[str], texts: Iterable[str]) -> int:
    """Return how many of the sentences the texts still have."""
    kept_text = " ".join(texts)
    return sum(sentence.strip(QUOTATION_MARKS) in kept_text for sentence in sentences)


def split_sentences(text: str) -> list[str]:
    pieces = split_pieces(Passage(text, "p"))
    return [text[piece.start : piece.end].strip() for piece in pieces]
