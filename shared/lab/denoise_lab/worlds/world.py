"""The synthetic world that the reader knows how to read: things, people and towns, in varied wording.

Everything is drawn from a `random.Random` given by the caller, so the same seed gives the same world. What is
kept apart for testing (`held_out`): a tenth of all names and of all combinations of a thing's attributes, and
the last wording of every list. Training draws with ``test=False`` and never sees them.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from denoise_lab.noisy_retrieval import ATTRIBUTES
from denoise_lab.worlds.prose import prose
from denoise_lab.worlds.relations import PASSWORD, PERSON, TOWN, Relation, words

_SYLLABLES = words("""
    bal bar ben bor bran cal cam cor dal dan del dor el fal fen fer gal gar gen gor hal han har hol
    jan jor kal kan kel kor lan lar len lin lor mal man mar mel mor nal nar nel nor pal pan per por
    ral ran rel rin ros sal san sel sor tal tan tel tor val van vel vin vor wal wen wil yar yor zan
    zel zor
""")
_PERSON_ENDS = words("""
    a e i o as ek el en er ic in is ov ski son us
""")
_TOWN_ENDS = words("""
    berg bury dale field ford ham haven holm mouth port stad ton vale ville wick
""")

_WORD = re.compile(r"(?<![{\w'])[A-Za-z][a-z]+(?![\w}'])")
_TELLING = ("more",)  # words that a sum's sign hangs on
_TRIES = 100  # draws for each neighbour; only one in ten is held out


def held_out(*key: str) -> bool:
    """Whether a name or a combination is kept for testing: a tenth of all, by a hash of its words."""
    return hashlib.sha256("/".join(key).encode()).digest()[0] < 26


@dataclass(frozen=True, slots=True)
class Fact:
    """``subject`` is a phrase, ``key`` its parts: (first, last), (town,) or the five attributes of a thing.

    Where ``named`` is true, the subject alone tells which fact is asked for, whatever words are around it.
    """

    key: tuple[str, ...]
    subject: str
    relation: Relation
    value: str
    named: bool = False

    def says(self, world: World) -> str:
        said = world.coined(self.relation.statements).format(s=self.subject, v=self.value)
        return world.dressed(said)

    def asks(self, world: World) -> str:
        pick = world.coined if self.named else world.pick
        return pick(self.relation.questions).format(s=self.subject)

    def cloze(self) -> str:
        return self.relation.cloze.format(s=self.subject)


_OPENINGS = ("It is known:", "By the register:", "Note:", "As one hears:", "The paper says:", "Lately:")
_ENDINGS = (", they say.", ", as is known.", ", it is said.", ", no doubt.", ", by all accounts.")
_DRESSED = 0.25  # share of statements in training with an opening or an ending


@cache
def coins() -> tuple[str, ...]:
    """What words are exchanged for: those of the prose, each once, but for words that a sum's sign hangs on."""
    found = {word for line in prose() for word in re.findall(r"\b[a-z]+\b", line)}
    return tuple(sorted(found.difference(_TELLING)))


class World:
    """Draws names, values, wordings and groups of confusable facts.

    ``test`` draws from what is kept apart; ``plain`` uses the first wording of each list only; ``coin`` is the
    share of wordings in which words are exchanged for others, in training.
    """

    def __init__(self, rng: random.Random, *, test: bool = False, plain: bool = False, coin: float = 0.0) -> None:
        self.rng = rng
        self.test = test
        self.plain = plain
        self.coin = coin

    def pick(self, wordings: Sequence[str]) -> str:
        """One of several wordings: the last is for testing only."""
        if self.test:
            return wordings[-1]
        return wordings[0] if self.plain else self.rng.choice(wordings[:-1])

    def coined(self, wordings: Sequence[str]) -> str:
        """One of several wordings, now and then with words that mean nothing.

        What is in no list cannot be known by heart: it has to be understood by its names, and copied as it stands.
        """
        said, rng = self.pick(wordings), self.rng
        if self.test or not self.coin or rng.random() >= self.coin:
            return said
        share = rng.uniform(0.2, 1.0)

        def other(match: re.Match[str]) -> str:
            if match[0] in _TELLING or rng.random() >= share:
                return match[0]
            word = rng.choice(coins())
            return word.capitalize() if match[0][0].isupper() else word

        return _WORD.sub(other, said)

    def dressed(self, said: str) -> str:
        """A statement with something around it now and then, in training: it has to be copied as it stands."""
        if self.test or self.plain or self.rng.random() >= _DRESSED:
            return said
        if self.rng.random() < 0.5:
            return f"{self.rng.choice(_OPENINGS)} {said}"
        return said.removesuffix(".") + self.rng.choice(_ENDINGS)

    def town(self) -> str:
        return self._name(lambda r: (r.choice(_SYLLABLES) + r.choice(_TOWN_ENDS)).capitalize())

    def person(self) -> tuple[str, str]:
        """(first, last); only last names are kept apart."""
        last = self._name(
            lambda r: (r.choice(_SYLLABLES) + r.choice(_SYLLABLES) + r.choice(_PERSON_ENDS)).capitalize()
        )
        return self.rng.choice(ATTRIBUTES["name"]), last

    def _name(self, draw: Callable[[random.Random], str]) -> str:
        while held_out(name := draw(self.rng)) is not self.test:
            pass
        return name

    def value(self, relation: Relation) -> str:
        if relation.values:
            return self.rng.choice(relation.values)
        if relation is PASSWORD:
            return str(self.rng.randrange(10_000_000, 100_000_000))
        if relation.name in ("born", "founded"):
            return str(self.rng.randrange(1200, 2000))
        return " ".join(self.person()) if relation.name == "mayor" else self.town()

    def other(self, fact: Fact) -> str:
        """A value of the same kind that is not the fact's."""
        while (value := self.value(fact.relation)) == fact.value:
            pass
        return value

    def things(self, n: int, level: int) -> list[Fact]:
        """``n`` passwords; the others share ``level`` of five attributes with the first (`NoisyRetrieval`)."""
        keys: list[tuple[str, ...]] = []
        while len(keys) < n:  # again from the start where too few neighbours are on this side of the split
            keys = self._alike(n, level)
        return [Fact(k, f"{k[0]}'s {' '.join(k[1:])}", PASSWORD, self.value(PASSWORD)) for k in keys]

    def _alike(self, n: int, level: int) -> list[tuple[str, ...]]:
        """Up to ``n`` combinations, the others sharing ``level`` attributes with the first."""
        rng = self.rng
        while held_out(*(first := tuple(rng.choice(words) for words in ATTRIBUTES.values()))) is not self.test:
            pass
        keys = [first]
        for _ in range(_TRIES * n):
            if len(keys) == n:
                break
            shared = set(rng.sample(range(5), level))
            key = tuple(
                first[i] if i in shared else rng.choice([w for w in words if w != first[i]])
                for i, words in enumerate(ATTRIBUTES.values())
            )
            if key not in keys and held_out(*key) is self.test:
                keys.append(key)
        return keys

    def people(self, n: int, level: int) -> list[Fact]:
        """``n`` facts about people: of one relation from level 1 on; from 2 on some share a first name."""
        rng = self.rng
        one = rng.choice(PERSON)
        keys = [self.person()]
        while len(keys) < n:
            key = self.person()
            if level >= 2 and rng.random() < 0.5:
                key = (keys[0][0], key[1])
            if key[1] not in {k[1] for k in keys}:
                keys.append(key)
        out = []
        for key in keys:
            relation = one if level >= 1 else rng.choice(PERSON)
            out.append(Fact(key, " ".join(key), relation, self.value(relation)))
        return out

    def towns(self, n: int, level: int) -> list[Fact]:
        rng = self.rng
        one = rng.choice(TOWN)
        names: list[str] = []
        while len(names) < n:
            if (name := self.town()) not in names:
                names.append(name)
        relations = [one if level >= 1 else rng.choice(TOWN) for _ in names]
        return [Fact((s,), s, r, self.value(r)) for s, r in zip(names, relations, strict=True)]

    def facts(self, n: int, level: int, kind: str | None = None) -> list[Fact]:
        """``n`` confusable facts of one kind: ``things``, ``people`` or ``towns``."""
        kind = kind or self.rng.choice(("things", "people", "towns"))
        return {"things": self.things, "people": self.people, "towns": self.towns}[kind](n, level)
