"""Text without markup or records: which kind it is, and its chunks.

`prose` chunks Markdown, plain text and mail; `entries` logs and transcripts;
`source_code` source code.
"""

from __future__ import annotations

import re

from denoise_core.spans import Ranges
from denoise_core.text.chunk import sentence_ranges
from denoise_core.text.entries import entry_chunks, entry_starts, head_lines
from denoise_core.text.prose import line_kind, prose_chunks
from denoise_core.text.source_code import code_chunks
from denoise_core.text.text_chunk import MAX_CHUNK_CHARACTERS, TextChunk

PLAIN_TEXT = "text"
SOURCE_CODE = "code"
LOG_ENTRIES = "entries"
LINE_FORMATS = (PLAIN_TEXT, SOURCE_CODE, LOG_ENTRIES)

_MIN_LINES = 5  # lines from which on a text may be a log or source code
_MIN_INDENTED = 0.4  # share of indented lines in source code
_MIN_CODE_ENDINGS = 0.25  # share of lines in source code with such an ending
_CODE_ENDINGS = (":", "{", "}", ";", ")", "]", ",")
_PRONOUN = re.compile(
    r"\W*(he|she|it|its|they|them|their|his|her|this|these|those|that|such|"
    r"the (?:former|latter))\b",
    re.IGNORECASE,
)


def detect_line_format(text: str) -> str:
    """Return ``"entries"``, ``"code"`` or ``"text"``.

    Entries: most lines begin alike, with a time or a speaker. Code: many lines are
    indented, or end as code does.
    """
    all_lines = head_lines(text)
    lines = list(filter(None, all_lines))
    if len(lines) < _MIN_LINES:
        return PLAIN_TEXT
    if entry_starts(all_lines):
        return LOG_ENTRIES
    if any(line_kind(line) == "fence" for line in lines):
        return PLAIN_TEXT  # Markdown says where its code is
    indented_lines = sum(line[0] in " \t" for line in lines)
    code_lines = sum(
        line.rstrip().endswith(_CODE_ENDINGS) and line_kind(line) != "item"
        for line in lines
    )
    is_indented = indented_lines > _MIN_INDENTED * len(lines)
    is_code = is_indented and code_lines > _MIN_CODE_ENDINGS * len(lines)
    if is_code:
        return SOURCE_CODE
    return PLAIN_TEXT


def line_chunks(text: str, line_format: str) -> list[TextChunk]:
    """Return the chunks of a text in the format that `detect_line_format` gives."""
    is_one_line = "\n" not in text and len(text) <= MAX_CHUNK_CHARACTERS
    if is_one_line or not text.strip():
        return [TextChunk(0, len(text))]
    if line_format == LOG_ENTRIES:
        return entry_chunks(text)
    if line_format == SOURCE_CODE:
        return code_chunks(text)
    return prose_chunks(text)


def antecedent_sentence(text: str, chunk: TextChunk) -> Ranges:
    """Return the sentence before a chunk that begins with a pronoun.

    It says whom "he" or "this" means. Empty for any other chunk.
    """
    start = chunk.start
    if start == 0 or not _PRONOUN.match(text, start, start + 40):
        return []
    paragraph_start = text.rfind("\n\n", 0, len(text[:start].rstrip()))
    search_start = max(paragraph_start, start - MAX_CHUNK_CHARACTERS, 0)
    return sentence_ranges(text, search_start, start)[-1:]
