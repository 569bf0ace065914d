"""What stands in the envelopes of a prompt, read back."""

import re

_BEGINS = re.compile(r"BEGIN ([a-z][a-z0-9 _-]{0,40}) [0-9a-f]{16}")


def enclosed(prompt):
    """Every envelope of a prompt as its label and its text, and what stands outside all of them.

    A line that begins an envelope counts up to the line that ends it.
    """
    found = []
    outside = []
    lines = prompt.split("\n")
    ends = {}
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].startswith("END "):
            ends.setdefault(lines[i][4:], []).append(i)
    at = 0
    while at < len(lines):
        begins = _BEGINS.fullmatch(lines[at])
        last = ends.get(lines[at][6:], []) if begins else []
        while last and last[-1] <= at:
            last.pop()
        if begins and last:
            found.append((begins[1], "\n".join(lines[at + 1 : last[-1]])))
            at = last[-1]
        else:
            outside.append(lines[at])
        at += 1
    return found, "\n".join(outside)
