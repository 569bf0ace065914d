"""What tests of the loop share: three passages, a question one of them answers, tiny random models."""

import pytest

from denoise_core import Passage
from denoise_core.text.words import split_words


@pytest.fixture(scope="session")
def passages() -> tuple[Passage, ...]:
    return (
        Passage(
            "The Eiffel Tower in Paris was completed in 1889.",
            "eiffel",
            metadata={"title": "Eiffel Tower"},
        ),
        Passage("Rome is the capital of Italy.", "rome"),
        Passage("Bananas are a yellow fruit rich in potassium.", "banana"),
    )


@pytest.fixture(scope="session")
def question() -> str:
    return "When was the Eiffel Tower completed?"


WORDS = dict.fromkeys(split_words("the tower was completed in it has three floors"))
VOCABULARY = ["<s>", "<pad>", "</s>", "<unk>", *WORDS]


def save_tokenizer(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(
        WordLevel({w: n for n, w in enumerate(VOCABULARY)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = Whitespace()
    special = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=60, **special
    )
    fast.save_pretrained(folder)
