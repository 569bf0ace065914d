"""One look: contrast in both schemes, pages below 2 MB and folded, results that show themselves in notebooks."""

import re
from importlib.resources import files
from itertools import product

from growing_texts import numbered_texts, passages_of
from judging import by_words

from denoise_core import DenoiseResult, Drop, ENDDenoiser, Passage, Span
from denoise_core.augmenter import Augmenter
from denoise_core.report.context import ReportItem, render_page
from denoise_core.report.loop import to_html
from denoise_core.testing import FunctionLLM, FunctionScorer, ListRetriever

STYLE = (files("denoise_core.report") / "templates" / "style.css").read_text("utf-8")
SCHEMES = [
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", rule))
    for rule in STYLE.split("}")
    if "--ink: #" in rule
]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_a_contrast_of_four_and_a_half_in_every_scheme():
    assert len(SCHEMES) == 4  # light, dark, and a notebook that says which
    texts = ("ink", "soft", "kept", "gone", "doubt", "focus")
    pairs = [*product(texts, ("paper", "tint")), ("ink", "gold"), ("doubt", "gold")]
    for colours, pair in product(SCHEMES, pairs):
        dark, light = sorted(luminance(colours[name]) for name in pair)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (pair, colours)


def page_of(count, characters, repeats=1):
    text = "word " * (characters // 5)
    passages = tuple(Passage(f"passage {i} {text}", f"p{i}") for i in range(count))
    denoiser = ENDDenoiser(FunctionScorer(lambda q, t: -len(t)), keep=40)
    item = ReportItem(passages, denoiser.denoise("q", passages))
    html = render_page([item] * repeats, title="t")
    assert len(html.encode()) < 2_000_000
    return html


def test_a_thousand_passages_make_a_page_below_two_megabytes_with_what_was_dropped_folded():
    html = page_of(1040, 900)
    opened = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert 0 < opened.count('<div class="passage') <= 12
    assert html.count('<div class="passage') == 1040


def test_what_does_not_fit_is_counted():
    html = page_of(1000, 4000, repeats=2)
    assert "more passages are not shown" in html
    assert "1 more questions are not shown" in html


def test_dropped_text_says_so_without_its_looks():
    passages = (Passage("Kept.", "a"), Passage("Gone.", "b"))
    drop = Drop(Span("b", 0, 5), "noise", 0.25)
    result = DenoiseResult("q", passages[:1], (drop,))
    html = render_page([ReportItem(passages, result)], title="page")
    assert re.search(
        r'\[dropped: </span><del[^>]*>Gone\.</del><span class="sr"> noise, score 0\.250\]',
        html,
    )
    assert re.search(r"<mark[^>]*>Kept\.</mark>", html)


def test_a_result_alone_shows_what_is_kept_and_how_much_is_gone():
    source = Passage("Kept. Gone <b>.", "a")
    result = DenoiseResult(
        "q?",
        (Passage("Kept. ", "a", spans=(Span("a", 0, 6),)),),
        (Drop(Span("a", 6, 15), "noise"),),
    )
    html = result._repr_html_()
    assert "Kept." in html
    assert "[9 characters]" in html
    assert source.text[6:] not in html
    assert (
        repr(result) == "DenoiseResult('q?': 1 passages kept, 6 characters; 9 dropped)"
    )


def test_an_answer_shows_itself_and_its_repr_is_one_line():
    text = "The tower was finished in 1889."
    passages = passages_of([text, *numbered_texts("Noise {n}.", 30)])
    llm = FunctionLLM(lambda m: text)
    answer = Augmenter(llm, ListRetriever(passages), judge=by_words()).answer(
        "When was the tower finished?"
    )
    assert "\n" not in repr(answer)
    assert repr(answer).startswith(
        "Answer('The tower was finished in 1889.': supported"
    )
    assert '<div class="denoise">' in answer._repr_html_()
    html = to_html(answer)
    assert "23 more passages" in html
    assert html.count("<details") == html.count("</details>")
