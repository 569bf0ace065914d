"""What tests of the loop share: three passages, a question one of them answers, tiny random models."""

import pytest

from denoise_core import Passage
from denoise_core.text.words import words


@pytest.fixture(scope="session")
def passages() -> tuple[Passage, ...]:
    return (
        Passage("The Eiffel Tower in Paris was completed in 1889.", "eiffel", metadata={"title": "Eiffel Tower"}),
        Passage("Rome is the capital of Italy.", "rome"),
        Passage("Bananas are a yellow fruit rich in potassium.", "banana"),
    )


@pytest.fixture(scope="session")
def question() -> str:
    return "When was the Eiffel Tower completed?"


WORDS = dict.fromkeys(words("the tower was completed in it has three floors"))
VOCABULARY = ["<s>", "<pad>", "</s>", "<unk>", *WORDS]


def save_tokenizer(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({w: n for n, w in enumerate(VOCABULARY)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=60, **special)
    fast.save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_bart(tmp_path_factory):
    """A folder with a random sequence-to-sequence model."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    folder = tmp_path_factory.mktemp("bart")
    save_tokenizer(folder)
    torch.manual_seed(0)
    size = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 64}
    BartForConditionalGeneration(BartConfig(vocab_size=len(VOCABULARY), **size, **heads)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory):
    """A folder with a random T5 of width 16."""
    import torch
    from transformers import T5Config, T5Model

    folder = tmp_path_factory.mktemp("t5")
    save_tokenizer(folder)
    torch.manual_seed(0)
    size = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    T5Model(T5Config(vocab_size=len(VOCABULARY), **size)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """A folder with a random BERT of width 16."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    save_tokenizer(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(VOCABULARY), **size)).save_pretrained(folder)
    return str(folder)
