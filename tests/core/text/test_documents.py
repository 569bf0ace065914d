"""Pieces of one document share what is known of it; every span stays exact."""

from dataclasses import replace
from itertools import pairwise

import pytest
from growing_texts import numbered_texts
from hypothesis import given
from hypothesis import strategies as st
from laws import check_result

from denoise_core import Passage
from denoise_core.end import ENDDenoiser
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
PRICES = "code,item,price\n" + "".join(numbered_texts("A{n},bolt {n},{n}.10\n", 40))


def cut(text, *marks, source="sheet.md", placed=True):
    """Pieces of a text as a splitter gives them: each begins at a mark, without the white space around it."""
    starts = [0, *map(text.index, marks)]
    passages = []
    for start, end in pairwise([*starts, len(text)]):
        piece = text[start:end].strip()
        metadata = {"source": source}
        if placed:
            metadata["start_index"] = start
        passages.append(Passage(piece, f"{source}@{start}", metadata=metadata))
    return passages


def keep_phrase(phrase, passages):
    scorer = FunctionScorer(
        lambda query, text: float(phrase in text.strip().split("\n")[-1])
    )
    result = ENDDenoiser(scorer, keep=1, chunker="auto").denoise("q", passages)
    check_result(passages, result)
    return [passage.text for passage in result.passages]


TITLE = "# Pump 260, data sheet"
BY_SECTION = cut(SHEET, "## Elec", "| Fuse")
FUSE = "| Fuse | 6 A |\n"
CARE = cut(SHEET, "## Care")
STAFF = "- Bergen\n    - In: Bo\n    - Out: Ada\n- Lyon\n    - In: Hugo\n    - Out: Lea"
OIL, WATER = cut(SHEET, "## Care", "every month")[1:]


@pytest.mark.parametrize(
    ("pieces", "phrase", "kept_texts"),
    [
        (
            BY_SECTION[::-1],
            "6 A",
            [
                FUSE,
                "## Electrical data\n\n| Attribute | Value |\n|---|---|\n",
                f"{TITLE}\n\n",
            ],
        ),
        (
            [OIL, WATER],
            "It must not run dry.",
            [
                "## Care\n\nGrease the bearing",
                "every month. It must not run dry.",
            ],
        ),
        # Pieces without a place share the title and nothing else.
        (cut(SHEET, "## Elec", "| Fuse", placed=False), "6 A", [TITLE, FUSE]),
        (
            cut(f"\ufeff{SHEET}", "## Elec", "| Fuse", placed=False),
            "6 A",
            [f"\ufeff{TITLE}", FUSE],
        ),
        # A splitter strips the indentation too, which says what an item is under.
        (cut(STAFF, "- In: Hugo"), "Out: Lea", ["- Lyon", "    - Out: Lea"]),
        (cut(STAFF, "- Out: Lea"), "Out: Lea", ["- Lyon\n", "- Out: Lea"]),
        # It may also be blank lines, or a piece that was not retrieved.
        (
            cut("# A\n\n- Bergen\n   - In: Bo\n\n\n\n- Lyon is shut", "- Lyon"),
            "Lyon",
            ["# A\n\n", "- Lyon is shut"],
        ),
        (
            cut("- Bergen\r\n   - In: Bo\r\n\r\n- Lyon is shut", "- Lyon"),
            "Lyon",
            ["- Lyon is shut"],
        ),
        (
            cut(
                "- Run:\n\n         go\n\n- Rent is 9\n\n# Lyon\n\n- Rent is 7",
                "# Lyon",
                "- Rent is 7",
            )[::2],
            "is 7",
            ["- Rent is 7"],
        ),
        # A piece far from the first one does not get its section.
        ([cut(SHEET, "| Supply")[0], CARE[1]], "run dry", [TITLE, CARE[1].text]),
    ],
)
def test_a_kept_piece_comes_with_what_other_pieces_of_its_document_say_of_it(
    pieces, phrase, kept_texts
):
    assert keep_phrase(phrase, pieces) == kept_texts


@pytest.mark.parametrize("placed", [True, False])
def test_a_row_comes_with_the_header_row_of_its_file(placed):
    pieces = cut(PRICES, "A9", "A30", source="p.csv", placed=placed)
    kept_texts = ["A33,bolt 33,33.10\n", "code,item,price"]
    assert keep_phrase("bolt 33", pieces[::-2]) == kept_texts


@pytest.mark.parametrize("source", ["wiki", "", None, 3])
def test_a_source_that_is_no_file_joins_nothing(source):
    (kept_text,) = keep_phrase("run dry", cut(SHEET, "## Care", source=source))
    assert kept_text == CARE[1].text


def test_two_documents_that_name_one_source_are_not_joined():
    other_text = SHEET.replace("260", "480").replace("6 A", "10 A")
    other = replace(cut(other_text, "## Elec")[0], id="other")
    assert "480" not in "".join(keep_phrase("run dry", [*CARE, other]))


@given(
    st.lists(st.integers(1, len(SHEET) - 1), max_size=5), st.integers(0, 40), st.data()
)
def test_overlapping_pieces_are_each_kept_or_dropped_once(positions, overlap, data):
    pieces = []
    for start, end in pairwise(sorted({0, *positions, len(SHEET)})):
        start = max(0, start - overlap)
        metadata = {"source": "sheet.md", "start_index": start}
        pieces.append(Passage(SHEET[start:end], str(end), metadata=metadata))
    pieces = data.draw(st.permutations(pieces))
    scorer = FunctionScorer(lambda query, text: float(len(text) % 7))
    for keep in (1, 0.3):
        result = ENDDenoiser(scorer, keep=keep, chunker="auto").denoise("q", pieces)
        check_result(pieces, result)


def test_a_passage_kept_for_its_title_ranks_with_its_piece_and_gives_way_first():
    other = Passage("A fuse of 10 A is for another pump.", "other")
    passages = [BY_SECTION[0], other, BY_SECTION[2]]
    scorer = FunctionScorer(lambda query, text: float("6 A" in text or "10 A" in text))
    result = ENDDenoiser(scorer, keep=2, chunker="auto").denoise("q", passages)
    assert [passage.score for passage in result.passages] == [1.0, 1.0, 1.0]
    top_passages = keep_top(result, passages, 2).passages
    assert [passage.id for passage in top_passages] == ["other", BY_SECTION[2].id]
