"""Which prompts run together: sorted by length, capped by tokens; long texts cut to fit the window."""

from __future__ import annotations

from collections.abc import Sequence

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
