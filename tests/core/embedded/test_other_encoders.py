"""Encoders of other sizes than MiniLM's in NumPy: the same states as in torch, or a refusal by name."""

import json
import shutil

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from denoise_core import InputError, Passage, fit_denoiser, load_denoiser
from denoise_core.embedded.encoder import SentenceEncoder
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


def test_states_equal_those_of_torch(folder):
    encoder = SentenceEncoder(folder)
    network, tokenizer = encoder._load()
    texts = ["der turm wurde 1889 fertig", "schach", "the tower was finished " * 12]
    rows = [tokenizer.encode(text).ids for text in texts]
    model = transformers.AutoModel.from_pretrained(folder).eval()
    for row, found in zip(rows, network.hidden_states(rows), strict=True):
        with torch.inference_mode():
            wanted = model(torch.tensor([row])).last_hidden_state[0].numpy()
        assert np.abs(found - wanted).max() < 1e-4
        vectors = [x / np.linalg.norm(x) for x in (found.mean(0), wanted.mean(0))]
        assert np.abs(vectors[0] - vectors[1]).max() < 1e-4


def test_german_questions_run_through(folder):
    texts = [
        "der turm wurde 1889 fertig gebaut",
        "bananen sind gelb",
        "schach ist ein spiel " * 20,
    ]
    encoder = SentenceEncoder(folder)
    signals = encoder.signals("wann wurde der turm fertig", texts)
    assert signals.shape == (3, 3)
    assert np.isfinite(signals).all()
    assert encoder.signals_with_windows("?", texts)[1] == (
        1,
        1,
        2,
    )  # 64 pieces and two marks fill a window of 66


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_type", "mpnet"),
        ("hidden_act", "relu"),
        ("position_embedding_type", "relative_key"),
    ],
)
def test_what_is_not_known_is_refused_by_name(folder, name, value):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {name: value}))
    with pytest.raises(InputError, match=f"{name}='{value}' is not supported"):
        SentenceEncoder(folder).embed_texts(["der turm"])


def test_another_pooling_and_no_encoder_are_refused(folder, tmp_path):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True})
    )
    with pytest.raises(InputError, match="pooling_mode_cls_token is not supported"):
        SentenceEncoder(folder).embed_texts(["der turm"])
    (folder / "config.json").write_text("{}")
    with pytest.raises(InputError, match="holds no encoder"):
        SentenceEncoder(folder).embed_texts(["der turm"])
