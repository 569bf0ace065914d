"""The synthetic world that the reader knows how to read: things, people and towns, in varied wording.

Everything is drawn from a `random.Random` given by the caller, so the same seed gives the same world. What is
kept apart for testing (`held_out`): a tenth of all names and of all combinations of a thing's attributes, and
the last wording of every list. Training draws with ``test=False`` and never sees them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from denoise_core.evaluate.noisy_retrieval import ATTRIBUTES


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


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

_TRIES = 100  # draws for each neighbour; only one in ten is held out


def held_out(*key: str) -> bool:
    """Whether a name or a combination is kept for testing: a tenth of all, by a hash of its words."""
    return hashlib.sha256("/".join(key).encode()).digest()[0] < 26


@dataclass(frozen=True, slots=True)
class Relation:
    """What can be said of a subject: statements with ``{s}`` and ``{v}``, questions and a cloze with ``{s}``.

    ``values`` are its possible values; an empty tuple stands for numbers or names that are drawn, see `World`.
    The last statement and the last question are for testing only. ``hint`` is what a search query says.
    """

    name: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    cloze: str
    hint: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """``subject`` is a phrase, ``key`` its parts: (first, last), (town,) or the five attributes of a thing."""

    key: tuple[str, ...]
    subject: str
    relation: Relation
    value: str

    def says(self, world: World) -> str:
        return world.pick(self.relation.statements).format(s=self.subject, v=self.value)

    def asks(self, world: World) -> str:
        return world.pick(self.relation.questions).format(s=self.subject)

    def cloze(self) -> str:
        return self.relation.cloze.format(s=self.subject)


PASSWORD = Relation(
    "password",
    (
        "The password of {s} is {v}.",
        "{v} is the password of {s}.",
        "Whoever wants to open {s} needs the password {v}.",
        "For {s} the password is {v}.",
    ),
    (
        "What is the password of {s}?",
        "Which password opens {s}?",
        "Tell me the password of {s}.",
        "What password does {s} have?",
    ),
    "The password of {s} is",
    "password",
)
PERSON = (
    Relation(
        "town",
        ("{s} lives in {v}.", "The home of {s} is in {v}.", "{s} has a house in {v}.", "{s} settled in {v}."),
        (
            "Where does {s} live?",
            "In which town does {s} live?",
            "Where is the home of {s}?",
            "What town is {s}'s home?",
        ),
        "{s} lives in",
        "lives in",
    ),
    Relation(
        "job",
        (
            "{s} works as a {v}.",
            "The job of {s} is that of a {v}.",
            "{s} earns a living as a {v}.",
            "{s} is a {v}.",
        ),
        ("What is the job of {s}?", "What does {s} work as?", "How does {s} earn a living?", "Which job has {s}?"),
        "{s} works as a",
        "works as",
        words("""
            baker barber brewer butcher carpenter chemist clerk cook dentist doctor driver farmer
            fisher gardener glazier hunter jeweller judge lawyer mason miller miner nurse painter
            pilot plumber porter potter printer sailor singer smith surgeon tailor teacher tutor
            waiter weaver writer
        """),
    ),
    Relation(
        "pet",
        ("{s} keeps a {v}.", "{s} has a {v} at home.", "The pet of {s} is a {v}.", "{s} owns a {v}."),
        ("Which animal does {s} keep?", "What pet has {s}?", "What is the pet of {s}?", "Which animal has {s}?"),
        "{s} keeps a",
        "keeps a pet",
        words("""
            badger beaver canary cat crow dog donkey duck falcon ferret fox frog goat goose hamster
            hare hen horse lizard lynx mouse otter owl parrot pigeon pony rabbit raven robin sheep
            snake swan tortoise turtle
        """),
    ),
    Relation(
        "instrument",
        (
            "{s} plays the {v}.",
            "{s} is learning the {v}.",
            "The instrument of {s} is the {v}.",
            "{s} took up the {v}.",
        ),
        (
            "Which instrument does {s} play?",
            "What does {s} play?",
            "What is the instrument of {s}?",
            "Which instrument has {s}?",
        ),
        "{s} plays the",
        "plays instrument",
        words("""
            accordion banjo bassoon bugle cello clarinet cornet drum fiddle flute gong harp horn
            lute mandolin oboe organ recorder sitar trombone trumpet tuba viola violin whistle
            zither
        """),
    ),
    Relation(
        "born",
        (
            "{s} was born in {v}.",
            "The year of birth of {s} is {v}.",
            "{s} came into the world in {v}.",
            "{s} dates from {v}.",
        ),
        (
            "When was {s} born?",
            "In which year was {s} born?",
            "What is the year of birth of {s}?",
            "Which year was {s} born in?",
        ),
        "{s} was born in",
        "born in",
    ),
)
TOWN = (
    Relation(
        "mayor",
        (
            "The mayor of {s} is {v}.",
            "{s} is governed by mayor {v}.",
            "In {s} the mayor is {v}.",
            "{s} has {v} for mayor.",
        ),
        (
            "Who is the mayor of {s}?",
            "Who governs {s}?",
            "What is the name of the mayor of {s}?",
            "Who is mayor in {s}?",
        ),
        "The mayor of {s} is",
        "mayor",
    ),
    Relation(
        "trade",
        (
            "{s} is known for its {v}.",
            "The pride of {s} is its {v}.",
            "{s} lives from its {v}.",
            "{s} sells its {v}.",
        ),
        ("What is {s} known for?", "What is the pride of {s}?", "What does {s} live from?", "What does {s} sell?"),
        "{s} is known for its",
        "known for",
        words("""
            barley beer bread bricks butter candles carpets cheese cherries cider coal grapes hats
            herring honey jam lace lemons mustard olives paper pears pepper plums pottery rice rope
            salt soap sugar tea tiles timber vinegar wheat wine
        """),
    ),
    Relation(
        "founded",
        (
            "{s} was founded in {v}.",
            "The year in which {s} began is {v}.",
            "{s} has stood since {v}.",
            "{s} goes back to {v}.",
        ),
        (
            "When was {s} founded?",
            "In which year did {s} begin?",
            "Since when has {s} stood?",
            "Which year was {s} founded in?",
        ),
        "{s} was founded in",
        "founded in",
    ),
)
RELATIONS = (PASSWORD, *PERSON, *TOWN)


class World:
    """Draws names, values, wordings and groups of confusable facts.

    ``test`` draws from what is kept apart; ``plain`` uses the first wording of each list only.
    """

    def __init__(self, rng: random.Random, *, test: bool = False, plain: bool = False) -> None:
        self.rng = rng
        self.test = test
        self.plain = plain

    def pick(self, wordings: Sequence[str]) -> str:
        """One of several wordings: the last is for testing only."""
        if self.test:
            return wordings[-1]
        return wordings[0] if self.plain else self.rng.choice(wordings[:-1])

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
