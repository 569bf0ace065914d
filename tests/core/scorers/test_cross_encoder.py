"""Any cross-encoder becomes a scorer: a function, an object with predict, or a folder on disk."""

import numpy as np
import pytest
from tiny_models import build_word_tokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    set_seed,
)

from denoise_core import InputError
from denoise_core.scorers.encoders import CrossEncoderScorer
from denoise_core.testing import check_scorer


def shared(pairs):
    return np.array([len(set(query) & set(text)) for query, text in pairs], float)


class Model:
    def predict(self, sentences, batch_size=32):
        return shared(sentences)[:, None]


@pytest.mark.parametrize("model", [shared, Model()])
def test_scores_are_the_models(model):
    assert check_scorer(
        CrossEncoderScorer(model), "abc", ["ab", "xyz", "cab", ""]
    ).tolist() == [2, 0, 3, 0]
    assert CrossEncoderScorer(model).score("q", []).shape == (0,)


@pytest.mark.parametrize(
    "model", [lambda pairs: np.zeros(1), lambda pairs: np.zeros((len(pairs), 3))]
)
def test_a_model_with_other_than_one_score_a_pair_is_refused(model):
    with pytest.raises(InputError, match="one score for each of 2 pairs"):
        CrossEncoderScorer(model).score("q", ["a", "b"])


def test_what_is_no_model_is_named():
    with pytest.raises(InputError, match="got int"):
        CrossEncoderScorer(3).score("q", ["a"])


def test_a_model_on_disk_is_loaded_by_its_path_at_the_first_call(tmp_path):
    words = ["<unk>", "<pad>", "sea", "tree", "salt"]
    config = BertConfig(
        vocab_size=5,
        num_labels=1,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=1.0,
    )
    # Of weights left to chance one in thirty give all texts the same score.
    set_seed(0)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    build_word_tokenizer(words, pad_token="<pad>").save_pretrained(tmp_path)
    scorer = CrossEncoderScorer(str(tmp_path))
    scores = check_scorer(scorer, "salt sea", ["sea", "tree", "salt salt salt"])
    assert len(set(scores.tolist())) > 1
