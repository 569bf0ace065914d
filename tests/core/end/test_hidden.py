"""The first L blocks of every family: exact, counted, and independent of padding and neighbours."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest
import torch
from torch import nn

from denoise_core import InputError
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    get_partial_forward,
    model_inputs,
    pooling_function,
)

IDS = torch.randint(3, 300, (2, 21), generator=torch.Generator().manual_seed(1))


def prompt(length: int, seed: int = 0) -> TokenPrompt:
    token_ids = torch.randint(
        3, 300, (length,), generator=torch.Generator().manual_seed(seed + length)
    )
    return TokenPrompt(
        tuple(token_ids.tolist()), (2, length - 3), (length - 3, length), length
    )


def count_blocks(blocks):
    seen = []
    handles = [
        body_item.register_forward_hook(lambda *_, number=number: seen.append(number))
        for number, body_item in enumerate(blocks)
    ]
    return seen, handles


def exact(tiny_model, layers=(0, 1, 3, 5)):
    """The hook equals ``output_hidden_states`` to the bit, and exactly L blocks ran."""
    partial_forward = checked(tiny_model)
    encoded_inputs = partial_forward._inputs(IDS)
    with torch.inference_mode():
        full_run = partial_forward.decoder(**encoded_inputs, output_hidden_states=True)
    for layer_index in layers:
        partial_forward.check_layer(layer_index)
        seen, handles = count_blocks(partial_forward.blocks)
        layer_state = partial_forward.read_layers(
            encoded_inputs, [layer_index], lambda hidden_values: hidden_values
        )[layer_index]
        for handle in handles:
            handle.remove()
        assert torch.equal(layer_state, full_run.hidden_states[layer_index]), (
            layer_index
        )
        assert seen == list(range(layer_index)), (
            f"layer {layer_index}: blocks {seen} ran"
        )
    return partial_forward


def checked(tiny_model):
    partial_forward = get_partial_forward(tiny_model)
    partial_forward.check_readable()
    return partial_forward


def alone_and_together(partial_forward, pooling, tolerance):
    prompts = [prompt(number) for number in (9, 40, 17, 33)]

    def states(some):
        return partial_forward.read_layers(
            model_inputs(partial_forward, some, pad=2),
            [3],
            pooling_function(pooling, some, is_causal=partial_forward.is_causal),
        )[3]

    batched_states = states(prompts)
    for i, single_prompt in enumerate(prompts):
        largest_error = float(
            (states([single_prompt])[0] - batched_states[i]).abs().max()
        )
        assert largest_error <= tolerance * max(
            1.0, float(batched_states[i].abs().max())
        ), largest_error


def test_decoders_are_read_exactly(decoder, tiny):
    partial_forward = exact(tiny(decoder))
    assert partial_forward.is_causal
    alone_and_together(partial_forward, "last", 2e-5)


def test_encoders_are_read_exactly(encoder, tiny):
    partial_forward = exact(tiny(encoder))
    assert not partial_forward.is_causal
    alone_and_together(partial_forward, "cls_mean_question", 1e-5)


def test_mamba_is_numbered_by_its_blocks(state_space, tiny):
    partial_forward = get_partial_forward(tiny(state_space))
    partial_forward.check_layer(3)
    encoded_inputs = partial_forward._inputs(IDS)
    with torch.inference_mode():
        shifted = partial_forward.decoder(
            **encoded_inputs, output_hidden_states=True
        ).hidden_states[2]
    assert torch.equal(
        partial_forward.read_layers(
            encoded_inputs, [3], lambda hidden_values: hidden_values
        )[3],
        shifted,
    )
    alone_and_together(partial_forward, "last", 1e-5)


@pytest.mark.parametrize(
    "family", ["llama", "gpt2", "opt", "bloom", "bert", "gemma4_text", "mpt"]
)
def test_the_last_layer_is_read_before_the_final_norm(family, tiny):
    partial_forward = get_partial_forward(tiny(family))
    partial_forward.check_layer(6)
    encoded_inputs = partial_forward._inputs(IDS)
    layer_state = partial_forward.read_layers(
        encoded_inputs, [6], lambda hidden_values: hidden_values
    )[6]
    with torch.inference_mode():
        normed = partial_forward.decoder(**encoded_inputs).last_hidden_state
        assert torch.equal(
            layer_state
            if partial_forward.final_norm is None
            else partial_forward.final_norm(layer_state),
            normed,
        )


def test_one_pass_gives_every_layer_asked_for(tiny):
    partial_forward = checked(tiny("llama"))
    encoded_inputs = partial_forward._inputs(IDS)
    batched_states = partial_forward.read_layers(
        encoded_inputs, range(7), lambda hidden_values: hidden_values[:, -1]
    )
    for layer_index in range(7):
        assert torch.equal(
            batched_states[layer_index],
            partial_forward.read_layers(
                encoded_inputs,
                [layer_index],
                lambda hidden_values: hidden_values[:, -1],
            )[layer_index],
        )


@pytest.mark.parametrize(
    ("family", "says"),
    [("gemma3n_text", "one vector of width 32"), ("albert", "6 blocks")],
)
def test_models_that_cannot_be_read_are_refused_with_the_reason(family, says, tiny):
    with pytest.raises(InputError, match=says):
        get_partial_forward(tiny(family)).check_layer(3)


def test_a_layer_outside_the_model_is_refused(tiny):
    partial_forward = get_partial_forward(tiny("llama"))
    for layer_index in (-1, 7):
        with pytest.raises(InputError, match="6 blocks, so 0 to 6"):
            partial_forward.check_layer(layer_index)


def test_a_forward_pass_that_goes_around_its_blocks_is_refused(tiny):
    tiny_model = tiny("llama")

    def fused(
        input_ids,
        attention_mask=None,
        position_ids=None,
        use_cache=False,
        output_hidden_states=False,
    ):
        hidden_values = tiny_model.embed_tokens(input_ids)
        for block in tiny_model.layers:  # calls the insides, as fused kernels do
            hidden_values = hidden_values + block.mlp.forward(hidden_values)
        return type(
            "Out",
            (),
            {"last_hidden_state": hidden_values, "hidden_states": (hidden_values,) * 7},
        )

    tiny_model.forward = fused
    with pytest.raises(InputError, match="went around its blocks"):
        get_partial_forward(tiny_model).check_layer(3)


def test_training_mode_is_refused_until_it_ends(tiny):
    tiny_model = tiny("llama").train()
    with pytest.raises(InputError, match=r"model\.eval"):
        get_partial_forward(tiny_model).check_layer(3)
    get_partial_forward(tiny_model.eval()).check_layer(3)
    with pytest.raises(InputError, match=r"model\.eval"):
        get_partial_forward(tiny_model.train()).check_layer(3)


def test_objects_that_are_no_transformer_are_refused():
    with pytest.raises(InputError, match="expected a Hugging Face model"):
        get_partial_forward(nn.Linear(2, 2))


def test_an_encoder_decoder_model_is_refused_and_its_encoder_read(tiny):
    from transformers import T5Config, T5Model

    config_sizes = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 6,
        "num_heads": 4,
        "vocab_size": 320,
    }
    tiny_model = T5Model(T5Config(**config_sizes)).eval()
    with pytest.raises(InputError, match="get_encoder"):
        get_partial_forward(tiny_model)
    exact(tiny_model.get_encoder())


def test_threads_mix_early_and_whole_passes(tiny):
    tiny_model = tiny("llama")
    partial_forward = checked(tiny_model)
    encoded_inputs = partial_forward._inputs(IDS)
    with torch.inference_mode():
        full_run = tiny_model(**encoded_inputs, output_hidden_states=True)
    wrong: list[str] = []

    def work(number: int) -> None:
        for i in range(15):
            if (i + number) % 2:
                layer_index = 1 + (i + number) % 5
                layer_state = partial_forward.read_layers(
                    encoded_inputs, [layer_index], lambda hidden_values: hidden_values
                )[layer_index]
                if not torch.allclose(
                    layer_state, full_run.hidden_states[layer_index], atol=1e-6
                ):
                    wrong.append(f"layer {layer_index}")
            else:
                with torch.inference_mode():
                    out = tiny_model(**encoded_inputs).last_hidden_state
                if not torch.allclose(out, full_run.last_hidden_state, atol=1e-6):
                    wrong.append("whole")

    worker_threads = [
        threading.Thread(target=work, args=(number,)) for number in range(4)
    ]
    for text in worker_threads:
        text.start()
    for text in worker_threads:
        text.join()
    assert wrong == []


def test_generating_after_an_early_pass_is_unchanged(tiny):
    tiny_model = tiny("llama", "AutoModelForCausalLM")
    reader_settings = {
        "max_new_tokens": 8,
        "do_sample": False,
        "attention_mask": torch.ones_like(IDS),
    }
    values_before = tiny_model.generate(IDS, **reader_settings)
    partial_forward = get_partial_forward(tiny_model)
    partial_forward.read_layers(
        partial_forward._inputs(IDS), [3], lambda hidden_values: hidden_values
    )
    assert torch.equal(tiny_model.generate(IDS, **reader_settings), values_before)


def test_readers_of_one_model_share_its_lock_and_let_it_go(tiny):
    tiny_model = tiny("llama", "AutoModelForCausalLM")
    assert get_partial_forward(tiny_model) is get_partial_forward(tiny_model.model)
    model_reference = weakref.ref(tiny_model)
    decoder = weakref.ref(tiny_model.model)
    del tiny_model
    gc.collect()
    assert model_reference() is None
    assert decoder() is None


def test_a_read_model_can_still_be_copied(tiny):
    tiny_model = tiny("llama")
    get_partial_forward(tiny_model).check_layer(3)
    model_copy = copy.deepcopy(tiny_model)
    encoded_inputs = get_partial_forward(model_copy)._inputs(IDS)
    assert torch.equal(
        get_partial_forward(model_copy).read_layers(
            encoded_inputs, [3], lambda hidden_values: hidden_values
        )[3],
        get_partial_forward(tiny_model).read_layers(
            encoded_inputs, [3], lambda hidden_values: hidden_values
        )[3],
    )


def test_global_randomness_is_left_alone(tiny):
    tiny_model = tiny("llama")
    torch.manual_seed(7)
    reference = torch.rand(3)
    torch.manual_seed(7)
    get_partial_forward(tiny_model).check_layer(3)
    assert torch.equal(torch.rand(3), reference)


def test_bfloat16_neighbours_move_a_state_only_within_its_rounding(tiny):
    partial_forward = checked(tiny("llama").to(torch.bfloat16))
    prompts = [prompt(number) for number in (9, 40, 17, 33)]
    batched_states = partial_forward.read_layers(
        model_inputs(partial_forward, prompts, 2),
        [3],
        pooling_function("last", prompts, is_causal=True),
    )[3]
    for i, single_prompt in enumerate(prompts):
        single_states = partial_forward.read_layers(
            model_inputs(partial_forward, [single_prompt], 2),
            [3],
            pooling_function("last", [single_prompt], is_causal=True),
        )[3][0]
        assert (
            float(torch.cosine_similarity(single_states, batched_states[i], dim=0))
            > 0.999
        )


@pytest.mark.filterwarnings(
    "ignore"
)  # torch says that this way to quantise is deprecated
def test_a_dynamically_quantised_model_is_refused_in_words(tiny):
    tiny_model = torch.ao.quantization.quantize_dynamic(
        tiny("llama"), {torch.nn.Linear}, dtype=torch.qint8
    )
    with pytest.raises(InputError, match="quantised dynamically"):
        get_partial_forward(tiny_model).check_readable()
