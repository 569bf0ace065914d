"""What the record in a document's metadata says."""

import json


def spans_in(metadata):
    """The half-open ranges of the original that a text was taken from, by origin; {} without a record."""
    return json.loads(metadata.get("denoise_spans", "{}"))
