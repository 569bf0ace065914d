"""``python docs/tools/screenshots.py``: pictures of the pages, as a headless Chromium shows them, into
``docs/pictures``: small PNG of 64 colours. The pages are those of ``tests/core/test_browser.py``.
"""

import sys
import tempfile
from pathlib import Path
from subprocess import run

from PIL import Image

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "pictures"
sys.path[:0] = [str(ROOT / "tests" / "core"), str(ROOT / "tests" / "support")]

from headless import SCHEMES, chromium  # noqa: E402
from test_browser import pages  # noqa: E402

SHOTS = {
    "evaluation-light": ("evaluation", "light", 1280, 1100),
    "evaluation-dark-390": ("evaluation", "dark", 390, 900),
    "kept-light": ("kept", "light", 1280, 800),
    "loop-dark": ("loop", "dark", 1280, 700),
    "notebook-dark": ("notebook", "dark", 1280, 900),
}


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, html in pages().items():
            (folder / f"{name}.html").write_text(html, encoding="utf-8")
        for name, (page, scheme, width, height) in SHOTS.items():
            frame = f'<style>body{{margin:0}}</style><iframe src="{page}.html" width="{width}" height="{height}" '
            (folder / "frame.html").write_text(f'{frame} style="border:0"></iframe>', encoding="utf-8")
            shot = folder / f"{name}.png"
            run(
                [
                    *(str(chromium()), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                    *("--allow-file-access-from-files", f"--window-size={max(width, 600)},{height}"),
                    f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
                    *(f"--user-data-dir={folder / 'profile'}", f"--screenshot={shot}"),
                    (folder / "frame.html").as_uri(),
                ],
                check=True,
                capture_output=True,
                timeout=120,
            )
            with Image.open(shot) as drawn:
                cut = drawn.convert("RGB").crop((0, 0, width, height))
                cut.quantize(64).save(OUT / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
