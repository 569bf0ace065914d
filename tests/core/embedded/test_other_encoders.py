"""A denoiser fitted with another encoder: its prefixes, its scores, found again by name."""

import json

import numpy as np
import pytest
from growing_texts import passages_of
from tiny_models import build_word_tokenizer
from tokenizers import processors

from denoise_core import InputError, fit_denoiser, load_denoiser
from denoise_core.question import Question
from denoise_core.scorers import BM25Scorer, EmbeddingScorer

transformers = pytest.importorskip("transformers")
sentence_transformers = pytest.importorskip("sentence_transformers")

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = "der turm wurde 1889 fertig gebaut wann ist schach ein spiel the tower was finished bananen sind gelb"
WORDS = WORDS.split()
SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 96,
    "max_position_embeddings": 66,
    "vocab_size": len(SPECIAL) + len(WORDS),
}


@pytest.fixture
def encoder_folder(tmp_path):
    """An encoder of random weights under a known name, with a tokenizer of German and English words."""
    folder = tmp_path / "multilingual-e5-small"
    transformers.set_seed(0)
    config = transformers.XLMRobertaConfig(pad_token_id=1, **SIZES)
    transformers.XLMRobertaModel(config).save_pretrained(folder)
    tokenizer = build_word_tokenizer([*SPECIAL, *WORDS], pad_token="<pad>")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_fit_takes_another_encoder_with_its_prefixes_and_finds_it_again(
    encoder_folder, tmp_path
):
    generator = np.random.default_rng(0)
    questions = []
    for number in range(24):
        texts = [" ".join(generator.choice(WORDS, 5)) for _ in range(4)]
        passages = tuple(passages_of(texts))
        questions.append(Question(f"{texts[0]} {number}", passages, frozenset({"0"})))
    fitted = fit_denoiser(questions, encoder=encoder_folder)
    assert fitted.stack.names == ("cosine", "bm25")
    denoiser = load_denoiser(fitted.save(tmp_path / "mine"), keep=1)
    result = denoiser.denoise(questions[0].text, questions[0].passages)
    assert [passage.id for passage in result.passages] == ["0"]
    encoder = EmbeddingScorer(encoder_folder)
    query, texts = "wann ist schach", ["der turm", "schach ist ein spiel"]
    bare = sentence_transformers.SentenceTransformer(encoder_folder)
    wanted = bare.encode("passage: " + texts[1], normalize_embeddings=True)
    np.testing.assert_allclose(encoder.text_vectors(texts)[1], wanted, atol=1e-5)
    columns = [scorer.score(query, texts) for scorer in (encoder, BM25Scorer())]
    wanted = fitted.stack.combine(np.stack(columns, axis=1))
    np.testing.assert_allclose(denoiser.scorer.score(query, texts), wanted, atol=1e-5)
    manifest = tmp_path / "mine" / "denoiser.json"
    moved = json.loads(manifest.read_text()) | {"encoder": "/no/such/encoder"}
    manifest.write_text(json.dumps(moved))
    with pytest.raises(InputError, match="encoder='/no/such/encoder': no such model"):
        load_denoiser(tmp_path / "mine")
