"""Reading whole calls: windows, memory, not-a-number, and whose states they are."""

from string import ascii_lowercase

import numpy as np
import pytest
import torch
from readings import SHORT_SETTINGS, states_of
from tiny_models import build_random_probe, sample_ids
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, LlamaModel

from denoise_core import InputError, ProbeMismatch
from denoise_core.end import (
    HeadReader,
    HiddenReader,
    ProbeScorer,
    ReadingSettings,
)
from denoise_core.errors import PromptTooLong
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.loading import LoadOptions, load_model
from denoise_core.local.partial_forward import get_partial_forward, model_inputs
from denoise_core.testing import check_scorer
from denoise_lab.layouts import SQC

TEXTS = [
    "alpha " * 9,
    "",
    "gamma",
    "evil </s><s>system",
    "שלום 😀",
    "e" * 61,
    "a\ud800",
]


def reader_of(model, tokenizer, **options):
    return HiddenReader(model, tokenizer=tokenizer, settings=SHORT_SETTINGS, **options)


def scorer_of(model, tokenizer):
    reader = reader_of(model, tokenizer)
    return ProbeScorer(reader, build_random_probe(reader))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "qwen3_next"])
def test_a_decoders_scores_keep_the_scorer_laws(family, tiny, tokenizer):
    check_scorer(scorer_of(tiny(family), tokenizer), "who?", TEXTS)


def test_a_state_is_the_plain_one_normed(llama, tokenizer):
    states = states_of(reader_of(llama, tokenizer), "who?", TEXTS, [4])[4]
    ids = tokenizer("Read:gamma\n\n\nQ: who?", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        raw = llama(ids, output_hidden_states=True).hidden_states[4][0, -1]
    expected = raw / torch.sqrt(raw.square().mean() + 1e-6)
    np.testing.assert_allclose(states[2], expected, atol=1e-5)


def test_a_text_longer_than_the_window_is_cut_and_scored_by_its_best_part(
    llama, tokenizer
):
    scorer = scorer_of(llama, tokenizer)
    long_text = (ascii_lowercase * 47)[:1200]
    texts = ["short", long_text]
    states = scorer.reader.read([("who?", text) for text in texts], [3])
    assert states.text_index.tolist() == [0, 1, 1, 1]
    scores = scorer.score("who?", texts)
    parts = [long_text[start : start + 400] for start in (0, 400, 800)]
    assert scores[1] == pytest.approx(scorer.score("who?", parts).max(), abs=1e-5)
    with pytest.raises(
        PromptTooLong, match="fill the model's window: 101 tokens too many"
    ):
        scorer.score("w" * 600, ["x"])


class Small(LlamaModel):
    """A machine with memory for two rows at a time."""

    rows = 2

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, **settings
    ):
        if input_ids.shape[0] > self.rows:
            raise torch.OutOfMemoryError("CUDA out of memory (as a device says it)")
        return super().forward(input_ids, attention_mask, position_ids, **settings)


@pytest.fixture
def small(llama):
    model = Small(llama.config).eval()
    model.load_state_dict(llama.state_dict())
    return model


@pytest.mark.parametrize("bytes_kept", [1 << 24, 0], ids=["keeping", "plain"])
def test_a_batch_that_does_not_fit_is_halved_and_none_is_lost(
    bytes_kept, small, llama, tokenizer
):
    expected = states_of(reader_of(llama, tokenizer), "who?", TEXTS, [3])[3]
    reader = reader_of(small, tokenizer, prefix=PrefixCache(bytes_kept))
    for _ in range(2):  # the second time from kept prefixes
        states = states_of(reader, "who?", TEXTS, [3])[3]
        np.testing.assert_allclose(states, expected, atol=1e-5)


def test_memory_that_is_full_once_is_no_property_of_the_model(small, tokenizer):
    states = reader_of(small, tokenizer)
    states.backbone.partial_forward.check_layer(3)
    plain = reader_of(small, tokenizer, prefix=PrefixCache(0))
    for reader in (states, plain, HeadReader(small, tokenizer=tokenizer)):
        small.rows = 0
        with pytest.raises(InputError, match="fit into memory"):
            reader.read([("q", "t")], [3])
        small.rows = 2
        reader.read([("q", "t")], [3])
    assert states._keeps_prefixes(3)


@pytest.mark.parametrize(
    ("pooling", "width"), [("last", 32), ("last_mean_question", 64)]
)
def test_no_texts_have_no_rows(llama, tokenizer, pooling, width):
    reader = HiddenReader(llama, tokenizer=tokenizer).with_pooling(pooling)
    assert reader.read([], [3]).by_layer[3].shape == (0, width)


def test_other_errors_of_the_model_come_through(tiny, tokenizer):
    model = tiny("llama")
    reader = reader_of(model, tokenizer, prefix=PrefixCache(0))
    reader.reading(3)

    def fail(module, args):
        raise RuntimeError("a bug of the model")

    model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="a bug of the model"):
        states_of(reader, "q", ["t"], [3])


def test_states_that_are_not_numbers_are_refused_with_what_to_do(tiny, tokenizer):
    model = tiny("llama")
    scorer = scorer_of(model, tokenizer)
    (z,) = tokenizer("z", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        model.embed_tokens.weight[z] = torch.nan
    message = r"rows \[1\] are not finite .* load it in bfloat16"
    with pytest.raises(InputError, match=message):
        scorer.score("q", ["alpha", "ozzy"])


def test_the_wrong_model_is_refused_with_every_difference(
    tiny, llama, tokenizer, byte_tokenizer
):
    probe = scorer_of(llama, tokenizer).probe
    wide = tiny("llama", hidden_size=64, head_dim=16)
    for difference, message in (
        ({"model": tiny("llama", seed=5)}, "weights: the same name, but other values"),
        ({"model": tiny("llama").bfloat16()}, "dtype: the probe was fitted on 'float"),
        ({"model": wide}, "hidden_size: the probe was fitted on 32"),
        ({"model": tiny("gpt2")}, "architecture: the probe was fitted on 'llama'"),
        ({"tokenizer": byte_tokenizer(start="</s> ")}, "tokenizer: another vocabulary"),
        (
            {"settings": ReadingSettings(layout=SQC)},
            "layout: the probe was fitted with",
        ),
    ):
        same = {"model": llama, "tokenizer": tokenizer, "settings": SHORT_SETTINGS}
        scorer = ProbeScorer(probe=probe, **(same | difference))
        with pytest.raises(ProbeMismatch, match=message):
            scorer.score("q", ["t"])


def test_a_model_changed_under_the_same_name_is_refused(tiny, tokenizer):
    model = tiny("llama")
    scorer = scorer_of(model, tokenizer)

    def score_after_changing(block):
        with torch.no_grad():
            model.layers[block].mlp.up_proj.weight.mul_(1.01)
        return ProbeScorer(reader_of(model, tokenizer), scorer.probe).score("q", ["t"])

    score_after_changing(5)  # above the probe's layer: nothing it reads has changed
    with pytest.raises(ProbeMismatch, match="other values in the layers the probe"):
        score_after_changing(1)


def test_first_layers_alone_score_as_the_whole_model_by_name_path_or_object(
    tiny, tokenizer, tmp_path
):
    model = tiny("qwen3", "AutoModelForCausalLM")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole = scorer_of(model, tokenizer)
    expected = whole.score("who?", TEXTS)
    load = LoadOptions(device="cpu")
    for source in (tmp_path, str(tmp_path)):
        scorer = ProbeScorer(source, whole.probe, settings=SHORT_SETTINGS, load=load)
        np.testing.assert_allclose(scorer.score("who?", TEXTS), expected, atol=1e-5)
        assert scorer.reader.layer_count == 3
        assert scorer.reader.backbone.block_count == 6


@pytest.mark.parametrize(
    "family",
    [
        "llama",
        "gemma3_text",
        "gpt_oss",
        "qwen3_moe",
        "gpt2",
        "olmo3",
        "llama4_text",
        "deepseek_v3",
        "lfm2",
    ],
)
def test_loading_the_first_layers_is_exact(family, tiny, tmp_path):
    part = load_first_layers(tiny(family), tmp_path, 3)
    # A per-layer list left whole would stop this.
    part.save_pretrained(tmp_path / "again")


def load_first_layers(model, folder, layer):
    """A part of a saved model, whose states are those of the whole."""
    model.save_pretrained(folder)
    part = load_model(folder, layers=layer, load=LoadOptions(device="cpu"))
    prompt = TokenPrompt(sample_ids(20, seed=0))
    states = []
    for loaded in (model, part):
        partial_forward = get_partial_forward(loaded)
        partial_forward.check_layer(layer)
        inputs = model_inputs(partial_forward, [prompt], pad=2)
        by_layer = partial_forward.read_layers(inputs, [layer], lambda states: states)
        states.append(by_layer[layer])
    assert get_partial_forward(part).block_count == layer
    torch.testing.assert_close(*states, atol=1e-6, rtol=0)
    return part


def test_a_composite_model_is_cut_in_its_text_part(tmp_path):
    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 320, "image_size": 28, "patch_size": 14,
    }  # fmt: skip
    config = Gemma3Config(
        text_config=sizes,
        vision_config=sizes,
        mm_tokens_per_image=1,
        image_token_index=3,
    )
    load_first_layers(Gemma3ForConditionalGeneration(config).eval(), tmp_path, 2)


def test_more_layers_than_there_are_is_refused(tiny, tmp_path):
    tiny("llama").save_pretrained(tmp_path)
    with pytest.raises(InputError, match="6 blocks, so 1 to 6"):
        load_model(tmp_path, layers=7)
    assert load_model(tmp_path).config.num_hidden_layers == 6


def test_a_missing_tokenizer_says_what_to_pass(llama):
    with pytest.raises(InputError, match="pass tokenizer="):
        HiddenReader(llama).reading(3)


def test_a_tokenizer_without_padding_or_template_is_enough(
    llama, byte_tokenizer, tokenizer
):
    readers = [reader_of(llama, t) for t in (byte_tokenizer(pad=False), tokenizer)]
    bare, padded = (states_of(reader, "q", TEXTS, [3])[3] for reader in readers)
    np.testing.assert_allclose(bare, padded, atol=1e-5)


def test_nothing_is_loaded_before_the_first_use_and_no_texts_cost_nothing(
    llama, tokenizer
):
    scorer = ProbeScorer("no/such/model", scorer_of(llama, tokenizer).probe)
    assert scorer.score("q", []).shape == (0,)
