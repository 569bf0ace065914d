"""Sets of ranges: each function against the set of characters that it stands for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from denoise_core.spans import clip_spans, complement_spans, merge_spans, tile_spans

PLACES = st.integers(0, 20)
RANGES = st.lists(st.tuples(PLACES, PLACES).map(lambda pair: tuple(sorted(pair))))


def characters(ranges):
    return {place for start, end in ranges for place in range(start, end)}


@given(RANGES)
def test_merged_ranges_are_the_same_characters_in_order_and_apart(ranges):
    merged = merge_spans(ranges)
    assert characters(merged) == characters(ranges)
    assert all(before[1] < after[0] for before, after in pairwise(merged))
    assert merge_spans(merged) == merged


@given(RANGES, PLACES, PLACES)
def test_what_is_clipped_and_what_is_left_tile_the_window(ranges, start, end):
    merged = merge_spans(ranges)
    window = set(range(start, end))
    inside, outside = (
        clip_spans(merged, start, end),
        complement_spans(merged, start, end),
    )
    assert characters(inside) == characters(ranges) & window
    assert characters(outside) == window - characters(ranges)
    assert all(a < b for a, b in inside + outside)


@given(st.lists(PLACES), PLACES)
def test_ranges_between_cuts_tile_the_text(cuts, length):
    tiles = tile_spans(cuts, 0, length)
    assert characters(tiles) == set(range(length))
    assert [a for a, _ in tiles[1:]] == [b for _, b in tiles[:-1]]
    assert {a for a, _ in tiles} == {0, *(cut for cut in cuts if cut < length)} - (
        {0} if not length else set()
    )
