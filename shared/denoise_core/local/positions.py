"""How many positions a model has, and rotary ones whose frequencies depend on the length of what is read.

A model with LongRoPE or dynamic NTK reads the same token with other frequencies once the longest row of a
batch passes the original length. So rows of both sides never stand in one batch, and keys and values kept from
one side never serve the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def regime_of(config: Any, length: int) -> int:
    """0 for a length that is read with the model's own frequencies; rows share a batch within one regime only.

    LongRoPE has one other regime; with dynamic NTK every length beyond the original is one of its own.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    found = 0
    for rope in _ropes(text):
        kind = str(rope.get("rope_type") or rope.get("type") or "")
        if kind != "longrope" and "dynamic" not in kind:
            continue
        original = (
            rope.get("original_max_position_embeddings")
            or getattr(text, "original_max_position_embeddings", None)
            or getattr(text, "max_position_embeddings", None)
        )
        if original is not None and length > int(original):
            found = max(found, 1 if kind == "longrope" else length)
    return found


def forget_length(decoder: Any) -> None:
    """Have dynamic NTK compute its frequencies anew: it keeps those of the longest row it has met."""
    ropes = _ropes(decoder.config) if hasattr(decoder, "config") else []
    if not any("dynamic" in str(rope.get("rope_type") or rope.get("type")) for rope in ropes):
        return
    for module in decoder.modules():
        original = getattr(module, "original_max_seq_len", None)
        cached = getattr(module, "max_seq_len_cached", None)
        if original is None or cached is None or "dynamic" not in str(getattr(module, "rope_type", "")):
            continue
        if cached > original:
            module.max_seq_len_cached = original
            module.register_buffer(
                "inv_freq", module.original_inv_freq.to(module.inv_freq.device), persistent=False
            )


def _ropes(config: Any) -> list[Mapping[str, Any]]:
    """The settings, one for each kind of layer where they differ."""
    told = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(told, Mapping):
        return []
    inner = [v for v in told.values() if isinstance(v, Mapping)]
    return inner or [told]


def positions_of(model: Any, config: Any = None) -> int | None:
    """How many tokens a model has positions for; None when it does not say.

    Those of RoBERTa, XLM-R and MPNet begin behind the padding index, so two of their table are never used.
    """
    limit = getattr(model.config if config is None else config, "max_position_embeddings", None)
    if limit is None:
        return None
    for module in model.modules():
        behind = getattr(getattr(module, "position_embeddings", None), "padding_idx", None)
        if behind is not None:
            return int(limit) - int(behind) - 1
    return int(limit)
