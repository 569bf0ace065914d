"""Controls of a fit: what a probe reaches without the model's training, or without the question.

* random weights: the same architecture with random blocks, embeddings kept. What the probe still finds is in the
  words, not in what the model understood (Early Noise Dropping, section 3.3).
* no question: every passage is read under one and the same question. What the probe still finds is the style of
  relevant passages, so the data leaks.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from denoise_core._optional import require
from denoise_core.end.fit.probe import LayerFit, fit_layers
from denoise_core.end.fit.states import capture_states
from denoise_core.end.reader import HiddenReader
from denoise_core.question import Question

NO_QUESTION = "What is this about?"


def fit_without_question(
    reader: HiddenReader, questions: Sequence[Question], layer: int
) -> LayerFit:
    """Fit a probe at ``layer`` on passages that were all read under the same question."""
    states = capture_states(reader, remove_question(questions), layers=[layer])
    return fit_layers(states)[0]


def remove_question(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with the same text for all of them."""
    return [replace(question, text=NO_QUESTION) for question in questions]


def with_random_blocks(backbone: Any, seed: int = 0) -> Any:
    """Return a model of the same configuration with newly initialised blocks and everything else copied.

    The global random state is left as it was.
    """
    torch = require("torch", extra="end")
    model = backbone.model
    blocks = backbone.partial_forward.blocks
    block_parameters = {id(parameter) for parameter in blocks.parameters()}
    block_names = set()
    for name, parameter in model.named_parameters():
        if id(parameter) in block_parameters:
            block_names.add(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random_model = type(model)(copy.deepcopy(model.config))
    copied_state = {}
    for name, tensor in model.state_dict().items():
        if name not in block_names:
            copied_state[name] = tensor
    random_model.load_state_dict(copied_state, strict=False)
    sample = next(iter(blocks.parameters()))
    return random_model.to(device=sample.device, dtype=sample.dtype).eval()
