"""Pieces tile the text whatever it is, never run across a heading, and bring what they need."""

from hypothesis import example, given
from hypothesis import strategies as st

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer, check_denoiser, check_tiling
from denoise_core.text.pieces import PIECE, WHOLE, brought, heading, pieces

LINES = st.lists(
    st.sampled_from(
        [
            "# One",
            "Two",
            "",
            "He did. " * 30,
            "A line.",
            "| a | b |",
            "|---|---|",
            "x\ty",
            "=====",
            "   ",
            "word " * 90,
        ]
    ),
    max_size=60,
)

GUIDE = "\n".join(
    [
        "# Rooms",
        "",
        "Every room has a bed and a window. " * 12,
        "",
        "It costs 80 euros a night. " + "Breakfast is extra. " * 20,
        "",
        "# Pool",
        "",
        "The pool opens at nine. " * 20,
        "",
        "| day | closes |",
        "|---|---|",
        *(f"| day {n} | {n} o'clock, except on holidays of the town |" for n in range(40)),
    ]
)


@given(LINES)
@example(["# Alone"] * 200)
@example(["a" * 5000])
def test_pieces_tile_any_text_and_hold_headings_only_at_their_beginning(lines):
    passage = Passage("\n".join(lines), "p")
    spans = pieces(passage)
    check_tiling(passage, spans)
    if len(passage.text) <= WHOLE:
        assert len(spans) == 1
    for span in spans:
        assert "\n# One" not in passage.text[span.start : span.end].lstrip("#") or len(passage.text) <= WHOLE
        for more in brought(passage, span):
            assert 0 <= more.start < more.end <= span.start


def test_no_piece_without_a_heading_of_its_own_is_longer_than_the_limit():
    passage = Passage(GUIDE, "p")
    assert max(len(s) for s in pieces(passage)) <= PIECE + len("# Rooms\n\n")


def test_a_piece_knows_its_heading_and_a_row_the_head_of_its_table():
    passage = Passage(GUIDE, "p")
    spans = pieces(passage)
    price = next(s for s in spans if "80 euros" in GUIDE[s.start : s.end])
    last_row = spans[-1]
    assert GUIDE[slice(*heading(passage, price))].strip() == "# Rooms"
    assert GUIDE[slice(*heading(passage, last_row))].splitlines()[0] == "| day | closes |"


def test_a_kept_piece_brings_its_heading_and_whom_its_pronoun_means():
    passage = Passage(GUIDE, "p")
    denoiser = ENDDenoiser(FunctionScorer(lambda q, t: float("80 euros" in t)), keep=1, chunker="auto")
    kept = denoiser.denoise("what does it cost?", [passage]).passages[0]
    assert kept.text.startswith("# Rooms")
    before, _, _ = kept.text.partition("It costs 80 euros")
    assert before.rstrip().endswith("Every room has a bed and a window.")
    assert before.count("Every room") == 1
    assert "pool" not in kept.text


def test_the_heading_is_read_with_the_piece_and_with_the_header():
    seen = []
    scorer = FunctionScorer(lambda q, t: seen.append(t) or 0.0)
    ENDDenoiser(scorer, keep=1, chunker="auto").denoise("q", [Passage(GUIDE, "p", header="Hotel Sun")])
    assert all(t.startswith("Hotel Sun\n") for t in seen)
    assert sum("# Rooms" in t for t in seen) > 1


@given(LINES, LINES)
def test_laws_hold_with_pieces_and_headers(first, second):
    passages = [Passage("\n".join(first), "a", header="Title"), Passage("\n".join(second), "b")]
    check_denoiser(
        lambda: ENDDenoiser(FunctionScorer(lambda q, t: float(len(t) % 7)), keep=0.4, chunker="auto"),
        "q",
        passages,
    )
