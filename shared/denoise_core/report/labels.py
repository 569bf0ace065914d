"""Labels of questions as a page to look through: a person corrects them and downloads their file again."""

from typing import Any

from denoise_core.report.context import rendered


def fragment(records: list[dict[str, Any]]) -> str:
    """A complete page. What one downloads there are ``records``, one a line, with ``is_gold`` as it is ticked."""
    return rendered("labels.html", title="Labels", records=records)
