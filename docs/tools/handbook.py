"""``python docs/tools/handbook.py``: writes ``docs/how_to/handbook.pdf``, three pages of ``handbook.txt``.

A PDF of plain text needs a few objects and a table of where they begin, which is less than a library for it.
"""

from pathlib import Path
from textwrap import wrap

FOLDER = Path(__file__).parents[1] / "how_to"
LINES = 4  # paragraphs on a page


def pdf(pages: list[list[str]]) -> bytes:
    """A PDF of ``pages``, each some lines of text in Helvetica."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for n, lines in enumerate(pages):
        shown = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in lines]
        text = "BT /F1 11 Tf 15 TL 60 780 Td " + " ".join(f"({line}) Tj T*" for line in shown) + " ET"
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] {fonts} /Contents {5 + 2 * n} 0 R >>"
        )
        objects.append(f"<< /Length {len(text.encode('cp1252'))} >>\nstream\n{text}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for n, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n{content}\nendobj\n".encode("cp1252")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return (
        out + f"{head}trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n".encode()
    )


def made() -> bytes:
    paragraphs = (FOLDER / "handbook.txt").read_text("utf-8").strip().split("\n\n")
    lines = [[*wrap(paragraph, 90), ""] for paragraph in paragraphs]
    groups = [lines[n : n + LINES] for n in range(0, len(lines), LINES)]
    return pdf([[line for paragraph in group for line in paragraph] for group in groups])


if __name__ == "__main__":
    (FOLDER / "handbook.pdf").write_bytes(made())
