"""What only a real model can show of attention heads: a few turn to what is asked for, with random blocks none."""

from readings import short_questions

from denoise_core.end import HeadReader
from denoise_core.end.fit import fit_heads
from denoise_lab.controls import with_fresh_blocks

LAYERS = range(3, 11)  # of 30


def held_out_area(reader):
    """Over all questions, by heads and weights from folds without the question.

    Of a part of them the figure moves by a tenth with the part, and so would it with the
    few that are chosen on another processor.
    """
    return fit_heads(
        reader, short_questions(None, 3, 300), layers=LAYERS, max_heads=4
    ).auc


def test_a_few_heads_turn_to_what_is_asked_for_and_with_random_blocks_none():
    reader = HeadReader("smollm2", first_layers=max(LAYERS))
    area = held_out_area(reader)
    fresh = HeadReader(
        with_fresh_blocks(reader.backbone), tokenizer=reader.backbone.tokenizer
    )
    assert area > 0.65
    assert held_out_area(fresh) < area - 0.1
