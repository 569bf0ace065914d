"""A denoiser fitted with a probe on attention heads: weighed next to the encoder's signals, saved and loaded."""

import numpy as np
import pytest
from readings import short_questions
from tiny_models import tiny_pair

from denoise_core import InputError, fit_denoiser, load_denoiser
from denoise_core.end import HeadReader, HiddenReader

QUESTIONS = short_questions(20, 2, 60)


@pytest.fixture(scope="module")
def reader():
    model, tokenizer = tiny_pair()
    return HeadReader(model, tokenizer=tokenizer)


def test_heads_are_one_more_signal_of_the_saved_denoiser(reader, tmp_path):
    fitted = fit_denoiser(QUESTIONS, reader, signal="heads", layers=[1])
    assert fitted.stack.names[0] == "probe"
    heads = fitted.probe.probe.reading.heads
    assert heads
    assert {block for block, _ in heads} <= {0}
    denoiser = load_denoiser(fitted.save(tmp_path / "mine"), reader)
    question = QUESTIONS[0]
    assert denoiser.denoise(question.text, question.passages).passages
    loaded_probe = denoiser.scorer.parts[0].probe
    assert loaded_probe.reading.heads == heads
    np.testing.assert_array_equal(loaded_probe.weight, fitted.probe.probe.weight)


def test_the_signal_is_checked_before_anything_is_read(reader):
    with pytest.raises(InputError, match="expected one of 'states', 'heads'"):
        fit_denoiser(QUESTIONS, reader, signal="tails")
    with pytest.raises(InputError, match="--model"):
        fit_denoiser(QUESTIONS, signal="heads")
    states = HiddenReader(reader.backbone.model, tokenizer=reader.backbone.tokenizer)
    with pytest.raises(InputError, match="expected a Hugging Face model"):
        fit_denoiser(QUESTIONS, states, signal="heads")
