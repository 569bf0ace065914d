"""Texts that end a reply: cut off a whole one, or held back while it streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first place where one of ``stops`` stands.

    >>> cut("one. two. three", [". t"])
    'one'
    """
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]


def held_back(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces, none empty; joined they are ``cut("".join(pieces), stops)``.

    What may be the beginning of a stop is kept until it is known to be none. All pieces are read.

    >>> list(held_back(["on", "e.", " two. three"], [". th"]))
    ['on', 'e', '. two']
    """
    kept, over = "", False
    for piece in pieces:
        if over or not piece:
            continue
        kept += piece
        begun = _begun(kept, stops)
        at = len(cut(kept, stops))
        over = at < len(kept) and at <= begun
        if out := kept[: min(at, begun)]:
            yield out
        kept = "" if over else kept[len(out) :]
    if rest := cut(kept, stops):
        yield rest


def _begun(text: str, stops: Sequence[str]) -> int:
    """Where in ``text`` the first beginning of a stop stands that reaches the end; its length if there is none."""
    longest = max((len(stop) for stop in stops), default=1) - 1
    for at in range(max(0, len(text) - longest), len(text)):
        if any(stop.startswith(text[at:]) and len(stop) > len(text) - at for stop in stops):
            return at
    return len(text)
