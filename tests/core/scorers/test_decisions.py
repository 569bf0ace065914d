"""Decision models: a probability for each passage, from transformers' pipeline."""

import numpy as np
import pytest

from denoise_core.errors import BadReply
from denoise_core.scorers.decisions import DecisionScorer, LocalDecisions
from denoise_core.testing import check_scorer


def test_a_decision_scorer_takes_the_probability_of_true():
    seen_calls = []

    def decide(request):
        seen_calls.append(request)
        return {
            "holds": {
                "type": "noul",
                "noul": 0.9 if "sea" in request["state"]["passage"] else 0.1,
            }
        }

    chunk_scores = check_scorer(
        DecisionScorer(decide), "What is salty?", ["the sea", "a tree"]
    )
    assert np.allclose(chunk_scores, [0.9, 0.1])
    assert seen_calls[0]["questions"]["holds"]["type"] == "noul"
    assert DecisionScorer(decide).score("q", []).shape == (0,)


@pytest.mark.parametrize(
    "answers",
    [{}, None, {"holds": 1}, {"holds": {"noul": "yes"}}, {"holds": {"noul": 1.5}}],
)
def test_an_answer_that_is_none_is_refused(answers):
    with pytest.raises(BadReply, match="noul"):
        DecisionScorer(lambda request: answers).score("q", ["a"])


@pytest.fixture
def words_tokenizer():
    """Yes and No are single tokens here; everything else is split at spaces and unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {
        w: i
        for i, w in enumerate(
            ["<unk>", "<s>", "</s>", "Yes", "No", "sea", "tree", "the", "\n"]
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


def test_transformers_own_decision_pipeline_serves(tiny_llama, words_tokenizer):
    text_scorer = DecisionScorer(LocalDecisions(tiny_llama, tokenizer=words_tokenizer))
    chunk_scores = check_scorer(
        text_scorer, "the sea", ["the sea", "the tree tree tree", ""]
    )
    assert ((chunk_scores > 0) & (chunk_scores < 1)).all()
    assert len(set(chunk_scores.tolist())) > 1
