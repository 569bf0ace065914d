"""Attention heads as END's signal: how much of a question's attention each passage gets.

A few heads in the middle of a language model turn to the passage that a question is about
(retrieval heads; ICR, arXiv 2410.02642; QRHead, 2506.09944; CoRe, 2510.02219). Passages
are read alone, so that what was computed for them is kept for the next question
(`local.block_attention`); the question is read once over all of them. `HeadReader` gives
the attention of heads where `HiddenReader` gives states, so that a probe, its folder and
its scorer are the same for both.

A head is written as ``block.head``, both counted from 0.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from denoise_core.end.probe import Head, format_heads
from denoise_core.end.reader import Floats, HiddenReader, LayerStates, StatesByLayer
from denoise_core.errors import InputError
from denoise_core.local.batching import split_windows
from denoise_core.local.layout import LISTWISE

if TYPE_CHECKING:
    import torch

    from denoise_core.local.block_attention import BlockPrompt
    from denoise_core.local.blocks import Norm


class HeadReader(HiddenReader):
    """Reads the attention that a question's tokens give each passage.

    The arguments are those of `HiddenReader`; pooling and normalisation do not matter. The
    question has to follow the passage in the layout. Every head of a layer is read, or
    those of `with_heads` alone.
    """

    default_layout = LISTWISE
    heads: tuple[Head, ...] = ()

    def with_heads(self, heads: Sequence[Head]) -> HeadReader:
        """A reader of these heads alone that shares the model and the cache."""
        other_reader = copy.copy(self)
        other_reader.heads = tuple(heads)
        return other_reader

    @property
    def pooling(self) -> str:
        """Attention, and of which heads."""
        return format_heads(self.heads)

    @property
    def norm(self) -> Norm:
        """None: attention is read as it is."""
        from denoise_core.local.blocks import Norm

        return Norm()

    def read(
        self, pairs: Sequence[tuple[str, str]], layers: Sequence[int]
    ) -> LayerStates:
        """The attention of each ``(question, text)`` pair, from one pass to the highest layer.

        Neighbouring pairs of one question are one list of passages.

        Args:
            pairs: What to ask, and of which text.
            layers: Layer L is what the heads of block ``L - 1`` give. With ``heads`` the
                last one has all of them, in their order.

        Returns:
            By layer float32 ``(windows, heads)``.

        Raises:
            InputError: A layer outside the model, or a model whose attention cannot be
                read; the message says why.
        """
        sorted_layers = sorted(set(layers))
        if not sorted_layers or sorted_layers[0] < 1:
            raise InputError(f"layers={sorted_layers}: expected one or more, from 1 on")
        partial_forward = self.backbone.partial_forward
        partial_forward.check_layer(sorted_layers[-1])
        blocks = [layer - 1 for layer in sorted_layers]
        if self.heads:
            blocks = sorted({block for block, _ in self.heads})
        lists = []
        text_index = []
        for _, group in itertools.groupby(enumerate(pairs), key=_question_of_pair):
            numbers, list_pairs = zip(*group, strict=True)
            with partial_forward.lock:
                list_attention, window_index = self._read_list(list_pairs, blocks)
            lists.append(list_attention)
            text_index += [numbers[index] for index in window_index]
        head_count = partial_forward.config.num_attention_heads
        no_rows = np.zeros((0, head_count), dtype=np.float32)
        by_block = {}
        for block in blocks:
            list_rows = [attention[block] for attention in lists]
            by_block[block] = np.concatenate(list_rows or [no_rows])
        return LayerStates(
            self._select_heads(by_block, sorted_layers),
            np.array(text_index, dtype=np.intp),
        )

    def _select_heads(
        self, by_block: dict[int, Floats], layers: Sequence[int]
    ) -> StatesByLayer:
        """All heads by layer, or the chosen ones at the last."""
        if not self.heads:
            return {layer: by_block[layer - 1] for layer in layers}
        columns = [by_block[block][:, head] for block, head in self.heads]
        return {layers[-1]: np.stack(columns, axis=1)}

    def _read_list(
        self, pairs: Sequence[tuple[str, str]], blocks: Sequence[int]
    ) -> tuple[dict[int, Floats], list[int]]:
        """One question's texts: by block ``(windows, heads)``, and each window's text."""
        from denoise_core.local.block_attention import BlockAttention, passage_attention

        attention = self._open_prefix_reader(BlockAttention)
        attention.check(max(blocks) + 1)
        prompt, question_rows, window_index = self._build_list(pairs)

        def reduce_weights(weights: torch.Tensor) -> torch.Tensor:
            return passage_attention(weights, prompt, question_rows)

        by_block = attention.attend(prompt, blocks, reduce_weights)
        return {
            block: by_block[block].T.cpu().numpy() for block in by_block
        }, window_index

    def _build_list(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[BlockPrompt, tuple[int, int], list[int]]:
        """The prompt of a list, the question's rows of its tail, and each window's text."""
        from denoise_core.local.block_attention import BlockPrompt, attention_window

        layout = self.layout
        question_ids, *text_ids = layout.encode(
            [pairs[0][0], *(text for _, text in pairs)]
        )
        empty_prompt = layout.assemble([], question_ids)
        tail_start = empty_prompt.passage_span[1]
        if empty_prompt.query_span[0] < tail_start:
            raise InputError(
                f"layout {layout.name!r}: attention is read from a question that follows "
                "the passages; give a layout with PASSAGE before QUERY"
            )
        window = attention_window(self.backbone.partial_forward)
        windows = []
        window_index = []
        for text_number, ids in enumerate(text_ids):
            room = len(ids) or 1
            if window is not None:
                room = window - len(empty_prompt.ids)
            for window_ids in split_windows(ids, room):
                windows.append(tuple(window_ids))
                window_index.append(text_number)
        question_start, question_end = empty_prompt.query_span
        prompt = BlockPrompt(
            empty_prompt.ids[: empty_prompt.passage_span[0]],
            tuple(windows),
            empty_prompt.ids[tail_start:],
        )
        rows = question_start - tail_start, question_end - tail_start
        return prompt, rows, window_index


def _question_of_pair(numbered_pair: tuple[int, tuple[str, str]]) -> str:
    return numbered_pair[1][0]
