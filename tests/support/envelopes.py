"""What stands in the envelopes of a prompt, read back."""

import re

# A line that begins an envelope, and what follows up to the line that ends it.
_ENVELOPE = re.compile(
    r"^BEGIN (([a-z][a-z0-9 _-]{0,40}) [0-9a-f]{16})\n(?:(.*?)\n)??END \1(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


def enclosed(prompt):
    """Every envelope of a prompt as its label and its text, and what stands outside all of them."""
    envelopes = [(match[2], match[3] or "") for match in _ENVELOPE.finditer(prompt)]
    return envelopes, _ENVELOPE.sub("", prompt)
