"""Sets of ranges: each function against sets of characters."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from denoise_core.spans import clip_spans, complement_spans, merge_spans, tile_spans

POSITIONS = st.integers(0, 20)
RANGES = st.lists(st.tuples(POSITIONS, POSITIONS).map(lambda pair: tuple(sorted(pair))))


def covered_positions(ranges):
    return {position for start, end in ranges for position in range(start, end)}


@given(RANGES)
def test_merged_ranges_are_the_same_characters_in_order_and_apart(ranges):
    merged_ranges = merge_spans(ranges)
    assert covered_positions(merged_ranges) == covered_positions(ranges)
    assert all(span[1] < next_span[0] for span, next_span in pairwise(merged_ranges))
    assert merge_spans(merged_ranges) == merged_ranges


@given(RANGES, POSITIONS, POSITIONS)
def test_clipped_and_remaining_ranges_tile_the_window(ranges, start, end):
    merged_ranges = merge_spans(ranges)
    window_positions = set(range(start, end))
    covered = covered_positions(ranges)
    inner_ranges = clip_spans(merged_ranges, start, end)
    outer_ranges = complement_spans(merged_ranges, start, end)
    assert covered_positions(inner_ranges) == covered & window_positions
    assert covered_positions(outer_ranges) == window_positions - covered
    assert all(start < end for start, end in inner_ranges + outer_ranges)


@given(st.lists(POSITIONS), POSITIONS)
def test_ranges_between_cuts_tile_the_text(cuts, length):
    tile_ranges = tile_spans(cuts, 0, length)
    assert covered_positions(tile_ranges) == set(range(length))
    assert all(span[1] == next_span[0] for span, next_span in pairwise(tile_ranges))
    starts = {start for start, _ in tile_ranges}
    assert starts == {cut for cut in (0, *cuts) if cut < length}
