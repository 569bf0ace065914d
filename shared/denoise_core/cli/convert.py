"""PDF and docx to text with headings, by libraries of the extra ``documents``.

pypdf reads PDF; mammoth turns docx into HTML and markdownify that into Markdown.
Nothing in a file is executed or fetched. A scanned PDF has no text and is an error.
"""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Callable

from denoise_core._optional import require
from denoise_core.errors import InputError, MissingExtra

DOCUMENTS_EXTRA = "documents"
MAX_UNPACKED_BYTES = 256 * 2**20  # of a docx: a few packed bytes may be gigabytes
# Their words are text, their Markdown marks would only be noise.
UNWRAPPED_TAGS = ("a", "b", "code", "em", "i", "img", "strong")

_BLANK_LINES = re.compile(r"\n{3,}")


def pdf_text(blob: bytes) -> str:
    """Return the pages' text, separated by blank lines.

    Raises:
        InputError: The file has no text, or a password.
    """
    pypdf = require("pypdf", extra=DOCUMENTS_EXTRA)
    # It logs its difficulties without the file's name; its errors reach the user with it.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(blob))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InputError("it is protected by a password")
    page_texts = [page.extract_text() for page in reader.pages]
    text = _normalize_blank_lines("\n\n".join(page_texts))
    if not text:
        raise InputError(
            f"its {len(page_texts)} pages have no text: a scan needs OCR first"
        )
    return text


def docx_text(blob: bytes) -> str:
    """Return headings, paragraphs, lists and tables as Markdown.

    Raises:
        InputError: Unpacked, it is larger than `MAX_UNPACKED_BYTES`.
    """
    mammoth = require("mammoth", extra=DOCUMENTS_EXTRA)
    markdownify = require("markdownify", extra=DOCUMENTS_EXTRA)
    docx_stream = io.BytesIO(blob)
    with zipfile.ZipFile(docx_stream) as package:
        unpacked_bytes = sum(part.file_size for part in package.infolist())
    if unpacked_bytes > MAX_UNPACKED_BYTES:
        raise InputError(
            f"unpacked it has {unpacked_bytes:,} bytes; at most {MAX_UNPACKED_BYTES:,} "
            "are read"
        )
    html_result = mammoth.convert_to_html(docx_stream)
    markdown = markdownify.markdownify(
        html_result.value,
        heading_style="ATX",
        strip=list(UNWRAPPED_TAGS),
        escape_asterisks=False,
        escape_underscores=False,
    )
    return _normalize_blank_lines(markdown)


CONVERTERS: dict[str, Callable[[bytes], str]] = {".pdf": pdf_text, ".docx": docx_text}


def convert_file(suffix: str, blob: bytes) -> str:
    """Return the text of a file whose name ends with a suffix of `CONVERTERS`.

    Raises:
        InputError: The file cannot be read.
        MissingExtra: The extra ``documents`` is not installed.
    """
    try:
        return CONVERTERS[suffix](blob)
    except (InputError, MissingExtra):
        raise
    except Exception as error:  # the libraries raise anything for a damaged file
        raise InputError(
            f"it is no {suffix[1:]} file that can be read "
            f"({type(error).__name__}: {error})"
        ) from error


def _normalize_blank_lines(text: str) -> str:
    text_lines = [line.rstrip() for line in text.splitlines()]
    separated_text = _BLANK_LINES.sub("\n\n", "\n".join(text_lines))
    return separated_text.strip()
