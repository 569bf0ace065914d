"""What the S2A benchmarks share: intervals, sentences of real sets, a small text for the quick forms."""

from __future__ import annotations

from typing import Any

from denoise_core import Passage, UnparsableReply
from denoise_core.s2a.pieces import split_pieces
from denoise_core.s2a.replies import ParsedSelection, parse_selection, parse_texts

SMALL = (
    "Marie Curie was born in Warsaw on 7 November 1867. She moved to Paris in 1891 (with little money). "
    "Curie won the Nobel Prize in Physics in 1903, and her husband shared it with her. "
    "The Eiffel Tower is 330 metres tall. Gustave Eiffel was the owner of the company that built it. "
    "The tower was not popular with the artists of Paris at first.",
    "Albert Einstein was born in Ulm on 14 March 1879. He was a clerk at the patent office in Bern in 1905. "
    "Einstein received the Nobel Prize in Physics in 1921 (for the photoelectric effect). "
    "Lake Geneva has a surface of 580 square kilometres. The lake is shared by France and Switzerland.",
    "Lisbon is the capital of Portugal. The city had about 545,000 people in 2021. "
    "An earthquake was felt there on 1 November 1755, and much of the city was lost. "
    "The Vasco da Gama Bridge is 12.3 km long. Luís de Camões was a poet of the 16th century (he died in 1580).",
)


def sentences_of(text: str) -> list[str]:
    return [text[s.start : s.end].strip() for s in split_pieces(Passage(text, "p"))]


def passages_of(record: dict[str, Any]) -> list[Passage]:
    """The passages of one record, with their titles as metadata."""
    return [
        Passage(p["text"], str(p["id"]), metadata={"title": p.get("title", "")})
        for p in record["passages"]
    ]


UNREADABLE = "unreadable"
NOT_ASKED = "no longer asked for"


def read_reply(record: dict[str, Any]) -> Any:
    """What the grammar reads from one record of the corpus of replies, in the corpus's own terms."""
    request, reply = record["request"], record["reply"]
    try:
        if request in ("numbers", "grouped_numbers"):
            return numbers_of(
                parse_selection(reply, record["n"]), record["asked"], record["n"]
            )
        if request == "rewrite":
            return parse_texts(reply, "context")[0]
        if request == "fields":
            context, question = parse_texts(reply, "context", "question")
            return {"context": context, "question": question}
    except UnparsableReply:
        return UNREADABLE
    return NOT_ASKED


def numbers_of(found: ParsedSelection, asked: str, count: int) -> list[int]:
    """The numbers as the request meant them: ``asked`` is ``keep`` or ``leave_out``."""
    if found.verb in (None, "keep" if asked == "keep" else "drop"):
        return sorted(found.numbers)
    return [n for n in range(1, count + 1) if n not in set(found.numbers)]
