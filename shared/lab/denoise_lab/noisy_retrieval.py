"""NoisyRetrieval: a password among look-alikes, inside prose. Seeded, so that anyone can make the same set.

Each question asks for the password of one item with five attributes: whose it is, its colour, material,
brand and kind. One chunk has it; twelve others have the password of an item that shares exactly ``level`` of
the five attributes. Each sentence is put inside prose drawn from a text of yours, and the gold chunk is in
the middle. ``extended`` doubles the prose.

Early Noise Dropping, section 3.1.1, describes the set and did not publish it; wording and words here are ours,
so figures are comparable in kind, not digit by digit.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from denoise_core._files import write_whole
from denoise_core.errors import InputError
from denoise_core.question import Question
from denoise_core.text.chunk import sentence_spans
from denoise_core.types import Passage

LEVELS = (0, 1, 2, 3, 4)
DISTRACTOR_COUNT = 12
# Characters of prose in a chunk: 13 chunks make about 4,000 tokens of 4 characters.
PROSE_CHARACTERS = 1230

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

PASSWORD_SENTENCE = (
    "The password of {name}'s {color} {material} {brand} {item} is {password}."
)
QUESTION_TEXT = "What is the password of {name}'s {color} {material} {brand} {item}?"


@dataclass(frozen=True, slots=True)
class NoisyRetrieval:
    """How a set is made.

    Attributes:
        level: How many of the five attributes a distractor shares with the item asked for.
        extended: Use twice as much prose.
        characters: Characters of prose in a chunk, 0 or more.

    Raises:
        InputError: A value is outside its range.
    """

    level: int
    extended: bool = False
    characters: int = PROSE_CHARACTERS

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise InputError(
                f"level={self.level!r}: expected 0 to 4, the number of shared attributes"
            )
        if self.characters < 0:
            raise InputError("expected 0 characters of prose or more")

    def make_questions(
        self, haystack: str, count: int, *, seed: int = 0
    ) -> tuple[Question, ...]:
        """Return ``count`` questions with their chunks; question i is the same for any count.

        Args:
            haystack: The text that the prose is drawn from.
            count: How many questions.
            seed: The same seed makes the same questions.

        Raises:
            InputError: The haystack is shorter than the prose of one chunk.
        """
        characters = self.characters
        if self.extended:
            characters *= 2
        prose = _Prose(haystack, characters)
        questions = []
        for number in range(count):
            rng = random.Random(f"{seed}/{self.level}/{number}")
            questions.append(self._make_question(prose, number, rng))
        return tuple(questions)

    def _make_question(
        self, prose: _Prose, number: int, rng: random.Random
    ) -> Question:
        # The order of the draws decides which questions a seed has.
        items = self._draw_items(rng)
        passwords = rng.sample(range(10_000_000, 100_000_000), len(items))
        texts = []
        for item, password in zip(items, passwords, strict=True):
            sentence = PASSWORD_SENTENCE.format(**item, password=password)
            texts.append(prose.hide_sentence(sentence, rng))
        gold_position = DISTRACTOR_COUNT // 2
        gold_text = texts.pop(0)
        texts.insert(gold_position, gold_text)
        passages = []
        for position, text in enumerate(texts):
            passages.append(Passage(text, f"chunk-{position}"))
        suffix = "x" if self.extended else ""
        return Question(
            QUESTION_TEXT.format(**items[0]),
            tuple(passages),
            frozenset({f"chunk-{gold_position}"}),
            (str(passwords[0]),),
            f"noisy-retrieval-{self.level}{suffix}-{number}",
        )

    def _draw_items(self, rng: random.Random) -> list[Mapping[str, str]]:
        """The item asked for, then its look-alikes, all different."""
        wanted_item = {}
        for attribute, words in ATTRIBUTES.items():
            wanted_item[attribute] = rng.choice(words)
        items: list[Mapping[str, str]] = [wanted_item]
        while len(items) < 1 + DISTRACTOR_COUNT:
            shared_attributes = set(rng.sample(list(ATTRIBUTES), self.level))
            look_alike = {}
            for attribute, words in ATTRIBUTES.items():
                wanted_word = wanted_item[attribute]
                look_alike[attribute] = wanted_word
                if attribute not in shared_attributes:
                    other_words = [word for word in words if word != wanted_word]
                    look_alike[attribute] = rng.choice(other_words)
            if look_alike not in items:
                items.append(look_alike)
        return items


class _Prose:
    """Draws runs of whole sentences from a text and hides a sentence between two of them."""

    def __init__(self, text: str, characters: int) -> None:
        self.sentences = []
        for span in sentence_spans(Passage(text, "haystack")):
            sentence = " ".join(text[span.start : span.end].split())
            if sentence:
                self.sentences.append(sentence)
        self.characters = characters
        text_length = sum(len(sentence) + 1 for sentence in self.sentences)
        if text_length < characters or not self.sentences:
            raise InputError(
                f"the haystack has {len(text)} characters: expected at least {max(1, characters)}, the prose of "
                "one chunk; any longer text will do, such as a book"
            )

    def hide_sentence(self, sentence: str, rng: random.Random) -> str:
        """Return about ``characters`` of prose, with ``sentence`` between two of its sentences."""
        position = rng.randrange(len(self.sentences))
        drawn_sentences: list[str] = []
        length = 0
        while length < self.characters:
            drawn_sentence = self.sentences[position % len(self.sentences)]
            drawn_sentences.append(drawn_sentence)
            length += len(drawn_sentence) + 1
            position += 1
        drawn_sentences.insert(rng.randint(0, len(drawn_sentences)), sentence)
        return " ".join(drawn_sentences)


def write_noisy_retrieval(
    out: str | Path,
    haystack: str | Path,
    generator: NoisyRetrieval,
    count: int,
    *,
    seed: int = 0,
) -> Path:
    """Write ``count`` questions as JSON lines that `read_questions` reads; prose from the file ``haystack``.

    The file appears whole or not at all. Raises `InputError` for a haystack that cannot be read as UTF-8.
    """
    try:
        haystack_text = Path(haystack).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{haystack} cannot be read: {error}; expected a text file in UTF-8"
        ) from error
    questions = generator.make_questions(haystack_text, count, seed=seed)
    return write_questions(out, questions)


def write_questions(out: str | Path, questions: Sequence[Question]) -> Path:
    """Write questions as JSON lines, one record each, that `read_questions` reads back."""
    out = Path(out)
    write_whole(out, format_questions(questions))
    return out


def format_questions(questions: Sequence[Question]) -> str:
    """Return questions as JSON lines; a passage has a title if its metadata has one."""
    lines = []
    for question in questions:
        passages = []
        for passage, is_gold in zip(question.passages, question.labels, strict=True):
            passage_record = {
                "id": passage.id,
                "text": passage.text,
                "is_gold": is_gold,
            }
            if passage.metadata.get("title"):
                passage_record["title"] = passage.metadata["title"]
            passages.append(passage_record)
        question_record = {
            "id": question.id,
            "question": question.text,
            "answers": list(question.answers),
            "passages": passages,
        }
        lines.append(json.dumps(question_record, ensure_ascii=False) + "\n")
    return "".join(lines)
