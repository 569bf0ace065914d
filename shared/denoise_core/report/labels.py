"""Labels of questions as a page on which a person corrects them and downloads the file."""

from typing import Any

from denoise_core.report.context import render_template


def fragment(records: list[dict[str, Any]]) -> str:
    """Render a page. It offers the records for download, with ``is_gold`` as ticked."""
    return render_template("labels.html", title="Labels", records=records)
