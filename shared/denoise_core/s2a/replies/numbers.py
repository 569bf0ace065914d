"""Which pieces a reply names: strict about what a list is, tolerant about where it stands.

Statements that disagree are not weighed against each other: such a reply is an `UnparsableReply`, and so is one
that ends in the middle of its list.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from denoise_core.s2a.replies import lexicon as lex
from denoise_core.s2a.replies.statements import LARGEST, Range, Said, normal, read
from denoise_core.text.replies import fenced, json_in, said, unparsable

Verb = Literal["keep", "drop"]

_LONGEST = 20_000  # characters; a longer reply is no list of ours unless all of it is one
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_LATEX = re.compile(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}|\\[\[\]()]|\$|\\[,;]")
_TAGGED = re.compile(
    r"<(answer|response|output|result|final_answer|final|keep|numbers|pieces)>\s*(.*?)\s*</\1>", re.I | re.S
)
_BULLET = re.compile(r"^[ \t]*(?:[-*+•‣◦·][ \t]+|>[ \t]*)+")
_OUTER = re.compile(r"^(\d{1,4})[.)][ \t]+(?=\S)")
_INNER = re.compile(
    r"^(?:(?P<word>[^\W\d_]+)[ \t]+(?:no\.?[ \t]+)?)?(?P<open>[\[(【])?(?P<n>\d{1,6})(?P<close>[\])】])?"
    r"[ \t]*(?P<mark>[:：.–—]|-(?!\d))?[ \t]*(?P<text>.*)$"
)
_SENTENCE = re.compile(r"(?<=[.!?。！？؟])[ \t]+|(?<=[。！？؟])|[;；؛]|\.\.\.[ \t]*")
_PARENTHESIS = re.compile(r"\(([^()]{0,400})\)")
_RULE = re.compile(r"^[\s|:+=_*~-]+$")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers that a reply named, each once and in order, all within ``1..count``.

    ``named`` is the same in the order of the reply. ``verb`` is what the reply itself said to do with them, None
    if it only listed them. ``repeated`` were named more than once, ``unknown`` lie outside; a range is cut to what
    exists.
    """

    chosen: tuple[int, ...]
    verb: Verb | None = None
    repeated: tuple[int, ...] = ()
    unknown: tuple[str, ...] = ()
    named: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _List:
    """A list found in a reply, and where: ``rank`` 2 is a final answer, 1 an answer, 0 any list."""

    ranges: tuple[Range, ...]
    verb: Verb | None
    rank: int
    paragraph: int
    document: bool = False
    complement: bool = False
    bare: bool = False


def numbers(reply: str, count: int) -> Numbers:
    """The numbers that a reply names, of pieces ``1..count``.

    Raises `UnparsableReply` when there is no list, when two disagree, when no number of it exists, and for a 0,
    from which on one cannot know where the counting began.
    """
    text = said(reply)
    found = _from_json(text, count)
    if found is None:
        text = normal(_LATEX.sub(lambda m: m[1] or " ", _BOXED.sub(r"\nFinal: \1\n", text)))
        tagged = _TAGGED.findall(text) if len(text) <= _LONGEST else []
        blocks = [t[1] for t in tagged] or fenced(text)
        inner = [_one(b, count) for b in blocks[-2:]]
        if inner and any(inner):
            lists = [i for i in inner if i is not None]
            found = lists[0] if len({(i.chosen, i.verb) for i in lists}) == 1 else None
        else:
            found = _one(text, count)
    if found is None:
        raise unparsable("expected numbers such as '2, 5-7', or NONE", reply)
    if "0" in found.unknown or any(u.startswith("0-") for u in found.unknown):
        raise unparsable("a number 0, where counting begins at 1", reply)
    if found.unknown and not found.chosen:
        raise unparsable(f"only numbers outside 1..{count}", reply)
    return found


def _one(text: str, count: int) -> Numbers | None:
    whole = read(text)
    plain = whole.is_list and not whole.documents and not re.search("[:：]", text)
    plain = plain and (whole.polarity is None or len([s for s in _SENTENCE.split(text) if s and s.strip()]) == 1)
    if plain and not _OUTER.match(text) and ("\n" not in text or _one_plain_list(text, whole)):
        return _numbers(_as_list(whole, None, 0), count)
    if len(text) > _LONGEST:
        return None
    lists = _lists(text, count)
    return None if lists is None else _decide(lists, count)


def _one_plain_list(text: str, whole: Said) -> bool:
    return whole.polarity is None and not re.search(r"\n[ \t]*\n[ \t]*\S", text)


def _lists(text: str, count: int) -> list[_List] | None:
    """Every list in the reply; None when a line contradicts that it is one."""
    found: list[_List] = []
    items: list[tuple[int, str, bool]] = []
    outer: list[int] = []
    section: Said | None = None
    paragraph = 0
    columns: list[Said] | None = None
    for line in text.splitlines():
        if not line.strip():
            paragraph += 1
            continue
        if _RULE.match(line):
            continue
        if line.lstrip().startswith("|"):
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if columns is None:
                columns = [read(c) for c in cells]
                continue
            row = _row(cells, columns, paragraph)
            if row is None:
                return None
            found.append(row)
            continue
        columns = None
        is_heading = line.lstrip().startswith("#") or re.fullmatch(r"\s*\*\*[^*]+\*\*:?\s*|[^:]*[:：]\s*", line)
        bare = _BULLET.sub("", line.replace("**", "").replace("__", "").replace("`", "").lstrip("# \t")).strip()
        if numbered := _OUTER.match(bare):
            inner = bare[numbered.end() :]
            outer.append(int(numbered[1]))
            m = _INNER.match(inner)
            if m and _is_piece(m):
                items.append((int(m["n"]), m["text"], False))
            else:
                items.append((int(numbered[1]), inner, True))
            continue
        got = _line(bare, section, paragraph)
        if got:
            found += got
            continue
        m = _INNER.match(bare)
        if m and (m["mark"] or (m["open"] and m["close"])) and m["text"].strip() and not _is_document(m):
            items.append((int(m["n"]), m["text"], False))
        elif is_heading:
            heading = read(bare.rstrip(":： "))
            section = heading if not heading.ranges else section
            if not heading.documents:
                paragraph += 1
    if found:
        named = {n for f in found for a, b in f.ranges for n in range(a, min(b, count) + 1)}
        stray = any(n not in named and _verdict(text) != "no" for n, text, plain in items if not plain)
        return None if stray and not any(f.rank for f in found) else found
    return _items(items, outer, count)


def _is_piece(m: re.Match[str]) -> bool:
    word = (m["word"] or "").lower()
    return bool(m["open"] and m["close"]) or word in lex.PIECE


def _is_document(m: re.Match[str]) -> bool:
    word = (m["word"] or "").lower()
    return word in lex.DOCUMENT or bool(word and word not in lex.PIECE)


def _items(items: Sequence[tuple[int, str, bool]], outer: Sequence[int], count: int) -> list[_List] | None:
    """Lines that begin with a number: pieces with their text behind them, or with a verdict on each."""
    if not items:
        return None
    if any(plain for _, _, plain in items):
        return None  # "1. ..., 2. ...": the reply's own counting, or the pieces'?
    marked = [(n, _verdict(text)) for n, text, _ in items]
    if any(verdict == "unclear" for _, verdict in marked):
        return None
    if any(verdict for _, verdict in marked):
        if not all(verdict for _, verdict in marked):
            return None
    elif len({n for n, _ in marked}) == count > 2:
        return None  # a walk through all the pieces says nothing yet
    return [_List(((n, n),), "drop" if v == "no" else "keep" if v == "yes" else None, 0, 0) for n, v in marked]


def _verdict(text: str) -> str | None:
    """``yes`` or ``no`` when the text behind a number says whether the piece stays; ``unclear`` for a mark."""
    if re.match(r"\d+(?:\.\d+)?\s*(?:/\s*\d+|%|\s*$)", text):
        return "unclear"
    first = re.split(r"[.,;:(—–。，；]|\s-\s", text, maxsplit=1)[0]
    said = read(first)
    if said.prose or said.ranges or len(first) > 60:
        return None
    if polarity := said.polarity:
        return {"keep": "yes", "drop": "no"}.get(polarity, "unclear")
    if said.yes != said.no:
        return "yes" if said.yes else "no"
    return "no" if said.nothing else None


def _row(cells: Sequence[str], columns: Sequence[Said], paragraph: int) -> _List | None:
    """A table row: pieces with a verdict, documents with their pieces, or pieces alone."""
    if not cells:
        return None
    first = read(cells[0])
    if not first.ranges or first.prose:
        return None
    about_documents = bool(columns) and not columns[0].piece and _names_documents(columns[0])
    for cell in cells[1:]:
        verdict = _verdict(cell)
        second = read(cell)
        if about_documents and second.is_list:
            return _List(tuple(second.ranges), None, 0, paragraph, document=True)
        if verdict in ("yes", "no"):
            return _List(tuple(first.ranges), "drop" if verdict == "no" else "keep", 0, paragraph)
        if verdict == "unclear" or second.is_list:
            return None
    return None if about_documents else _List(tuple(first.ranges), None, 0, paragraph)


def _names_documents(column: Said) -> bool:
    return column.documents != [] or (column.prose is False and not column.piece and not column.answer)


def _line(line: str, section: Said | None, paragraph: int) -> list[_List]:
    """The lists of one line: all of it, what stands behind a colon, or its sentences."""
    spoken = _unparenthesised(line)
    whole = read(spoken)
    sentences = [s for s in _SENTENCE.split(spoken) if s and s.strip()]
    if whole.is_list and not _one_colon_between_numbers(spoken) and (len(sentences) < 2 or not whole.polarity):
        return [_as_list(whole, section, paragraph)]
    if len(sentences) > 1 and sum(":" in s for s in sentences) > 1:
        each = [_line(s.strip(), section, paragraph) for s in sentences]
        return [found for lists in each for found in lists]
    for at in reversed([m.start() for m in re.finditer("[:：]", spoken)][-6:]):
        right = _first_sentence_list(spoken[at + 1 :])
        if right is None:
            continue
        left = re.split(r"(?<=[.!?。！？])\s+", spoken[:at].strip())[-1]
        label = read(left)
        if label.ranges and not label.documents and not label.prose and not label.everything:
            verdict = _verdict(spoken[at + 1 :])
            if verdict in ("yes", "no"):
                return [_List(tuple(label.ranges), "keep" if verdict == "yes" else "drop", 0, paragraph)]
            return [_List((), None, 0, paragraph)]  # "1: 8/10", "1: 2": a mark or a rank, not a list
        merged = replace_said(right, label)
        return [_as_list(merged, section, paragraph)]
    label, _, rest = spoken.partition(":") if ":" in spoken else spoken.partition("：")
    own = read(label)
    if rest and own.ranges and not own.prose and not own.documents and (v := _verdict(rest)) in ("yes", "no"):
        return [_List(tuple(own.ranges), "keep" if v == "yes" else "drop", 0, paragraph)]
    if own.ranges and not own.prose and not rest and (own.yes != own.no):
        return [_List(tuple(own.ranges), "keep" if own.yes else "drop", 0, paragraph)]
    if len(sentences) < 2:
        head = read(re.split(lex.BECAUSE, spoken, maxsplit=1, flags=re.IGNORECASE)[0].rstrip(" ,"))
        return [_as_list(head, section, paragraph)] if head.is_list and (head.polarity or head.piece) else []
    lists = [read(s) for s in sentences]
    got = [
        _as_list(s, section, paragraph) for s in lists if s.is_list or (s.ranges and not s.prose and s.polarity)
    ]
    return got


def replace_said(right: Said, label: Said) -> Said:
    """The list behind a colon, with what the words before the colon say of it."""
    right.keep, right.drop = right.keep or label.keep, right.drop or label.drop
    right.negated += label.negated if label.keep or label.drop else 0
    right.final, right.answer = right.final or label.final, right.answer or label.answer
    right.documents += label.documents
    if label.exception and label.everything:
        right.exception, right.everything, right.excepted, right.ranges = True, True, right.ranges, []
    return right


def _first_sentence_list(text: str) -> Said | None:
    whole = read(text)
    if whole.is_list:
        return whole
    sentences = [s for s in _SENTENCE.split(text) if s and s.strip()]
    first = read(sentences[0]) if sentences else whole
    later = any(read(s).is_list for s in sentences[1:])
    return first if first.is_list and not later else None


def _one_colon_between_numbers(text: str) -> bool:
    return re.search(r"\d\s*[:：]\s*(?:\d|\w)", text) is not None


def _unparenthesised(line: str) -> str:
    """Without remarks in parentheses; a list in them stays."""
    line = re.sub(r"[（]", "(", line).replace("）", ")")
    return _PARENTHESIS.sub(lambda m: m[0] if read(m[1]).is_list else " ", line)


def _as_list(said: Said, section: Said | None, paragraph: int) -> _List:
    polarity = said.polarity
    if polarity is None and section is not None:
        polarity = section.polarity
    rank = 2 if said.final or (section and section.final) else 1 if said.answer else 0
    ranges: list[Range] = said.ranges
    complement = False
    if said.everything and (said.exception or not ranges):
        ranges, complement = (said.excepted if said.exception else []), True
    verb: Verb | None = "keep" if polarity == "keep" else "drop" if polarity == "drop" else None
    if said.nothing and polarity and said.negated:
        verb = "keep" if said.keep else "drop"
    bad = polarity == "both"
    if bad:
        return _List(((-1, -1),), None, rank, paragraph)
    document = bool(said.documents or (section and section.documents))
    return _List(tuple(ranges), verb, rank, paragraph, document, complement)


def _decide(lists: list[_List], count: int) -> Numbers | None:
    if any((-1, -1) in found.ranges for found in lists):
        return None
    best = max(found.rank for found in lists)
    lists = [found for found in lists if found.rank == best]
    if best and len({_set(found, count) for found in lists}) > 1:
        return None
    if best:
        return _numbers(lists[-1], count)
    if all(f.document for f in lists) and {f.verb for f in lists} == {"keep", None}:
        lists = [replace(f, verb="keep") for f in lists]
    keep = [f for f in lists if f.verb == "keep"]
    drop = [f for f in lists if f.verb == "drop"]
    plain = [f for f in lists if f.verb is None]
    if plain and (keep or drop):
        if keep and {n for f in plain for n in _set(f, count)} != {n for f in keep for n in _set(f, count)}:
            return None
        return _union(keep or plain, count)
    if keep and drop:
        kept, dropped = ({n for f in g for n in _set(f, count)} for g in (keep, drop))
        return None if kept & dropped else _union(keep, count)
    chosen = keep or drop or plain
    if any(f.document for f in chosen):
        named = [n for f in chosen for a, b in f.ranges for n in range(a, min(b, count) + 1)]
        return _union(chosen, count) if named == sorted(set(named)) else None
    if len({f.paragraph for f in chosen}) > 1 and len({_set(f, count) for f in chosen}) > 1 and not (keep or drop):
        return None
    return _union(chosen, count)


def _set(found: _List, count: int) -> frozenset[int]:
    return frozenset(_numbers(found, count).chosen)


def _union(lists: Sequence[_List], count: int) -> Numbers | None:
    if any(f.complement for f in lists) and len(lists) > 1:
        return _numbers(lists[0], count) if len({_set(f, count) for f in lists}) == 1 else None
    ranges = tuple(r for f in lists for r in f.ranges)
    verbs = {f.verb for f in lists}
    if len(lists) > 1 and not all(f.ranges or f.document for f in lists):
        if any(f.ranges for f in lists):
            return None  # NONE beside numbers
    return _numbers(replace(lists[0], ranges=ranges, verb=verbs.pop() if len(verbs) == 1 else None), count)


def _numbers(found: _List, count: int) -> Numbers:
    ranges: Sequence[Range] = found.ranges
    if found.complement:
        out = set(_collect(ranges, count, None).chosen)
        ranges = [(n, n) for n in range(1, count + 1) if n not in out]
    return _collect(ranges, count, found.verb)


def _collect(ranges: Iterable[Range], count: int, verb: Verb | None) -> Numbers:
    steps = [0] * (count + 2)  # +1 where a range begins, -1 after it ends: their sums say how often each is named
    unknown: list[str] = []
    order: dict[int, None] = {}
    for a, b in ranges:
        low, high = min(a, b), max(a, b)
        if low < 1 or high > count:
            unknown.append(str(a) if a == b else f"{a}-{b}")
        low, high = max(low, 1), min(high, count)
        if low <= high:
            steps[low] += 1
            steps[high + 1] -= 1
            if len(order) < count:
                order.update(dict.fromkeys(range(low, high + 1) if a <= b else range(high, low - 1, -1)))
    times = list(itertools.accumulate(steps))
    chosen = tuple(n for n in range(1, count + 1) if times[n])
    repeated = tuple(n for n in chosen if times[n] > 1)
    return Numbers(chosen, verb, repeated, tuple(dict.fromkeys(unknown)), tuple(order))


_KEYS = ("piece", "number", "id", "index", "n", "sentence", "item")


def _from_json(text: str, count: int) -> Numbers | None:
    data = json_in(text)
    if isinstance(data, dict):
        return _from_object(data, count)
    ranges = _ranges(data, count)
    return None if ranges is None else _collect(ranges, count, None)


def _from_object(data: dict[Any, Any], count: int) -> Numbers | None:
    flags = {str(k).strip(): v for k, v in data.items()}
    if flags and all(re.fullmatch(r"(?:piece |sentence )?\d{1,6}", k) for k in flags):
        chosen = []
        for key, value in flags.items():
            verdict = (
                value if isinstance(value, bool) else {"yes": True, "no": False}.get(_verdict(str(value)) or "")
            )
            if not isinstance(verdict, bool):
                return None
            chosen += [int(re.sub(r"\D", "", key))] * verdict
        return _collect([(n, n) for n in chosen], count, "keep")
    lists: dict[str, list[Range]] = {}
    for key, value in flags.items():
        ranges = _ranges(value, count) if isinstance(value, (list, str)) else None
        if ranges is not None:
            lists[key.lower()] = ranges
    verbs = {key: read(normal(key.replace("_", " "))) for key in lists}
    keep = [k for k, s in verbs.items() if s.polarity == "keep"]
    drop = [k for k, s in verbs.items() if s.polarity == "drop"]
    documents = [k for k, s in verbs.items() if s.documents]
    if len(documents) == len(lists) > 0:
        named = [n for k in documents for a, b in lists[k] for n in range(a, min(b, count) + 1)]
        ranges = [r for k in documents for r in lists[k]]
        return _collect(ranges, count, None) if named == sorted(set(named)) else None
    if len(keep) > 1 or len(drop) > 1 or (not keep and not drop and len(lists) != 1):
        return None
    if keep and drop:
        both = [set(_collect(lists[k], count, None).chosen) for k in (keep[0], drop[0])]
        if both[0] & both[1] or not both[0]:
            return None
    key = (keep or drop or list(lists))[0]
    return _collect(lists[key], count, "keep" if keep else "drop" if drop else None)


def _ranges(data: Any, count: int) -> list[Range] | None:
    """The ranges of a JSON list, or of a text that is a list."""
    if isinstance(data, str):
        said = read(normal(data))
        if said.nothing and said.is_list:
            return []
        if said.everything and said.is_list and not said.exception:
            return [(1, count)]
        return said.ranges if said.is_list and not said.documents else None
    if not isinstance(data, list):
        return None
    ranges: list[Range] = []
    for item in data:
        if isinstance(item, dict):
            numbers = [v for k, v in item.items() if str(k).lower() in _KEYS]
            item = numbers[0] if len(numbers) == 1 else None
        if isinstance(item, int) and not isinstance(item, bool):
            ranges.append((min(item, LARGEST), min(item, LARGEST)))
        elif isinstance(item, str) and (inner := _ranges(item, count)):
            ranges += inner
        elif isinstance(item, float) and item.is_integer() and item < LARGEST:
            ranges.append((int(item), int(item)))
        else:
            return None
    return ranges
