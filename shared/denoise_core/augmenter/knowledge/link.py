"""Entity linker: which passage is a mention about? (paper, section 2.3.1)

A gazetteer of the passages' own titles and aliases, longest names first. Of several passages with one name the one
whose words fit the mention's surroundings best is taken. A mention may link to nothing.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from denoise_core.augmenter.prompts import with_title_line
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import split_words
from denoise_core.types import Passage, Span

_WORD = re.compile(r"[^\W_]+")
_LONGEST = 8  # words of a name


@dataclass(frozen=True, slots=True)
class Link:
    """A mention at ``span`` of a passage, and the passage ``target_id`` that it is about.

    ``score`` is 1.0 for an exact name, less for what a linker of one's own is less sure of.
    """

    span: Span
    name: str
    target_id: str
    score: float = 1.0


@runtime_checkable
class Linker(Protocol):
    """Finds mentions in ``texts`` of what ``known`` passages are about. Plug in spaCy or your own."""

    def link(
        self, texts: Sequence[Passage], known: Sequence[Passage]
    ) -> Sequence[Link]:
        """Mentions in ``texts`` of the passages in ``known``, by id, at half-open character ranges."""
        ...


class GazetteerLinker:
    """Links by title (``metadata["title"]``, with and without a part in brackets) and ``metadata["aliases"]``.

    Table rows are no entities: passages with ``metadata["kind"] == "row"`` are not linked to. Names of fewer than
    three characters, of numbers only or of words without content are not used.
    """

    def link(
        self, texts: Sequence[Passage], known: Sequence[Passage]
    ) -> tuple[Link, ...]:
        names = _names(known)
        context = _Context(known)
        found: list[Link] = []
        for passage in texts:
            for start, end, key in _mentions(passage.text, names):
                target = context.nearest(passage, names[key])
                if target is not None:
                    found.append(
                        Link(
                            Span(passage.id, start, end),
                            passage.text[start:end],
                            target,
                        )
                    )
        return tuple(found)


def _names(known: Sequence[Passage]) -> dict[str, list[str]]:
    """Name to the ids of the passages that bear it."""
    found: dict[str, list[str]] = {}
    for passage in known:
        if passage.metadata.get("kind") == "row":
            continue
        title = passage.metadata.get("title")
        aliases = passage.metadata.get("aliases") or ()
        full = [n for n in (title, *aliases) if isinstance(n, str)]
        for name in dict.fromkeys(
            _key(n) for given in full for n in (given, _without_brackets(given))
        ):
            if len(name) >= 3 and not all(
                w in STOPWORDS or w.isdigit() for w in name.split()
            ):
                found.setdefault(name, []).append(passage.id)
    return found


def _mentions(text: str, names: dict[str, list[str]]) -> Iterable[tuple[int, int, str]]:
    """Names in the text, longest first at each place, without overlap: ``(start, end, name)``."""
    tokens = [(m.start(), m.end(), _key(m.group())) for m in _WORD.finditer(text)]
    at = 0
    while at < len(tokens):
        for size in range(min(_LONGEST, len(tokens) - at), 0, -1):
            key = " ".join(t[2] for t in tokens[at : at + size])
            if key in names:
                yield tokens[at][0], tokens[at + size - 1][1], key
                at += size
                break
        else:
            at += 1


def _key(name: str) -> str:
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", name).casefold()))


class _Context:
    """Which of several passages fits a mention: shared words, rare ones counting more."""

    def __init__(self, known: Sequence[Passage]) -> None:
        self._words = {
            p.id: frozenset(split_words(with_title_line(p))) - STOPWORDS for p in known
        }
        self._count = Counter(word for found in self._words.values() for word in found)

    def nearest(self, passage: Passage, ids: Sequence[str]) -> str | None:
        """The passage meant; None when the only candidate is the passage itself."""
        others = [i for i in ids if i != passage.id]
        if len(others) <= 1:
            return others[0] if others else None
        here = self._words.get(passage.id) or frozenset(
            split_words(with_title_line(passage))
        )
        all_, count = len(self._words), self._count
        return max(
            others,
            key=lambda i: sum(
                math.log(1 + all_ / (count[w] or 1)) for w in here & self._words[i]
            ),
        )


def _without_brackets(name: str) -> str:
    """``Paris (Texas)`` as ``Paris``."""
    whole = name.rstrip()
    if not whole.endswith(")"):
        return name
    opened = whole.find("(", whole.rfind(")", 0, -1) + 1)
    return whole[:opened].rstrip() if opened >= 0 else name
