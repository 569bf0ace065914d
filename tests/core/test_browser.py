"""Every page in a headless Chromium: 1280 and 390 px wide, light, dark, and inside a dark notebook.

Skipped where there is no Chromium. axe-core is asked where it lies: in ``node_modules`` of the working tree
(``npm install --no-save axe-core``), or where ``AXE_CORE`` says.
"""

import json
import os
from pathlib import Path

import pytest
from augmenter_doubles import scripted
from growing_texts import numbered_texts, passages_of
from headless import SCHEMES, WIDTHS, chromium, told_by

from denoise_core import ENDDenoiser
from denoise_core.augmenter import Augmenter, BM25Retriever
from denoise_core.embedded import sample_questions
from denoise_core.evaluate.comparison import evaluate
from denoise_core.report.context import ReportItem, render_page
from denoise_core.report.evaluation import render_evaluation
from denoise_core.report.labels import fragment as labels_page
from denoise_core.report.loop import to_html
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import FunctionLLM
from denoise_core.types import Reply
from denoise_lab.protocols import ProtocolRequest, choose_tables, measure_tables
from denoise_lab.protocols.table import render_page as protocol_page

ROOT = Path(__file__).parents[2]
NOTEBOOK = (
    '<!doctype html><html lang="en"><head><title>Notebook</title><style>body {{ background: #111; color: #eee }} '
    "td, th, p, pre, code, li {{ color: #eee }}</style></head>"
    '<body data-jp-theme-light="false" class="jp-Notebook"><main><h1>Notebook</h1>'
    '<div class="jp-RenderedHTMLCommon">{}</div></main></body></html>'
)

# What a page tells of itself: its width against the window's, the worst contrast of a text, axe's serious faults.
PROBE = """
<script src="axe.js"></script>
<script>
const rgb = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m };
const lum = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
  if (c[3] > 0.99) return c }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1] };
function contrasts() {
  let worst = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const n = walk.currentNode, e = n.parentElement, s = getComputedStyle(e);
    if (!n.data.trim() || e.closest("script, style, .sr, svg") || !e.getClientRects().length) continue;
    const [a, b] = [lum(rgb(s.color)), lum(ground(e))].sort((x, y) => y - x);
    const c = (a + 0.05) / (b + 0.05);
    if (c < worst[0]) worst = [c, n.data.trim().slice(0, 60)];
  }
  return worst;
}
addEventListener("load", async () => {
  if (OPEN) document.querySelectorAll("details").forEach(d => d.open = true);
  const wide = document.documentElement.scrollWidth - innerWidth;
  let faults = [];
  if (window.axe) {
    const found = await axe.run(document, { resultTypes: ["violations"] });
    faults = found.violations.filter(v => ["serious", "critical"].includes(v.impact))
      .map(v => [v.id, v.nodes[0].html.slice(0, 120)]);
  }
  const height = document.documentElement.scrollHeight;
  parent.postMessage({ name: NAME, wide, contrast: contrasts(), faults, height }, "*");
});
</script>
"""
FRAME = """
<!doctype html><html><body><script>
const told = {{}};
addEventListener("message", m => {{ told[m.data.name] = m.data;
  if (Object.keys(told).length === {count}) {{
    const e = document.createElement("pre");
    e.id = "told"; e.textContent = JSON.stringify(told); document.body.append(e);
  }} }});
</script>{frames}</body></html>
"""


def axe():
    given = os.environ.get("AXE_CORE")
    path = Path(given) if given else ROOT / "node_modules" / "axe-core" / "axe.min.js"
    return path.read_text("utf-8") if path.is_file() else None


class First:
    """Answers with the beginning of the first passage."""

    name = "the first passage"

    def answer(self, question, passages):
        return Reply(passages[0].text[:80] if passages else "")


def labels_of(question):
    rows = []
    for passage, gold in zip(question.passages, question.labels):
        text = passage.text_with_header
        rows.append({"text": text, "source": "notes.md", "is_gold": gold})
    return {"question": question.text, "passages": rows}


def pages():
    asked = sample_questions()[:3]
    denoiser = ENDDenoiser(BM25Scorer(), keep=0.3)
    shown = []
    for q in asked:
        result = denoiser.denoise(q.text, q.passages)
        shown.append(ReportItem(q.passages, result, q.gold, ("12 ms",)))
    text = "Passage {n} about towers and bananas. " * 8
    many = tuple(passages_of(numbered_texts(text, 1040)))
    many_result = ENDDenoiser(BM25Scorer(), keep=40).denoise("towers 7", many)
    tower = passages_of(
        ["The tower was finished in 1889. I think it is ugly.", "Bananas."]
    )
    loop = Augmenter(
        scripted("It was finished in 1899.", "The tower was finished in 1889."),
        BM25Retriever(tower),
        judge=lambda q, evidence, draft: float("1889" in draft),
    )
    answer = loop.answer("When was it finished?")
    assert answer.outcome == "supported"
    found = evaluate(sample_questions()[:4], answerer=First())
    llm = FunctionLLM(lambda m: "1974")
    tables = measure_tables(choose_tables(ProtocolRequest("s2a", count=1), llm), llm)
    own = [found._repr_html_(), shown[0].result._repr_html_(), answer._repr_html_()]
    return {
        "kept": render_page(
            shown, title="Kept and dropped", table=[["method", "kept"], ["BM25", "30%"]]
        ),
        "many": render_page([ReportItem(many, many_result)], title="Many"),
        "loop": to_html(answer),
        "evaluation": render_evaluation(found),
        "protocol": protocol_page(tables, "a model"),
        "labels": labels_page(list(map(labels_of, asked))),
        "notebook": NOTEBOOK.format("".join(own)),
    }


def told_of(folder, scheme):
    """What every page says of itself at every width."""
    frames, checker = [], axe()
    for name, html in pages().items():
        for width in WIDTHS:
            own = json.dumps(f"{name} {width}")
            is_open = json.dumps(name != "many")
            probe = PROBE.replace("NAME", own).replace("OPEN", is_open)
            page = html.replace("</body>", f"{probe}</body>")
            (folder / f"{name}{width}.html").write_text(page, "utf-8")
            frames.append(
                f'<iframe src="{name}{width}.html" width="{width}" height="900"></iframe>'
            )
    (folder / "axe.js").write_text(checker or "", "utf-8")
    (folder / "all.html").write_text(
        FRAME.format(frames="".join(frames), count=len(frames)), "utf-8"
    )
    return told_by(folder / "all.html", scheme, budget=60_000)


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium here")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_fits_is_read_in_light_and_dark_and_has_no_serious_fault(
    tmp_path, scheme
):
    told = told_of(tmp_path, scheme)
    assert len(told) == 14
    for name, found in told.items():
        assert found["wide"] <= 0, (name, found)
        assert found["contrast"][0] >= 4.5, (name, found)
        assert found["faults"] == [], (name, found)
    assert told["many 390"]["height"] < 60_000
    if axe() is None:
        pytest.skip(
            "width and contrast hold; axe-core is not here, so no other fault was looked for"
        )
