"""A run that is stopped goes on as if it had not been; what it saves is a stock model."""

import json
import mmap
import random
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from denoise_core import Message
from denoise_core.errors import InputError
from denoise_core.local.generation.llm import LocalLLM
from denoise_lab.make import CURVE, plot, ship
from denoise_lab.tasks import DRILLS, MAKERS, TASKS
from denoise_lab.training.curriculum import STAGES, Lesson, Stage
from denoise_lab.training.network import Shape
from denoise_lab.training.rows import encoded, packed
from denoise_lab.training.train import Run, TrainingSettings
from denoise_lab.training.vocabulary import train_tokenizer
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import World

SETTINGS = TrainingSettings(tokens=6000, shape=Shape(width=32, inner=48, layers=2, heads=4, first=1))
STEPS = (
    Stage("one", (Lesson(Difficulty(2), {"cloze": 1.0}, 2, 192, True, 0.3),), 1200, None, True),
    Stage(
        "two",
        (
            Lesson(Difficulty(3, 1), {"cloze": 1.0, "answer": 1.0}, 2, 256),
            Lesson(Difficulty(2), {"answer": 1.0}, 1, 700),
        ),
    ),
)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(conversations=400)


def run(out, tokenizer, **settings):
    out.mkdir(exist_ok=True)
    return Run(out, tokenizer, replace(SETTINGS, **settings), stages=STEPS)


def test_a_stopped_run_goes_on_where_it_saved(tmp_path, tokenizer):
    whole = run(tmp_path / "whole", tokenizer)
    whole.train(save_every=1e9)
    first = run(tmp_path / "parts", tokenizer)
    while first.progress.step < 5:  # past the change of stages, when a second block gets its first update
        first.step()
    first.save()
    first.step()  # lost with the kill
    second = run(tmp_path / "parts", tokenizer)
    assert second.progress.step == 5
    second.train(save_every=1e9)
    assert second.progress == whole.progress
    assert second.progress.stage == 1
    assert second.progress.tokens >= SETTINGS.tokens
    assert all(torch.equal(second.master[n], t) for n, t in whole.master.items())


def test_the_loss_falls_and_the_log_draws(tmp_path, tokenizer):
    made = run(tmp_path, tokenizer, tokens=80_000)
    rows = []
    made.train(report=rows.append)
    assert rows[-1]["loss"] < rows[0]["loss"], rows
    assert plot(tmp_path / "log.jsonl", tmp_path / "curve.png").stat().st_size > 5000


def test_a_run_of_few_steps_has_a_log_too(tmp_path, tokenizer):
    made = run(tmp_path, tokenizer)
    made.train(save_every=1e9)
    last = json.loads((tmp_path / "log.jsonl").read_text("utf-8").splitlines()[-1])
    assert (last["step"], last["tokens"]) == (made.progress.step, made.progress.tokens)
    assert made.progress.step < 50
    assert plot(tmp_path / "log.jsonl", tmp_path / "curve.png").stat().st_size > 5000


def test_other_settings_in_the_same_folder_are_refused(tmp_path, tokenizer):
    run(tmp_path, tokenizer).save()
    with pytest.raises(InputError, match="other settings"):
        run(tmp_path, tokenizer, seed=1)


def test_deep_stages_have_the_base_that_the_model_keeps(tmp_path, tokenizer):
    made = run(tmp_path, tokenizer)
    assert made.network.rope == SETTINGS.shape.rope != SETTINGS.shape.far
    made.train(save_every=1e9)
    assert made.network.rope == SETTINGS.shape.far
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    assert model.config.rope_parameters["rope_theta"] == SETTINGS.shape.far
    ids = torch.randint(6, 300, (1, 200))
    own = made.network.float()(ids, torch.zeros_like(ids))
    theirs = model.model(ids).last_hidden_state
    torch.testing.assert_close(own, theirs, atol=1e-3, rtol=1e-3)


def test_the_rate_falls_and_begins_anew_with_the_last_stage(tmp_path, tokenizer):
    made, rates = run(tmp_path, tokenizer, tokens=20_000, warm_up=1, anew=0.5), []
    made.stages = (*STEPS, Stage("three", STEPS[1].lessons))
    while made.progress.tokens < 20_000:
        before = made.progress.tokens
        made.step()
        rates.append((made.progress.stage, made.optimizers[0].param_groups[0]["lr"]))
        assert (made.progress.stage == 2) is (before >= 10_000)
    first, second = ([rate for at, rate in rates if (at == 2) is late] for late in (False, True))
    assert first == sorted(first, reverse=True)
    assert second == sorted(second, reverse=True)
    assert first[0] == SETTINGS.rate
    assert first[-1] < second[0] <= SETTINGS.rate_anew
    assert second[-1] < 0.3 * SETTINGS.rate_anew


def test_a_conversation_that_fits_into_no_row_of_a_lesson_is_a_task_that_is_never_learned(tokenizer):
    """Prompts are as long as the library's words make them: every lesson's rows hold most of what it draws."""
    for lesson in {id(x): x for stage in STAGES for x in stage.lessons}.values():
        world = World(random.Random(0), coin=lesson.coin)
        for name in lesson.tasks:
            talks = [encoded(tokenizer, MAKERS[name](world, lesson.difficulty))[0] for _ in range(12)]
            assert sum(len(ids) <= lesson.length for ids in talks) >= 6, (name, lesson.length)


def test_what_is_saved_is_a_stock_model_that_answers(tmp_path, tokenizer):
    run(tmp_path, tokenizer).save()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.config.rope_parameters["rope_theta"] == SETTINGS.shape.rope
    assert type(model).__name__ == "LlamaForCausalLM"
    assert model.dtype == torch.bfloat16
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    llm = LocalLLM(model.float(), again, max_new_tokens=5)
    assert llm.complete([Message("user", "Where?")]).usage.output_tokens >= 1


def test_shipping_leaves_the_old_weights_to_a_program_that_has_them_mapped(tmp_path):
    made, folder = tmp_path / "run", tmp_path / "package"
    (made / "model").mkdir(parents=True)
    for name in (CURVE, "abilities.json"):
        (made / name).write_bytes(b"-")
    weights = made / "model" / "model.safetensors"
    weights.write_bytes(b"old" * 9000)
    ship(made, folder)
    with open(folder / weights.name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as seen:
        weights.write_bytes(b"new" * 9000)
        ship(made, folder)
        assert seen[:] == b"old" * 9000
    assert (folder / weights.name).read_bytes() == b"new" * 9000
    assert {p.name for p in folder.iterdir()} == {weights.name, CURVE, "abilities.json"}


def test_the_rows_are_what_the_chat_template_writes(tokenizer):
    talk = (Message("system", "be <|end|> brief"), Message("user", "Where?"), Message("assistant", "Here."))
    ids, weights, firsts = encoded(tokenizer, talk)
    turns = [{"role": m.role, "content": m.content} for m in talk]
    written = tokenizer.apply_chat_template(turns, tokenize=False)
    assert tokenizer.decode(ids) == written
    learned = [i for i, w in zip(ids, weights, strict=True) if w > 0]
    assert tokenizer.decode(learned) == "Here.<|end|>"
    assert [ids[f] for f in firsts] == [learned[0]]
    assert ids.count(tokenizer.eos_token_id) == 3  # the one in the text is text


def test_packing_loses_nothing_of_a_conversation_and_keeps_them_apart(tokenizer):
    world = World(random.Random(0))
    drawn = []

    def talks():
        while True:
            drawn.append(DRILLS["cloze"](world, Difficulty(2)))
            yield drawn[-1]

    rows = packed(tokenizer, talks(), 3, 256)
    for segment in range(1, int(rows.segments.max()) + 1):
        ids = rows.ids[rows.segments == segment].tolist()
        assert any(ids == encoded(tokenizer, talk)[0] for talk in drawn)
    assert rows.firsts.sum() == 5 * int(rows.segments.max())
    assert (rows.weights[rows.segments == 0] == 0).all()


def test_every_stage_of_the_curriculum_draws_batches(tokenizer, tmp_path):
    made = Run(tmp_path, tokenizer, SETTINGS, stages=STAGES)
    for stage in STAGES:
        for n in {id(x): i for i, x in enumerate(stage.lessons)}.values():
            rows = made.batch(stage, n)
            assert rows.ids.shape == (stage.lessons[n].rows, stage.lessons[n].length)
    assert {name for lesson in STAGES[-1].lessons for name in lesson.tasks} >= set(TASKS)
