"""NoisyRetrieval: a password among look-alikes, inside prose. Seeded, so that anyone can make the same set.

Each question asks for the password of one thing with five attributes: whose it is, its colour, material,
brand and kind. One chunk says it; twelve others say the password of a thing that shares exactly ``level`` of
the five attributes. Every sentence is put inside prose drawn from a text of yours, the right chunk in
the middle. ``extended`` doubles the prose.

Early Noise Dropping, section 3.1.1, describes the set and did not publish it; wording and words here are ours,
so figures are comparable in kind, not digit by digit.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from denoise_core._files import write_whole
from denoise_core.errors import InputError
from denoise_core.question import Question
from denoise_core.text.chunk import sentence_spans
from denoise_core.types import Passage

LEVELS = (0, 1, 2, 3, 4)
DISTRACTORS = 12
CHARACTERS = (
    1230  # of prose in a chunk: 13 chunks make about 4,000 tokens of 4 characters
)

_WORDS = {
    "name": """
        Amara Bjorn Chidi Dolores Emeka Farida Gustav Hana Ingrid Jamal Keiko Lorenzo Mireille Nadia Omar
        Priya Quentin Rosa Stefan Tomoko Ursula Viktor Wanda Xavier Yusuf Zelda
    """,
    "color": """
        amber beige black blue bronze brown coral crimson cyan gold gray green ivory lilac maroon navy olive
        orange pink purple red silver teal turquoise violet white yellow
    """,
    "material": """
        aluminium bamboo brass canvas ceramic copper cork cotton felt glass granite iron leather linen
        marble nylon oak pewter pine plastic rubber silk steel velvet walnut wool
    """,
    "brand": """
        Alvero Brintex Calderon Dunmore Elvaris Fenwick Galtrix Hollis Indra Jorvik Kestrel Lumara Montrose
        Norvane Orbeck Pellucid Quillon Ravello Sandhurst Tavira Umbrel Vexley Wexford Yarrow Zentro
    """,
    "item": """
        backpack bicycle bracelet camera clock compass drawer guitar helmet jewel-box kettle lamp laptop
        locker mailbox notebook piano radio safe scooter suitcase telescope toolbox trunk umbrella watch
    """,
}
ATTRIBUTES = {name: words.split() for name, words in _WORDS.items()}

SENTENCE = "The password of {name}'s {color} {material} {brand} {item} is {password}."
QUESTION = "What is the password of {name}'s {color} {material} {brand} {item}?"


@dataclass(frozen=True, slots=True)
class NoisyRetrieval:
    """How a set is made. ``level`` is how many of five attributes a distractor shares with what is asked for.

    Raises `InputError` for a level outside 0 to 4, fewer than one distractor, or prose of no length.
    """

    level: int
    extended: bool = False
    distractors: int = DISTRACTORS
    characters: int = CHARACTERS

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise InputError(
                f"level={self.level!r}: expected 0 to 4, the number of shared attributes"
            )
        if self.distractors < 1 or self.characters < 0:
            raise InputError(
                "expected 1 distractor or more, and 0 characters of prose or more"
            )

    def questions(
        self, haystack: str, n: int, *, seed: int = 0
    ) -> tuple[Question, ...]:
        """``n`` questions with their chunks, prose drawn from ``haystack``; question i is the same for any n.

        Raises `InputError` when the haystack is shorter than the prose of one chunk.
        """
        prose = _Prose(haystack, self.characters * (2 if self.extended else 1))
        return tuple(
            self._one(prose, i, random.Random(f"{seed}/{self.level}/{i}"))
            for i in range(n)
        )

    def _one(self, prose: _Prose, i: int, rng: random.Random) -> Question:
        wanted = {name: rng.choice(words) for name, words in ATTRIBUTES.items()}
        facts = [wanted]
        while len(facts) < 1 + self.distractors:
            shared = set(rng.sample(list(ATTRIBUTES), self.level))
            other = {
                name: wanted[name]
                if name in shared
                else rng.choice([w for w in words if w != wanted[name]])
                for name, words in ATTRIBUTES.items()
            }
            if other not in facts:
                facts.append(other)
        passwords = rng.sample(range(10_000_000, 100_000_000), len(facts))
        texts = [
            prose.around(SENTENCE.format(**fact, password=password), rng)
            for fact, password in zip(facts, passwords, strict=True)
        ]
        middle = self.distractors // 2
        ordered = [*texts[1 : middle + 1], texts[0], *texts[middle + 1 :]]
        return Question(
            QUESTION.format(**wanted),
            tuple(Passage(text, f"chunk-{j}") for j, text in enumerate(ordered)),
            frozenset({f"chunk-{middle}"}),
            (str(passwords[0]),),
            f"noisy-retrieval-{self.level}{'x' if self.extended else ''}-{i}",
        )


class _Prose:
    """Draws runs of whole sentences from a text and hides a sentence between two of them."""

    def __init__(self, text: str, characters: int) -> None:
        spans = sentence_spans(Passage(text, "haystack"))
        self.sentences = [" ".join(text[s.start : s.end].split()) for s in spans]
        self.sentences = [s for s in self.sentences if s]
        self.characters = characters
        if sum(len(s) + 1 for s in self.sentences) < characters or not self.sentences:
            raise InputError(
                f"the haystack has {len(text)} characters: expected at least {max(1, characters)}, the prose of "
                "one chunk; any longer text will do, such as a book"
            )

    def around(self, sentence: str, rng: random.Random) -> str:
        """About ``characters`` of prose, with ``sentence`` between two of its sentences."""
        at, length, run = rng.randrange(len(self.sentences)), 0, []
        while length < self.characters:
            run.append(self.sentences[at % len(self.sentences)])
            length += len(run[-1]) + 1
            at += 1
        run.insert(rng.randint(0, len(run)), sentence)
        return " ".join(run)


def write_noisy_retrieval(
    out: str | Path,
    haystack: str | Path,
    kind: NoisyRetrieval,
    n: int,
    *,
    seed: int = 0,
) -> Path:
    """Write ``n`` questions as JSON lines that `read_questions` reads; prose from the text file ``haystack``.

    The file appears whole or not at all. Raises `InputError` for a haystack that cannot be read as UTF-8.
    """
    try:
        text = Path(haystack).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{haystack} cannot be read: {error}; expected a text file in UTF-8"
        ) from error
    return write_questions(out, kind.questions(text, n, seed=seed))


def write_questions(out: str | Path, questions: Sequence[Question]) -> Path:
    """Questions as JSON lines, one record each, that `read_questions` reads back."""
    out = Path(out)
    lines = [json.dumps(_record(q), ensure_ascii=False) + "\n" for q in questions]
    write_whole(out, "".join(lines))
    return out


def _record(question: Question) -> dict[str, object]:
    return {
        "id": question.id,
        "question": question.text,
        "answers": list(question.answers),
        "passages": [
            {"id": p.id, "text": p.text, "is_gold": is_gold}
            for p, is_gold in zip(question.passages, question.labels, strict=True)
        ],
    }
