"""Export a probe and the layers below it as a standard ``*ForSequenceClassification`` checkpoint, for serving.

Such checkpoints apply a bias-free linear head to the final norm's output at the last token. So the probe has
to be fitted on normed states (the default for decoders); the norm's gain is written as one and the probe
becomes the head. The bias goes into the norm's bias if it has one. An RMS norm has none: then the file
has an extra ``score.bias``, which vLLM reads and transformers ignores, and ranking is the same either way;
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

_README = """# The first {layer} blocks of {name} with an Early Noise Dropping probe as their head

A standard sequence-classification checkpoint: one logit, read at the last token. Send prompts as token ids, made
as `end.json` says; `denoise_core.end.RemoteScorer` does both and checks the server first.

    vllm serve {folder} --runner pooling --enable-prefix-caching{options}

With transformers: `AutoModelForSequenceClassification.from_pretrained("{folder}", dtype="float32")`; it leaves out
the bias of {bias:.6g} (the tensor `score.bias`, if there is one), which shifts every score alike; vLLM reads it.
"""

# Options for classes that vLLM has under another name.
_VLLM_OPTIONS = {
    "Gemma3TextForSequenceClassification": (
        """ --convert classify --hf-overrides '{"architectures": ["Gemma3ForCausalLM"]}'"""
    )
}

# Query and passage of the prompts by which a server is checked.
_CHECK_PAIRS = (
    ("Who wrote it?", "It was written in 1911 by a clerk."),
    ("Why?", "Rain."),
    ("When did it end?", ""),
)


# Largest difference of logits by dtype, as a share of the logit or of the head's norm; .1 for others.
TOLERANCES = {"float32": 1e-3}


@dataclass(frozen=True, slots=True)
class ExportedProbe:
    """A checkpoint on disk.

    Attributes:
        folder: Its folder.
        missing_bias: What plain transformers leaves out of each logit; 0 if the head has it.
        pad_token_id: The padding token that was chosen.
    """

    folder: Path
    missing_bias: float
    pad_token_id: int


def export_probe(
    model: Any, probe: Probe, folder: str | Path, *, tokenizer: Any = None
) -> ExportedProbe:
    """Write the checkpoint, its tokenizer and ``end.json`` to ``folder``, after checking that scores are equal.

    Args:
        model: What `ProbeScorer` takes; it stays as it is.
        probe: A probe on this model.
        folder: The folder to write to.
        tokenizer: The model's tokenizer, for a model that is no name.

    Raises:
        ProbeMismatch: The probe belongs to another model.
        InputError: The checkpoint cannot have the probe's scores: a probe on raw states, on
            the embeddings or on pooled states, or a family without a
            sequence-classification class.
    """
    scorer = ProbeScorer(model, probe, tokenizer=tokenizer)
    reader = scorer.reader
    probe.check(reader.reading(probe.reading.layer))
    _check_reading(reader, probe)
    classifier = _build_classifier(reader, probe.reading.layer)
    missing_bias = _write_head(reader, classifier, probe)
    pad_token_id = _choose_pad_token(reader)
    classifier.config.pad_token_id = pad_token_id
    classifier.config.get_text_config().pad_token_id = pad_token_id
    check_prompts = _make_check_prompts(reader, probe)
    _check_scores(reader, classifier, missing_bias, check_prompts)
    exported_probe = ExportedProbe(Path(folder), missing_bias, pad_token_id)
    _write_checkpoint(reader, classifier, exported_probe)
    _write_manifest(reader, probe, exported_probe, check_prompts)
    _write_readme(reader, probe, classifier, exported_probe)
    return exported_probe


def _check_reading(reader: HiddenReader, probe: Probe) -> None:
    """Refuse a probe whose score a classification checkpoint cannot compute."""
    reading = probe.reading
    norm_kind = reader.backbone.partial_forward.unit_norm.kind
    has_norm = reading.normalisation != "none" and reading.normalisation == norm_kind
    if reading.pooling != "last" or not has_norm:
        raise InputError(
            f"only a probe on the last token's states normed as the model norms ({norm_kind!r}) can be exported, "
            f"this one reads {reading.pooling!r} states with normalisation {reading.normalisation!r}: fit it with "
            "ReadingSettings(pooling='last')"
        )
    if reading.layer == 0:
        raise InputError("a probe on the embeddings (layer 0) has no block to export")


def _build_classifier(reader: HiddenReader, layer: int) -> Any:
    """The classification model of the first ``layer`` blocks, in memory, with the reader's weights."""
    from transformers import AutoModelForSequenceClassification

    partial_forward = reader.backbone.partial_forward
    config = copy.deepcopy(partial_forward.config)
    truncate_config(config, layer)
    config.num_labels = 1
    # Nothing is generated, and hybrid models cut before their first attention fail with a cache.
    config.use_cache = False
    # Engines then return the logit as it is.
    config.problem_type = "regression"
    dtype = getattr(torch, partial_forward.dtype)
    try:
        classifier = AutoModelForSequenceClassification.from_config(config, dtype=dtype)
    except ValueError as error:
        raise InputError(
            f"{config.model_type!r} has no sequence-classification class in transformers"
        ) from error
    classifier = classifier.eval().to(partial_forward.device)
    _, decoder, _ = find_blocks(classifier)
    _copy_weights(partial_forward.decoder, decoder, f"{config.model_type!r}", layer)
    return classifier


def _copy_weights(
    source: nn.Module, decoder: nn.Module, model_type: str, layer: int
) -> None:
    source_state = source.state_dict()
    copied_state = {}
    for name in decoder.state_dict():
        if name in source_state:
            copied_state[name] = source_state[name]
    absent_names = sorted(set(dict(decoder.named_parameters())) - set(copied_state))
    if absent_names:
        raise InputError(
            f"the classification model needs weights this model does not have: {absent_names[:3]}"
        )
    try:
        decoder.load_state_dict(copied_state, strict=False)
    except RuntimeError as error:
        raise InputError(
            f"{model_type} cannot be cut to layer {layer}: {error}"
        ) from error


@torch.no_grad()
def _write_head(reader: HiddenReader, classifier: Any, probe: Probe) -> float:
    """Make the probe the classifier's head. Returns the bias that the model cannot have, or 0."""
    partial_forward = reader.backbone.partial_forward
    exported_forward = get_partial_forward(classifier)
    exported_forward.check_readable()
    norm = exported_forward.final_norm
    if norm is None:
        raise InputError(
            "this model has no final norm in front of its head, so the probe's states cannot be made"
        )
    _set_gain_to_one(norm, partial_forward.unit_norm.kind)
    head = _find_head(classifier, partial_forward.hidden_size)
    weight = torch.tensor(np.array(probe.weight))
    # It stays float32: in bfloat16 the ranking would change.
    head.weight.data = weight[None].to(partial_forward.device)
    norm_bias = getattr(norm, "bias", None)
    if not isinstance(norm_bias, torch.Tensor):
        return probe.bias
    shift = probe.bias * weight / (weight @ weight)
    norm_bias.copy_(shift.to(norm_bias))
    return 0.0


def _set_gain_to_one(norm: nn.Module, norm_kind: str) -> None:
    """Store a gain of one: as 1, or as 0 in families that add one; found by trying."""
    weight = norm.weight
    assert isinstance(weight, torch.Tensor)
    sample = torch.linspace(
        -1, 2, weight.numel(), device=weight.device, dtype=weight.dtype
    )[None]
    expected_states = sample.float()
    if norm_kind == "layer":
        expected_states = expected_states - expected_states.mean()
    expected_states = expected_states / expected_states.square().mean().sqrt()
    norm_bias = getattr(norm, "bias", None)
    if isinstance(norm_bias, torch.Tensor):
        norm_bias.zero_()
    for stored_gain in (1.0, 0.0):
        weight.fill_(stored_gain)
        if torch.allclose(norm(sample).float(), expected_states, rtol=2e-2, atol=2e-2):
            return
    raise InputError("the gain of this model's final norm cannot be set to one")


def _find_head(classifier: nn.Module, width: int) -> nn.Linear:
    decoder = get_partial_forward(classifier).decoder
    decoder_modules = {id(module) for module in decoder.modules()}
    for module in classifier.modules():
        if not isinstance(module, nn.Linear) or id(module) in decoder_modules:
            continue
        if module.weight.shape == (1, width):
            return module
    raise InputError(
        f"{type(classifier).__name__} has no linear head of width {width} on its states"
    )


def _choose_pad_token(reader: HiddenReader) -> int:
    """A padding id no prompt ends with: the head reads the last token that is not padding."""
    tokenizer = reader.backbone.tokenizer
    last_part = reader.layout.parts[-1]
    last_token = None if isinstance(last_part, Slot) else last_part[-1]
    candidates = [tokenizer.pad_token_id, tokenizer.unk_token_id]
    candidates += sorted(set(tokenizer.all_special_ids))
    for token_id in candidates:
        if token_id is not None and token_id != last_token:
            return int(token_id)
    raise InputError(
        "the tokenizer has no special token that could be padding; add one: tokenizer.pad_token = ..."
    )


def _make_check_prompts(reader: HiddenReader, probe: Probe) -> list[dict[str, Any]]:
    """Prompts with the logits they must have, by which a server of the checkpoint is checked."""
    layer = probe.reading.layer
    prompts, _ = reader.prompts(_CHECK_PAIRS)
    logits = probe.score(reader.read(_CHECK_PAIRS, [layer]).by_layer[layer])
    check_prompts = []
    for prompt, logit in zip(prompts, logits, strict=True):
        check_prompts.append({"ids": list(prompt.ids), "logit": float(logit)})
    return check_prompts


def _check_scores(
    reader: HiddenReader,
    classifier: nn.Module,
    missing_bias: float,
    check_prompts: list[dict[str, Any]],
) -> None:
    """Compare the classifier's logits with the probe's, with the head rounded to the model's dtype."""
    partial_forward = reader.backbone.partial_forward
    tolerance = TOLERANCES.get(partial_forward.dtype, 0.1)
    head = _find_head(classifier, partial_forward.hidden_size)
    exact_weight = head.weight.data
    weight_norm = float(exact_weight.norm())
    head.weight.data = exact_weight.to(getattr(torch, partial_forward.dtype))
    logits = []
    for check_prompt in check_prompts:
        logits.append(_prompt_logit(reader, classifier, check_prompt) + missing_bias)
    head.weight.data = exact_weight
    for check_prompt, logit in zip(check_prompts, logits, strict=True):
        expected_logit = check_prompt["logit"]
        scale = max(1.0, abs(expected_logit), weight_norm)
        if abs(logit - expected_logit) > tolerance * scale:
            raise InputError(
                f"the exported model scores {logit:.4f} where the probe scores {expected_logit:.4f}, so this "
                "family cannot be exported"
            )


@torch.inference_mode()
def _prompt_logit(
    reader: HiddenReader, classifier: nn.Module, check_prompt: dict[str, Any]
) -> float:
    prompt = TokenPrompt(tuple(check_prompt["ids"]), (0, 0), (0, 0), 0)
    inputs = model_inputs(reader.backbone.partial_forward, [prompt], 0)
    inputs.pop("use_cache", None)
    return float(classifier(**inputs).logits[0, 0])


def _write_checkpoint(
    reader: HiddenReader, classifier: Any, exported_probe: ExportedProbe
) -> None:
    state = classifier.state_dict()
    if exported_probe.missing_bias:
        state["score.bias"] = torch.tensor([exported_probe.missing_bias])
    classifier.save_pretrained(str(exported_probe.folder), state_dict=state)
    tokenizer = copy.deepcopy(reader.backbone.tokenizer)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(exported_probe.pad_token_id)
    tokenizer.save_pretrained(str(exported_probe.folder))


def _write_manifest(
    reader: HiddenReader,
    probe: Probe,
    exported_probe: ExportedProbe,
    check_prompts: list[dict[str, Any]],
) -> None:
    layout_parts: list[Any] = []
    for part in reader.layout.parts:
        if isinstance(part, Slot):
            layout_parts.append(part.value)
        else:
            layout_parts.append(list(part))
    manifest = {
        "format": "rag-denoise exported probe",
        "version": 1,
        "reading": probe.reading.to_dict(),
        "bias": exported_probe.missing_bias,
        "window": reader.backbone.partial_forward.max_positions,
        "layout": {"name": reader.layout.name, "parts": layout_parts},
        "canaries": check_prompts,
    }
    manifest_text = json.dumps(manifest, indent=1) + "\n"
    (exported_probe.folder / MANIFEST).write_text(manifest_text, encoding="utf-8")


def _write_readme(
    reader: HiddenReader, probe: Probe, classifier: Any, exported_probe: ExportedProbe
) -> None:
    vllm_options = ""
    for class_name in classifier.config.architectures or ():
        vllm_options += _VLLM_OPTIONS.get(class_name, "")
    readme_text = _README.format(
        name=reader.backbone.name,
        layer=probe.reading.layer,
        bias=exported_probe.missing_bias,
        folder=exported_probe.folder.name,
        options=vllm_options,
    )
    readme_path = exported_probe.folder / "README.md"
    readme_path.write_text(readme_text, encoding="utf-8", errors="replace")
