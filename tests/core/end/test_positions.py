"""Positions: tables that begin behind a padding index, and rotary ones that depend on the length."""

from __future__ import annotations

import numpy as np
import pytest
from readings import states_of

from denoise_core.end import PASSAGE, QUERY, HiddenReader, Layout, ReadingSettings
from denoise_core.local.batching import batches, positions_of, regime_of
from denoise_core.local.keeping.prefix import PrefixCache

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
    limit = ORIGINAL if request.param == "dynamic" else 4 * ORIGINAL
    made = tiny("llama", rope_parameters=ROPE[request.param], max_position_embeddings=limit)
    if regime_of(made.config, 10 * ORIGINAL) == 0:
        pytest.skip("this release of transformers takes the settings under another name")
    made.config.max_position_embeddings = 4 * ORIGINAL  # the window; the rotary module keeps the original
    return made


@pytest.mark.parametrize("bytes_kept", [0, 1 << 24])
def test_a_state_does_not_depend_on_longer_neighbours(model, byte_tokenizer, bytes_kept):
    def reader():
        settings = ReadingSettings(layout=SHORT)
        return HiddenReader(model, tokenizer=byte_tokenizer(), settings=settings, prefix=PrefixCache(bytes_kept))

    texts = ["short one", "another", "third text", "x" * (2 * ORIGINAL), "y" * (2 * ORIGINAL + 9)]
    alone = {t: states_of(reader(), "who?", [t], [2])[2][0] for t in texts}
    together = reader()
    for _ in range(2):  # the second time from what was kept
        for some in (texts, texts[::-1], texts[:3], texts[3:]):
            for text, state in zip(some, states_of(together, "who?", some, [2])[2], strict=True):
                cosine = float(state @ alone[text] / np.linalg.norm(state) / np.linalg.norm(alone[text]))
                assert cosine > 0.9999, (text[:5], cosine)


def test_groups_never_share_a_batch():
    assert batches([5, 1, 4, 2], 100, groups=[1, 0, 1, 0]) == [[1, 3], [2, 0]]


@pytest.mark.parametrize(("family", "lost"), [("bert", 0), ("roberta", 2), ("xlm-roberta", 2), ("mpnet", 2)])
def test_positions_behind_a_padding_index_are_not_counted(tiny, family, lost):
    import torch

    made = tiny(family, "AutoModel", max_position_embeddings=40, pad_token_id=1)
    room = positions_of(made)
    assert room == 40 - lost
    made(input_ids=torch.full((1, room), 5), attention_mask=torch.ones(1, room, dtype=torch.long))
    with pytest.raises((IndexError, RuntimeError)):
        made(input_ids=torch.full((1, room + 1), 5), attention_mask=torch.ones(1, room + 1, dtype=torch.long))
