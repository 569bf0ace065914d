"""One pass with the laboratory's reader: the same prompts read exactly and in one pass, and what each answers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from denoise_core.local.first_layers import EarlyLayers, early_layers
from denoise_core.local.keeping.kv import record
from denoise_core.local.keeping.one_pass import Chunk, OnePass
from denoise_core.local.layout import Prompt, token_ids
from denoise_core.types import Message
from denoise_lab.experiments.end import Loaded
from denoise_lab.tasks.parts import UNKNOWN
from denoise_lab.tasks.reading import passages
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import World

BLOCK = re.compile(r'<passage number="\d+">\n.*?</passage>', re.S)
HARD = Difficulty(8, 3, 6, 120)


@dataclass(frozen=True)
class Asked:
    """A prompt in pieces: its beginning, passages with the same glue between them, and its end; all token ids."""

    begin: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    glue: tuple[int, ...]
    tail: tuple[int, ...]
    answer: str

    @property
    def ids(self) -> list[int]:
        between = [[*(self.glue if n else ()), *block] for n, block in enumerate(self.blocks)]
        return [*self.begin, *(i for piece in between for i in piece), *self.tail]


def in_pieces(loaded: Loaded, messages: Sequence[Message], answer: str) -> Asked | None:
    """None unless the prompt holds two passages or more."""
    turns = [{"role": m.role, "content": m.content} for m in messages]
    text = loaded.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    found = list(BLOCK.finditer(text))
    if len(found) < 2:
        return None
    glue = {text[a.end() : b.start()] for a, b in pairwise(found)}
    if len(glue) != 1:
        return None
    texts = [text[: found[0].start()], *(m[0] for m in found), glue.pop(), text[found[-1].end() :]]
    ids = [tuple(row) for row in token_ids(loaded.tokenizer, texts, own_text=True)]
    return Asked(ids[0], tuple(ids[1:-2]), ids[-2], ids[-1], answer)


def held_out_prompts(loaded: Loaded, n: int, seed: int) -> list[Asked]:
    """Questions over several passages that the reader's training keeps apart, with an answer in one of them."""
    world = World(random.Random(f"one pass {seed}"), test=True)
    out: list[Asked] = []
    while len(out) < n:
        said = passages(world, HARD)
        first = next(i for i, m in enumerate(said) if m.role == "assistant")
        answer = said[first].content.strip()
        asked = None if answer.startswith(UNKNOWN) else in_pieces(loaded, said[:first], answer)
        if asked is not None:
            out.append(asked)
    return out


@dataclass(frozen=True)
class Answers:
    """What was said to one prompt; ``divergence`` is that of the first token's distribution, in nats."""

    exact: str
    one_pass: str
    divergence: float


def answers(loaded: Loaded, asked: Sequence[Asked], layer: int) -> Iterator[Answers]:
    early = early_layers(loaded.model)
    early.ensure(layer)
    one_pass = OnePass(early, layer, int(loaded.tokenizer.pad_token_id or 0))
    assert one_pass.off() is None, one_pass.off()
    for a in asked:
        page = one_pass.read(None, _chunks(early, a, layer), a.glue, a.tail)
        assert page.ids == a.ids
        ids = torch.tensor([a.ids])
        settings = {"max_new_tokens": 16, "do_sample": False, "pad_token_id": loaded.tokenizer.pad_token_id or 0}
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            exact = torch.log_softmax(loaded.model(input_ids=ids).logits[0, -1].float(), -1)
            at = torch.tensor([[len(a.ids) - 1]])
            out = loaded.model(input_ids=ids[:, -1:], position_ids=at, past_key_values=page.past())
            mine = torch.log_softmax(out.logits[0, -1].float(), -1)
            said = [
                loaded.model.generate(ids, attention_mask=mask, **settings),
                loaded.model.generate(ids, attention_mask=mask, past_key_values=page.past(), **settings),
            ]
        first, second = (
            loaded.tokenizer.decode(s[0, len(a.ids) :], skip_special_tokens=True).strip() for s in said
        )
        yield Answers(first, second, float((exact.exp() * (exact - mine)).sum()))


def _chunks(early: EarlyLayers, a: Asked, layer: int) -> list[Chunk]:
    start = len(a.begin)
    prompts = []
    for block in a.blocks:
        end = start + len(block)
        ids = (*a.begin, *block, *a.tail)
        prompts.append(Prompt(ids, (start, end), (end, len(ids)), end))
    _, kept = record(early, prompts, [p.shared for p in prompts], layer, 0, states=True)
    return [Chunk(p.ids, p.passage[0], p.passage[1], k) for p, k in zip(prompts, kept, strict=True)]
