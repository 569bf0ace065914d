"""States of one question's texts, as the tests look at them, and questions that random models can answer."""

from dataclasses import replace

import numpy as np

from denoise_core import Passage
from denoise_core.embedded.sample import sample_questions
from denoise_core.end import PASSAGE, QUERY, Layout, ReadingSettings
from denoise_core.question import Question

SHORT_LAYOUT = Layout("short", ("\nQ: ", QUERY), system=("Read:", PASSAGE))
SHORT_SETTINGS = ReadingSettings(layout=SHORT_LAYOUT)


def states_of(reader, query, texts, layers):
    """By layer ``(len(texts), d)``; of a text longer than the window those of its first part."""
    found = reader.read([(query, t) for t in texts], layers)
    first = np.searchsorted(found.text_index, np.arange(len(texts)))
    return {layer: rows[first] for layer, rows in found.by_layer.items()}


def count_found(denoiser, questions):
    """For how many questions a passage that they need is kept."""
    found = 0
    for question in questions:
        result = denoiser.denoise(question.text, question.passages)
        found += not question.gold.isdisjoint(p.id for p in result.passages)
    return found


def short_questions(count, others, characters):
    """Real questions, each with its needed passages and a few others, cut short."""
    questions = []
    for question in sample_questions()[:count]:
        needed = [p for p in question.passages if p.id in question.gold]
        rest = [p for p in question.passages if p.id not in question.gold]
        chosen = needed + rest[:others]
        passages = [replace(p, text=p.text[:characters]) for p in chosen]
        questions.append(replace(question, passages=tuple(passages)))
    return questions


def shouting(number, seed=0, loud="!!!"):
    """Questions whose one relevant passage ends loudly, so that random heads turn to it."""
    generator = np.random.default_rng(seed)
    questions = []
    for index in range(number):
        gold = int(generator.integers(4))
        passages = []
        for place in range(4):
            text = "".join(generator.choice(list("abcdefg ."), 12))
            ending = loud if place == gold else "."
            passages.append(Passage(text + ending, f"p{place}"))
        text = f"which {seed} {index}?"
        questions.append(Question(text, tuple(passages), frozenset({f"p{gold}"})))
    return questions
