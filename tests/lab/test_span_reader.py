"""How the reader and the judge that ship are trained: an honest split, answers in place, runs that go on."""

import gzip
import json
import random
from dataclasses import asdict

import numpy as np
import pytest
from denoise_core.embedded.reader.claims import chosen, logit
from denoise_core.embedded.reader.forward import batch
from denoise_core.embedded.reader.judge import Calibration
from denoise_core.embedded.reader.windows import tokens, windows

from denoise_core import Passage
from denoise_core.embedded import judge, sample
from denoise_core.embedded.minilm import minilm, weights
from denoise_core.question import Question
from denoise_lab.span_reader import calibrate, split
from denoise_lab.span_reader.cloze import Clozes, kind_of, spans
from denoise_lab.span_reader.measure import auc, contained, exact
from denoise_lab.split import place

QUESTIONS = sample()[:4]


def test_the_sample_is_held_out():
    assert not any(split.for_training("nq_gold_distractors20", q) for q in sample())


def test_poison_is_held_out_wholly():
    assert not any(
        split.for_training("poisoned_nq", Question("q", (), frozenset(), (), str(i))) for i in range(50)
    )


def test_every_part_of_a_set_has_its_share():
    found = [split.part("musique", Question("q", (), frozenset(), (), str(i))) for i in range(1000)]
    shares = {name: found.count(name) / 1000 for name in ("training", "calibration", "figures")}
    assert shares["training"] == pytest.approx(split.SHARE["musique"], abs=0.06)
    assert shares["calibration"] == pytest.approx(split.CALIBRATED, abs=0.06)


def test_questions_about_one_passage_stay_together():
    for i in range(20):
        gold = Passage(f"text {i}", "p0")
        of_one = [Question(f"q{n}", (gold,), frozenset(["p0"]), (), f"{i}-{n}") for n in range(3)]
        found = {split.for_training("xquad_en", q) for q in of_one}
        assert found == {place(gold.text) < split.SHARE["xquad_en"]}


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


def test_points_let_no_more_pass_than_they_say():
    rng = np.random.default_rng(0)
    right = rng.random(600) < 0.5
    value = rng.normal(right * 1.5)
    cases = [calibrate.Case(f"set {i % 2}", bool(r), False, None) for i, r in enumerate(right)]
    found = calibrate.fitted([{"value": float(v)} for v in value], cases, "claims")
    assert found.weights["value"] > 0
    p = np.array([found.probability({"value": float(v)}) for v in value])
    for point, share in calibrate.PASSED.items():
        for own in (0, 1):
            wrong = ~right & (np.arange(600) % 2 == own)
            assert (p[wrong] >= found.points[point]).mean() <= share
    assert (p[right] < found.refused).mean() <= calibrate.REFUSED["claims"] + 0.01
    assert found.refused <= found.points["lenient"] <= found.points["even"] <= found.points["strict"]
    line = Calibration(found, found, 0.3)
    assert Calibration.read(json.dumps(asdict(line))) == line


def test_cases_have_a_right_and_a_wrong_answer_each_said_two_ways():
    cases = calibrate.of_answers(judge(), QUESTIONS[:2], "nq_gold_distractors20")
    assert len(cases) % 4 == 0
    assert len(cases) > 0
    assert sum(c.right for c in cases) == sum(c.said for c in cases) == len(cases) // 2


def test_what_counts_as_right():
    assert exact("The Tower.", ["tower"])
    assert not exact("the tower of", ["tower"])
    assert contained("the tower of", ["tower"])
    assert not contained("towers", ["tower"])
    assert not exact("", [""])
    assert auc([1, 2], [0, 1]) == 0.875
    assert auc([float("-inf")], [float("-inf")]) == 0.5
    assert np.isnan(auc([], [1]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sets' files: the sample's questions, and claims made of them."""
    path = tmp_path_factory.mktemp("sets")
    for name in split.SHARE:
        rows = []
        for number, q in enumerate(sample() if name == "hotpotqa_distractor" else ()):
            passages = [{"id": p.id, "text": p.text, "is_gold": p.id in q.gold} for p in q.passages]
            rows.append({"id": str(number), "question": q.text, "answers": q.answers, "passages": passages})
        _write(path / f"{name}.jsonl.gz", rows)
    for name in ("summedits", "wice", "begin", "fib"):
        rows = [
            {"claim": f"In {n}.", "evidence": f"In {n - n % 2}.", "supported": n % 2 == 0, "group": str(n)}
            for n in range(24)
        ]
        _write(path / f"grounding_{name}.jsonl.gz", rows)
    _write(path / "fever_symmetric.jsonl.gz", [{"claim": "c", "evidence": "e", "label": "SUPPORTS"}] * 2)
    return path


def _write(path, rows):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in rows)


def test_what_is_trained_on_shares_no_text_with_what_is_held_out(folder):
    pytest.importorskip("torch")
    from denoise_lab.span_reader.claims import grounding
    from denoise_lab.span_reader.data import load

    parts = load(folder, tokens())
    assert parts.training
    held_out = {p.text for q in parts.held_out["hotpotqa_distractor"] for p in q.passages if p.id in q.gold}
    assert {p.text for p in parts.pool}.isdisjoint(held_out)
    pairs = grounding(folder, "wice")
    assert {p.part for p in pairs} >= {"training", "figures"}
    assert len({(p.group, p.part) for p in pairs}) == len({p.group for p in pairs})


@pytest.mark.parametrize("what", ["spans", "claims"])
def test_a_run_in_two_parts_is_the_run_in_one(what, folder, tmp_path):
    pytest.importorskip("torch")
    from safetensors.numpy import load_file

    from denoise_lab.span_reader import make

    begin = ["--begin", str(make.HERE / make.SPANS)] if what == "claims" else []
    name = make.CLAIMS if what == "claims" else make.SPANS
    found = []
    for out, calls in (("one", [10_000.0]), ("two", [0.001, 10_000.0])):
        for seconds in calls:
            given = [what, "--data", str(folder), "--out", str(tmp_path / out), "--steps", "2"]
            make.main([*given, "--seconds", str(seconds), *begin])
        found.append(load_file(tmp_path / out / name))
    assert all(np.array_equal(found[0][n], found[1][n]) for n in found[0])
    card = json.loads((tmp_path / "two" / make.CARD).read_text())
    assert card[what]["curve"][-1]["step"] == 2


def test_the_claims_logit_is_the_same_in_torch_and_numpy():
    torch = pytest.importorskip("torch")
    from safetensors.numpy import load_file

    from denoise_lab.span_reader.claims import supported
    from denoise_lab.span_reader.make import CLAIMS, HERE
    from denoise_lab.span_reader.network import Network

    network = Network(weights(minilm()))
    network.take(load_file(HERE / CLAIMS))
    cut = windows(Passage("The tower was finished in 1889 by Otto Brenner.", "p"), tokens())
    rows = [chosen("When?", c, cut, tokens()).row for c in ("It was finished in 1889.", "Otto lives.", "")]
    with torch.no_grad():
        expected = supported(network, batch(rows)).numpy()
    found = [logit(x) for x in judge().claims.logits(rows)]
    np.testing.assert_allclose(found, expected, atol=2e-3)
