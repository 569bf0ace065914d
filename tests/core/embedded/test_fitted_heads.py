"""A denoiser fitted with a probe on attention heads: weighed next to the encoder's signals, saved and loaded."""

import numpy as np
import pytest
from readings import short_questions
from tiny_models import tiny_pair

from denoise_core import InputError, fit_denoiser, load_denoiser
from denoise_core.end import HeadReader, HiddenReader


@pytest.fixture(scope="module")
def reader():
    model, tokenizer = tiny_pair()
    return HeadReader(model, tokenizer=tokenizer)


def test_heads_are_one_more_signal_of_the_saved_denoiser(reader, tmp_path):
    questions = short_questions(20, 2, 60)
    fitted = fit_denoiser(questions, reader, signal="heads", layers=[1])
    assert fitted.stack.names[0] == "probe"
    heads = fitted.probe.probe.reading.heads
    assert heads
    assert {block for block, _ in heads} <= {0}
    folder = fitted.save(tmp_path / "mine")
    denoiser = load_denoiser(folder, reader)
    assert denoiser.scorer.parts[0].probe.reading.heads == heads
    question = questions[0]
    result = denoiser.denoise(question.text, question.passages)
    assert result.passages
    weights = denoiser.scorer.parts[0].probe.weight
    np.testing.assert_array_equal(weights, fitted.probe.probe.weight)


def test_the_signal_is_checked_before_anything_is_read(reader):
    questions = short_questions(20, 2, 60)
    with pytest.raises(InputError, match="expected one of 'states', 'heads'"):
        fit_denoiser(questions, reader, signal="tails")
    with pytest.raises(InputError, match="--model"):
        fit_denoiser(questions, signal="heads")
    states = HiddenReader(reader.backbone.model, tokenizer=reader.backbone.tokenizer)
    with pytest.raises(InputError, match="HeadReader"):
        fit_denoiser(questions, states, signal="heads")
