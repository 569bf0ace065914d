"""Entity linker: which passage is a mention about? (paper, section 2.3.1)

A gazetteer of the passages' titles and aliases, longest names first. Of several passages
with one name, the one whose words fit the mention's surroundings best is the target.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from denoise_core.augmenter.prompts import with_title_line
from denoise_core.text.wordlists import STOPWORDS
from denoise_core.text.words import split_words, word_spans
from denoise_core.types import Passage, Span

_MAX_NAME_WORDS = 8
_MIN_NAME_CHARACTERS = 3


@dataclass(frozen=True, slots=True)
class Link:
    """A mention at ``span`` of a passage, and the passage ``target_id`` it is about."""

    span: Span
    name: str
    target_id: str


def find_links(passages: Sequence[Passage]) -> tuple[Link, ...]:
    """Find the mentions of passages in each other, by title and aliases.

    Names are ``metadata["title"]``, with and without a part in brackets, and
    ``metadata["aliases"]``; table rows have none. No name of a passage links to itself.
    """
    ids_by_name = _ids_by_name(passages)
    chooser = _TargetChooser(passages)
    links = []
    for passage in passages:
        text = passage.text
        mentions = _find_mentions(text, ids_by_name)
        for start, end, name in mentions:
            same_name_ids = ids_by_name[name]
            target_id = chooser.choose(passage, same_name_ids)
            if target_id is None:
                continue
            span = Span(passage.id, start, end)
            mention_text = text[start:end]
            link = Link(span, mention_text, target_id)
            links.append(link)
    return tuple(links)


def _ids_by_name(passages: Sequence[Passage]) -> dict[str, list[str]]:
    """The ids of the passages that have each name."""
    ids: dict[str, list[str]] = {}
    for passage in passages:
        metadata = passage.metadata
        passage_kind = metadata.get("kind")
        if passage_kind == "row":
            continue
        aliases = metadata.get("aliases") or ()
        names: dict[str, None] = {}  # ordered, each once
        title = metadata.get("title")
        written_names = (title, *aliases)
        for written_name in written_names:
            if isinstance(written_name, str):
                full_name = _normalize_name(written_name)
                names[full_name] = None
                bare_name = _without_brackets(written_name)
                short_name = _normalize_name(bare_name)
                names[short_name] = None
        for name in names:
            if _is_distinctive(name):
                same_name_ids = ids.setdefault(name, [])
                same_name_ids.append(passage.id)
    return ids


def _is_distinctive(name: str) -> bool:
    """Whether a name is more than stop words and numbers."""
    if len(name) < _MIN_NAME_CHARACTERS:
        return False
    name_words = name.split()
    for word in name_words:
        is_number = word.isdigit()
        is_stopword = word in STOPWORDS
        if not is_stopword and not is_number:
            return True
    return False


def _find_mentions(
    text: str, ids_by_name: dict[str, list[str]]
) -> Iterable[tuple[int, int, str]]:
    """Names in the text as ``(start, end, name)``.

    They do not overlap; at each offset the longest name wins.
    """
    words = word_spans(text)
    plain_words = [word for word, _, _ in words]
    total_words = len(words)
    index = 0
    while index < total_words:
        remaining_count = total_words - index
        longest_count = min(_MAX_NAME_WORDS, remaining_count)
        for word_count in range(longest_count, 0, -1):
            next_index = index + word_count
            name_words = plain_words[index:next_index]
            name = " ".join(name_words)
            if name in ids_by_name:
                _, start, _ = words[index]
                _, _, end = words[next_index - 1]
                yield start, end, name
                index = next_index
                break
        else:
            index += 1


def _normalize_name(name: str) -> str:
    name_words = split_words(name)
    return " ".join(name_words)


class _TargetChooser:
    """Chooses among passages of one name by shared words, rare ones counting more."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._words = {passage.id: _context_words(passage) for passage in passages}
        passage_counts: Counter[str] = Counter()
        for words in self._words.values():
            passage_counts.update(words)
        self._rarity = {}
        passage_count = len(self._words)
        for word, count in passage_counts.items():
            inverse_share = passage_count / count
            self._rarity[word] = math.log(1 + inverse_share)

    def choose(self, passage: Passage, ids: Sequence[str]) -> str | None:
        """The id meant; None when the only candidate is the passage itself."""
        context = self._words[passage.id]

        def shared_rarity(passage_id: str) -> float:
            candidate_words = self._words[passage_id]
            shared_words = context & candidate_words
            return sum(self._rarity[word] for word in shared_words)

        candidates = [passage_id for passage_id in ids if passage_id != passage.id]
        return max(candidates, key=shared_rarity, default=None)


def _context_words(passage: Passage) -> frozenset[str]:
    titled_text = with_title_line(passage)
    text_words = split_words(titled_text)
    distinct_words = frozenset(text_words)
    return distinct_words - STOPWORDS


def _without_brackets(name: str) -> str:
    """``Paris (Texas)`` as ``Paris``."""
    stripped_name = name.rstrip()
    if not stripped_name.endswith(")"):
        return name
    short_name, _, _ = name.rpartition("(")
    return short_name or name
