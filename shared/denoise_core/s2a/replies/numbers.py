"""Which pieces a reply names: strict about what a list is, tolerant about where it stands.

Statements that disagree are not weighed against each other: such a reply is an `UnparsableReply`, and so is one
that ends in the middle of its list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from denoise_core.s2a.replies import leftover
from denoise_core.s2a.replies import lexicon as lex
from denoise_core.s2a.replies.collected import Numbers, Verb
from denoise_core.s2a.replies.decide import Listed, decide, numbers_of
from denoise_core.s2a.replies.objects import from_json
from denoise_core.s2a.replies.statements import Range, Said, normal, read, verdict
from denoise_core.text.replies import fenced, said, unparsable

_LONGEST = 20_000  # characters; a longer reply is no list of ours unless all of it is one
_BOXED = re.compile(r"\\(?:boxed|fbox)\s{0,9}\{((?:[^{}]|\{[^{}]*\})*)\}")
_LATEX = re.compile(r"\\(?:text|mathrm|textbf|mathbf)\s{0,9}\{([^{}]*)\}|\\[\[\](){}]|\$|\\[,;]")
_TAGGED = re.compile(
    r"<(answer|response|output|result|final_answer|final|keep|numbers|pieces)>\s{0,9}(.*?)\s{0,9}</\1>",
    re.I | re.S,
)
_BULLET = re.compile(r"^[ \t]{0,9}(?:[-*+•‣◦·][ \t]{1,9}|>[ \t]{0,9})+")
_OUTER = re.compile(r"^(\d{1,4})[.)][ \t]{1,9}(?=\S)")
_INNER = re.compile(
    r"^(?:(?P<word>[^\W\d_]+)[ \t]{1,9}(?:no\.?[ \t]{1,9})?)?(?P<open>[\[(【])?(?P<n>\d{1,6})(?P<close>[\])】])?"
    r"[ \t]{0,9}(?P<mark>[:：.–—]|-(?!\d))?[ \t]{0,9}(?P<text>.*)$"
)
_SENTENCE = re.compile(r"(?<=[.!?。！？؟])[ \t]{1,9}|(?<=[。！？؟])|[;；؛]|\.\.\.[ \t]{0,9}")
_PARENTHESIS = re.compile(r"\(([^()]{0,400})\)")
_RULE = re.compile(r"^[\s|:+=_*~-]+$")
_ANSWERED = re.compile(
    r"\n(?=[^\n]{0,9}\b(?:final|answer|so|therefore)\b)|(?<=[.!])\s(?=(?:So|Final|Therefore|Answer)\b)", re.I
)


def numbers(reply: str, count: int) -> Numbers:
    """The numbers that a reply names, of pieces ``1..count``.

    Raises `UnparsableReply` when there is no list, when two disagree, when no number of it exists, and for a 0,
    from which on one cannot know where the counting began.
    """
    text = said(reply)
    found = from_json(text, count)
    if found is None:
        text = normal(_LATEX.sub(lambda m: m[1] or " ", _BOXED.sub(r"\nFinal: \1\n", text)))
        if len(text) <= _LONGEST:
            text = leftover.prepared(text)
            if leftover.never_a_list(text):
                raise unparsable("a list of numbers that ends, without others struck out or ranked", reply)
        tagged = _TAGGED.findall(text) if len(text) <= _LONGEST else []
        blocks = [t[1] for t in tagged] or fenced(text)
        inner = [_one(b, count) for b in blocks[-2:]]
        if inner and any(inner):
            lists = [i for i in inner if i is not None]
            found = lists[0] if len({(i.chosen, i.verb) for i in lists}) == 1 else None
        else:
            found = _one(text, count)
        if found and not inner and len(text) <= _LONGEST:
            whole = read(text)
            every = whole.everything and not (whole.prose or whole.exception) and bool(whole.ranges)
            if every and len(found.chosen) < count:
                raise unparsable("all pieces, or a list of them", reply)
            said_last = _ANSWERED.split(text)[-1]
            if leftover.in_doubt(said_last, found.chosen, count):
                raise unparsable("numbers that the reply does not put in doubt", reply)
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
        return numbers_of(_as_list(whole, None, 0), count)
    if len(text) > _LONGEST:
        return None
    lists = _lists(text, count)
    return None if lists is None else decide(lists, count)


def _one_plain_list(text: str, whole: Said) -> bool:
    return whole.polarity is None and not re.search(r"\n[ \t]{0,9}\n[ \t]{0,9}\S", text)


def _lists(text: str, count: int) -> list[Listed] | None:
    """Every list in the reply; None when a line contradicts that it is one."""
    found: list[Listed] = []
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
        is_heading = line.lstrip().startswith("#") or re.fullmatch(
            r"\s{0,9}\*\*[^*]+\*\*:?\s{0,9}|[^:]*[:：]\s{0,9}", line
        )
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
        stray = any(n not in named and verdict(text) != "no" for n, text, plain in items if not plain)
        return None if stray and not any(f.rank for f in found) else found
    return _items(items, outer, count)


def _is_piece(m: re.Match[str]) -> bool:
    word = (m["word"] or "").lower()
    return bool(m["open"] and m["close"]) or word in lex.PIECE


def _is_document(m: re.Match[str]) -> bool:
    word = (m["word"] or "").lower()
    return word in lex.DOCUMENT or bool(word and word not in lex.PIECE)


def _items(items: Sequence[tuple[int, str, bool]], outer: Sequence[int], count: int) -> list[Listed] | None:
    """Lines that begin with a number: pieces with their text behind them, or with a verdict on each."""
    if not items:
        return None
    marked = [(n, verdict(text) or verdict(text.rpartition("(")[2].rstrip(" ).") + ".")) for n, text, _ in items]
    if any(plain and read(text).ranges and read(text).is_list for _, text, plain in items):
        return None  # "2) and 5)"
    if any(plain for _, _, plain in items):
        order = [n for n, _, _ in items]
        counted = order == list(range(1, len(order) + 1))
        if counted and not (len(order) == count and all(v in ("yes", "no") for _, v in marked)):
            return None  # "1. ..., 2. ...": the reply's own counting, or the pieces'?
        if not all(plain for _, _, plain in items) or order != sorted(set(order)):
            return None
    if any(stays == "unclear" for _, stays in marked):
        return None
    if any(stays for _, stays in marked):
        if not all(stays for _, stays in marked):
            return None
    elif len({n for n, _ in marked}) == count > 2:
        return None  # a walk through all the pieces says nothing yet
    return [Listed(((n, n),), "drop" if v == "no" else "keep" if v == "yes" else None, 0, 0) for n, v in marked]


def _row(cells: Sequence[str], columns: Sequence[Said], paragraph: int) -> Listed | None:
    """A table row: pieces with a verdict, documents with their pieces, or pieces alone."""
    if not cells:
        return None
    first = read(cells[0])
    if not first.ranges or first.prose:
        return None
    about_documents = bool(columns) and not columns[0].piece and _names_documents(columns[0])
    for cell in cells[1:]:
        stays = verdict(cell)
        second = read(cell)
        if about_documents and second.is_list:
            return Listed(tuple(second.ranges), None, 0, paragraph, document=True)
        if stays in ("yes", "no"):
            return Listed(tuple(first.ranges), "drop" if stays == "no" else "keep", 0, paragraph)
        if stays == "unclear" or second.is_list:
            return None
    return None if about_documents else Listed(tuple(first.ranges), None, 0, paragraph)


def _names_documents(column: Said) -> bool:
    return column.documents != [] or (column.prose is False and not column.piece and not column.answer)


def _line(line: str, section: Said | None, paragraph: int) -> list[Listed]:
    """The lists of one line: all of it, what stands behind a colon, or its sentences."""
    spoken = _unparenthesised(line)
    if spoken != line and any(verdict(m[1]) == "no" for m in _PARENTHESIS.finditer(line)) and read(spoken).is_list:
        return [Listed(((-1, -1),), None, 0, paragraph)]  # "2 (relevant), 5 (not relevant)"
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
        left = re.split(r"(?<=[.!?。！？])\s{1,9}", spoken[:at].strip())[-1]
        label = read(left)
        if label.documents and right.everything and not right.exception:
            return [Listed(((-1, -1),), None, 0, paragraph)]  # all of one document
        if re.search(r"[:：]\s{0,9}\d[^.!?;\n]{0,200}$", spoken[:at]) and not label.documents:
            return [Listed(((-1, -1),), None, 0, paragraph)]  # "A: 2, B: 5"
        if label.ranges and (right.everything or right.nothing) and not label.documents:
            return [Listed(((-1, -1),), None, 0, paragraph)]
        if label.ranges and not label.documents and not label.prose and not label.everything:
            stays = verdict(spoken[at + 1 :])
            if stays in ("yes", "no"):
                return [Listed(tuple(label.ranges), "keep" if stays == "yes" else "drop", 0, paragraph)]
            return [Listed(((-1, -1),), None, 0, paragraph)]  # "1: 8/10", "1: 2", "without 3: all": no list
        merged = replace_said(right, label)
        return [_as_list(merged, section, paragraph)]
    before, _, rest = spoken.partition(":")
    own = read(before)
    if rest and own.ranges and not own.prose and not own.documents and (v := verdict(rest)) in ("yes", "no"):
        return [Listed(tuple(own.ranges), "keep" if v == "yes" else "drop", 0, paragraph)]
    if own.ranges and not own.prose and not rest and (own.yes != own.no):
        return [Listed(tuple(own.ranges), "keep" if own.yes else "drop", 0, paragraph)]
    if len(sentences) < 2:
        cut = re.split(lex.BECAUSE, spoken, maxsplit=1, flags=re.IGNORECASE)
        head = read(cut[0].rstrip(" ,") if len(cut) > 1 else spoken)
        if head.is_list and (head.polarity or head.piece or (head.nothing and len(cut) > 1)):
            return [_as_list(head, section, paragraph)]
        first = read(re.split(r"\s[-–—]\s", spoken, maxsplit=1)[0])  # "NONE - the text is about ..."
        return [_as_list(first, section, paragraph)] if first.is_list and first.nothing else []
    lists = [read(s) for s in sentences]
    leading = next((s for s in lists if s.is_list), None)
    if (
        leading
        and leading is not lists[0]
        and not (leading.polarity or leading.piece or leading.final or leading.answer)
    ):
        return []  # a statement with its sources behind it: "It is 330 m tall. [2, 4]"
    got = [
        _as_list(s, section, paragraph) for s in lists if s.is_list or (s.ranges and not s.prose and s.polarity)
    ]
    return got


def replace_said(right: Said, label: Said) -> Said:
    """The list behind a colon, with what the words before the colon say of it."""
    right.keep, right.drop = right.keep or label.keep, right.drop or label.drop
    right.negated += label.negated if label.keep or label.drop else 0
    if label.yes != label.no and not (label.keep or label.drop or label.prose):
        right.keep, right.drop = right.keep or label.yes, right.drop or label.no
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
    if re.search(r"\d\s{0,9}[:：]\s{0,9}(?:\d|\w)", text):
        return True
    left, colon, _ = text.partition(":")
    told = read(_PARENTHESIS.sub(" ", left))
    return bool(colon and told.ranges and not told.documents)


def _unparenthesised(line: str) -> str:
    """Without remarks in parentheses; a list in them stays."""
    line = re.sub(r"[（]", "(", line).replace("）", ")")
    return _PARENTHESIS.sub(lambda m: m[0] if read(m[1]).is_list else " ", line)


def _as_list(said: Said, section: Said | None, paragraph: int) -> Listed:
    polarity = said.polarity
    if polarity is None and section is not None:
        polarity = section.polarity
    rank = 2 if said.final or (section and section.final) else 1 if said.answer else 0
    ranges: list[Range] = said.ranges
    complement = False
    if said.everything and (said.exception or not ranges):
        ranges, complement = (said.excepted if said.exception else []), True
    elif said.exception:
        out = {n for a, b in said.excepted for n in range(a, min(b, a + 1000) + 1)}
        every = [n for a, b in ranges for n in range(min(a, b), min(max(a, b), min(a, b) + 1000) + 1)]
        ranges = [(n, n) for n in every if n not in out]
    verb: Verb | None = "keep" if polarity == "keep" else "drop" if polarity == "drop" else None
    if said.nothing and polarity and said.negated:
        verb = "keep" if said.keep else "drop"
    bad = polarity == "both"
    if bad:
        return Listed(((-1, -1),), None, rank, paragraph)
    document = bool(said.documents or (section and section.documents))
    return Listed(tuple(ranges), verb, rank, paragraph, document, complement)
