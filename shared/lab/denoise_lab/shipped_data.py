"""What the scripts that make the embedded default's data share: its folder, their options, how they write."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from denoise_core import embedded
from denoise_core._files import write_whole

SHIPPED_FOLDER = Path(embedded.__file__).parent / "data"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a command line with ``--data`` and ``--out``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with the sets' files"
    )
    parser.add_argument(
        "--out", type=Path, default=SHIPPED_FOLDER, help="folder to write to"
    )
    return parser


def write_record(path: Path, record: Any) -> None:
    """Write a record as indented JSON; makes the folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record_text = json.dumps(record, indent=1)
    write_whole(path, record_text + "\n")
