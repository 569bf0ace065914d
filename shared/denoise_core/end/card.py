"""A probe's card: what it was fitted on and what it reached, as text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def render(reading: Mapping[str, Any], card: Mapping[str, Any], *, width: int, threshold: float) -> str:
    """Markdown with the Hub's YAML head. Only what the card holds is said; nothing is filled in.

    ``reading`` is `Reading.to_dict`'s, ``width`` that of the states, ``threshold`` a logit.
    """
    model = reading["model"]
    head = ["---", "library_name: rag-denoise", "tags: [early-noise-dropping, linear-probe, rag]"]
    if card.get("licence"):
        head.append(f"license: {json.dumps(_line(card['licence']))}")  # a JSON text is a YAML text
    head.append("---")
    facts = {
        "model": model["name"],
        "model weights (sha256 of a sample)": model["weights"] or "unknown",
        "layer (0 = embeddings)": reading["layer"],
        "prompt layout": reading["layout"],
        "pooling": reading["pooling"],
        "normalisation": reading["normalisation"],
        "width": width,
        "threshold (logit)": f"{threshold:.4g}",
    }
    parts = ["\n".join(head), "# Early Noise Dropping probe", _table(["what", "value"], facts.items())]
    for name, value in card.items():
        if name != "licence":
            parts.append(f"## {_line(name)}\n\n{_section(value)}")
    return "\n\n".join(parts) + "\n"


def _section(value: Any) -> str:
    if isinstance(value, Mapping):
        return _table(["what", "value"], value.items()) if value else "none"
    if isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value):
        columns = list(dict.fromkeys(key for row in value for key in row))
        return _table(columns, ([row.get(c, "") for c in columns] for row in value))
    if isinstance(value, list | tuple):
        return "\n".join(f"- {_line(item)}" for item in value) or "none"
    return _cell(value)


def _table(columns: list[str], rows: Any) -> str:
    lines = ["| " + " | ".join(map(_cell, columns)) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_line(k)}: {_cell(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return _line(value).replace("|", "\\|")


def _line(value: Any) -> str:
    return " ".join(str(value).split())
