"""Reading on from what the first blocks have computed of chunks: nothing of them is read twice.

Each chunk was read alone behind a common beginning, as far as block S. Its keys below S are turned to the places
the chunk has in the answer's prompt, which is exact where positions are rotations; what stands between and behind
the chunks runs through the blocks below S over all their keys; from S on everything attends to everything before
it, as usual. Approximate in this: below S the chunks have not seen each other, and each stood next to the
beginning. With one chunk it is the exact reading.

Early Noise Dropping (section 2.3) reads the kept chunks a second time from the start; this is ours.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicLayer

from denoise_core.local.first_layers import EarlyLayers
from denoise_core.local.forward import inputs_of
from denoise_core.local.keeping.kv import KeptPrefix, record
from denoise_core.local.keeping.page import Page, Pairs, Sheet, Standing, cache_of, held
from denoise_core.local.keeping.turning import Turning, turning_of
from denoise_core.local.layout import Prompt


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as it was scored: tokens ``[start, end)`` of ``prompt``, and what is kept of that prompt."""

    prompt: tuple[int, ...]
    start: int
    end: int
    kept: KeptPrefix


class OnePass:
    """One model's answers from what its first ``layer`` blocks computed when chunks were scored.

    Blocks below ``layer - 1`` are not run again. Call under the model's lock. ``off()`` says why this model has
    to be read exactly, or is None; it is found out by trying, once.
    """

    def __init__(self, early: EarlyLayers, layer: int, pad: int) -> None:
        self.early = early
        self.layer = layer
        self.switch = layer - 1
        self.pad = pad
        self._turning: tuple[Turning | None, ...] = ()  # of each block below S; None for one without positions
        self._upper: nn.Module | None = None
        self._why: str | None = None
        self._tried = False

    def off(self) -> str | None:
        if not self._tried:
            self._why = self._try()
            self._tried = True
        return self._why

    def longest(self) -> int | None:
        """Tokens beyond which this model has to be read exactly: its sliding window, or None without one."""
        config = self.early.config
        kinds = getattr(config, "layer_types", None)
        window = getattr(config, "sliding_window", None)
        slides = window is not None and (kinds is None or any("sliding" in str(k) for k in kinds))
        return int(window) if slides and window is not None else None

    @torch.inference_mode()
    def read(self, page: Page | None, chunks: Sequence[Chunk], glue: Sequence[int], tail: Sequence[int]) -> Page:
        """``page`` up to its ``end``, then the chunks with ``glue`` before all but the first, then ``tail``.

        Without a page the first chunk brings the beginning that all share. The last id of ``tail`` is left for the
        model's own ``generate``. Raises `ValueError` for nothing to read.
        """
        if not tail or (page is None and not chunks):
            raise ValueError("expected a tail of one token or more, and a chunk to begin with")
        had = 0 if page is None else page.end
        new = _Laid(had)
        if page is None:
            new.give(chunks[0], 0, chunks[0].start)
        for i, chunk in enumerate(chunks):
            if i or page is not None:
                new.run(glue)
            new.give(chunk, chunk.start, chunk.end)
        end = new.at
        new.run(tail[:-1])
        past = [] if page is None else [(k[:, :, :had], v[:, :, :had]) for k, v in page.cache]
        states, lower = self._below(new, past[: self.switch])
        upper = self._above(states, past[self.switch :], had)
        ids = [*([] if page is None else page.ids[:had]), *new.ids, tail[-1]]
        return Page(ids, [*lower, *upper], end)

    def _below(self, new: _Laid, past: Pairs) -> tuple[torch.Tensor, Pairs]:
        """States before block S of all new tokens, ``(1, tokens, width)``; keys and values of the blocks below."""
        device = self.early.device
        running = torch.tensor(new.running_at, device=device)
        sheets = [Sheet.room(new.at, running) for _ in range(self.switch)]
        for n, (sheet, turning) in enumerate(zip(sheets, self._turning, strict=True)):
            if past:
                sheet.put(0, *past[n])
            for chunk, a, b, at in new.chunks:
                k, v = (t[None, :, a:b] for t in chunk.kept.blocks[n])
                sheet.put(at, k if turning is None else turning(k, at - a), v)
        states = torch.empty(1, new.at - new.start, self.early.width, dtype=_dtype(self.early), device=device)
        for chunk, a, b, at in new.chunks:
            assert chunk.kept.states is not None
            states[0, at - new.start : at - new.start + b - a] = chunk.kept.states[a:b]
        if new.running:
            states[:, running - new.start] = self._run(new, running, sheets)
        return states, [sheet.pair for sheet in sheets]

    def _run(self, new: _Laid, at: torch.Tensor, sheets: Sequence[Sheet]) -> torch.Tensor:
        """What has no states yet through the blocks below S: ``(1, tokens, width)``; its rows into the sheets."""
        early = self.early
        mask = torch.zeros(len(at), new.at, dtype=_dtype(early), device=early.device)
        later = torch.arange(new.at, device=early.device)[None, :] > at[:, None]
        mask = mask.masked_fill(later, torch.finfo(mask.dtype).min)
        layers: list[DynamicLayer] = [*sheets]
        layers += [Standing.of(new.at - len(at)) for _ in range(early.count - self.switch)]
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([new.running], device=early.device),
            "attention_mask": mask[None, None],
            "position_ids": at[None],
            "past_key_values": cache_of(layers),
            "use_cache": True,
        }
        return early.read(inputs, [self.switch], lambda h: h)[self.switch]

    def _above(self, states: torch.Tensor, past: Pairs, had: int) -> Pairs:
        """Keys and values of the blocks from S on, of all tokens up to the new ones."""
        total = had + states.shape[1]
        places = torch.arange(had, total, device=states.device)
        own = [Sheet.room(total, places) for _ in range(self.early.count - self.switch)]
        for sheet, pair in zip(own, past, strict=False):  # nothing has gone before on a first page
            sheet.put(0, *pair)
        layers: list[DynamicLayer] = [*(Standing.of(had) for _ in range(self.switch)), *own]
        self._blocks_above()(
            inputs_embeds=states, position_ids=places[None], past_key_values=cache_of(layers), use_cache=True
        )
        return [sheet.pair for sheet in own]

    def _blocks_above(self) -> nn.Module:
        """The decoder with the blocks from S on alone: the same modules, entered with states."""
        if self._upper is None:
            decoder, blocks = self.early.decoder, self.early.blocks
            (name,) = [n for n, m in decoder.named_children() if m is blocks]
            upper = copy.copy(decoder)
            upper._modules = dict(decoder._modules)
            upper._modules[name] = nn.ModuleList(list(blocks)[self.switch :])
            config = copy.copy(self.early.config)
            kinds = getattr(config, "layer_types", None)
            if kinds is not None:
                config.layer_types = list(kinds)[self.switch :]
            config.num_hidden_layers = self.early.count - self.switch
            upper.config = config
            self._upper = upper
        return self._upper

    def _try(self) -> str | None:
        """Why this model has to be read exactly: keys turned and one chunk read on, against the model itself."""
        early = self.early
        if self.layer < 1 or not early.causal:
            return "an answer in one pass goes on from a decoder's states after one block or more"
        turning, why = turning_of(early.decoder, early.blocks)
        if turning is None:
            return why
        ids = torch.randint(
            int(early.config.vocab_size), (14,), generator=torch.Generator().manual_seed(2)
        ).tolist()
        try:
            far = self._far(ids, turning)
            if far is not None:
                return far
            prompt = Prompt(tuple(ids), (3, 9), (9, 14), 9)
            _, (kept,) = record(early, [prompt], [9], self.layer, self.pad, states=True)
            page = self.read(None, [Chunk(tuple(ids), 3, 9, kept)], (), ids[9:])
            with torch.inference_mode():
                whole = inputs_of(early, [prompt], self.pad)
                wanted = early.decoder(**whole).last_hidden_state[:, -1]
                last = torch.tensor([ids[-1:]], device=early.device)
                at = torch.tensor([[len(ids) - 1]], device=early.device)
                found = early.decoder(
                    input_ids=last, position_ids=at, past_key_values=page.past()
                ).last_hidden_state
        except Exception as error:  # whatever a foreign model makes of states in the place of tokens
            return f"this model cannot be entered in the middle ({type(error).__name__}: {error})"
        if not _alike(found[:, -1], wanted):
            return "a single chunk read on does not give this model's own states"
        return None

    def _far(self, ids: list[int], turning: Turning) -> str | None:
        """None when keys seven places on are those turned by seven, or the same, in each block below S."""
        early = self.early
        inputs = inputs_of(early, [Prompt(tuple(ids), (0, 1), (1, 2), 1)], self.pad)
        if "position_ids" not in inputs:
            return "this model takes no positions, so keys cannot be moved to other places"
        pairs: list[Pairs] = []
        for by in (0, 7):
            cache = cache_of([DynamicLayer() for _ in range(early.count)])
            moved = inputs | {
                "position_ids": inputs["position_ids"] + by,
                "past_key_values": cache,
                "use_cache": True,
            }
            early.read(moved, [max(1, self.switch)], lambda h: h[:, -1])
            layers: list[Any] = [*cache.layers]
            pairs.append([(held(layer.keys), held(layer.values)) for layer in layers[: self.switch]])
        found: list[Turning | None] = []
        for (k1, v1), (k2, v2) in zip(*pairs, strict=True):
            ways = (None, turning, replace(turning, halves=False))
            fits = [w for w in ways if _alike(k1 if w is None else w(k1, 7), k2)] if _alike(v1, v2) else []
            if not fits:
                return "this model's keys at other places are not these keys turned"
            found.append(fits[0])
        self._turning = tuple(found)
        return None


class _Laid:
    """The new tokens in order from ``start``: chunks, whose states are there, and what has to be run."""

    def __init__(self, start: int) -> None:
        self.start = self.at = start
        self.ids: list[int] = []
        self.running: list[int] = []  # ids
        self.running_at: list[int] = []
        self.chunks: list[tuple[Chunk, int, int, int]] = []  # its tokens [a, b), and where they come to stand

    def give(self, chunk: Chunk, a: int, b: int) -> None:
        """Tokens ``[a, b)`` of a chunk's prompt, which come to stand here."""
        self.chunks.append((chunk, a, b, self.at))
        self.ids += chunk.prompt[a:b]
        self.at += b - a

    def run(self, ids: Sequence[int]) -> None:
        self.running += ids
        self.running_at += range(self.at, self.at + len(ids))
        self.ids += ids
        self.at += len(ids)


def _dtype(early: EarlyLayers) -> torch.dtype:
    return next(p for p in early.blocks.parameters() if p.is_floating_point()).dtype


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.float(), b.float()
    return a.shape == b.shape and bool((torch.cosine_similarity(a, b, dim=-1) > 0.999).all())
