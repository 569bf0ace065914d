"""Any text tokenises and comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_lab.training.vocabulary import SIZE, SPECIAL, train_tokenizer

TOKENIZER = train_tokenizer(conversations=400)


@given(st.text())
def test_any_text_comes_back(text):
    ids = TOKENIZER(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert TOKENIZER.decode(ids) == text
    assert not set(ids) & set(TOKENIZER.convert_tokens_to_ids(list(SPECIAL)))


@pytest.mark.parametrize(
    ("text", "tokens"), [(" 48213377", [" 48", "21", "33", "77"]), (" 7 + 12", [" 7", " +", " 12"])]
)
def test_digits_go_in_twos(text, tokens):
    assert [TOKENIZER.decode([i]) for i in TOKENIZER(text)["input_ids"]] == tokens


def test_training_it_again_gives_the_same():
    assert train_tokenizer(conversations=400).get_vocab() == TOKENIZER.get_vocab()
    assert len(TOKENIZER) <= SIZE
