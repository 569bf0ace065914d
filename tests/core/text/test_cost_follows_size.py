"""Chunking, what is read of a text, and how many pieces it has grow as the text does, whatever it looks like."""

import json
import re

import pytest
from growing_texts import TEXTS, nested_list, numbered_texts
from growth import slope
from kept_texts import Keeping
from laws import check_tiling

from denoise_core import DenoiseResult, Passage
from denoise_core.spans import join_spans
from denoise_core.text import structural
from denoise_core.text.omissions import cut_text
from denoise_core.text.structural import (
    MAX_CONTEXT_CHARACTERS,
    MAX_CONTEXT_SPANS,
    chunk_text,
    structural_chunker,
)
from denoise_core.text.text_chunk import FREE_CHUNKS, MIN_MEAN_CHARACTERS
from denoise_core.tool_results import read_result

WITH_SINGLE_ELEMENTS = ("json", "rows")


def read_all(text):
    """Chunk a text and return it with what a scorer reads of each chunk."""
    structural._chunk_string.cache_clear()
    chunked = chunk_text(text)
    return chunked, list(map(chunked.chunk_context_and_text, chunked.scored_chunks))


@pytest.mark.parametrize("name", TEXTS)
def test_work_is_linear(name):
    assert slope(lambda size: lambda: read_all(TEXTS[name](size)), (3000, 12000)) < 1.15


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_and_what_is_read_are_bounded_and_tile_the_text(name):
    text = TEXTS[name](40_000)
    chunked, reads = read_all(text)
    check_tiling(Passage(text, "p"), structural_chunker(Passage(text, "p")))
    filled_characters = len("".join(text.split()))
    max_chunks = FREE_CHUNKS + filled_characters // MIN_MEAN_CHARACTERS
    if chunked.text_format not in WITH_SINGLE_ELEMENTS:
        assert len(chunked.chunks) <= max_chunks
    assert sum(len(own_text) for _, own_text in reads) <= 2 * len(text)
    for context, _ in reads:
        assert len(context) <= MAX_CONTEXT_CHARACTERS + MAX_CONTEXT_SPANS


def test_deep_items_are_read_with_the_nearest_ones_and_the_outermost():
    _, reads = read_all(nested_list(4000))
    context, own_text = reads[-1]
    *numbers, own_number = map(int, re.findall(r"item (\d+)", context + own_text))
    nearest_count = MAX_CONTEXT_SPANS - 1
    assert numbers == [0, *range(own_number - nearest_count, own_number)]


def test_merged_pieces_keep_their_characters_and_the_context_outside_them():
    table = "name,value,unit\n" + "".join(numbered_texts("row {n},{n},m\n", 400))
    chunked, reads = read_all(table)
    assert len(chunked.chunks) < 400
    middle = chunked.chunks[len(chunked.chunks) // 2]
    own_text = middle.text_of(table)
    assert own_text.count("\n") > 1
    kept_text = join_spans(table, chunked.retained_spans([middle.span]))
    assert kept_text == f"name,value,unit\n{own_text}"
    assert sum(shown_text.count("name: row") for _, shown_text in reads) == 400


def test_small_texts_keep_every_piece():
    rows = "".join(numbered_texts("{n},two,3\n", FREE_CHUNKS - 2))
    chunked, _ = read_all(f"a,b,c\n{rows}")
    assert len(chunked.chunks) == FREE_CHUNKS - 1


@pytest.mark.parametrize("name", ["reduce", "cap"])
def test_many_texts_of_a_result_are_reduced_in_linear_time(name):
    def prepare(size):
        tool_result = read_result(numbered_texts("Text {n} of many.", size))
        result = DenoiseResult("q", tool_result.passages[::2])
        if name == "cap":
            return lambda: tool_result.cap(1000)
        return lambda: tool_result.reduce(result)

    assert slope(prepare, (100, 400)) < 1.15


def test_the_lists_and_strings_of_an_object_are_cut_in_linear_time():
    sentences = "A sentence about the rain. " * 40

    def find_firsts(text):
        return [match.span() for match in re.finditer(r'"First \d+', text)]

    def prepare(size):
        records = []
        for n in range(size):
            notes = [sentences.upper()] * 3
            records.append({"notes": notes, "text": f"First {n}. {sentences}"})
        tool_result = read_result(records)
        result = Keeping(find_firsts).denoise("q", tool_result.passages)
        first_record, *_ = tool_result.reduce(result).value
        assert len(first_record["notes"]) == 1
        assert len(first_record["text"]) < len(sentences)
        return lambda: tool_result.reduce(result)

    assert slope(prepare, (10, 40)) < 1.15


def test_records_in_a_string_are_cut_in_linear_time():
    def prepare(size):
        rows = numbered_texts('{"name": "Row {n}"}', size)
        chunked = chunk_text(json.dumps({"body": f"[{', '.join(rows)}]"}))
        kept_spans = [chunk.span for chunk in chunked.scored_chunks[::3]]
        assert cut_text(chunked, kept_spans)
        return lambda: cut_text(chunked, kept_spans)

    assert slope(prepare, (400, 1600)) < 1.15
