"""Questions in other languages over paragraphs in those languages: XQuAD's translations, and SQuAD in French.

Files have the shape of SQuAD. The halves are of articles, which all translations share: nothing that is measured
was calibrated on in any language.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from denoise_core.question import Question
from denoise_core.types import Passage
from denoise_lab.split import FITTING_BELOW, hash_fraction, order_by_hash

MEASURED_FILES = {
    "German": "xquad.de.json",
    "Spanish": "xquad.es.json",
    "French": "squad_french_test.json",
}
CALIBRATION_FILES = {
    "Romanian": "xquad.ro.json",
    "Russian": "xquad.ru.json",
    "Turkish": "xquad.tr.json",
}
PASSAGE_COUNT = 8


def language_questions(
    path: Path,
    count: int,
    *,
    for_fitting: bool,
    article_count: int | None = None,
    same_article: bool = True,
) -> list[Question]:
    """Return ``count`` questions of one half, in an order given by a hash.

    Args:
        path: The language's file.
        count: The most questions.
        for_fitting: Return the half for calibration, not the other one.
        article_count: Take only the first articles of the half.
        same_article: A question's passages are its paragraph and seven others. The others are
            of the same article first; if false, one of each of the next articles, as other
            questions' passages are.
    """
    articles = []
    for article in json.loads(path.read_text("utf-8"))["data"]:
        is_fitting = hash_fraction(article["title"]) < FITTING_BELOW
        if is_fitting == for_fitting:
            articles.append(article["paragraphs"])
    articles = articles[:article_count]
    questions = []
    for article_number, paragraphs in enumerate(articles):
        other_articles = [*articles[article_number + 1 :], *articles[:article_number]]
        for paragraph_position, paragraph in enumerate(paragraphs):
            distractors = []
            if same_article:
                distractors += [p for p in paragraphs if p is not paragraph]
                for other_paragraphs in other_articles:
                    distractors += other_paragraphs
            else:
                for other_paragraphs in other_articles:
                    other_position = paragraph_position % len(other_paragraphs)
                    distractors.append(other_paragraphs[other_position])
            questions += _paragraph_questions(
                paragraph, distractors[: PASSAGE_COUNT - 1]
            )
    return order_by_hash(questions)[:count]


def _paragraph_questions(paragraph: Any, distractors: Sequence[Any]) -> list[Question]:
    gold_text = paragraph["context"]
    texts = sorted([gold_text, *(other["context"] for other in distractors)])
    passages = []
    for paragraph_position, text in enumerate(texts):
        passages.append(Passage(text, str(paragraph_position)))
    gold = frozenset({str(texts.index(gold_text))})
    questions = []
    for record in paragraph["qas"]:
        answers = tuple(answer["text"] for answer in record["answers"])
        questions.append(
            Question(record["question"], tuple(passages), gold, answers, record["id"])
        )
    return questions
