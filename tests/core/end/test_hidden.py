"""The first L blocks of every family: exact, counted, and independent of padding and neighbours."""

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from tiny_models import sample_ids
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from denoise_core import InputError
from denoise_core.local.layout import TokenPrompt
from denoise_core.local.partial_forward import (
    get_partial_forward,
    model_inputs,
    pooling_function,
)


def inputs_of(partial_forward):
    """Inputs of rows that are equally long."""
    prompts = [TokenPrompt(sample_ids(21, seed)) for seed in (1, 2)]
    return model_inputs(partial_forward, prompts, pad=2)


def prompt(length):
    last = length - 3
    return TokenPrompt(sample_ids(length, length), (2, last), (last, length), length)


def read_layer(partial_forward, layer, inputs=None, pool=lambda states: states):
    if inputs is None:
        inputs = inputs_of(partial_forward)
    return partial_forward.read_layers(inputs, [layer], pool)[layer]


@contextmanager
def note_blocks(blocks):
    """The blocks that run in the meantime."""
    seen = []

    def note(block, args, output):
        seen.append(block)

    handles = [block.register_forward_hook(note) for block in blocks]
    yield seen
    for handle in handles:
        handle.remove()


def checked(tiny_model):
    partial_forward = get_partial_forward(tiny_model)
    partial_forward.check_readable()
    return partial_forward


def alone_and_together(partial_forward, tolerance, pooling="last"):
    def pooled(prompts):
        inputs = model_inputs(partial_forward, prompts, pad=2)
        pool = pooling_function(pooling, prompts)
        return read_layer(partial_forward, 3, inputs, pool)

    prompts = [prompt(length) for length in (9, 40, 17, 33)]
    together = pooled(prompts)
    for single_prompt, row in zip(prompts, together, strict=True):
        error = (pooled([single_prompt])[0] - row).abs().max()
        assert error <= tolerance * max(1.0, row.abs().max())


def run_whole(partial_forward):
    inputs = inputs_of(partial_forward)
    with torch.inference_mode():
        return partial_forward.decoder(**inputs, output_hidden_states=True)


def test_decoders_are_read_exactly(decoder_model):
    """The hook equals ``output_hidden_states`` to the bit, and exactly L blocks run."""
    partial_forward = checked(decoder_model)
    full_run = run_whole(partial_forward)
    for layer in (0, 1, 3, 5):
        partial_forward.check_layer(layer)
        with note_blocks(partial_forward.blocks) as seen:
            states = read_layer(partial_forward, layer)
        assert torch.equal(states, full_run.hidden_states[layer]), layer
        assert seen == list(partial_forward.blocks[:layer])
    alone_and_together(partial_forward, 2e-5, "last_mean_question")


def test_mamba_is_numbered_by_its_blocks(tiny):
    partial_forward = get_partial_forward(tiny("mamba2"))
    partial_forward.check_layer(3)
    states = run_whole(partial_forward).hidden_states[2]
    assert torch.equal(read_layer(partial_forward, 3), states)
    alone_and_together(partial_forward, 1e-5)


@pytest.mark.parametrize(
    "family", ["llama", "gpt2", "opt", "bloom", "gemma4_text", "mpt"]
)
def test_the_last_layer_is_read_before_the_final_norm(family, tiny):
    partial_forward = get_partial_forward(tiny(family))
    partial_forward.check_layer(6)
    states = read_layer(partial_forward, 6)
    if partial_forward.final_norm is not None:
        with torch.inference_mode():
            states = partial_forward.final_norm(states)
    assert torch.equal(states, run_whole(partial_forward).last_hidden_state)


@pytest.mark.parametrize(
    ("family", "says"),
    [
        ("gemma3n_text", "one vector of width 32"),
        ("albert", "6 blocks"),
        ("bert", "BertModel is an encoder.*default_denoiser"),
        ("distilbert", "is an encoder"),
        ("t5", "END reads models that are decoders alone"),
    ],
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

    def fused(input_ids, **settings):
        hidden_values = tiny_model.embed_tokens(input_ids)
        for block in tiny_model.layers:  # calls the insides, as fused kernels do
            hidden_values = hidden_values + block.mlp.forward(hidden_values)
        return BaseModelOutput(hidden_values, (hidden_values,) * 7)

    tiny_model.forward = fused
    with pytest.raises(InputError, match="went around its blocks"):
        get_partial_forward(tiny_model).check_layer(3)


def test_training_mode_is_refused_until_it_ends(tiny):
    tiny_model = tiny("llama")
    for _ in range(2):
        training = get_partial_forward(tiny_model.train())
        with pytest.raises(InputError, match=r"model\.eval"):
            training.check_layer(3)
        get_partial_forward(tiny_model.eval()).check_layer(3)


def test_objects_that_are_no_transformer_are_refused():
    with pytest.raises(InputError, match="expected a Hugging Face model"):
        get_partial_forward(nn.Linear(2, 2))


def test_threads_mix_early_and_whole_passes(tiny):
    tiny_model = tiny("llama")
    partial_forward = checked(tiny_model)
    inputs = inputs_of(partial_forward)
    full_run = run_whole(partial_forward)

    def work(number):
        for turn in range(number, number + 15):
            layer = turn % 6
            if turn % 2:
                states = read_layer(partial_forward, layer)
                expected = full_run.hidden_states[layer]
            else:
                with torch.inference_mode():
                    states = tiny_model(**inputs).last_hidden_state
                expected = full_run.last_hidden_state
            torch.testing.assert_close(states, expected, atol=1e-6, rtol=0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


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
    partial_forward = checked(tiny("llama"))
    copied = read_layer(get_partial_forward(copy.deepcopy(partial_forward.decoder)), 3)
    assert torch.equal(copied, read_layer(partial_forward, 3))


def test_global_randomness_is_left_alone(tiny):
    tiny_model = tiny("llama")
    torch.manual_seed(7)
    reference = torch.rand(3)
    torch.manual_seed(7)
    get_partial_forward(tiny_model).check_layer(3)
    assert torch.equal(torch.rand(3), reference)


@pytest.mark.filterwarnings(
    "ignore"
)  # torch says that this way to quantise is deprecated
def test_a_dynamically_quantised_model_is_refused_in_words(tiny):
    tiny_model = torch.ao.quantization.quantize_dynamic(
        tiny("llama"), {torch.nn.Linear}, dtype=torch.qint8
    )
    with pytest.raises(InputError, match="quantised dynamically"):
        get_partial_forward(tiny_model).check_readable()
