"""What a probe reaches without what it is supposed to use: the model's training, and the question.

* random weights: the same architecture with fresh blocks, embeddings kept. What the probe still finds there
  is in the words, not in what the model understood (Early Noise Dropping, section 3.3).
* no question: every passage read under one and the same question. What the probe still finds there tells
  relevant passages by their style, so the data leaks.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from denoise_core._optional import require
from denoise_core.end.fit.probe import LayerFit, fit_layers
from denoise_core.end.fit.states import capture_states
from denoise_core.end.reader import HiddenReader, ReadingSettings
from denoise_core.question import Question
from denoise_lab.layouts import LAYOUTS

NO_QUESTION = "What is this about?"


def controls(
    reader: HiddenReader, questions: Sequence[Question], layer: int
) -> dict[str, LayerFit]:
    """Both, by name."""
    return {
        "random weights": random_weights(reader, questions, layer),
        "no question": without_question(reader, questions, layer),
    }


def without_question(
    reader: HiddenReader, questions: Sequence[Question], layer: int
) -> LayerFit:
    """A probe fitted at ``layer`` on passages that were all read under the same question."""
    same = [replace(q, text=NO_QUESTION) for q in questions]
    return fit_layers(capture_states(reader, same, layers=[layer]))[0]


def random_weights(
    reader: HiddenReader, questions: Sequence[Question], layer: int, *, seed: int = 0
) -> LayerFit:
    """A probe fitted at ``layer`` of a model whose blocks know nothing."""
    backbone = reader.backbone
    settings = ReadingSettings(
        layout=reader.settings.layout or LAYOUTS[reader.layout.name],
        pooling=reader.pooling,
        normalisation=reader.norm.kind,
        max_tokens=reader.settings.max_tokens,
    )
    fresh = HiddenReader(
        with_fresh_blocks(backbone, seed),
        tokenizer=backbone.tokenizer,
        settings=settings,
    )
    return fit_layers(capture_states(fresh, questions, layers=[layer]))[0]


def with_fresh_blocks(backbone: Any, seed: int = 0) -> Any:
    """A model of the same configuration with newly initialised blocks and everything else copied.

    The global random state is left as it was.
    """
    torch = require("torch", extra="end")
    model = backbone.model
    blocks = {id(p) for p in backbone.partial_forward.blocks.parameters()}
    inside = {name for name, p in model.named_parameters() if id(p) in blocks}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(copy.deepcopy(model.config))
    kept = {
        name: value for name, value in model.state_dict().items() if name not in inside
    }
    fresh.load_state_dict(kept, strict=False)
    sample = next(iter(backbone.partial_forward.blocks.parameters()))
    return fresh.to(device=sample.device, dtype=sample.dtype).eval()
