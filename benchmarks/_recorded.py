"""Replies recorded from a large language model, found again by the prompt that they answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"


def records(name: str) -> list[dict[str, Any]]:
    """The recordings of ``recorded/NAME.jsonl``: each with model, date, the prompts' version, prompt and reply."""
    return [
        json.loads(line)
        for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
