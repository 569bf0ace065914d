"""Which prompts run together: sorted by length, capped by tokens; long texts cut to fit the window.

A model with LongRoPE or dynamic NTK reads every token with other frequencies once the longest row of a batch
passes the original length, and a score must not depend on a neighbour. So such a model is read within that length
(`position_limit`); a longer text is read in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import PromptTooLong

if TYPE_CHECKING:
    from denoise_core.local.layout import BoundLayout, TokenPrompt

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
    batch_rows: list[list[int]] = []
    filled_tokens = 0  # tokens of the newest batch without padding
    row_order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for row_index in row_order:
        # The newest is the longest, so it decides the padded width of the batch it joins.
        width = lengths[row_index]
        row_count = 0
        if batch_rows:
            row_count = len(batch_rows[-1])
        padding = row_count * width - filled_tokens
        padded_tokens = (row_count + 1) * width
        has_room = padded_tokens <= max_tokens and padding <= MAX_PADDING
        if row_count and has_room:
            batch_rows[-1].append(row_index)
        else:
            batch_rows.append([row_index])
            filled_tokens = 0
        filled_tokens += width
    return batch_rows


def split_windows(ids: Sequence[int], max_tokens_each: int) -> list[list[int]]:
    """``ids`` in parts of at most ``max_tokens_each`` tokens, as even as can be; one part when they fit.

    >>> split_windows([1, 2, 3, 4, 5], 3)
    [[1, 2, 3], [4, 5]]
    """
    if max_tokens_each < 1:
        raise PromptTooLong(
            f"the instruction and the question fill the model's window: {1 - max_tokens_each} tokens too many; "
            "shorten the question, or take a model with a longer window"
        )
    window_count = max(1, -(-len(ids) // max_tokens_each))
    window_size, remainder = divmod(len(ids), window_count)
    window_ids = []
    window_start = 0
    for window_index in range(window_count):
        window_end = window_start + window_size
        if window_index < remainder:
            window_end += 1
        window_ids.append(list(ids[window_start:window_end]))
        window_start = window_end
    return window_ids


def build_prompts(
    prompt_layout: BoundLayout, pairs: Sequence[tuple[str, str]], window: int | None
) -> tuple[list[TokenPrompt], NDArray[np.intp]]:
    """The prompts of ``(question, text)`` pairs.

    Args:
        prompt_layout: The prompt.
        pairs: What to ask, and of which text.
        window: Tokens that a prompt may have. A text that does not fit together with
            the question is split into even parts, a prompt for each.

    Returns:
        The prompts, and of each the position of its pair.

    Raises:
        PromptTooLong: A question leaves no room for the text.
    """
    texts = []
    questions = []
    for question, text in pairs:
        texts.append(text)
        questions.append(question)
    text_ids = prompt_layout.encode(texts)
    unique_questions = list(dict.fromkeys(questions))
    encoded_questions = prompt_layout.encode(unique_questions)
    ids_of_question = dict(zip(unique_questions, encoded_questions, strict=True))
    token_prompts = []
    text_index = []
    for pair_position, (question, _) in enumerate(pairs):
        question_ids = ids_of_question[question]
        text_room = len(text_ids[pair_position]) or 1
        if window is not None:
            text_room = window - prompt_layout.overhead_tokens - len(question_ids)
        for part_ids in split_windows(text_ids[pair_position], text_room):
            token_prompts.append(prompt_layout.assemble(part_ids, question_ids))
            text_index.append(pair_position)
    return token_prompts, np.array(text_index, dtype=np.intp)


def max_over_windows(
    scores: NDArray[np.float32], text_index: NDArray[np.intp], text_count: int
) -> NDArray[np.float32]:
    """One score per text: that of its best window."""
    best_scores = np.full(text_count, -np.inf, dtype=np.float32)
    np.maximum.at(best_scores, text_index, scores)
    return best_scores


def position_limit(config: Any) -> int | None:
    """How many tokens a model reads at once, with its own rotary frequencies; None without a limit."""
    text_config = config.get_text_config()
    table_size = getattr(text_config, "max_position_embeddings", None)
    limits = []
    if table_size:
        limits.append(int(table_size))
    for rope in _rope_settings(text_config):
        rope_type = str(rope.get("rope_type") or rope.get("type") or "")
        original_limit = (
            rope.get("original_max_position_embeddings")
            or getattr(text_config, "original_max_position_embeddings", None)
            or table_size
        )
        if original_limit and rope_type == "longrope":
            limits.append(int(original_limit))
        elif original_limit and "dynamic" in rope_type:
            # Only below it are the frequencies of a longer text forgotten.
            limits.append(int(original_limit) - 1)
    return min(limits, default=None)


def _rope_settings(config: Any) -> list[Mapping[str, Any]]:
    """The settings, one for each kind of layer where they differ."""
    rope_settings = getattr(config, "rope_parameters", None)
    if not rope_settings:
        rope_settings = getattr(config, "rope_scaling", None)
    if not isinstance(rope_settings, Mapping):
        return []
    inner_settings = []
    for value in rope_settings.values():
        if isinstance(value, Mapping):
            inner_settings.append(value)
    return inner_settings or [rope_settings]
