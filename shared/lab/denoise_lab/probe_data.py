"""Questions that END probes of the reader are fitted and judged on: NoisyRetrieval, and scenes of its world.

``test=False`` asks only for what the reader's training may have asked for, ``test=True`` only for what was kept
apart from it (`denoise_lab.worlds.world.held_out`), so that probes are judged on questions new to the reader too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from denoise_core.errors import InputError
from denoise_core.question import Question
from denoise_core.types import Passage
from denoise_lab.noisy_retrieval import ATTRIBUTES, LEVELS, QUESTION, NoisyRetrieval
from denoise_lab.worlds.scene import Difficulty, make_scene
from denoise_lab.worlds.world import World, held_out

# Level 4 is NoisyRetrieval's part: few combinations that differ in one attribute alone are kept apart.
SCENE = Difficulty(facts=10, level=3, passages=10, prose=250)
LEAST_PASSAGES = 5
CHARACTERS = 800  # of prose in a chunk of NoisyRetrieval: 13 chunks make about 4,000 of the reader's tokens
LENGTHS = (200, 400, CHARACTERS, 2 * CHARACTERS)  # from a scene's to the extended set's

_ASKED = re.compile(QUESTION.replace("?", r"\?").format(**dict.fromkeys(ATTRIBUTES, r"(\S+)")))


def attributes(question: Question) -> tuple[str, ...]:
    """The five attributes that a NoisyRetrieval question asks for, in the order of `ATTRIBUTES`."""
    found = _ASKED.fullmatch(question.text)
    if found is None:
        raise InputError(f"{question.text!r} is no question of NoisyRetrieval: expected {QUESTION!r}")
    return found.groups()


def noisy_questions(
    kind: NoisyRetrieval, haystack: str, n: int, *, seed: int = 0, test: bool = False
) -> tuple[Question, ...]:
    """The first ``n`` questions of the set whose asked combination is kept apart (``test``) or is not.

    Only the asked combination counts: distractors are whatever the set draws. Raises `InputError` for a haystack
    shorter than the prose of one chunk.
    """
    drawn, kept = n, tuple[Question, ...]()
    while len(kept) < n:
        drawn *= 4
        asked = kind.questions(haystack, drawn, seed=seed)
        kept = tuple(q for q in asked if held_out(*attributes(q)) is test)
    return kept[:n]


def scene_questions(
    n: int,
    *,
    seed: int = 0,
    test: bool = False,
    kinds: Sequence[str] = ("things", "people", "towns"),
    sentences: Sequence[str] = (),
    difficulty: Difficulty = SCENE,
) -> tuple[Question, ...]:
    """Questions about scenes of `LEAST_PASSAGES` passages or more; the one that states the asked fact is relevant.

    ``sentences`` is the prose between the facts, by default the reader's own.
    """
    if difficulty.passages < LEAST_PASSAGES or difficulty.facts < LEAST_PASSAGES:
        raise InputError(f"{difficulty}: expected {LEAST_PASSAGES} facts and passages or more")
    world = World(random.Random(f"probes/{seed}/{test}/{'/'.join(kinds)}"), test=test)
    return tuple(islice(_scenes(world, difficulty, kinds, sentences), n))


def _scenes(
    world: World, difficulty: Difficulty, kinds: Sequence[str], sentences: Sequence[str]
) -> Iterator[Question]:
    number = 0
    while True:
        kind = world.rng.choice(kinds)
        scene = make_scene(world, difficulty, kind=kind, sentences=sentences)
        if len(scene.passages) < LEAST_PASSAGES:
            continue
        k = world.rng.randrange(len(scene.facts))
        fact = scene.facts[k]
        passages = tuple(Passage(text, f"p{i}") for i, text in enumerate(scene.texts()))
        gold = frozenset({f"p{scene.places[k][0]}"})
        yield Question(fact.asks(world), passages, gold, (fact.value,), f"scene-{kind}-{number}")
        number += 1


def mixed_questions(haystack: str, n: int, *, seed: int = 0, test: bool = False) -> tuple[Question, ...]:
    """What the shipped probes are fitted on: half NoisyRetrieval of all levels and `LENGTHS`, half scenes."""
    noisy: list[Question] = []
    of_each = -(-n // (2 * len(LEVELS) * len(LENGTHS)))
    for level in LEVELS:
        for length in LENGTHS:
            kind = NoisyRetrieval(level, characters=length)
            noisy += noisy_questions(kind, haystack, of_each, seed=seed * 1000 + length, test=test)
    order = random.Random(f"mixed/{seed}")
    noisy = order.sample(noisy, n // 2)
    return (*noisy, *scene_questions(n - n // 2, seed=seed, test=test))
