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


def probe_for(reader, layer=3, seed=0):
    width = reader.backbone.partial_forward.hidden_size * (
        1 if reader.pooling == "last" else 3
    )
    weight = np.random.default_rng(seed).normal(size=width)
    return Probe(weight.astype(np.float32), 0.25, reader.reading(layer))


def scorer_of(model, tokenizer, layer=3, **options):
    probe = probe_for(HiddenReader(model, tokenizer=tokenizer, settings=SHORT), layer)
    return ProbeScorer(model, probe, tokenizer=tokenizer, settings=SHORT, **options)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "qwen3_next"])
def test_a_decoders_scores_keep_the_scorer_laws(family, tiny, tokenizer):
    check_scorer(scorer_of(tiny(family), tokenizer), "who?", TEXTS)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_an_encoders_scores_keep_the_scorer_laws(family, tiny, byte_tokenizer):
    model, tokenizer = tiny(family), byte_tokenizer(pair=True)
    scorer = ProbeScorer(
        model, probe_for(HiddenReader(model, tokenizer=tokenizer)), tokenizer=tokenizer
    )
    check_scorer(scorer, "who?", TEXTS)


def test_an_encoders_state_is_first_token_mean_of_passage_mean_of_question(
    tiny, byte_tokenizer
):
    model, tokenizer = tiny("bert"), byte_tokenizer(pair=True)
    state = states_of(
        HiddenReader(model, tokenizer=tokenizer), "who?", ["he was"], [3]
    )[3][0]
    given = tokenizer("who?", "he was", return_tensors="pt")
    with torch.inference_mode():
        h = model(**given, output_hidden_states=True).hidden_states[3][0]
    wanted = torch.cat([h[0], h[6:12].mean(0), h[1:5].mean(0)])
    assert np.abs(state - wanted.numpy()).max() < 1e-5


def test_a_state_is_the_plain_one_normed(llama, tokenizer):
    reader = HiddenReader(llama, tokenizer=tokenizer, settings=SHORT)
    states = states_of(reader, "who?", TEXTS, [4])
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
    wanted = raw / torch.sqrt(raw.square().mean() + 1e-6)
    assert np.abs(states[4][2] - wanted.numpy()).max() < 1e-5


def test_a_text_longer_than_the_window_is_cut_and_scored_by_its_best_part(
    llama, tokenizer
):
    scorer = scorer_of(llama, tokenizer)
    long = "".join(chr(97 + i % 26) for i in range(1200))
    found = scorer.score_with_windows("who?", ["short", long])
    assert found.window_counts == (1, 3)
    assert found.split_positions == (1,)
    result = ENDDenoiser(scorer, keep=1).denoise(
        "who?", [Passage("short", "a"), Passage(long, "b")]
    )
    assert [s.passage_id for s in result.trace.events[0].effect.split_spans] == ["b"]
    parts = scorer.score("who?", [long[:400], long[400:800], long[800:]])
    assert found.scores[1] == pytest.approx(parts.max(), abs=1e-5)
    with pytest.raises(InputError, match="fill the model's window"):
        scorer.score("w" * 600, ["x"])


class Small(LlamaModel):
    """A machine with memory for two rows at a time."""

    rows = 2

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        use_cache=None,
        **given,
    ):
        if input_ids.shape[0] > self.rows:
            raise torch.OutOfMemoryError("CUDA out of memory (as a device says it)")
        return super().forward(
            input_ids, attention_mask, position_ids, use_cache=use_cache, **given
        )


@pytest.mark.parametrize(
    "keeping", [PrefixCache(1 << 24), PrefixCache(0)], ids=["keeping", "plain"]
)
def test_a_batch_that_does_not_fit_is_halved_and_none_is_lost(
    keeping, llama, tokenizer
):
    small = Small(llama.config).eval()
    small.load_state_dict(llama.state_dict())
    wanted = states_of(
        HiddenReader(llama, tokenizer=tokenizer, settings=SHORT), "who?", TEXTS, [3]
    )[3]
    reader = HiddenReader(small, tokenizer=tokenizer, settings=SHORT, prefix=keeping)
    for _ in range(2):  # the second time from kept prefixes
        assert np.abs(states_of(reader, "who?", TEXTS, [3])[3] - wanted).max() < 1e-5
    small.rows = 0
    with pytest.raises(InputError, match="single prompt does not fit into memory"):
        HiddenReader(
            small, tokenizer=tokenizer, settings=SHORT, prefix=PrefixCache(0)
        ).read([("q", "t")], [3])


def test_other_errors_of_the_model_come_through(tiny, tokenizer):
    model = tiny("llama")
    reader = HiddenReader(
        model, tokenizer=tokenizer, settings=SHORT, prefix=PrefixCache(0)
    )
    reader.reading(3)

    def broken(module, args):
        raise RuntimeError("a bug of the model")

    model.layers[1].register_forward_pre_hook(broken)
    with pytest.raises(RuntimeError, match="a bug of the model"):
        states_of(reader, "q", ["t"], [3])


def test_states_that_are_not_numbers_are_refused_with_what_to_do(tiny, tokenizer):
    model = tiny("llama")
    reader = HiddenReader(model, tokenizer=tokenizer, settings=SHORT)
    scorer = ProbeScorer(
        reader, Probe(np.ones(32, dtype=np.float32), 0.0, reader.reading(3))
    )
    with torch.no_grad():
        model.embed_tokens.weight[
            tokenizer("z", add_special_tokens=False)["input_ids"][0]
        ] = torch.nan
    with pytest.raises(
        InputError, match=r"rows \[1\] are not finite .* load it in bfloat16"
    ):
        scorer.score("q", ["alpha", "ozzy"])


def test_the_wrong_model_is_refused_with_every_difference(
    tiny, llama, tokenizer, byte_tokenizer
):
    probe = scorer_of(llama, tokenizer).probe
    cases = [
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
    for model, tok, settings, says in cases:
        with pytest.raises(ProbeMismatch, match=says):
            ProbeScorer(model, probe, tokenizer=tok, settings=settings).score(
                "q", ["t"]
            )


def test_a_model_changed_under_the_same_name_is_refused(tiny, tokenizer):
    model = tiny("llama")
    scorer = scorer_of(model, tokenizer)
    with torch.no_grad():
        model.layers[5].mlp.up_proj.weight.mul_(
            2
        )  # above the probe's layer: nothing it reads has changed
    scorer.score("q", ["t"])
    with torch.no_grad():
        model.layers[1].mlp.up_proj.weight.mul_(1.01)
    with pytest.raises(
        ProbeMismatch, match="other values in the layers the probe reads"
    ):
        ProbeScorer(model, scorer.probe, tokenizer=tokenizer, settings=SHORT).score(
            "q", ["t"]
        )


def test_built_in_layouts_are_taken_from_the_probe(tiny, tokenizer):
    bert = tiny("bert")  # an encoder, whose own layout is another
    reader = HiddenReader(
        bert, tokenizer=tokenizer, settings=ReadingSettings(layout=SCQ, pooling="last")
    )
    scorer = ProbeScorer(bert, probe_for(reader), tokenizer=tokenizer)
    assert np.isfinite(scorer.score("q", ["t"])).all()


def test_first_layers_alone_score_as_the_whole_model_by_name_path_or_object(
    tiny, tokenizer, tmp_path
):
    model = tiny("qwen3", "AutoModelForCausalLM")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole = scorer_of(model, tokenizer)
    wanted = whole.score("who?", TEXTS)
    for source in (tmp_path, str(tmp_path)):
        scorer = ProbeScorer(
            source, whole.probe, settings=SHORT, load=LoadOptions(device="cpu")
        )
        assert np.abs(scorer.score("who?", TEXTS) - wanted).max() < 1e-5
        assert scorer.reader.layers == 3
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
    model = tiny(family)
    model.save_pretrained(tmp_path)
    part = load_model(tmp_path, layers=3, load=LoadOptions(device="cpu"))
    states_are_those_of_the_whole(model, part, 3)
    part.save_pretrained(
        tmp_path / "again"
    )  # a per-layer list left whole would stop this


def states_are_those_of_the_whole(model, part, layer):
    ids = torch.randint(4, 300, (1, 20), generator=torch.Generator().manual_seed(0))
    states = []
    for loaded in (model, part):
        early = get_partial_forward(loaded)
        early.check_layer(layer)
        states.append(
            early.read_layers(early._inputs(ids), [layer], lambda h: h)[layer]
        )
    assert get_partial_forward(part).block_count == layer
    assert float((states[0] - states[1]).abs().max()) < 1e-6


def test_a_composite_model_is_cut_in_its_text_part(tmp_path):
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 320, "sliding_window": 16,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 6, "num_attention_heads": 2,
        "image_size": 28, "patch_size": 14,
    }  # fmt: skip
    model = Gemma3ForConditionalGeneration(
        Gemma3Config(
            text_config=text,
            vision_config=vision,
            mm_tokens_per_image=1,
            image_token_index=3,
        )
    ).eval()
    model.save_pretrained(tmp_path)
    states_are_those_of_the_whole(
        model, load_model(tmp_path, layers=2, load=LoadOptions(device="cpu")), 2
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
    found = states_of(HiddenReader(llama, tokenizer=bare), "q", TEXTS, [3])[3]
    assert (
        np.abs(
            found
            - states_of(HiddenReader(llama, tokenizer=tokenizer), "q", TEXTS, [3])[3]
        ).max()
        < 1e-5
    )


def test_nothing_is_loaded_before_the_first_use_and_no_texts_cost_nothing(
    llama, tokenizer
):
    probe = scorer_of(llama, tokenizer).probe
    scorer = ProbeScorer("no/such/model", probe)
    assert scorer.score("q", []).shape == (0,)
    with pytest.raises(InputError, match="layers=\\[\\]"):
        HiddenReader(llama, tokenizer=tokenizer).read([("q", "t")], [])
    with pytest.raises(InputError, match="max_tokens=0"):
        HiddenReader(llama, settings=ReadingSettings(max_tokens=0))
