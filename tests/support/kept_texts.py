"""Tools' results of every shape, ranges of their texts, broken scorers, and the law of what is kept of them."""

import json

from faults import Faulty, faults_of
from hypothesis import strategies as st

from denoise_core import DenoiseResult, Span
from denoise_core.end import ENDDenoiser
from denoise_core.spans import merge_spans
from denoise_core.text.chunk import extract_spans

_WORDS = (
    "Paris", "rain", "Ärger", "données", "\U0001f600", "東京", 'a "quote"', "C:\\temp\\new", "12,5", "e\u0301",
    "\x07",
)  # fmt: skip
_SAYINGS = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=8).map(" ".join)
_LINES = st.lists(_SAYINGS, min_size=1, max_size=30)


def _csv(cells):
    quoted = (cell.replace('"', '""') for cell in cells)
    return "id,place\n" + "".join(f'{n},"{cell}"\n' for n, cell in enumerate(quoted))


def _markdown(said):
    table = "".join(f"| {n} | {cell} |\n" for n, cell in enumerate(said))
    sections = "".join(
        f"## Part {n}\n\n{text}.\n\n- {text}\n\n" for n, text in enumerate(said)
    )
    return f"# All\n\n{sections}| n | what |\n|---|---|\n{table}\n```\n{said[0]}\n```\n"


def _log(said):
    return "".join(
        f"2026-10-02 06:14:{n:02} INFO  {text}\n" for n, text in enumerate(said)
    )


def _json(said):
    return json.dumps(
        {
            "hits": [{"n": n, "text": f"{text}. " * 9} for n, text in enumerate(said)],
            "next": None,
        }
    )


_EMBEDDED = (
    _csv,
    _markdown,
    _log,
    _json,
    lambda said: ". ".join(said * 9),
    lambda said: (
        "<html><body>" + "".join(f"<p>{text}</p>" for text in said) + "</body></html>"
    ),
    lambda said: repr([(n, text) for n, text in enumerate(said)]),
    lambda said: "\r\n\r\n".join(said),
    lambda said: said[0] + " " * 900 + said[-1],
)
TEXTS = st.builds(
    lambda form, said: form(said), st.sampled_from(_EMBEDDED), _LINES
) | st.text(max_size=40)
"""Tables, documents, logs, JSON, pages and anything else as one text."""

VALUES = st.recursive(
    TEXTS | st.none() | st.integers() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["report", "a", "é", "0"]), inner)
    ),
    max_leaves=6,
)
"""What a tool may return, with such texts in it at any depth."""


@st.composite
def ranges_in(draw, text):
    """Half-open ranges of the text: overlapping, touching, nested, in any order, empty."""
    places = st.integers(0, len(text))
    ranges = [
        tuple(sorted(pair))
        for pair in draw(st.lists(st.tuples(places, places), max_size=5))
    ]
    if ranges and draw(st.booleans()):
        start, end = ranges[0]
        middle = (start + end) // 2
        ranges += [(start, middle), (middle, end), (middle, middle), (0, len(text))][
            : draw(st.integers(1, 4))
        ]
    return draw(st.permutations(ranges))


FAULTS = {
    name: faults_of("score")[name]
    for name in ("raises a lost connection", "gives NaN", "gives one too many")
}


def broken(fault):
    return ENDDenoiser(Faulty(FAULTS[fault]), keep=0.5, chunker="auto")


class Keeping:
    """A denoiser that keeps ranges of each passage: those that ``choose`` gives for its text."""

    def __init__(self, choose):
        self.choose = choose
        self.kept = []

    def denoise(self, query, passages):
        """The ranges of the passages that are chosen, and a note of them."""
        left = []
        for passage in passages:
            ranges = [(a, b) for a, b in self.choose(passage.text) if a < b]
            self.kept.append((passage.text, ranges))
            extracted = extract_spans(
                passage, [Span(passage.id, a, b) for a, b in ranges]
            )
            left += [extracted] if extracted is not None else []
        return DenoiseResult(query, tuple(left), relevant=True)

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


def check_kept(text, kind, kept, shown):
    """Every kept range stands in what is shown, character by character and in order.

    Of lists the commas and spaces between two elements are exempt: they go with an element that goes.
    """
    at = 0
    for start, end in merge_spans(kept):
        own = text[start:end]
        if kind in ("json", "rows"):
            own = own.strip(" \t\r\n,")
        place = shown.find(own, at)
        assert place >= 0, f"{own!r} was kept and is not shown in {shown!r}"
        at = place + len(own)
