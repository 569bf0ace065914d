"""A headless Chromium, where there is one: what a page's script writes into ``<pre id="told">``."""

import json
import re
import shutil
import subprocess
from html import unescape

WIDTHS = (1280, 390)
SCHEMES = {"dark": 0, "light": 1}  # Chromium's numbers


def chromium():
    return next(
        filter(
            None,
            map(
                shutil.which,
                ("chromium", "chromium-browser", "google-chrome", "chrome"),
            ),
        ),
        None,
    )


def told_by(page, scheme, *, budget):
    """The JSON that the file ``page`` has written when its virtual time, ``budget`` milliseconds, is over."""
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--virtual-time-budget={budget}",
        "--window-size=1400,1000",
        f"--user-data-dir={page.parent / f'profile-{scheme}'}",  # a page remembers its scheme
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))
