"""Questions in other languages over paragraphs of theirs: XQuAD's translations, and SQuAD in French.

Files in the shape of SQuAD. The halves are of articles, which all translations share: nothing that is measured was
calibrated on, in no language.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from denoise_core.question import Question
from denoise_core.types import Passage
from denoise_lab.split import FITTING, place

FILES = {
    "German": "xquad.de.json",
    "Spanish": "xquad.es.json",
    "French": "squad_french_test.json",
}
CALIBRATION_FILES = {
    "Romanian": "xquad.ro.json",
    "Russian": "xquad.ru.json",
    "Turkish": "xquad.tr.json",
}
PASSAGES = 8


def language_questions(
    path: Path,
    count: int,
    *,
    fitting: bool,
    articles: int | None = None,
    same_article: bool = True,
) -> list[Question]:
    """``count`` questions of one half, in an order given by a hash.

    A question's passages are its paragraph and seven others: of the same article first, or else one of each
    of the next articles, as other questions' passages are. With ``articles`` all are of the first so many.
    """
    half = []
    for article in json.loads(path.read_text("utf-8"))["data"]:
        if (place(article["title"]) < FITTING) == fitting:
            half.append(article["paragraphs"])
    half = half[:articles]
    questions = []
    for number, paragraphs in enumerate(half):
        others = [*half[number + 1 :], *half[:number]]
        for position, paragraph in enumerate(paragraphs):
            rest = [one[position % len(one)] for one in others]
            if same_article:
                rest = [one for one in paragraphs if one is not paragraph]
                for other in others:
                    rest += other
            questions += _paragraph_questions(paragraph, rest[: PASSAGES - 1])
    questions.sort(key=lambda q: hashlib.sha256(f"s{q.id}".encode()).hexdigest())
    return questions[:count]


def _paragraph_questions(paragraph: Any, rest: Sequence[Any]) -> list[Question]:
    texts = sorted([paragraph["context"], *(other["context"] for other in rest)])
    passages = tuple(Passage(text, str(n)) for n, text in enumerate(texts))
    gold = frozenset({str(texts.index(paragraph["context"]))})
    questions = []
    for record in paragraph["qas"]:
        answers = tuple(answer["text"] for answer in record["answers"])
        case = Question(record["question"], passages, gold, answers, record["id"])
        questions.append(case)
    return questions
