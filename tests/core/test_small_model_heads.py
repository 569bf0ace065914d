"""What only a real model can show of attention heads: a few turn to what is asked for, with random blocks none."""

from dataclasses import replace

import numpy as np
import pytest

from denoise_core.embedded.sample import sample_questions
from denoise_core.end import HeadReader, ProbeScorer
from denoise_core.end.fit import fit_heads
from denoise_lab.controls import with_fresh_blocks

LAYERS = range(3, 11)  # of 30
FITTED = HELD_OUT = 12  # questions


@pytest.fixture(scope="module")
def reader():
    return HeadReader("smollm2", first_layers=max(LAYERS))


def short_questions():
    """Each with the passages that are needed and three that are not, cut short."""
    questions = []
    for question in sample_questions()[: FITTED + HELD_OUT]:
        needed = [p for p in question.passages if p.id in question.gold]
        others = [p for p in question.passages if p.id not in question.gold]
        passages = [replace(p, text=p.text[:300]) for p in others[:3] + needed]
        questions.append(replace(question, passages=tuple(passages)))
    return questions


def share_above(reader):
    """For questions that were not fitted on: the share of other passages that the needed ones are above."""
    questions = short_questions()
    probe = fit_heads(reader, questions[:FITTED], layers=LAYERS, max_heads=4).probe
    scorer = ProbeScorer(reader, probe)
    shares = []
    for question in questions[FITTED:]:
        scores = scorer.score(question.text, [p.text for p in question.passages])
        labels = np.array(question.labels)
        shares.append((scores[labels][:, None] > scores[~labels]).mean())
    return float(np.mean(shares))


def test_a_few_heads_turn_to_what_is_asked_for(reader):
    assert share_above(reader) > 0.8


def test_heads_of_random_blocks_do_not(reader):
    fresh = HeadReader(
        with_fresh_blocks(reader.backbone), tokenizer=reader.backbone.tokenizer
    )
    assert share_above(fresh) < 0.75
