"""The page shows every character once, escapes all of it, and marks what happened to it."""

from dataclasses import replace

from bs4 import BeautifulSoup
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Drop, Passage
from denoise_core.end import ENDDenoiser
from denoise_core.report.context import ReportItem, mark_pieces, render_page
from denoise_core.testing import FunctionScorer
from denoise_core.text.chunk import extract_spans, sentence_spans

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=60
)


def draw_page(passages, result):
    return render_page([ReportItem(passages, result)], title="page")


@given(st.lists(TEXT, max_size=4), st.data())
def test_pieces_tile_every_passage(texts, data):
    passages = passages_of(texts)
    kept, dropped = [], []
    for p in passages:
        spans = sentence_spans(p)
        keep = [s for s in spans if data.draw(st.booleans())]
        kept += [part] if (part := extract_spans(p, keep)) else []
        dropped += [Drop(s, "noise", 0.25) for s in spans if s not in keep]
    result = DenoiseResult("q", tuple(kept), tuple(dropped))
    for p in passages:
        assert "".join(piece.text for piece in mark_pieces([p], result)[0]) == p.text


def test_scores_and_reasons_are_shown_and_text_is_escaped():
    passages = [
        Passage("<script>alert(1)</script>", "<b>", metadata={"title": "<i>"}),
        Passage("שלום עולם", "rtl"),
    ]
    scorer = FunctionScorer(lambda q, t: float(len(t)))
    result = ENDDenoiser(scorer, keep=1).denoise("<q>", passages)
    html = render_page(
        [ReportItem(tuple(passages), result, frozenset({"<b>"}), ("<fact>",))],
        title="<t>",
        table=[["<th>"], ["<td>"]],
    )
    soup = BeautifulSoup(html, "html.parser")
    assert soup.script is None
    (kept,) = soup.find_all(["mark", "del"], class_="kept")
    (dropped,) = soup.find_all(["mark", "del"], class_="dropped")
    assert kept.text == "<script>alert(1)</script>"
    assert dropped.text == "שלום עולם"
    assert "score 25.000" in html
    assert "holds the answer" in html
    assert 'dir="auto"' in html


def test_rewritten_text_and_fallback_are_shown():
    source = Passage("A long text.", "a")
    written = replace(source, text="Short.", is_rewritten=True)
    result = DenoiseResult("q", (written,), fallback="said no")
    html = draw_page([source], result)
    assert "Short." in html
    assert "said no" in html


def test_a_result_is_read_a_fixed_number_of_times_however_many_its_passages_are():
    """It was read once for each passage: time in proportion to the square of their number."""

    class Counted(tuple):
        reads = 0

        def __iter__(self):
            Counted.reads += 1
            return super().__iter__()

    counts = []
    for number in (2, 40):
        passages = [Passage(f"text {n}", str(n)) for n in range(number)]
        Counted.reads = 0
        written = Counted(replace(p, text="anew", is_rewritten=True) for p in passages)
        html = draw_page(passages, DenoiseResult("q", written))
        assert html.count("anew") == number
        counts.append(Counted.reads)
    assert counts[0] == counts[1]
