"""Many rows on the processes of one machine with `datasets`, in parts; a part that is there is not done again.

    pip install 'rag-denoise[embedded]' 'datasets>=5'
    python datasets_map_denoise.py rows.jsonl denoised/ --workers 4 --parts 20

``rows.jsonl`` has one ``{"id": ..., "query": ..., "passages": [text, ...]}`` a line. ``denoised/`` gets the files
``part-0000.jsonl`` and so on, with one line for each line of the input, in its order: ``{"id": ..., "passages":
[{"id": position, "text": ...}, ...]}``, or ``{"line": number, "id": ..., "error": ...}`` for a row that failed.

Killed at any moment, the same command goes on: a part is written under another name and renamed when it is whole,
so a half-written one never counts. When a worker dies, its part is begun again with one worker, and a row at which
that one died twice is a failed row: each is marked by a file ``part-0000.jsonl.LINE.begun`` while it is worked on.
Take another output folder for other settings or other input.
"""

import argparse
import json
import os
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset

from denoise_core import Passage, default_denoiser
from denoise_core.end import ENDDenoiser

MAX_DEATHS = 2  # of workers at one row: once may be chance, such as a machine that stops


@cache
def denoiser_of(keep: Any) -> ENDDenoiser:
    """Built once in each worker, at its first row: only settings go to other processes."""
    denoiser = default_denoiser(keep=keep)
    # What no row could do without, such as a missing extra, ends the job here and not in every row.
    denoiser.denoise("Does it load?", [Passage("It loads.", "0")])
    return denoiser


def denoise_row(line: dict[str, str], index: int, first: int, keep: Any, part: str) -> dict[str, str]:
    """What is written for one line, as JSON; ``first`` is the number of the first line of the file ``part``."""
    denoiser = denoiser_of(keep)
    number = first + index
    row_id = None
    begun = Path(f"{part}.{number}.begun")
    try:
        utf8 = line["text"].encode("latin-1")
        row = json.loads(utf8.decode("utf-8-sig"))  # a byte order mark is no part of the row
        row_id = row["id"]
        if not isinstance(row["passages"], list):
            raise TypeError(f"passages: expected a list of texts, got a {type(row['passages']).__name__}")
        passages = [Passage(text, str(position)) for position, text in enumerate(row["passages"])]
        if begun.exists() and begun.stat().st_size >= MAX_DEATHS:
            raise RuntimeError(f"the worker died {MAX_DEATHS} times at this row")
        with begun.open("a") as deaths:
            deaths.write("x")
        result = denoiser.denoise(row["query"], passages)
    except (Exception, SystemExit) as error:
        failed = {"line": number, "id": row_id, "error": f"{type(error).__name__}: {error}"}
        return {"denoised": json.dumps(failed)}
    finally:
        begun.unlink(missing_ok=True)
    kept = [{"id": p.id, "text": p.text} for p in result.passages]
    return {"denoised": json.dumps({"id": row_id, "passages": kept})}


def denoise_part(part: Dataset, first: int, path: Path, keep: Any, workers: int) -> list[str]:
    """Denoise the lines of a part; again when a worker died at a row, which has its limit."""
    workers = min(workers, len(part))
    while True:
        try:
            done = part.map(
                denoise_row,
                with_indices=True,
                fn_kwargs={"first": first, "keep": keep, "part": str(path)},
                num_proc=workers,
                load_from_cache_file=False,  # the parts are what a killed run goes on from
            )
            return list(done["denoised"])
        except RuntimeError:
            rows_begun = list(path.parent.glob(f"{path.name}.*.begun"))
            if not rows_begun:
                raise
            if workers > 1:
                # The other workers were stopped in the middle of their rows: only one alone shows which row it is.
                for begun in rows_begun:
                    begun.unlink()
                workers = 1


def write_part(path: Path, lines: Iterable[str]) -> None:
    """Write the lines; under ``path`` there is all of it or nothing."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())  # a machine that stops must not leave the new name on an empty file
    unfinished.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--keep", type=int, help="passages to keep for each row; as many as help, unless given")
    options = parser.parse_args()
    keep = "auto" if options.keep is None else options.keep
    default_denoiser(keep=keep)  # refuses a number that cannot be kept before anything is written
    options.output.mkdir(parents=True, exist_ok=True)
    for left in (*options.output.glob("*.tmp"), *options.output.glob("*.begun")):  # by a run that was killed
        left.unlink()
    if not options.rows.stat().st_size:  # `load_dataset` fails at a file without a line
        print(f"{options.rows} has no rows")
        return
    # Latin-1 has a character for each byte, so that one that is not UTF-8 fails its row and not the file.
    lines = load_dataset("text", data_files=str(options.rows), split="train", encoding="latin-1")
    parts = min(options.parts, len(lines))
    first = 1
    for n in range(parts):
        part = lines.shard(parts, n, contiguous=True)
        path = options.output / f"part-{n:04}.jsonl"
        if not path.exists():
            write_part(path, denoise_part(part, first, path, keep, options.workers))
        first += len(part)


if __name__ == "__main__":
    main()
