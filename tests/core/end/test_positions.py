"""Positions: rotary ones whose frequencies depend on the length of what is read."""

import numpy as np
import pytest
import torch
from readings import SHORT_SETTINGS, states_of

from denoise_core.end import HiddenReader
from denoise_core.local.batching import position_limit
from denoise_core.local.kv_cache.prefix_cache import PrefixCache

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
    def open_reader():
        return HiddenReader(
            model,
            tokenizer=byte_tokenizer(),
            settings=SHORT_SETTINGS,
            prefix=PrefixCache(bytes_kept),
        )

    assert position_limit(model.config) in (ORIGINAL, ORIGINAL - 1)
    texts = ["short one", "another", "third text", "x" * (2 * ORIGINAL)]
    alone = [states_of(open_reader(), "who?", [text], [2])[2][0] for text in texts]
    model(torch.full((1, 3 * ORIGINAL), 5))  # as its owner may use it in between
    reader = open_reader()
    for _ in range(2):  # the second time from what was kept
        states = reader.read([("who?", text) for text in texts], [2])
        *short_counts, long_count = np.bincount(states.text_index).tolist()
        assert short_counts == [1, 1, 1]
        assert long_count > 1, "the long one is read in parts"
        np.testing.assert_allclose(states.by_layer[2][: len(texts)], alone, atol=1e-4)
