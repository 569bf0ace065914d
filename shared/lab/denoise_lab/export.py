"""First L layers and probe as one standard ``*ForSequenceClassification`` checkpoint, for serving engines.

Such checkpoints apply a bias-free linear head to the final norm's output at the last token. So the probe has
to be fitted on normed states (the default for decoders); the norm's gain is written as one and the probe
becomes the head. The bias goes into the norm's bias where it has one. An RMS norm has none: then the file
holds an extra ``score.bias``, which vLLM reads and transformers ignores, and ranking is the same either way;
`denoise_core.end.remote` finds out which and adds what is missing.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader
from denoise_core.end.remote import MANIFEST
from denoise_core.end.scorer import ProbeScorer
from denoise_core.errors import InputError
from denoise_core.local.blocks import find_blocks
from denoise_core.local.layout import Slot, TokenPrompt
from denoise_core.local.loading import truncate_config
from denoise_core.local.partial_forward import get_partial_forward, model_inputs

_RECIPE = """# The first {layer} blocks of {name} with an Early Noise Dropping probe as their head

A standard sequence-classification checkpoint: one logit, read at the last token. Send prompts as token ids, made
as `end.json` says; `denoise_core.end.RemoteScorer` does both and checks the server first.

    vllm serve {folder} --runner pooling --enable-prefix-caching{more}

With transformers: `AutoModelForSequenceClassification.from_pretrained("{folder}", dtype="float32")`; it leaves out
the bias of {bias:.6g} (the tensor `score.bias`, if there is one), which shifts every score alike; vLLM reads it.
"""

# Classes that vLLM knows by another name.
_MORE = {
    "Gemma3TextForSequenceClassification": (
        """ --convert classify --hf-overrides '{"architectures": ["Gemma3ForCausalLM"]}'"""
    )
}


@dataclass(frozen=True, slots=True)
class Exported:
    """``missing_bias`` is what plain transformers leaves out of each logit; 0 when the file holds it."""

    folder: Path
    missing_bias: float
    pad_token_id: int


def export(
    model: Any, probe: Probe, folder: str | Path, *, tokenizer: Any = None
) -> Exported:
    """Write the checkpoint, its tokenizer and ``end.json`` to ``folder``, after checking equal scores.

    ``model`` is what `ProbeScorer` takes; the reader's model stays as it is. Raises `ProbeMismatch` for
    another model's probe, and `InputError` where the score cannot be expressed: a probe on raw states, on
    the embeddings or on an encoder's pooled states, or a family without a sequence-classification class.
    """
    scorer = ProbeScorer(model, probe, tokenizer=tokenizer)
    reader = scorer.reader
    probe.check(reader.reading(probe.reading.layer))
    kind = reader.backbone.partial_forward.unit_norm.kind
    pooling, normed = probe.reading.pooling, probe.reading.normalisation
    if pooling != "last" or normed == "none" or normed != kind:
        raise InputError(
            f"only a probe on the last token's states normed as the model norms ({kind!r}) can be exported, this "
            f"one reads {pooling!r} states with normalisation {normed!r}: fit it with "
            "ReadingSettings(pooling='last', normalisation=None)"
        )
    if probe.reading.layer == 0:
        raise InputError("a probe on the embeddings (layer 0) has no block to export")
    classifier, missing = _classifier(reader, probe)
    pad = _pad_id(reader)
    classifier.config.pad_token_id = pad
    classifier.config.get_text_config().pad_token_id = pad
    canaries = _canaries(reader, probe)
    _check(reader, classifier, missing, canaries)
    return _write(reader, probe, classifier, missing, canaries, Path(folder))


def _classifier(reader: HiddenReader, probe: Probe) -> tuple[Any, float]:
    """The classification model in memory, and the bias it cannot hold."""
    from transformers import AutoModelForSequenceClassification

    early = reader.backbone.partial_forward
    config = copy.deepcopy(early.config)
    truncate_config(config, probe.reading.layer)
    config.num_labels = 1
    config.use_cache = False  # there is nothing to generate, and hybrids cut before their first attention fail
    config.problem_type = "regression"  # engines then hand out the logit as it is
    dtype = getattr(torch, early.dtype)
    try:
        model = (
            AutoModelForSequenceClassification.from_config(config, dtype=dtype)
            .eval()
            .to(early.device)
        )
    except ValueError as error:
        raise InputError(
            f"{config.model_type!r} has no sequence-classification class in transformers"
        ) from error
    _, decoder, _ = find_blocks(model)
    source = early.decoder.state_dict()
    kept = {name: source[name] for name in decoder.state_dict() if name in source}
    absent = sorted(set(dict(decoder.named_parameters())) - set(kept))
    if absent:
        raise InputError(
            f"the classification model needs weights this model does not have: {absent[:3]}"
        )
    try:
        decoder.load_state_dict(kept, strict=False)
    except RuntimeError as error:
        raise InputError(
            f"{config.model_type!r} cannot be cut to layer {probe.reading.layer}: {error}"
        ) from error
    made = get_partial_forward(model)
    made.check_readable()
    norm = made.final_norm
    if norm is None:
        raise InputError(
            "this model has no final norm in front of its head, so the probe's states cannot be made"
        )
    weight, bias = torch.tensor(np.array(probe.weight)), probe.bias
    head = _head(model, early.hidden_size)
    with torch.no_grad():
        _unit(norm, early.unit_norm.kind)
        head.weight.data = weight[None].to(
            early.device
        )  # stays float32: in bfloat16 it would lose the ranking
        shift = getattr(norm, "bias", None)
        if isinstance(shift, torch.Tensor):
            shift.copy_((bias * weight / (weight @ weight)).to(shift))
            bias = 0.0
    return model, bias


def _unit(norm: nn.Module, kind: str) -> None:
    """Gain one: stored as 1, or as 0 by families that add one; found by trying."""
    weight = norm.weight
    assert isinstance(weight, torch.Tensor)
    x = torch.linspace(-1, 2, weight.numel(), device=weight.device, dtype=weight.dtype)[
        None
    ]
    wanted = x.float() - (x.float().mean() if kind == "layer" else 0.0)
    wanted = wanted / wanted.square().mean().sqrt()
    shift = getattr(norm, "bias", None)
    if isinstance(shift, torch.Tensor):
        shift.zero_()
    for stored in (1.0, 0.0):
        weight.fill_(stored)
        if torch.allclose(norm(x).float(), wanted, rtol=2e-2, atol=2e-2):
            return
    raise InputError("the gain of this model's final norm cannot be set to one")


def _head(model: nn.Module, width: int) -> nn.Linear:
    inside = {id(m) for m in get_partial_forward(model).decoder.modules()}
    for module in model.modules():
        if (
            isinstance(module, nn.Linear)
            and id(module) not in inside
            and module.weight.shape == (1, width)
        ):
            return module
    raise InputError(
        f"{type(model).__name__} has no linear head of width {width} on its states"
    )


def _pad_id(reader: HiddenReader) -> int:
    """A padding id no prompt ends with: the head reads the last token that is not padding."""
    tokenizer = reader.backbone.tokenizer
    last = reader.layout.parts[-1]
    ending = None if isinstance(last, Slot) else last[-1]
    for found in (
        tokenizer.pad_token_id,
        tokenizer.unk_token_id,
        *sorted(set(tokenizer.all_special_ids)),
    ):
        if found is not None and found != ending:
            return int(found)
    raise InputError(
        "the tokenizer has no special token that could be padding; add one: tokenizer.pad_token = ..."
    )


def _canaries(reader: HiddenReader, probe: Probe) -> list[dict[str, Any]]:
    """Prompts with the scores they must have, to check a server of the checkpoint with."""
    pairs = [
        ("Who wrote it?", "It was written in 1911 by a clerk."),
        ("Why?", "Rain."),
        ("When did it end?", ""),
    ]
    prompts, _ = reader.prompts(pairs)
    logits = probe.score(
        reader.read(pairs, [probe.reading.layer]).by_layer[probe.reading.layer]
    )
    return [
        {"ids": list(p.ids), "logit": float(x)}
        for p, x in zip(prompts, logits, strict=True)
    ]


@torch.inference_mode()
def _check(
    reader: HiddenReader,
    classifier: nn.Module,
    missing: float,
    canaries: list[dict[str, Any]],
) -> None:
    early = reader.backbone.partial_forward
    head = _head(classifier, early.hidden_size)
    exact = head.weight.data
    for canary in canaries:
        ids = tuple(canary["ids"])
        inputs = model_inputs(early, [TokenPrompt(ids, (0, 0), (0, 0), 0)], 0)
        inputs.pop("use_cache", None)
        head.weight.data = exact.to(getattr(torch, early.dtype))
        found = float(classifier(**inputs).logits[0, 0]) + missing
        head.weight.data = exact
        room = 0.1
        if early.dtype == "float32":
            room = 1e-3
        if abs(found - canary["logit"]) > room * max(
            1.0, abs(canary["logit"]), float(exact.norm())
        ):
            raise InputError(
                f"the exported model scores {found:.4f} where the probe scores {canary['logit']:.4f}, so this "
                "family cannot be exported"
            )


def _write(
    reader: HiddenReader,
    probe: Probe,
    classifier: Any,
    missing: float,
    canaries: list[dict[str, Any]],
    folder: Path,
) -> Exported:
    backbone = reader.backbone
    pad = int(classifier.config.pad_token_id)
    state = classifier.state_dict()
    if missing:
        state["score.bias"] = torch.tensor([missing])
    classifier.save_pretrained(str(folder), state_dict=state)
    tokenizer = copy.deepcopy(backbone.tokenizer)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad)
    tokenizer.save_pretrained(str(folder))
    manifest = {
        "format": "rag-denoise exported probe",
        "version": 1,
        "reading": probe.reading.to_dict(),
        "bias": missing,
        "window": backbone.partial_forward.max_positions,
        "layout": {
            "name": reader.layout.name,
            "parts": [
                p.value if isinstance(p, Slot) else list(p) for p in reader.layout.parts
            ],
        },
        "canaries": canaries,
    }
    (folder / MANIFEST).write_text(
        json.dumps(manifest, indent=1) + "\n", encoding="utf-8"
    )
    more = "".join(
        _MORE.get(name, "") for name in classifier.config.architectures or ()
    )
    layer, name = probe.reading.layer, backbone.name
    recipe = _RECIPE.format(
        name=name, layer=layer, bias=missing, folder=folder.name, more=more
    )
    (folder / "README.md").write_text(recipe, encoding="utf-8", errors="replace")
    return Exported(folder, missing, pad)
