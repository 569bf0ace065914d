"""Decision models: a probability for each passage, from transformers' pipeline."""

from itertools import chain

import numpy as np
import pytest
from tiny_models import build_word_tokenizer, tiny_pair
from transformers import pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from denoise_core.errors import BadReply, InputError
from denoise_core.scorers.decisions import WINDOW_TOKENS, DecisionScorer
from denoise_core.testing import check_scorer


class SeaDecisions:
    """The sea holds the answer; notes each request."""

    def __init__(self):
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        passages = request["state"]["passages"]
        answers = {}
        for name in request["questions"]:
            answers[name] = {"noul": 0.9 if "sea" in passages[name] else 0.1}
        return answers


def test_a_decision_scorer_takes_the_probability_of_true():
    decide = SeaDecisions()
    scorer = DecisionScorer(decide)
    scores = check_scorer(scorer, "What is salty?", ["the sea", "a tree"])
    assert np.allclose(scores, [0.9, 0.1])
    assert scorer.score("q", []).shape == (0,)
    for request in decide.requests:
        for question in request["questions"].values():
            assert question["type"] == "noul"


@pytest.mark.parametrize(
    ("settings", "request_count"),
    [
        ({}, 1),
        ({"window_tokens": 12}, 5),  # ten texts of two tokens, and ten of three
        ({"window_tokens": 1}, 20),  # each longer than a window
    ],
)
def test_twenty_passages_are_one_request_unless_a_window_ends(settings, request_count):
    texts = ["a tree"] * 10 + ["of the sea"] * 10
    decide = SeaDecisions()
    scores = DecisionScorer(decide, **settings).score("What is salty?", texts)
    assert np.allclose(scores, np.repeat([0.1, 0.9], 10))
    shown = [r["state"]["passages"].values() for r in decide.requests]
    assert list(chain(*shown)) == texts
    assert len(shown) == request_count


def test_a_window_without_tokens_is_refused():
    with pytest.raises(InputError, match="window_tokens=0"):
        DecisionScorer(SeaDecisions(), window_tokens=0)


@pytest.mark.parametrize(
    "answers",
    [
        {},
        None,
        {"passage 2": {"noul": 0.5}},
        *(
            {"passage 1": answer}
            for answer in (None, 1, {"noul": "yes"}, {"noul": 1.5}, {"noul": -0.1})
        ),
    ],
)
def test_an_answer_that_is_none_is_refused(answers):
    with pytest.raises(BadReply, match="passage 1"):
        DecisionScorer(lambda request: answers).score("q", ["a"])


@pytest.fixture
def words_tokenizer():
    """Yes and No are single tokens here; everything else is split at spaces and unknown."""
    words = ["<unk>", "<s>", "</s>", "Yes", "No", "sea", "tree", "the", "1", "2", "3"]
    return build_word_tokenizer(
        words,
        bos_token="<s>",
        eos_token="</s>",
        chat_template="{% for m in messages %}<s> {{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}</s>{% endif %}",
    )


@pytest.mark.parametrize("window_tokens", [WINDOW_TOKENS, 1])
def test_transformers_own_decision_pipeline_serves(words_tokenizer, window_tokens):
    if "decision" not in PIPELINE_REGISTRY.get_supported_tasks():
        pytest.skip("this release of transformers has no such pipeline yet")
    model, _ = tiny_pair()
    decide = pipeline("decision", model=model, tokenizer=words_tokenizer)
    texts = ["the sea", "the tree tree tree", ""]
    scorer = DecisionScorer(decide, window_tokens=window_tokens)
    if window_tokens == 1:
        check_scorer(scorer, "the sea", texts)
    scores = scorer.score("the sea", texts)
    assert ((scores > 0) & (scores < 1)).all()
    assert len(set(scores.tolist())) > 1
