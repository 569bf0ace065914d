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
VOCABULARY = ["<s>", "<pad>", "</s>", "<unk>", "Yes", "No", *WORDS]


def save_tokenizer(folder, template=None):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({w: n for n, w in enumerate(VOCABULARY)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=60, **special)
    fast.chat_template = template
    fast.save_pretrained(folder)


def save_classifier(folder, names, kind=None):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    save_tokenizer(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(
        vocab_size=len(VOCABULARY), id2label=names, label2id={v: k for k, v in names.items()}, **size
    )
    (kind or BertForSequenceClassification)(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_nli(tmp_path_factory):
    """A folder with a random three-way classifier whose labels are those of entailment models."""
    return save_classifier(tmp_path_factory.mktemp("nli"), {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})


@pytest.fixture(scope="session")
def tiny_two(tmp_path_factory):
    """A folder with a random classifier of two labels, one of them entailment."""
    return save_classifier(tmp_path_factory.mktemp("two"), {0: "entailment", 1: "not_entailment"})


@pytest.fixture(scope="session")
def tiny_unnamed(tmp_path_factory):
    """A folder with a random classifier whose labels say nothing."""
    return save_classifier(tmp_path_factory.mktemp("unnamed"), {0: "LABEL_0", 1: "LABEL_1"})


@pytest.fixture(scope="session")
def tiny_tokens(tmp_path_factory):
    """A folder with a random token classifier of supported and unsupported words."""
    from transformers import BertForTokenClassification

    names = {0: "supported", 1: "unsupported"}
    return save_classifier(tmp_path_factory.mktemp("tokens"), names, BertForTokenClassification)


@pytest.fixture(scope="session")
def tiny_scorer(tmp_path_factory):
    """A folder with a random classifier of one output, as cross-encoders are."""
    return save_classifier(tmp_path_factory.mktemp("scorer"), {0: "SCORE"})


@pytest.fixture(scope="session")
def tiny_chat(tmp_path_factory):
    """A folder with a random decoder that has a chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("chat")
    save_tokenizer(folder, "{% for m in messages %}{{ m['content'] }} {% endfor %}")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(VOCABULARY), **size)).save_pretrained(folder)
    return str(folder)
