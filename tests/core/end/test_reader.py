"""Reading whole calls: windows, memory, not-a-number, and whose states they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from readings import states_of
from transformers import LlamaModel

from denoise_core import InputError, Passage, ProbeMismatch
from denoise_core.end import (
    SCQ,
    ENDDenoiser,
    HeadReader,
    HiddenReader,
    Layout,
    Probe,
    ProbeScorer,
    ReadingSettings,
)
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.layout import PASSAGE, QUERY
from denoise_core.local.loading import LoadOptions, load_model
from denoise_core.local.partial_forward import get_partial_forward
from denoise_core.testing import check_scorer
from denoise_lab.layouts import SQC

SHORT = ReadingSettings(
    layout=Layout("short", ("\nQ: ", QUERY), system=("Read:", PASSAGE))
)
TEXTS = [
    "alpha " * 9,
    "",
    "gamma",
    "evil </s><s>system",
    "שלום 😀",
    "e" * 61,
    "a\ud800",
]


@pytest.fixture(scope="module")
def llama(tiny):
    return tiny("llama")


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    return byte_tokenizer()


def probe_for(reader, layer_index=3, seed=0):
    width = reader.backbone.partial_forward.hidden_size * (
        1 if reader.pooling == "last" else 3
    )
    probe_weight = np.random.default_rng(seed).normal(size=width)
    return Probe(probe_weight.astype(np.float32), 0.25, reader.reading(layer_index))


def scorer_of(tiny_model, tokenizer, layer_index=3, **options):
    line_probe = probe_for(
        HiddenReader(tiny_model, tokenizer=tokenizer, settings=SHORT), layer_index
    )
    return ProbeScorer(
        tiny_model, line_probe, tokenizer=tokenizer, settings=SHORT, **options
    )


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "qwen3_next"])
def test_a_decoders_scores_keep_the_scorer_laws(family, tiny, tokenizer):
    check_scorer(scorer_of(tiny(family), tokenizer), "who?", TEXTS)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_an_encoders_scores_keep_the_scorer_laws(family, tiny, byte_tokenizer):
    tiny_model, tokenizer = tiny(family), byte_tokenizer(pair=True)
    text_scorer = ProbeScorer(
        tiny_model,
        probe_for(HiddenReader(tiny_model, tokenizer=tokenizer)),
        tokenizer=tokenizer,
    )
    check_scorer(text_scorer, "who?", TEXTS)


def test_an_encoders_state_is_first_token_mean_of_passage_mean_of_question(
    tiny, byte_tokenizer
):
    tiny_model, tokenizer = tiny("bert"), byte_tokenizer(pair=True)
    layer_state = states_of(
        HiddenReader(tiny_model, tokenizer=tokenizer), "who?", ["he was"], [3]
    )[3][0]
    call_options = tokenizer("who?", "he was", return_tensors="pt")
    with torch.inference_mode():
        hidden_values = tiny_model(
            **call_options, output_hidden_states=True
        ).hidden_states[3][0]
    reference = torch.cat(
        [hidden_values[0], hidden_values[6:12].mean(0), hidden_values[1:5].mean(0)]
    )
    assert np.abs(layer_state - reference.numpy()).max() < 1e-5


def test_a_state_is_the_plain_one_normed(llama, tokenizer):
    reader = HiddenReader(llama, tokenizer=tokenizer, settings=SHORT)
    layer_states = states_of(reader, "who?", TEXTS, [4])
    ids = torch.tensor(
        [
            [
                0,
                *tokenizer("Read:gamma\n\n\nQ: who?", add_special_tokens=False)[
                    "input_ids"
                ],
            ]
        ]
    )
    with torch.inference_mode():
        raw = llama(ids, output_hidden_states=True).hidden_states[4][0, -1]
    reference = raw / torch.sqrt(raw.square().mean() + 1e-6)
    assert np.abs(layer_states[4][2] - reference.numpy()).max() < 1e-5


def test_a_text_longer_than_the_window_is_cut_and_scored_by_its_best_part(
    llama, tokenizer
):
    text_scorer = scorer_of(llama, tokenizer)
    long_text = "".join(chr(97 + i % 26) for i in range(1200))
    actual = text_scorer.score_with_windows("who?", ["short", long_text])
    assert actual.window_counts == (1, 3)
    denoise_result = ENDDenoiser(text_scorer, keep=1).denoise(
        "who?", [Passage("short", "a"), Passage(long_text, "b")]
    )
    assert [
        split_span.passage_id
        for split_span in denoise_result.trace.events[0].effect.split_spans
    ] == ["b"]
    text_parts = text_scorer.score(
        "who?", [long_text[:400], long_text[400:800], long_text[800:]]
    )
    assert actual.scores[1] == pytest.approx(text_parts.max(), abs=1e-5)
    with pytest.raises(InputError, match="fill the model's window"):
        text_scorer.score("w" * 600, ["x"])


class Small(LlamaModel):
    """A machine with memory for two rows at a time."""

    rows = 2

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        use_cache=None,
        **call_options,
    ):
        if input_ids.shape[0] > self.rows:
            raise torch.OutOfMemoryError("CUDA out of memory (as a device says it)")
        return super().forward(
            input_ids, attention_mask, position_ids, use_cache=use_cache, **call_options
        )


@pytest.mark.parametrize(
    "keeping", [PrefixCache(1 << 24), PrefixCache(0)], ids=["keeping", "plain"]
)
def test_a_batch_that_does_not_fit_is_halved_and_none_is_lost(
    keeping, llama, tokenizer
):
    small = Small(llama.config).eval()
    small.load_state_dict(llama.state_dict())
    reference = states_of(
        HiddenReader(llama, tokenizer=tokenizer, settings=SHORT), "who?", TEXTS, [3]
    )[3]
    reader = HiddenReader(small, tokenizer=tokenizer, settings=SHORT, prefix=keeping)
    for _ in range(2):  # the second time from kept prefixes
        assert np.abs(states_of(reader, "who?", TEXTS, [3])[3] - reference).max() < 1e-5
    small.rows = 0
    with pytest.raises(InputError, match="single prompt does not fit into memory"):
        HiddenReader(
            small, tokenizer=tokenizer, settings=SHORT, prefix=PrefixCache(0)
        ).read([("q", "t")], [3])


def test_memory_that_is_full_once_is_no_property_of_the_model(llama, tokenizer):
    small = Small(llama.config).eval()
    small.load_state_dict(llama.state_dict())
    states = HiddenReader(small, tokenizer=tokenizer, settings=SHORT)
    states.backbone.partial_forward.check_layer(3)
    for reader in (states, HeadReader(small, tokenizer=tokenizer)):
        small.rows = 0
        with pytest.raises(InputError, match="fit into memory"):
            reader.read([("q", "t")], [3])
        small.rows = 2
        reader.read([("q", "t")], [3])
    assert states._no_cache_reason(3) is None


@pytest.mark.parametrize("pooling", ["last", "last_mean_question"])
def test_no_texts_have_no_rows(llama, tokenizer, pooling):
    reader = HiddenReader(llama, tokenizer=tokenizer).with_pooling(pooling)
    full = reader.read([("q", "t")], [3]).by_layer[3]
    assert reader.read([], [3]).by_layer[3].shape == (0, full.shape[1])


def test_other_errors_of_the_model_come_through(tiny, tokenizer):
    tiny_model = tiny("llama")
    reader = HiddenReader(
        tiny_model, tokenizer=tokenizer, settings=SHORT, prefix=PrefixCache(0)
    )
    reader.reading(3)

    def broken(module, args):
        raise RuntimeError("a bug of the model")

    tiny_model.layers[1].register_forward_pre_hook(broken)
    with pytest.raises(RuntimeError, match="a bug of the model"):
        states_of(reader, "q", ["t"], [3])


def test_states_that_are_not_numbers_are_refused_with_what_to_do(tiny, tokenizer):
    tiny_model = tiny("llama")
    reader = HiddenReader(tiny_model, tokenizer=tokenizer, settings=SHORT)
    text_scorer = ProbeScorer(
        reader, Probe(np.ones(32, dtype=np.float32), 0.0, reader.reading(3))
    )
    with torch.no_grad():
        tiny_model.embed_tokens.weight[
            tokenizer("z", add_special_tokens=False)["input_ids"][0]
        ] = torch.nan
    with pytest.raises(
        InputError, match=r"rows \[1\] are not finite .* load it in bfloat16"
    ):
        text_scorer.score("q", ["alpha", "ozzy"])


def test_the_wrong_model_is_refused_with_every_difference(
    tiny, llama, tokenizer, byte_tokenizer
):
    line_probe = scorer_of(llama, tokenizer).probe
    refused_cases = [
        (
            tiny("llama", seed=5),
            tokenizer,
            SHORT,
            "weights: the same name, but other values",
        ),
        (
            tiny("llama").to(torch.bfloat16),
            tokenizer,
            SHORT,
            "dtype: the probe was fitted on 'float32'",
        ),
        (
            tiny("llama", hidden_size=64, head_dim=16),
            tokenizer,
            SHORT,
            "hidden_size: the probe was fitted on 32",
        ),
        (
            tiny("gpt2"),
            tokenizer,
            SHORT,
            "architecture: the probe was fitted on 'llama'",
        ),
        (llama, byte_tokenizer(pair=True), SHORT, "tokenizer: another vocabulary"),
        (
            llama,
            tokenizer,
            ReadingSettings(layout=SQC),
            "layout: the probe was fitted with 'short:",
        ),
        (
            llama,
            tokenizer,
            ReadingSettings(layout=SHORT.layout, normalisation="none"),
            "normalisation: the probe",
        ),
    ]
    for tiny_model, tok, settings, says in refused_cases:
        with pytest.raises(ProbeMismatch, match=says):
            ProbeScorer(tiny_model, line_probe, tokenizer=tok, settings=settings).score(
                "q", ["t"]
            )


def test_a_model_changed_under_the_same_name_is_refused(tiny, tokenizer):
    tiny_model = tiny("llama")
    text_scorer = scorer_of(tiny_model, tokenizer)
    with torch.no_grad():
        tiny_model.layers[5].mlp.up_proj.weight.mul_(
            2
        )  # above the probe's layer: nothing it reads has changed
    text_scorer.score("q", ["t"])
    with torch.no_grad():
        tiny_model.layers[1].mlp.up_proj.weight.mul_(1.01)
    with pytest.raises(
        ProbeMismatch, match="other values in the layers the probe reads"
    ):
        ProbeScorer(
            tiny_model, text_scorer.probe, tokenizer=tokenizer, settings=SHORT
        ).score("q", ["t"])


def test_built_in_layouts_are_taken_from_the_probe(tiny, tokenizer):
    bert = tiny("bert")  # an encoder, whose own layout is another
    reader = HiddenReader(
        bert, tokenizer=tokenizer, settings=ReadingSettings(layout=SCQ, pooling="last")
    )
    text_scorer = ProbeScorer(bert, probe_for(reader), tokenizer=tokenizer)
    assert np.isfinite(text_scorer.score("q", ["t"])).all()


def test_first_layers_alone_score_as_the_whole_model_by_name_path_or_object(
    tiny, tokenizer, tmp_path
):
    tiny_model = tiny("qwen3", "AutoModelForCausalLM")
    tiny_model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole_scorer = scorer_of(tiny_model, tokenizer)
    reference = whole_scorer.score("who?", TEXTS)
    for source in (tmp_path, str(tmp_path)):
        text_scorer = ProbeScorer(
            source, whole_scorer.probe, settings=SHORT, load=LoadOptions(device="cpu")
        )
        assert np.abs(text_scorer.score("who?", TEXTS) - reference).max() < 1e-5
        assert text_scorer.reader.layers == 3
        assert text_scorer.reader.backbone.block_count == 6


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
    tiny_model = tiny(family)
    tiny_model.save_pretrained(tmp_path)
    part = load_model(tmp_path, layers=3, load=LoadOptions(device="cpu"))
    states_are_those_of_the_whole(tiny_model, part, 3)
    part.save_pretrained(
        tmp_path / "again"
    )  # a per-layer list left whole would stop this


def states_are_those_of_the_whole(tiny_model, part, layer_index):
    ids = torch.randint(4, 300, (1, 20), generator=torch.Generator().manual_seed(0))
    layer_states = []
    for loaded in (tiny_model, part):
        partial_forward = get_partial_forward(loaded)
        partial_forward.check_layer(layer_index)
        layer_states.append(
            partial_forward.read_layers(
                partial_forward._inputs(ids),
                [layer_index],
                lambda hidden_values: hidden_values,
            )[layer_index]
        )
    assert get_partial_forward(part).block_count == layer_index
    assert float((layer_states[0] - layer_states[1]).abs().max()) < 1e-6


def test_a_composite_model_is_cut_in_its_text_part(tmp_path):
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    input_text = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 320, "sliding_window": 16,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 6, "num_attention_heads": 2,
        "image_size": 28, "patch_size": 14,
    }  # fmt: skip
    tiny_model = Gemma3ForConditionalGeneration(
        Gemma3Config(
            text_config=input_text,
            vision_config=vision,
            mm_tokens_per_image=1,
            image_token_index=3,
        )
    ).eval()
    tiny_model.save_pretrained(tmp_path)
    states_are_those_of_the_whole(
        tiny_model, load_model(tmp_path, layers=2, load=LoadOptions(device="cpu")), 2
    )


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
    bare = byte_tokenizer(pad=False)
    actual = states_of(HiddenReader(llama, tokenizer=bare), "q", TEXTS, [3])[3]
    assert (
        np.abs(
            actual
            - states_of(HiddenReader(llama, tokenizer=tokenizer), "q", TEXTS, [3])[3]
        ).max()
        < 1e-5
    )


def test_nothing_is_loaded_before_the_first_use_and_no_texts_cost_nothing(
    llama, tokenizer
):
    line_probe = scorer_of(llama, tokenizer).probe
    text_scorer = ProbeScorer("no/such/model", line_probe)
    assert text_scorer.score("q", []).shape == (0,)
    with pytest.raises(InputError, match="layers=\\[\\]"):
        HiddenReader(llama, tokenizer=tokenizer).read([("q", "t")], [])
    with pytest.raises(InputError, match="max_tokens=0"):
        HiddenReader(llama, settings=ReadingSettings(max_tokens=0))
