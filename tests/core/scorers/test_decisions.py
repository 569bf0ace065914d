"""Decision models: a probability for each passage, from transformers' pipeline."""

import numpy as np
import pytest

from denoise_core.errors import BadReply, InputError
from denoise_core.scorers.decisions import DecisionScorer
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


@pytest.mark.parametrize("is_pointwise", [False, True])
def test_a_decision_scorer_takes_the_probability_of_true(is_pointwise):
    decide = SeaDecisions()
    text_scorer = DecisionScorer(decide, is_pointwise=is_pointwise)
    chunk_scores = check_scorer(text_scorer, "What is salty?", ["the sea", "a tree"])
    assert np.allclose(chunk_scores, [0.9, 0.1])
    assert text_scorer.score("q", []).shape == (0,)
    for request in decide.requests:
        types = {question["type"] for question in request["questions"].values()}
        assert types == {"noul"}


@pytest.mark.parametrize(
    ("settings", "request_count"),
    [
        ({}, 1),
        ({"is_pointwise": True}, 20),
        ({"window_tokens": 20}, 3),  # ten texts of two tokens, and ten of three
        ({"window_tokens": 1}, 20),  # each longer than a window
    ],
)
def test_twenty_passages_are_one_request_unless_a_window_ends(settings, request_count):
    texts = [*["a tree"] * 10, *["of the sea"] * 10]
    decide = SeaDecisions()
    chunk_scores = DecisionScorer(decide, **settings).score("What is salty?", texts)
    assert np.allclose(chunk_scores, [0.1] * 10 + [0.9] * 10)
    shown_texts = []
    for request in decide.requests:
        shown_texts += request["state"]["passages"].values()
    assert shown_texts == texts
    assert len(decide.requests) == request_count


def test_a_window_without_tokens_is_refused():
    with pytest.raises(InputError, match="window_tokens=0"):
        DecisionScorer(SeaDecisions(), window_tokens=0)


@pytest.mark.parametrize(
    "answer", [None, 1, {"noul": "yes"}, {"noul": 1.5}, {"noul": -0.1}]
)
def test_an_answer_that_is_none_is_refused(answer):
    with pytest.raises(BadReply, match="noul"):
        DecisionScorer(lambda request: {"passage 1": answer}).score("q", ["a"])


@pytest.mark.parametrize("answers", [{}, None, {"passage 2": {"noul": 0.5}}])
def test_a_missing_answer_is_refused(answers):
    with pytest.raises(BadReply, match="passage 1"):
        DecisionScorer(lambda request: answers).score("q", ["a"])


@pytest.fixture
def words_tokenizer():
    """Yes and No are single tokens here; everything else is split at spaces and unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {
        w: i
        for i, w in enumerate(
            ["<unk>", "<s>", "</s>", "Yes", "No", "sea", "tree", "the", "1", "2", "3"]
        )
    }
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    template = (
        "{% for m in messages %}<s> {{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}</s>{% endif %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        chat_template=template,
    )


@pytest.fixture
def tiny_llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model_config = LlamaConfig(
            vocab_size=16,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
        return LlamaForCausalLM(model_config).eval()


@pytest.mark.parametrize("is_pointwise", [False, True])
def test_transformers_own_decision_pipeline_serves(
    tiny_llama, words_tokenizer, is_pointwise
):
    from transformers import pipeline

    decide = pipeline("decision", model=tiny_llama, tokenizer=words_tokenizer)
    texts = ["the sea", "the tree tree tree", ""]
    text_scorer = DecisionScorer(decide, is_pointwise=is_pointwise)
    if is_pointwise:
        check_scorer(text_scorer, "the sea", texts)
    chunk_scores = text_scorer.score("the sea", texts)
    assert ((chunk_scores > 0) & (chunk_scores < 1)).all()
    assert len(set(chunk_scores.tolist())) > 1


def test_a_passage_above_the_window_is_a_request_alone():
    sizes = []

    def decide(request):
        sizes.append([len(text) for text in request["state"]["passages"].values()])
        return {name: {"noul": 0.5} for name in request["questions"]}

    texts = ["x" * 4000, "y" * 100, "z" * 200, "w" * 200]
    DecisionScorer(decide, window_tokens=100).score("q", texts)
    assert sizes[0] == [4000]
    assert sum(map(len, sizes)) == len(texts)
