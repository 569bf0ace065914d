"""The grammar of citations: what a bracket in an answer names.

``[1]``, ``[2, 4-6]``, ``[^1]`` and ``【1†source】`` count passages, ``[2.3]`` and
``[2.3-2.5]`` name labels, ``[id]`` names a passage by its id. Which of them exist says
`denoise_core.support.citing`; a number behind a word, as in ``[doc 3]``, cites only what
exists, since it may be of anything: ``[Table 5]``, ``[RFC 793]``.
"""

from __future__ import annotations

import re

BRACKETED = re.compile(r"\[([^\[\]\n]{1,80})\]|【([^】\n]{1,40})】")
"""What a citation may be."""
_LABELS = re.compile(
    r"\^?(?P<word>[^\W\d]{1,9}\.?\s)?"
    r"(?P<first>\d{1,3}(?:\.\d{1,3})?)"
    r"(?:\s{0,3}[–-]\s{0,3}(?P<last>\d{1,3}(?:\.\d{1,3})?))?"
    r"(?:†.*|[\s.:*]{0,9})"
)
_SEPARATORS = re.compile(r"[,;]")
_MAX_RANGE = 50


def cited_names(bracket: str) -> list[str]:
    """The names in a bracket, as they are written."""
    names = _SEPARATORS.split(bracket[1:-1])
    return [name.strip() for name in names]


def named_labels(name: str) -> tuple[str, ...]:
    """The numbers or labels of a name, a range spelled out; () for an id.

    >>> named_labels("doc 3"), named_labels("4-6"), named_labels("1.2-1.3")
    (('3',), ('4', '5', '6'), ('1.2', '1.3'))
    """
    match = _LABELS.fullmatch(name)
    if match is None:
        return ()
    first_label = match["first"]
    last_label = match["last"] or first_label
    prefix, point, first_number = first_label.rpartition(".")
    last_prefix, _, last_number = last_label.rpartition(".")
    if last_prefix not in ("", prefix):
        return (first_label, last_label)
    low = int(first_number)
    named_high = int(last_number)
    high = min(named_high, low + _MAX_RANGE)
    label_prefix = f"{prefix}{point}"
    label_numbers = range(low, high + 1)
    return tuple(f"{label_prefix}{number}" for number in label_numbers)


def is_worded(name: str) -> bool:
    """Whether a word is before the number of a name, as in "doc 3" and "Table 5"."""
    match = _LABELS.fullmatch(name)
    return match is not None and match["word"] is not None


def remove_citations(answer: str) -> str:
    """The answer without numbers and labels in brackets."""
    parts = []
    offset = 0
    for match in BRACKETED.finditer(answer):
        names = cited_names(match[0])
        is_citation = all(map(named_labels, names))
        if is_citation:
            text_before = answer[offset : match.start()]
            kept_text = text_before.removesuffix(" ")
            parts.append(kept_text)
            offset = match.end()
    text_behind = answer[offset:]
    parts.append(text_behind)
    return "".join(parts)
