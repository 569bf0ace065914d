"""Every page of the site as a headless Chromium draws it, 1280 and 390 px wide, light and dark: nothing sticks out
sideways, every picture is there, every text stands out from its ground. Skipped where there is no Chromium.
"""

import json
import shutil

import pytest
from headless import WIDTHS, chromium, told_by

# A page tells, once it is loaded and again when asked, how far it is wider than its window, which texts end beyond
# the window without a box that scrolls, which tables and code scroll in their box, which pictures have no pixels,
# and its faintest text.
PROBE = """
<script>
const lum = c => { const [r, g, b] = c.map(v => { v /= 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map();
const over = (colours) => { const key = colours.join();
  if (!known.has(key)) {
    canvas.fillStyle = "#fff"; canvas.fillRect(0, 0, 1, 1);
    for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1) }
    known.set(key, lum([...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)));
  }
  return known.get(key) };
const grounds = e => { const found = [];
  for (; e; e = e.parentElement) found.unshift(getComputedStyle(e).backgroundColor); return found };
const room = () => document.documentElement.clientWidth;  // without the scroll bar
function texts() {
  const out = [];
  let faintest = [99, ""];
  const walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const n = walk.currentNode, e = n.parentElement;
    if (!n.data.trim() || e.closest("script, style, nav, button, .headerlink")) continue;
    if (!e.getClientRects().length) continue;
    let box = e;
    while (box && !/auto|scroll/.test(getComputedStyle(box).overflowX)) box = box.parentElement;
    const range = document.createRange();
    range.selectNodeContents(n);
    if (!box && range.getBoundingClientRect().right > room() + 1) out.push(n.data.trim().slice(0, 60));
    const under = grounds(e);
    const [a, b] = [over([...under, getComputedStyle(e).color]), over(under)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < faintest[0]) faintest = [contrast, n.data.trim().slice(0, 60)];
  }
  return { out, faintest };
}
const cut = () => [...document.querySelectorAll(".md-typeset :is(pre > code, .md-typeset__scrollwrap)")]
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim().slice(0, 60));
const tell = () => parent.postMessage({ page: NAME, width: innerWidth,
  scheme: document.body.dataset.mdColorScheme,
  cut: cut(), wide: document.documentElement.scrollWidth - room(),
  missing: [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src), ...texts() }, "*");
addEventListener("load", () => setTimeout(tell, 20));
addEventListener("message", m => { if (m.data === "again") tell() });
</script>
"""
DRIVER = """
<!doctype html><html><body><script>
const pages = PAGES, widths = WIDTHS, told = [], waiting = {};
addEventListener("message", m => { told.push(m.data); waiting[m.data.page]() });
async function walk() {
  while (pages.length) {
    const page = pages.shift(), frame = document.createElement("iframe");
    frame.width = widths[0]; frame.height = 900; frame.src = page;
    frame.style = "position: fixed; top: 0; left: 0";  // what is out of sight may not be drawn
    await new Promise(done => { waiting[page] = done; document.body.append(frame) });
    for (const width of widths.slice(1)) {
      frame.width = width;
      frame.offsetWidth;  // laid out now: the page is asked in its new width
      await new Promise(done => { waiting[page] = done; frame.contentWindow.postMessage("again", "*") });
    }
    frame.remove();
  }
}
Promise.all([walk(), walk()]).then(() => {
  const e = document.createElement("pre");
  e.id = "told"; e.textContent = JSON.stringify(told); document.body.append(e);
});
</script></body></html>
"""


@pytest.fixture(scope="module")
def probed(html, tmp_path_factory):
    """The site with the probe in each page, and a page that opens them all."""
    folder = shutil.copytree(html, tmp_path_factory.mktemp("probed") / "html")
    pages = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.html"))
    pages.remove("404.html")  # its addresses begin at the root of a server
    for page in pages:
        text = (folder / page).read_text("utf-8")
        probe = PROBE.replace("NAME", json.dumps(page))
        (folder / page).write_text(text.replace("</body>", f"{probe}</body>"), "utf-8")
    driver = DRIVER.replace("PAGES", json.dumps(pages)).replace(
        "WIDTHS", json.dumps(WIDTHS)
    )
    (folder / "all_pages.html").write_text(driver, "utf-8")
    return folder, pages


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium here")
@pytest.mark.parametrize(
    ("scheme", "palette"), [("light", "default"), ("dark", "slate")]
)
def test_every_page_of_the_site_fits_has_its_pictures_and_is_read(
    probed, scheme, palette
):
    folder, pages = probed
    told = told_by(folder / "all_pages.html", scheme, budget=600_000)
    assert {(t["page"], t["width"]) for t in told} == {
        (page, width) for page in pages for width in WIDTHS
    }
    assert {t["scheme"] for t in told} == {palette}
    assert not [(t["page"], t["width"], t["wide"]) for t in told if t["wide"] > 0]
    assert not [(t["page"], t["width"], t["out"]) for t in told if t["out"]]
    shown = [t for t in told if not t["page"].startswith("reference/")]
    assert not [(t["page"], t["cut"]) for t in shown if t["cut"] and t["width"] == 390]
    assert not [(t["page"], t["missing"]) for t in told if t["missing"]]
    assert not [(t["page"], t["faintest"]) for t in told if t["faintest"][0] < 4.5]
