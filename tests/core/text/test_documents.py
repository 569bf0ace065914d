"""Pieces of one document share what is known of it; every span stays exact."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import check_result

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
from denoise_core.end.selection import ScoreCalibration
from denoise_core.ranking import keep_top
from denoise_core.testing import FunctionScorer

SHEET = """# Pump 260, data sheet

Valid from March.

## Electrical data

| Attribute | Value |
|---|---|
| Supply | 230 V |
| Fuse | 6 A |
| Enclosure | IP66 |

## Care

Grease the bearing every month. It must not run dry.
"""
PRICES = "code,item,price\n" + "".join(f"A{n},bolt {n},{n}.10\n" for n in range(40))


def cut(text, *positions, source="sheet.md", placed=True):
    """Pieces of a text as a splitter gives them: without the white space around them."""
    passages = []
    for start, end in zip([0, *positions], [*positions, len(text)], strict=True):
        piece = text[start:end].strip()
        metadata = {"source": source}
        if placed:
            metadata["start_index"] = text.index(piece, start)
        passages.append(Passage(piece, f"{source}@{start}", metadata=metadata))
    return [passage for passage in passages if passage.text]


def keep_phrase(phrase, passages):
    scorer = FunctionScorer(
        lambda query, text: float(phrase in text.strip().split("\n")[-1])
    )
    result = ENDDenoiser(scorer, keep=1, chunker="auto").denoise("q", passages)
    check_result(passages, result)
    return [passage.text for passage in result.passages]


def test_a_row_comes_with_the_title_and_the_head_of_its_table_from_other_pieces():
    pieces = cut(SHEET, SHEET.index("## Elec"), SHEET.index("| Fuse"))
    assert keep_phrase("6 A", pieces[::-1]) == [
        "| Fuse | 6 A |\n",
        "## Electrical data\n\n| Attribute | Value |\n|---|---|\n",
        "# Pump 260, data sheet\n\n",
    ]


def test_a_sentence_that_a_splitter_cut_in_two_is_kept_whole():
    position = SHEET.index("every month")
    pieces = cut(SHEET, SHEET.index("## Care"), position)
    kept_texts = keep_phrase("It must not run dry.", pieces)
    assert kept_texts[1:] == [
        "## Care\n\nGrease the bearing",
        "every month. It must not run dry.",
    ]


def test_pieces_without_a_place_share_the_title_and_nothing_else():
    pieces = cut(SHEET, SHEET.index("## Elec"), SHEET.index("| Fuse"), placed=False)
    kept_texts = keep_phrase("6 A", pieces)
    assert kept_texts == ["# Pump 260, data sheet", "| Fuse | 6 A |\n"]


def test_a_piece_far_from_the_first_one_does_not_get_its_section():
    pieces = cut(SHEET, SHEET.index("| Supply"), SHEET.index("## Care"))
    kept_texts = keep_phrase("run dry", [pieces[0], pieces[2]])
    assert kept_texts == ["# Pump 260, data sheet", pieces[2].text]


def test_the_rows_of_a_piece_of_a_csv_file_come_with_its_header_row():
    position = PRICES.index("A30")
    for placed in (True, False):
        pieces = cut(
            PRICES, PRICES.index("A9"), position, placed=placed, source="p.csv"
        )
        kept_texts = keep_phrase("bolt 33", [pieces[2], pieces[0]])
        assert kept_texts[0].strip() == "A33,bolt 33,33.10"
        assert kept_texts[1].strip() == "code,item,price"


@pytest.mark.parametrize("source", ["wiki", "", None, 3])
def test_a_source_that_is_no_file_joins_nothing(source):
    pieces = cut(SHEET, SHEET.index("## Care"), source=source)
    assert keep_phrase("run dry", pieces) == [pieces[1].text]


def test_two_documents_that_name_one_source_are_not_joined():
    other_text = SHEET.replace("260", "480").replace("6 A", "10 A")
    pieces = cut(SHEET, SHEET.index("## Care")) + cut(other_text, 90)
    unique_pieces = []
    for number, piece in enumerate(pieces):
        unique_pieces.append(Passage(piece.text, str(number), metadata=piece.metadata))
    assert not any("480" in text for text in keep_phrase("run dry", unique_pieces[:3]))


@given(
    st.lists(st.integers(1, len(SHEET) - 1), max_size=5), st.integers(0, 40), st.data()
)
def test_overlapping_pieces_are_each_kept_or_dropped_once(positions, overlap, data):
    cuts = sorted({0, *positions, len(SHEET)})
    pieces = []
    for start, end in pairwise(cuts):
        start = max(0, start - overlap)
        metadata = {"source": "sheet.md", "start_index": start}
        pieces.append(Passage(SHEET[start:end], str(end), metadata=metadata))
    pieces = data.draw(st.permutations(pieces))
    scorer = FunctionScorer(lambda query, text: float(len(text) % 7))
    for keep in (1, 0.3):
        result = ENDDenoiser(scorer, keep=keep, chunker="auto").denoise("q", pieces)
        check_result(pieces, result)


def test_the_best_piece_of_each_document_may_be_further_below_the_best_score():
    rule = ScoreCalibration({0.1: 1.0}, None, 9.0, 100).rule(0.1)
    scores = np.array([5, 4.9, 4.8, 4.6, 3.7, 3.66, 2.0, 1.9], dtype=np.float32)
    documents = (0, 0, 0, 0, 1, 1, 2, 2)
    kept_mask = replace(rule, documents=documents).choose(scores, [""] * 8)
    assert kept_mask.tolist() == [True] * 5 + [False] * 3
    assert rule.choose(scores, [""] * 8).tolist() == [True] * 4 + [False] * 4


def test_a_passage_kept_for_its_title_ranks_with_its_piece_and_gives_way_first():
    pieces = cut(SHEET, SHEET.index("## Elec"), SHEET.index("| Fuse"))
    other = Passage("A fuse of 10 A is for another pump.", "other")
    passages = [pieces[0], other, pieces[2]]
    scorer = FunctionScorer(lambda query, text: float("6 A" in text or "10 A" in text))
    result = ENDDenoiser(scorer, keep=2, chunker="auto").denoise("q", passages)
    assert [passage.score for passage in result.passages] == [1.0, 1.0, 1.0]
    top_passages = keep_top(result, passages, 2).passages
    assert [passage.id for passage in top_passages] == ["other", pieces[2].id]
