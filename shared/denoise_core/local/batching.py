"""Which prompts run together: sorted by length, capped by tokens; long texts cut to fit the window.

A model with LongRoPE or dynamic NTK reads every token with other frequencies once the longest row of a batch
passes the original length, and a score must not depend on a neighbour. So such a model is read within that length
(`rope_limit`); a longer text is read in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from denoise_core.errors import InputError

# A batch more costs about as much as this many tokens (the weights are read once more), so no batch holds
# more padding than that.
MAX_PADDING = 256


def batch_by_length(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Positions of ``lengths``, shortest first, in batches of at most ``max_tokens`` after padding.

    A row longer than the cap is a batch alone. A batch also ends where it would hold more than `PADDING` tokens of
    padding.

    >>> batch_by_length([5, 1, 4, 2], 8)
    [[1, 3], [2], [0]]
    """
    groups: list[list[int]] = []
    filled = 0  # tokens of the newest batch without padding
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        # The newest is the longest, so it decides the padded width of the batch it joins.
        rows = len(groups[-1]) if groups else 0
        padding = rows * lengths[i] - filled
        if rows and (rows + 1) * lengths[i] <= max_tokens and padding <= MAX_PADDING:
            groups[-1].append(i)
        else:
            groups.append([i])
            filled = 0
        filled += lengths[i]
    return groups


def split_windows(ids: Sequence[int], room: int) -> list[list[int]]:
    """``ids`` in parts of at most ``room`` tokens, as even as can be; one part when they fit.

    >>> split_windows([1, 2, 3, 4, 5], 3)
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


def rope_limit(config: Any) -> int | None:
    """Positions that a model reads with its own rotary frequencies; None where there is no such limit."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    limits: list[int] = []
    for rope in _ropes(text):
        kind = str(rope.get("rope_type") or rope.get("type") or "")
        original = (
            rope.get("original_max_position_embeddings")
            or getattr(text, "original_max_position_embeddings", None)
            or getattr(text, "max_position_embeddings", None)
        )
        if original is not None and kind == "longrope":
            limits.append(int(original))
        elif original is not None and "dynamic" in kind:
            limits.append(
                int(original) - 1
            )  # only below it are the frequencies of a longer text forgotten
    return min(limits, default=None)


def _ropes(config: Any) -> list[Mapping[str, Any]]:
    """The settings, one for each kind of layer where they differ."""
    told = getattr(config, "rope_parameters", None) or getattr(
        config, "rope_scaling", None
    )
    if not isinstance(told, Mapping):
        return []
    inner = [v for v in told.values() if isinstance(v, Mapping)]
    return inner or [told]


def position_limit(model: Any, config: Any = None) -> int | None:
    """How many tokens a model reads at once; None when it does not say.

    Positions of RoBERTa, XLM-R and MPNet begin behind the padding index, so two of their table are never used.
    """
    config = model.config if config is None else config
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None:
        return rope_limit(config)
    for module in model.modules():
        behind = getattr(
            getattr(module, "position_embeddings", None), "padding_idx", None
        )
        if behind is not None:
            return int(limit) - int(behind) - 1
    return min(int(limit), rope_limit(config) or int(limit))
