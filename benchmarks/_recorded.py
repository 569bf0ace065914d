"""Replies recorded from a large language model, found again by the prompt that they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness import json_lines

FOLDER = Path(__file__).parent / "recorded"


def records(name: str) -> list[dict[str, Any]]:
    """The recordings of ``recorded/NAME.jsonl``: each with model, date, the prompts' version, prompt and reply."""
    return json_lines(FOLDER / f"{name}.jsonl")


def replies_by_prompt(recordings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {recording["prompt"]: recording["reply"] for recording in recordings}
