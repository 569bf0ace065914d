"""The prose around the facts: sentences of public-domain stories (A. Conan Doyle, 1892).

    python -m denoise_lab.worlds.prose STORY.txt ...   # cut them anew, into the package

The shipped ones are of stories II, IV, V and VII of "The Adventures of Sherlock Holmes"; the others are free for
measuring in prose that the reader never saw.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from denoise_core.text.chunk import sentences
from denoise_core.types import Passage

PROSE = Path(__file__).parents[1] / "data" / "prose.txt.gz"
_LEAST, _MOST = 12, 400  # characters of a sentence that is taken, exclusive


@cache
def prose() -> tuple[str, ...]:
    """The sentences, in the book's order."""
    return tuple(gzip.decompress(PROSE.read_bytes()).decode().splitlines())


def cut(texts: Iterable[str]) -> tuple[str, ...]:
    """The sentences of ``texts``, each on one line; very short and very long ones are left out.

    A blank line ends a sentence.
    """
    out: list[str] = []
    for paragraph in (part for text in texts for part in re.split(r"\n\s*\n", text)):
        passage = Passage(" ".join(paragraph.split()), "paragraph")
        out += [passage.text[s.start : s.end].strip() for s in sentences(passage)]
    return tuple(s for s in out if _LEAST < len(s) < _MOST)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("story", type=Path, nargs="+", help="text file, UTF-8")
    parser.add_argument("--out", type=Path, default=PROSE, help="default: where the package keeps it")
    given = parser.parse_args(argv)
    said = cut(path.read_text("utf-8") for path in given.story)
    given.out.write_bytes(gzip.compress("\n".join(said).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
