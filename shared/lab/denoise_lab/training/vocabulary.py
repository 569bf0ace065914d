"""The reader's tokenizer: byte-level pairs, digits in twos, trained on text of the world; any text tokenises."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from denoise_core._optional import require
from denoise_lab.tasks import DRILLS, TASKS
from denoise_lab.worlds.prose import prose
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import World

SIZE = 3072
PAD, BOS, END, SYSTEM, USER, ASSISTANT = (
    "<|pad|>",
    "<|begin|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
)
SPECIAL = (PAD, BOS, END, SYSTEM, USER, ASSISTANT)
TEMPLATE = (
    "{{ '" + BOS + "' }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '" + END + "' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '" + ASSISTANT + "' }}{% endif %}"
)
# Digits in twos, so that a sum below a hundred is one token; a word takes the space before it along.
_SPLIT = r" ?\p{N}{1,2}|'s| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def train_tokenizer(seed: int = 0, conversations: int = 20_000) -> Any:
    """A `transformers` tokenizer of `SIZE` entries with the chat template. The same seed gives the same one."""
    tokenizers = require("tokenizers", extra="reader")
    transformers = require("transformers", extra="reader")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(_SPLIT), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=list(SPECIAL),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(seed, conversations), trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        chat_template=TEMPLATE,
        model_max_length=16_384,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def _corpus(seed: int, conversations: int) -> Iterator[str]:
    world = World(random.Random(f"vocabulary/{seed}"))
    yield " ".join(f"{n}{m:02d} {n:02d} {m:02d}" for n in range(100) for m in range(100))
    yield from prose()
    makers = [make for _, make in TASKS.values()] + [DRILLS["cloze"]] * 6
    for n in range(conversations):
        for message in makers[n % len(makers)](world, Difficulty(6, 2, 3, 120)):
            # The instructions are the same every time: a few are enough for their words to have entries.
            if message.role != "system" or n < 600:
                yield message.content
