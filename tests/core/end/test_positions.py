"""Positions: tables that begin behind a padding index, and rotary ones whose frequencies depend on the length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from readings import states_of

from denoise_core.end import PASSAGE, QUERY, HiddenReader, Layout, ReadingSettings
from denoise_core.local.batching import position_limit
from denoise_core.local.kv_cache.prefix_cache import PrefixCache

SHORT = Layout("short", ("\nQ: ", QUERY), system=("Read:", PASSAGE))
ORIGINAL = 48
ROPE = {
    "longrope": {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "factor": 4.0,
        "short_factor": [1.0] * 4,
        "long_factor": [4.0, 3.0, 2.0, 5.0],
        "original_max_position_embeddings": ORIGINAL,
    },
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0},
}


@pytest.fixture(params=sorted(ROPE))
def model(request, tiny):
    token_limit = ORIGINAL if request.param == "dynamic" else 4 * ORIGINAL
    return tiny(
        "llama",
        rope_parameters=ROPE[request.param],
        max_position_embeddings=token_limit,
    )


@pytest.mark.parametrize("bytes_kept", [0, 1 << 24])
def test_a_state_does_not_depend_on_longer_neighbours_or_passes_before(
    model, byte_tokenizer, bytes_kept
):
    def reader():
        settings = ReadingSettings(layout=SHORT)
        return HiddenReader(
            model,
            tokenizer=byte_tokenizer(),
            settings=settings,
            prefix=PrefixCache(bytes_kept),
        )

    assert position_limit(model) in (ORIGINAL, ORIGINAL - 1)
    input_texts = ["short one", "another", "third text", "x" * (2 * ORIGINAL)]
    single_states = {
        t: states_of(reader(), "who?", [t], [2])[2][0] for t in input_texts
    }
    model(
        input_ids=torch.full((1, 3 * ORIGINAL), 5)
    )  # as its owner may use it in between
    batched_states = reader()
    for _ in range(2):  # the second time from what was kept
        actual = batched_states.read([("who?", t) for t in input_texts], [2])
        first = np.searchsorted(actual.text_index, np.arange(len(input_texts)))
        assert np.bincount(actual.text_index).tolist()[:3] == [1, 1, 1]
        assert np.bincount(actual.text_index)[3] > 1, "the long one is read in parts"
        for input_text, layer_state in zip(
            input_texts, actual.by_layer[2][first], strict=True
        ):
            assert np.abs(layer_state - single_states[input_text]).max() < 1e-4


@pytest.mark.parametrize(
    ("family", "lost"), [("bert", 0), ("roberta", 2), ("xlm-roberta", 2), ("mpnet", 2)]
)
def test_positions_behind_a_padding_index_are_not_counted(tiny, family, lost):
    position_model = tiny(
        family, "AutoModel", max_position_embeddings=40, pad_token_id=1
    )
    room = position_limit(position_model)
    assert room == 40 - lost
    position_model(
        input_ids=torch.full((1, room), 5),
        attention_mask=torch.ones(1, room, dtype=torch.long),
    )
    with pytest.raises((IndexError, RuntimeError)):
        position_model(
            input_ids=torch.full((1, room + 1), 5),
            attention_mask=torch.ones(1, room + 1, dtype=torch.long),
        )
