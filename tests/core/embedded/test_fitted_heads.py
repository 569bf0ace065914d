"""A denoiser fitted with a probe on attention heads: weighed next to the encoder's signals, saved and loaded."""

import huggingface_hub
import numpy as np
import pytest
from readings import short_questions
from tiny_models import save_tiny_pair, tiny_pair
from typer.testing import CliRunner

from denoise_core import InputError, fit_denoiser, load_denoiser
from denoise_core.cli import load_app
from denoise_core.end import HeadReader, HiddenReader
from denoise_core.end.fit.states import BATCH_QUESTIONS
from denoise_lab.noisy_retrieval import write_questions

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


def test_the_command_continues_a_fit_that_was_stopped(tmp_path, monkeypatch):
    states_folder = tmp_path / "states"
    monkeypatch.setattr(
        huggingface_hub, "cached_assets_path", lambda *names: states_folder
    )
    save_tiny_pair(tmp_path / "model")
    write_questions(tmp_path / "mine.jsonl", QUESTIONS)
    line = f"fit {tmp_path}/mine.jsonl -o {tmp_path}/out --model {tmp_path}/model --signal heads"
    read = HeadReader.read

    def run_fit(max_reads):
        pair_counts = []

        def read_counted(reader, pairs, layers):
            if len(pair_counts) == max_reads:
                raise KeyboardInterrupt
            pair_counts.append(len(pairs))
            return read(reader, pairs, layers)

        monkeypatch.setattr(HeadReader, "read", read_counted)
        result = CliRunner().invoke(load_app("fit"), line)
        return result.exit_code, sum(pair_counts)

    question_pairs = len(QUESTIONS[0].passages)
    exit_code, first_pairs = run_fit(2)
    assert exit_code != 0
    assert first_pairs == 2 * BATCH_QUESTIONS * question_pairs
    exit_code, other_pairs = run_fit(None)
    assert exit_code == 0
    assert first_pairs + other_pairs == len(QUESTIONS) * question_pairs
    assert not states_folder.exists()
