"""A denoiser fitted with another encoder: its prefixes, its scores, found again by name."""

import json
import shutil

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from denoise_core import InputError, Passage, fit_denoiser, load_denoiser
from denoise_core.question import Question
from denoise_core.scorers import BM25Scorer, EmbeddingScorer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = "der turm wurde 1889 fertig gebaut wann ist schach ein spiel the tower was finished bananen sind gelb"
WORDS = WORDS.split()
SIZES = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "intermediate_size": 96,
    "vocab_size": 4 + len(WORDS),
}
KINDS = {
    "bert": (
        transformers.BertConfig,
        transformers.BertModel,
        ["[PAD]", "[CLS]", "[SEP]", "[UNK]"],
        {},
    ),
    "xlm-roberta": (
        transformers.XLMRobertaConfig,
        transformers.XLMRobertaModel,
        ["<s>", "<pad>", "</s>", "<unk>"],
        {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    ),
}


@pytest.fixture(params=KINDS)
def folder(request, tmp_path):
    """Twelve layers of random weights, with a tokenizer of German and English words."""
    config, model, special, more = KINDS[request.param]
    torch.manual_seed(0)
    made = model(
        config(num_hidden_layers=12, max_position_embeddings=66, **SIZES, **more)
    ).eval()
    made.save_pretrained(tmp_path, safe_serialization=True)
    vocabulary = {word: n for n, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special[3]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    first, last = (
        (special[1], special[2])
        if request.param == "bert"
        else (special[0], special[2])
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_fit_takes_another_encoder_with_its_prefixes_and_finds_it_again(
    folder, tmp_path_factory
):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    home = tmp_path_factory.mktemp("home")
    named_folder = home / "multilingual-e5-small"
    shutil.copytree(folder, named_folder)
    config = json.loads((named_folder / "config.json").read_text())
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(named_folder / "tokenizer.json"),
        pad_token="[PAD]" if config["model_type"] == "bert" else "<pad>",
    ).save_pretrained(named_folder)
    generator = np.random.default_rng(0)
    questions = []
    for number in range(24):
        texts = [" ".join(generator.choice(WORDS, 5)) for _ in range(4)]
        passages = tuple(Passage(text, str(i)) for i, text in enumerate(texts))
        questions.append(Question(f"{texts[0]} {number}", passages, frozenset({"0"})))
    fitted = fit_denoiser(questions, encoder=str(named_folder))
    assert fitted.stack.names == ("cosine", "bm25")
    denoiser = load_denoiser(fitted.save(home / "mine"), keep=1)
    result = denoiser.denoise(questions[0].text, questions[0].passages)
    assert [passage.id for passage in result.passages] == ["0"]
    vectors = EmbeddingScorer(str(named_folder))
    query, texts = "wann ist schach", ["der turm", "schach ist ein spiel"]
    bare = sentence_transformers.SentenceTransformer(str(named_folder))
    wanted = bare.encode("passage: " + texts[1], normalize_embeddings=True)
    assert np.abs(vectors.text_vectors(texts)[1] - wanted).max() < 1e-5
    signals = np.stack(
        [vectors.score(query, texts), BM25Scorer().score(query, texts)], axis=1
    )
    scores = denoiser.scorer.score(query, texts)
    assert np.abs(scores - fitted.stack.combine(signals)).max() < 1e-5
    manifest = json.loads((home / "mine" / "denoiser.json").read_text())
    manifest["encoder"] = "/no/such/encoder"
    (home / "mine" / "denoiser.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="encoder='/no/such/encoder': no such model"):
        load_denoiser(home / "mine")
