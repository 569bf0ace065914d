"""Many rows on a Ray cluster: one input file is one part of the output, and a part that is there is skipped.

    pip install 'rag-denoise[embedded]' 'ray[data]'
    python ray_data_denoise.py rows/ denoised/ --workers 4

``rows/`` holds ``*.jsonl`` files with one ``{"id": ..., "query": ..., "passages": [text, ...]}`` a line. Each
becomes a file of the same name in ``denoised/``, with one line for each line of the input, in its order:
``{"id": ..., "passages": [{"id": position, "text": ...}, ...]}``, or ``{"line": number, "id": ..., "error": ...}``
for a row that failed. Both folders are where every node finds them. RAY_ADDRESS names a cluster; without it Ray
starts a local one.

Killed at any moment, the same command goes on: a part is written under another name and renamed when it is whole,
so a half-written one never counts. A row at which its worker died twice is a failed row: each is marked by a file
``NAME.jsonl.LINE.begun`` while it is worked on. Take another output folder for other settings or other input.
"""

import argparse
import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ray

from denoise_core import Denoiser, Passage, default_denoiser

MAX_DEATHS = 2  # of workers at one row: once may be chance, such as a machine that stops


def denoise_file(item: dict[str, str], output: str, keep: Any) -> dict[str, Any]:
    """Denoise the rows of one file. A task of Ray: one whose worker dies is started again by Ray."""
    denoiser = default_denoiser(keep=keep)  # milliseconds after the first one: a process reads the weights once
    # What no row could do without, such as a missing extra, ends the job here and not in every row.
    denoiser.denoise("Does it load?", [Passage("It loads.", "0")])
    source = Path(item["source"])
    lines = source.read_bytes().splitlines()  # at line breaks alone: a JSON text may hold U+2028
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    part = Path(output) / source.name
    rows = [denoise_row(denoiser, part, number, line) for number, line in numbered]
    write_part(part, rows)
    return {"source": item["source"], "failed": sum("error" in row for row in rows)}


def denoise_row(denoiser: Denoiser, part: Path, number: int, line: bytes) -> dict[str, Any]:
    row_id = None
    begun = part.with_name(f"{part.name}.{number}.begun")
    try:
        row = json.loads(line.decode("utf-8-sig"))  # a byte order mark is no part of the row
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
        return {"line": number, "id": row_id, "error": f"{type(error).__name__}: {error}"}
    finally:
        begun.unlink(missing_ok=True)
    return {"id": row_id, "passages": [{"id": p.id, "text": p.text} for p in result.passages]}


def write_part(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write the rows as lines of JSON; under ``path`` there is all of it or nothing."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())  # a machine that stops must not leave the new name on an empty file
    unfinished.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, help="files at a time; one for each CPU, unless given")
    parser.add_argument("--keep", type=int, help="passages to keep for each row; as many as help, unless given")
    options = parser.parse_args()
    keep = "auto" if options.keep is None else options.keep
    default_denoiser(keep=keep)  # refuses a number that cannot be kept before anything is written
    options.output.mkdir(parents=True, exist_ok=True)
    for left in (*options.output.glob("*.tmp"), *options.output.glob("*.begun")):  # by a run that was killed
        left.unlink()
    sources = sorted(options.rows.glob("*.jsonl"))
    missing = [source for source in sources if not (options.output / source.name).exists()]
    print(f"{len(sources) - len(missing)} of {len(sources)} parts are there")
    if not missing:
        return
    # By itself Ray joins whatever cluster another program has started here, and fails when that program ends.
    ray.init(address=os.environ.get("RAY_ADDRESS", "local"), include_dashboard=False)
    items = [{"source": str(source.resolve())} for source in missing]
    finished = ray.data.from_items(items, override_num_blocks=len(items)).map(
        denoise_file,
        fn_args=(str(options.output.resolve()), keep),
        compute=ray.data.TaskPoolStrategy(size=options.workers),
    )
    for part in finished.iter_rows():
        print(f"{Path(part['source']).name}: {part['failed']} rows failed")


if __name__ == "__main__":
    main()
