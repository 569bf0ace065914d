"""Reading on from what the first blocks have computed of chunks: nothing of them is read twice.

Each chunk was read alone behind a common beginning, as far as block S. Its keys below S are turned to the places
the chunk has in the answer's prompt, which is exact where positions are rotations; what stands between and behind
the chunks runs through the blocks below S over all their keys, under each block's own mask (a sliding window,
say); from S on everything attends to what comes before it, as usual. Approximate in this: below S the chunks have
not seen each other, and each stood next to the beginning. With one chunk it is the exact reading.

Early Noise Dropping (section 2.3) reads the kept chunks a second time from the start; this is ours.
Rotary position embedding: Su et al., RoFormer (arXiv 2104.09864), section 3.2.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicLayer

from denoise_core.local.first_layers import EarlyLayers
from denoise_core.local.keeping.kv import KeptPrefix, Page, Pairs, Sheet, Standing, cache_of, held, record
from denoise_core.local.layout import Prompt

# Frequencies that do not depend on how long the text is; "dynamic" and "longrope" have others for longer texts.
FIXED = frozenset({"default", "linear", "llama3", "yarn", "proportional"})


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """``frequencies`` are radians a place, float32 ``(r / 2,)``, for the first ``r`` numbers of a head.

    ``halves``: number i belongs with number i + r / 2 (Llama and its like); else neighbours do (GPT-J).
    """

    frequencies: torch.Tensor
    halves: bool = True

    def __call__(self, keys: torch.Tensor, by: int) -> torch.Tensor:
        """Keys ``(..., head width)`` as they are ``by`` places further on; ``by`` may be negative."""
        if not by:
            return keys
        angle = self.frequencies.to(keys.device) * by
        cos, sin = angle.cos(), angle.sin()
        width = 2 * len(angle)
        turned, rest = keys[..., :width].float(), keys[..., width:]
        if self.halves:
            a, b = turned.chunk(2, dim=-1)
            out = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            out = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        return torch.cat([out.to(keys.dtype), rest], -1)


def turnings_of(decoder: nn.Module, blocks: nn.ModuleList) -> tuple[list[Rotation], str | None]:
    """All ways in which this model may turn its keys; none, and why, where they cannot be turned.

    Blocks of different kinds may have different frequencies (Gemma 3, Olmo 3). Which block turns by which of them,
    if by any, and whether numbers belong together in halves or as neighbours, is for the caller to try.
    """
    found: list[torch.Tensor] = []
    for module in decoder.modules():
        kind = getattr(module, "rope_type", "default")
        for name, buffer in module.named_buffers(recurse=False):
            if name.endswith("inv_freq") and "original" not in name:
                of = kind.get(name.removesuffix("_inv_freq")) if isinstance(kind, dict) else kind
                if of not in FIXED:
                    return [], f"this model's rotary frequencies ({of}) depend on the length of the text"
                found.append(buffer.detach().float().clone())
    found += _tabled(blocks)
    distinct = [f for n, f in enumerate(found) if not any(torch.equal(f, other) for other in found[:n])]
    if not distinct:
        return [], "this model has no rotary positions, so its keys cannot be moved"
    return [Rotation(f, halves) for f, halves in product(distinct, (True, False))], None


def _tabled(blocks: nn.ModuleList) -> Iterator[torch.Tensor]:
    """Frequencies of models that keep sines and cosines in a table, ``(places, r)``: GPT-J, CodeGen."""
    for name, table in blocks[0].named_buffers():
        if name.endswith("embed_positions") and table.ndim == 2 and len(table) > 1:
            sin, cos = table[1].float().chunk(2)
            yield torch.atan2(sin, cos)


_STATEFUL = ("linear_attention", "conv", "mamba", "recurrent")  # kinds of blocks, as configurations name them

_TRIALS = 3  # random prompts of which one has to be read on right
_FAR = 0.02  # one less a cosine: no rounding is as large

# How what a block keeps of a token depends on its place: its keys and its values, turned or (None) not at all.
# Compressed attention (DeepSeek) keeps the part that is turned where others keep values.
Moved = tuple[Rotation | None, Rotation | None]


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
        self._moved: tuple[Moved, ...] = ()  # of each block below S
        self._upper: nn.Module | None = None
        self._why: str | None = None
        self._tried = False

    def off(self) -> str | None:
        if not self._tried:
            self._why = self._try()
            self._tried = True
        return self._why

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
        sheets = [Sheet(new.at, running) for _ in range(self.switch)]
        for n, (sheet, moved) in enumerate(zip(sheets, self._moved, strict=True)):
            if past:
                sheet.put(0, *past[n])
            for chunk, a, b, at in new.chunks:
                pair = (t[None, :, a:b] for t in chunk.kept.blocks[n])
                sheet.put(at, *(t if way is None else way(t, at - a) for t, way in zip(pair, moved, strict=True)))
        states = torch.empty(
            1, new.at - new.start, self.early.width, dtype=getattr(torch, self.early.dtype), device=device
        )
        for chunk, a, b, at in new.chunks:
            assert chunk.kept.states is not None
            states[0, at - new.start : at - new.start + b - a] = chunk.kept.states[a:b]
        if new.running:
            states[:, running - new.start] = self._run(new, running, sheets)
        return states, [sheet.pair for sheet in sheets]

    def _run(self, new: _Laid, at: torch.Tensor, sheets: Sequence[Sheet]) -> torch.Tensor:
        """What has no states yet through the blocks below S: ``(1, tokens, width)``; its rows into the sheets."""
        early = self.early
        masks = self._masks(at, new.at)
        layers: list[DynamicLayer] = [*sheets]
        layers += [Standing(new.at - len(at)) for _ in range(early.count - self.switch)]
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([new.running], device=early.device),
            "attention_mask": masks[0],  # of the right shape, so that the model makes none of its own
            "position_ids": at[None],
            "past_key_values": cache_of(layers),
            "use_cache": True,
        }
        return early.read(inputs, [self.switch], lambda h: h, masks=masks)[self.switch]

    def _masks(self, at: torch.Tensor, total: int) -> list[torch.Tensor]:
        """For each block up to S the mask ``(1, 1, queries, keys)`` of tokens at the places ``at``."""
        made: dict[tuple[int | None, int | None], torch.Tensor] = {}
        reaches = _reaches(self.early.config, self.early.count)[: self.switch + 1]
        for reach in reaches:
            if reach not in made:
                seen = _seen(at, total, *reach)
                mask = torch.zeros(seen.shape, dtype=getattr(torch, self.early.dtype), device=at.device)
                made[reach] = mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)[None, None]
        return [made[reach] for reach in reaches]

    def _above(self, states: torch.Tensor, past: Pairs, had: int) -> Pairs:
        """Keys and values of the blocks from S on, of all tokens up to the new ones."""
        total = had + states.shape[1]
        places = torch.arange(had, total, device=states.device)
        own = [Sheet(total, places) for _ in range(self.early.count - self.switch)]
        for sheet, pair in zip(own, past, strict=False):  # nothing has gone before on a first page
            sheet.put(0, *pair)
        layers: list[DynamicLayer] = [*(Standing(had) for _ in range(self.switch)), *own]
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
        stateful = {str(k) for k in getattr(early.config, "layer_types", None) or () if str(k) in _STATEFUL}
        if stateful:
            names = ", ".join(sorted(stateful))
            return f"this model has recurrent layers ({names}), whose state cannot be cut at a chunk"
        if getattr(early.config, "alibi", False):
            return "this model weighs tokens by their distance (ALiBi) and has no rotary positions"
        turnings, why = turnings_of(early.decoder, early.blocks)
        if why is not None:
            return why
        for seed in range(_TRIALS):  # in half precision one rounding can send a token to other experts
            draw = torch.Generator().manual_seed(seed)
            ids = torch.randint(int(early.config.vocab_size), (14,), generator=draw).tolist()
            try:
                why = self._hides(ids) or self._far(ids, turnings) or self._goes_on(ids)
            except Exception as error:  # whatever a foreign model makes of states in the place of tokens
                said = (str(error).strip().splitlines() or [""])[0][:120]
                return f"this model cannot be entered in the middle ({type(error).__name__}: {said})"
            if why is None:
                return None
        return why

    def _hides(self, ids: list[int]) -> str | None:
        """None when the model hides from each block what its configuration says; tried with a window of five."""
        early, masks = self.early, list[Any]()
        config, decoder = copy.copy(early.config), copy.copy(early.decoder)
        for name in ("sliding_window", "attention_chunk_size"):
            if getattr(config, name, None) is not None:
                setattr(config, name, 5)
        decoder.config = config
        hooks = [
            block.register_forward_pre_hook(
                lambda block, args, kwargs: masks.append(kwargs.get("attention_mask")), with_kwargs=True
            )
            for block in early.blocks
        ]
        row = torch.tensor([ids], device=early.device)
        at = torch.arange(len(ids), device=early.device)
        try:
            with torch.inference_mode():
                decoder(input_ids=row, position_ids=at[None], use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        for mask, reach in zip(masks, _reaches(config, early.count), strict=True):
            mine = _seen(at, len(ids), *reach)
            if mask is None:  # the kernel's own causal mask
                theirs = _seen(at, len(ids), None, None)
            else:
                theirs = (mask if mask.dtype == torch.bool else mask == 0).reshape(mine.shape)
            if not torch.equal(mine, theirs):
                return "this model's blocks hide other tokens than its configuration says"
        return None

    def _goes_on(self, ids: list[int]) -> str | None:
        """None when a single chunk read on gives the model's own state of the last token."""
        early = self.early
        prompt = Prompt(tuple(ids), (3, 9), (9, 14), 9)
        _, (kept,) = record(early, [prompt], [9], self.layer, self.pad, states=True)
        page = self.read(None, [Chunk(tuple(ids), 3, 9, kept)], (), ids[9:])
        wanted, other = (self._exact(ids, first).last_hidden_state[:, -1] for first in (0, 7))
        with torch.inference_mode():
            last = torch.tensor([ids[-1:]], device=early.device)
            at = torch.tensor([[len(ids) - 1]], device=early.device)
            found = early.decoder(input_ids=last, position_ids=at, past_key_values=page.past())
        if _apart(found.last_hidden_state[:, -1], wanted) > _bound(_apart(wanted, other), wanted.dtype):
            return "a single chunk read on does not give this model's own states"
        return None

    def _far(self, ids: list[int], turnings: Sequence[Rotation]) -> str | None:
        """None when what a block keeps seven places on is what it keeps here, turned by seven or the same."""
        early = self.early
        if not early.takes("position_ids"):
            return "this model takes no positions, so keys cannot be moved to other places"
        near, far = (
            [(held(layer.keys), held(layer.values)) for layer in list(past.layers)[: self.switch]]
            for past in (self._exact(ids, first).past_key_values for first in (0, 7))
        )
        found: list[Moved] = []
        for here, there in zip(near, far, strict=True):
            moved: list[Rotation | None] = []
            noise = min(_apart(a, b) for a, b in zip(here, there, strict=True))  # of what does not turn
            for one, wanted in zip(here, there, strict=True):
                fits = {way: _apart(one if way is None else way(one, 7), wanted) for way in (None, *turnings)}
                best = min(fits, key=lambda way: fits[way])
                if fits[best] > _bound(noise, one.dtype):
                    return "this model's keys at other places are not these keys turned"
                moved.append(best)
            found.append((moved[0], moved[1]))
        self._moved = tuple(found)
        return None

    @torch.inference_mode()
    def _exact(self, ids: list[int], first: int) -> Any:
        """The model's own output for ``ids`` at the places from ``first`` on."""
        return self.early.decoder(
            input_ids=torch.tensor([ids], device=self.early.device),
            position_ids=torch.arange(first, first + len(ids), device=self.early.device)[None],
            past_key_values=cache_of([DynamicLayer() for _ in range(self.early.count)]),
            use_cache=True,
        )


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


def _reaches(config: Any, count: int) -> list[tuple[int | None, int | None]]:
    """How far each block looks back: over a sliding window of so many tokens, within sections of so many.

    Read from the configuration as transformers reads it where it makes masks: by the blocks' kinds where they are
    named, else the same for all.
    """
    window, section = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        kinds = ["sliding" if window is not None else "chunked"] * count
    return [
        (window if "sliding" in str(kind) else None, section if "chunked" in str(kind) else None) for kind in kinds
    ]


def _seen(at: torch.Tensor, total: int, window: int | None, section: int | None) -> torch.Tensor:
    """Which of ``total`` places the tokens at the places ``at`` see, ``(len(at), total)``."""
    keys = torch.arange(total, device=at.device)[None, :]
    behind = at[:, None] - keys
    seen = behind >= 0
    if window is not None:
        seen &= behind < window
    if section is not None:
        seen &= at[:, None] // section == keys // section
    return seen


def _apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """One less the smallest cosine of the rows of two tensors of one shape; 2 for tensors of different shapes."""
    if found.shape != wanted.shape:
        return 2.0
    return float((1 - torch.cosine_similarity(found.double(), wanted.double(), dim=-1)).max())


def _bound(noise: float, dtype: torch.dtype) -> float:
    """How far apart two readings may be: some times as far as two exact readings at two places are (``noise``).

    Rotary models see distances alone, so two exact readings differ by rounding. Half precision is further from
    itself than a fixed bound allows in a model whose states are far from round. What is wrong is apart by a tenth
    and more.
    """
    return min(_FAR, max(16 * noise, 64 * torch.finfo(dtype).eps ** 2, 1e-9))
