"""PDF and docx as text with their headings, by well-kept libraries behind the extra ``documents``.

pypdf for PDF, mammoth for docx (as HTML first, which markdownify makes Markdown). Nothing in a file is executed or
fetched; a scanned PDF has no text and is named as such.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from denoise_core._optional import require
from denoise_core.errors import InputError, MissingExtra

DOCUMENTS_EXTRA = "documents"
UNWRAPPED_TAGS = (
    "a",
    "b",
    "code",
    "em",
    "i",
    "img",
    "strong",
)  # whose words are read, and whose marks are not

_BLANK = re.compile(r"\n{3,}")


def pdf_text(blob: bytes) -> str:
    """The pages' text, a blank line between two. Raises `InputError` for one without text or with a password."""
    pypdf = require("pypdf", extra=DOCUMENTS_EXTRA)
    reader = pypdf.PdfReader(io.BytesIO(blob))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InputError("it is protected by a password")
    text = _tidy("\n\n".join(page.extract_text() for page in reader.pages))
    if not text:
        raise InputError(
            f"its {len(reader.pages)} pages hold no text: a scan needs OCR first"
        )
    return text


def docx_text(blob: bytes) -> str:
    """Headings, paragraphs, lists and tables as Markdown."""
    html = (
        require("mammoth", extra=DOCUMENTS_EXTRA)
        .convert_to_html(io.BytesIO(blob))
        .value
    )
    how = {
        "heading_style": "ATX",
        "strip": list(UNWRAPPED_TAGS),
        "escape_asterisks": False,
        "escape_underscores": False,
    }
    return _tidy(require("markdownify", extra=DOCUMENTS_EXTRA).markdownify(html, **how))


CONVERTERS: dict[str, Callable[[bytes], str]] = {".pdf": pdf_text, ".docx": docx_text}


def convert_file(suffix: str, blob: bytes) -> str:
    """The text of a file whose name ends with one of `CONVERTERS`. Raises `InputError` for one that cannot be
    read, and `MissingExtra` without the extra.
    """
    try:
        return CONVERTERS[suffix](blob)
    except (InputError, MissingExtra):
        raise
    except Exception as error:  # libraries raise what they like on a damaged file; it is named and may be left out
        raise InputError(
            f"it is no {suffix[1:]} file that can be read ({type(error).__name__}: {error})"
        ) from error


def _tidy(text: str) -> str:
    return _BLANK.sub(
        "\n\n", "\n".join(line.rstrip() for line in text.splitlines())
    ).strip()
