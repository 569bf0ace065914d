"""Labels of questions as a page to look through: a person corrects them and downloads their file again."""

from typing import Any

from denoise_core.report.context import render_template


def fragment(records: list[dict[str, Any]]) -> str:
    """A complete page. What one downloads there are ``records``, one a line, with ``is_gold`` as it is ticked."""
    return render_template("labels.html", title="Labels", records=records)
