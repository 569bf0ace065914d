"""How the reader is trained: an honest split, questions with their answers in place, runs that repeat."""

import gzip
import json
import random

import numpy as np
import pytest

from denoise_core import InputError, Passage
from denoise_core.embedded import sample, span_reader
from denoise_core.embedded.reader.calibration import Calibration
from denoise_core.embedded.reader.fit import split
from denoise_core.embedded.reader.fit.calibrate import calibrate
from denoise_core.embedded.reader.fit.cloze import Clozes, kind_of, spans
from denoise_core.embedded.reader.fit.measure import Figures, Kept, auc, contained, exact, usable
from denoise_core.embedded.reader.packed import load_packed, pack
from denoise_core.embedded.reader.span_reader import SpanReader
from denoise_core.embedded.reader.windows import tokens
from denoise_core.question import Question
from denoise_lab.split import place

QUESTIONS = sample()[:4]


def test_the_sample_is_held_out():
    assert not any(split.for_training("nq_gold_distractors20", q) for q in sample())


def test_musique_and_poison_are_held_out_wholly():
    for name in ("musique", "poisoned_nq"):
        assert not any(split.for_training(name, Question("q", (), frozenset(), (), str(i))) for i in range(50))


def test_questions_about_one_passage_stay_together():
    for i in range(20):
        gold = Passage(f"text {i}", "p0")
        of_one = [Question(f"q{n}", (gold,), frozenset(["p0"]), (), f"{i}-{n}") for n in range(3)]
        found = {split.for_training("xquad_en", q) for q in of_one}
        assert found == {place(gold.text) < 0.5}


def test_the_guard_knows_texts_and_questions():
    text = " ".join(f"word{i}" for i in range(40))
    guard = split.Guard([Question("Who was it?", (Passage(text, "a"), Passage("other", "b")), frozenset("a"))])
    assert guard.knows_text(Passage("Title\n" + text[10:], "x"))
    assert not guard.knows_text(Passage("Other words that are not in there at all, however many there are", "x"))
    assert guard.knows(Question("who WAS it", (Passage("else", "a"),), frozenset("a")))
    assert not guard.knows(Question("Where was it?", (Passage("else", "a"),), frozenset("a")))


def test_clozes_have_their_answer_in_the_passage_and_not_in_the_question():
    pool = [p for q in QUESTIONS for p in q.passages]
    clozes = Clozes(pool, random.Random(0))
    assert clozes.pairs
    for _ in range(100):
        made = clozes.draw(0.5)
        assert made.answer in made.passage.text
        assert made.question


@pytest.mark.parametrize(
    ("text", "kind"),
    [("12 May 1889", "date"), ("1889", "date"), ("35", "number"), ("Otto", "name"), ("a red car", "other")],
)
def test_kinds(text, kind):
    assert kind_of(text) == kind


def test_spans_are_where_they_say():
    text = "In 1889 Otto Brenner, the engineer, built 35 bridges near Paris."
    for kind in ("name", "date", "number", "other"):
        found = [text[a:b] for a, b in spans(text, kind)]
        assert found
        assert all(f.strip() == f for f in found)
    assert "Otto Brenner" in [text[a:b] for a, b in spans(text, "name")]


def test_figures_of_the_shipped_reader(tmp_path):
    questions = usable(QUESTIONS)
    told, kept = Figures(), Kept(span_reader().network)
    for q in questions:
        told.add(SpanReader(kept, tokens()), q, questions[0])
        kept.forget()
    found = told.summary(span_reader().calibration)
    line = calibrate([told])
    assert line.own > 0
    line.save(tmp_path / "line.json")
    assert Calibration.load(tmp_path / "line.json") == line
    assert 0 <= line.probability(float("-inf"), 0.0) < line.probability(-1.0, -0.1) <= 1
    assert found["questions"] == len(questions) > 0
    assert 0 <= found["right against wrong, AUC"]["wrong name"]["own"] <= 1
    assert any(k.startswith("control") for k in found["right against wrong, AUC"])


def test_what_counts_as_right():
    assert exact("The Tower.", ["tower"])
    assert not exact("the tower of", ["tower"])
    assert contained("the tower of", ["tower"])
    assert not contained("towers", ["tower"])
    assert not exact("", [""])
    assert auc([1, 2], [0, 1]) == 0.875
    assert auc([float("-inf")], [float("-inf")]) == 0.5
    assert np.isnan(auc([], [1]))


def test_the_mean_of_two_runs(tmp_path):
    from safetensors.numpy import save_file

    from denoise_core.embedded.reader.make import WEIGHTS, average

    for name, value in (("one", 1.0), ("two", 3.0)):
        (tmp_path / name).mkdir()
        save_file(pack({"a": np.full((2, 3), value)}), tmp_path / name / WEIGHTS)
    average(tmp_path / "one", tmp_path / "two")
    assert load_packed(tmp_path / "one" / WEIGHTS)["a"] == pytest.approx(2)
    assert "averaged" in (tmp_path / "one" / "card.json").read_text()
    save_file(pack({"a": np.zeros((2, 4))}), tmp_path / "two" / WEIGHTS)
    with pytest.raises(InputError, match="other weights"):
        average(tmp_path / "one", tmp_path / "two")


def test_training_can_be_repeated(tmp_path):
    torch = pytest.importorskip("torch")
    from denoise_core.embedded.minilm import minilm
    from denoise_core.embedded.reader.fit.data import load
    from denoise_core.embedded.reader.fit.network import Network, minilm_weights
    from denoise_core.embedded.reader.fit.train import fit, loss_of

    for name in split.SHARE:
        rows = []
        for number, q in enumerate(sample() if name == "hotpotqa_distractor" else ()):
            passages = [{"id": p.id, "text": p.text, "is_gold": p.id in q.gold} for p in q.passages]
            rows.append({"id": str(number), "question": q.text, "answers": q.answers, "passages": passages})
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(r) + "\n" for r in rows)
    parts = load(tmp_path, tokens())
    assert parts.training
    pool = {p.text for p in parts.pool}
    assert pool.isdisjoint(
        p.text for q in parts.held_out["hotpotqa_distractor"] for p in q.passages if p.id in q.gold
    )
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        network = Network(minilm_weights(minilm()))
        course = fit(network, parts, tokens(), seconds=0, steps=2, seed=0)
        assert course.steps == 2
        results.append(network.trained())
    assert all(np.array_equal(results[0][n], results[1][n]) for n in results[0])
    from denoise_core.embedded.reader.fit.data import Draws

    draws = Draws(parts, tokens(), 1)
    group = draws.real()
    assert loss_of(network, [group]).item() > 0
