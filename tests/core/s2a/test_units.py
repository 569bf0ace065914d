"""Pieces tile the text and never cut a row, an item, a code block or a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import check_tiling

from denoise_core import Passage
from denoise_core.s2a.pieces import split_pieces

from .fakes import cut_at

LINES = st.sampled_from(
    [
        "```",
        "```python",
        "| a | b |",
        "|---|---|",
        "- item",
        "  more of it",
        "1. one",
        "Ann: Hello. Bye.",
        "Bob: Yes!",
        "",
        "A sentence. Another one",
        "that goes on.",
        "x = 1",
        "~~~",
        "Straße. Über",
        "日本語。はい。",
        "مرحبا؟ نعم",
        "\t",
        "a\tb",
    ]
)


def cut(text):
    return cut_at(text, split_pieces(Passage(text, "p")))


@given(st.lists(LINES).map("\n".join) | st.text())
def test_pieces_tile_the_text(text):
    passage = Passage(text, "p")
    check_tiling(passage, split_pieces(passage))
    if text.strip():
        for piece in cut(text):
            assert piece.strip()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("| a | b |\n|---|---|\n| 1. x. | 2. y. |\n", 3),
        ("- One. Two.\n  goes on. And on.\n- Three.\n", 2),
        ("(A) One. Yes.\n(B) Two\nand more.\nI like B.", 3),
        ("Is it legal in the U.S.? I think it is.", 2),
        ("1. First. Really.\n2. Second.\n", 2),
        ("```\na = 1.\n\nb = 2. c\n```\nText. More.", 3),
        ("Ann: Hi. How are you?\nBob: Fine. You?\nAnn: Well. Bye.", 3),
        ("One sentence that a line break\ncuts in two. Another.", 2),
        (
            "P. David Soares is the Albany County, N.Y. District Attorney. He is a Democrat.",
            2,
        ),
        ("A. One. Two.\nB. Three. Four.", 2),
        ("Name: Ann Lee. Born 1950.\nShe wrote books. They sold well.", 4),
    ],
)
def test_structure_is_not_cut(text, pieces):
    assert len(cut(text)) == pieces, cut(text)


def test_an_unclosed_fence_runs_to_the_end():
    assert cut("Text.\n```\ncode. more.\nx. y.") == [
        "Text.\n",
        "```\ncode. more.\nx. y.",
    ]


def test_a_long_text_is_cut_between_sentences_in_whatever_blocks_it_is_read():
    sentence = "This is sentence one of many here. "
    assert set(cut(sentence * 6000)) == {sentence}
