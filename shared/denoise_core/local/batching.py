"""Which prompts run together: sorted by length, capped by tokens; long texts cut to fit the window.

A model with LongRoPE or dynamic NTK reads the same token with other frequencies once the longest row of a
batch passes the original length. So rows of both sides never stand in one batch, and keys and values kept from
one side never serve the other (`regime_of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from denoise_core.errors import InputError

# A batch more costs about as much as this many tokens (the weights are read once more), so no batch holds
# more padding than that.
PADDING = 256


def batches(
    lengths: Sequence[int], max_tokens: int, extra: int = 0, *, groups: Sequence[int] | None = None
) -> list[list[int]]:
    """Positions of ``lengths``, shortest first, in batches of at most ``max_tokens`` after padding.

    ``extra`` is what each row costs besides its own length. A row longer than the cap is a batch alone. A
    batch also ends where it would hold more than `PADDING` tokens of padding, and rows of different ``groups``
    never share one.

    >>> batches([5, 1, 4, 2], 8)
    [[1, 3], [2], [0]]
    """
    out: list[list[int]] = []
    filled = 0  # tokens of the newest batch without padding
    group = groups or [0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: (group[i], lengths[i], i)):
        # The newest is the longest, so it decides the padded width of the batch it joins.
        rows = len(out[-1]) + 1 if out else 0
        together = bool(rows) and group[out[-1][0]] == group[i]
        if together and rows * (lengths[i] + extra) <= max_tokens and (rows - 1) * lengths[i] - filled <= PADDING:
            out[-1].append(i)
        else:
            out.append([i])
            filled = 0
        filled += lengths[i]
    return out


def windows(ids: Sequence[int], room: int) -> list[list[int]]:
    """``ids`` in parts of at most ``room`` tokens, as even as can be; one part when they fit.

    >>> windows([1, 2, 3, 4, 5], 3)
    [[1, 2, 3], [4, 5]]
    """
    if room < 1:
        raise InputError(
            f"the instruction and the question fill the model's window: {1 - room} tokens too many; "
            "shorten the question, or take a model with a longer window"
        )
    count = max(1, -(-len(ids) // room))
    size, more = divmod(len(ids), count)
    out, start = [], 0
    for n in range(count):
        end = start + size + (n < more)
        out.append(list(ids[start:end]))
        start = end
    return out


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
