"""JSON Lines files, as several tests write them."""

import json


def write_json_lines(path, *records):
    """Write a line for each record, a text as it is; return the path."""
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
