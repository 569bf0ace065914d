"""A probe on attention heads: fitted, saved and served like one on states; passages are read once, each alone."""

import numpy as np
import pytest
import torch
from readings import count_found, shouting

from denoise_core import InputError
from denoise_core.end import ENDDenoiser, HeadReader, PrefixCache, Probe, ProbeScorer
from denoise_core.end.fit import fit_heads
from denoise_core.end.probe import format_heads
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.errors import ProbeMismatch
from denoise_core.local.block_attention import BlockPrompt, passage_attention
from denoise_core.local.layout import PASSAGE, QUERY, Layout
from denoise_core.testing import check_scorer

QUESTION = "Where is the tower?"
TEXTS = ["The tower is in Porto.", "Bread is cheap.", "A red tower. It is old."]
HEADS = ((0, 1), (2, 3), (1, 0))
WINDOWED = {"max_position_embeddings": 4096}


@pytest.fixture(scope="module")
def make_reader(tiny, byte_tokenizer):
    def make(family="llama", *, settings=None, prefix=None, **changes):
        model = tiny(family, **(WINDOWED | changes))
        return HeadReader(
            model, tokenizer=byte_tokenizer(), settings=settings, prefix=prefix
        )

    return make


def make_probe(reader):
    layer = 1 + max(block for block, _ in HEADS)
    weights = np.arange(1.0, 1 + len(HEADS))
    return Probe(weights, 0.5, reader.with_heads(HEADS).reading(layer))


@pytest.fixture
def scorer(make_reader):
    reader = make_reader()
    return ProbeScorer(reader, make_probe(reader))


def pairs_of(texts, question=QUESTION):
    return [(question, text) for text in texts]


def attention_of(reader, texts=TEXTS):
    return reader.read(pairs_of(texts), [3]).by_layer[3]


def test_the_scores_are_the_weighted_heads_in_any_order(scorer, make_reader):
    scores = check_scorer(scorer, QUESTION, TEXTS, listwise=True, tolerance=1e-6)
    by_layer = make_reader().read(pairs_of(TEXTS), [1, 2, 3]).by_layer
    expected = 0.5
    for weight, (block, head) in enumerate(HEADS, start=1):
        expected = expected + weight * by_layer[block + 1][:, head]
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_a_head_counts_the_question_tokens_that_turn_most_less_an_empty_question():
    prompt = BlockPrompt((1,), ((2, 3), (4,)), (5, 6, 7, 8, 9, 10))
    weights = torch.zeros(1, 6, 10)
    weights[0, 0, 1], weights[0, 0, 3] = 0.1, 0.4  # of an empty question
    # The question's, to the first passage and to the second.
    weights[0, 1:5, 1:3] = torch.tensor(
        [[0.9, 0.0], [0.1, 0.2], [0.3, 0.0], [0.2, 0.1]]
    )
    weights[0, 1:5, 3] = torch.tensor([0.1, 0.2, 0.3, 0.0])
    weights[0, 5] = 1.0  # after the question
    attention = passage_attention(weights, prompt, (1, 5))
    # Three of four turn most: those of 0.9, 0.3 and 0.3, and of 0.3, 0.2 and 0.1.
    torch.testing.assert_close(attention, torch.tensor([[0.5 - 0.1, 0.2 - 0.4]]))


def test_each_question_has_its_own_list(make_reader):
    reader = make_reader()
    other = pairs_of(TEXTS[:2], "Who bakes?")
    together = reader.read(pairs_of(TEXTS) + other, [3])
    np.testing.assert_array_equal(together.text_index, np.arange(5))
    apart = [attention_of(reader), reader.read(other, [3]).by_layer[3]]
    np.testing.assert_allclose(together.by_layer[3], np.concatenate(apart), atol=1e-6)


def test_known_passages_are_not_read_again(scorer):
    first = scorer.score(QUESTION, TEXTS)
    attention = scorer.reader._prefix_reader
    before = attention.tokens_run
    assert before > sum(map(len, TEXTS))  # a byte is a token here
    second = scorer.score(QUESTION, TEXTS)
    question_tokens = attention.tokens_run - before
    assert question_tokens < 150
    np.testing.assert_allclose(first, second, atol=1e-6)
    scorer.score(QUESTION, [*TEXTS, "A new one."])
    tokens_run = attention.tokens_run - before
    assert tokens_run == 2 * question_tokens + len("A new one.")


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": PrefixCache(0)},
        {"settings": ReadingSettings(max_tokens=1)},
    ],
    ids=["no cache", "small batches"],
)
def test_neither_the_cache_nor_batches_change_a_value(make_reader, options):
    texts = [text * repeat for repeat, text in enumerate(TEXTS, start=1)]
    expected = attention_of(make_reader(), texts)
    reader = make_reader(**options)
    for _ in range(2):
        np.testing.assert_allclose(attention_of(reader, texts), expected, atol=1e-6)


def test_a_text_beyond_the_window_is_read_in_parts(make_reader):
    # A window of attention counts like one of positions: no token may be hidden.
    reader = make_reader("mistral", sliding_window=200)
    scorer = ProbeScorer(reader, make_probe(reader))
    texts = ["tower " * 40, "short"]
    long_count, short_count = np.bincount(reader.read(pairs_of(texts), [3]).text_index)
    assert long_count > short_count == 1
    assert np.isfinite(scorer.score(QUESTION, texts)).all()


def test_empty_texts_and_questions_have_scores_and_no_texts_no_rows(
    scorer, make_reader
):
    assert np.isfinite(scorer.score(QUESTION, ["", *TEXTS])).all()
    assert np.isfinite(scorer.score("", TEXTS)).all()
    assert scorer.score(QUESTION, []).size == 0
    reader = make_reader()
    states = reader.read([], [1, 3]).by_layer
    assert states[1].shape == states[3].shape == (0, 4)
    assert attention_of(reader.with_heads(HEADS), []).shape == (0, len(HEADS))


def test_a_probe_comes_back_from_its_folder_and_refuses_others(make_reader, tmp_path):
    reader = make_reader()
    probe = Probe.load(make_probe(reader).save(tmp_path / "p"))
    assert probe.reading.heads == HEADS
    assert ProbeScorer(reader, probe).score(QUESTION, TEXTS).shape == (3,)
    states = HiddenReader(reader.backbone.model, tokenizer=reader.backbone.tokenizer)
    with pytest.raises(ProbeMismatch, match="pooling"):
        ProbeScorer(states, probe).score(QUESTION, TEXTS)


def test_what_cannot_be_read_is_refused(make_reader):
    early = Layout("early", ("Question: ", QUERY, "\n", PASSAGE))
    with pytest.raises(InputError, match="follows the passages"):
        make_reader(settings=ReadingSettings(layout=early)).read(pairs_of(TEXTS), [1])
    with pytest.raises(InputError, match="from 1 on"):
        make_reader().read(pairs_of(TEXTS), [0])


@pytest.mark.parametrize("pooling", ["attention 1", "attention a.b", "attention 1.2.3"])
def test_damaged_head_names_are_named(make_reader, pooling):
    reading = make_reader().reading(2)
    damaged = type(reading)(reading.model, 2, reading.layout, pooling)
    with pytest.raises(InputError, match="attention"):
        _ = damaged.heads


def test_fitting_finds_the_heads_and_the_probe_serves_a_denoiser(make_reader, tmp_path):
    reader = make_reader()
    fit = fit_heads(
        reader,
        shouting(30),
        layers=[1, 2],
        max_heads=3,
        folder=tmp_path / "attention",
        calibration=shouting(20, seed=7),
    )
    heads = fit.probe.reading.heads
    assert 1 <= len(heads) <= 3
    assert {block for block, _ in heads} <= {0, 1}
    assert fit.auc > 0.9
    probe = Probe.load(fit.probe.save(tmp_path / "p"))
    assert fit.auc in probe.card["fit"].values()
    assert probe.card["heads, by weight"] == format_heads(heads)
    denoiser = ENDDenoiser(ProbeScorer(reader, probe), keep=1)
    assert count_found(denoiser, shouting(20, seed=9)) > 0.8 * 20


def test_fit_refuses_what_it_cannot_use(make_reader):
    questions = shouting(4)
    with pytest.raises(InputError, match="also fitted on"):
        fit_heads(make_reader(), questions, calibration=questions[:1])
    with pytest.raises(InputError, match="max_heads=0"):
        fit_heads(make_reader(), questions, max_heads=0)
