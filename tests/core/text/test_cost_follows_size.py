"""Chunking, what is read of a text, and how many pieces it has grow as the text does, whatever it looks like."""

import re

import pytest
from growing_texts import TEXTS, nested_list
from growth import slope
from kept_texts import Keeping

from denoise_core import DenoiseResult
from denoise_core.spans import join_spans, merge_spans
from denoise_core.text import structural
from denoise_core.text.structural import (
    MAX_CONTEXT_CHARACTERS,
    MAX_CONTEXT_SPANS,
    chunk_text,
)
from denoise_core.text.text_chunk import FREE_CHUNKS, MIN_MEAN_CHARACTERS
from denoise_core.tool_results import read_result

WITH_SINGLE_ELEMENTS = ("json", "rows")


def read_all(text):
    """Chunk a text and return it with what a scorer reads of each chunk."""
    structural._chunk_string.cache_clear()
    chunked = chunk_text(text)
    reads = []
    for chunk in chunked.chunks:
        if not chunk.is_structural:
            reads.append(chunked.chunk_context_and_text(chunk))
    return chunked, reads


@pytest.mark.parametrize("name", TEXTS)
def test_work_is_linear(name):
    assert slope(lambda size: lambda: read_all(TEXTS[name](size)), (4000, 16000)) < 1.15


@pytest.mark.parametrize("size", [10_000, 100_000])
@pytest.mark.parametrize("name", TEXTS)
def test_pieces_and_what_is_read_are_bounded_and_tile_the_text(name, size):
    text = TEXTS[name](size)
    chunked, reads = read_all(text)
    assert "".join(chunk.text_of(text) for chunk in chunked.chunks) == text
    filled_characters = len("".join(text.split()))
    max_chunks = FREE_CHUNKS + filled_characters // MIN_MEAN_CHARACTERS
    if chunked.text_format not in WITH_SINGLE_ELEMENTS:
        assert len(chunked.chunks) <= max_chunks
    own_characters = sum(len(own_text) for _, own_text in reads)
    assert own_characters <= 2 * len(text)
    for context, _ in reads:
        assert len(context) <= MAX_CONTEXT_CHARACTERS + MAX_CONTEXT_SPANS


def test_deep_items_are_read_with_the_nearest_ones_and_the_outermost():
    text = nested_list(4000)
    chunked, _ = read_all(text)
    last_chunk = chunked.chunks[-1]
    context, own_text = chunked.chunk_context_and_text(last_chunk)
    numbers = [int(line.rpartition(" ")[2]) for line in context.split("\n")]
    own_number = int(own_text.split("item ")[1].split()[0])
    assert numbers == [0, *range(own_number - MAX_CONTEXT_SPANS + 1, own_number)]


def test_merged_pieces_keep_their_characters_and_the_context_outside_them():
    table = "name,value,unit\n" + "".join(f"row {n},{n},m\n" for n in range(400))
    chunked, reads = read_all(table)
    assert len(chunked.chunks) < 400
    middle = chunked.chunks[len(chunked.chunks) // 2]
    own_text = middle.text_of(table)
    assert own_text.count("\n") > 1
    assert own_text.startswith("row ")
    kept_text = join_spans(table, chunked.retained_spans([middle.span]))
    assert kept_text == "name,value,unit\n" + own_text
    shown_names = "\n".join(shown_text for _, shown_text in reads)
    assert shown_names.count("name: row") == 400


def test_small_texts_keep_every_piece():
    rows = "".join(f"{n},two,3\n" for n in range(FREE_CHUNKS - 2))
    chunked, _ = read_all("a,b,c\n" + rows)
    assert len(chunked.chunks) == FREE_CHUNKS - 1
    assert merge_spans([chunk.span for chunk in chunked.chunks]) == [
        (0, len(chunked.text))
    ]


@pytest.mark.parametrize("name", ["reduce", "cap"])
def test_many_texts_of_a_result_are_reduced_in_linear_time(name):
    def prepare(size):
        tool_result = read_result([f"Text {n} of many." for n in range(size)])
        result = DenoiseResult("q", tool_result.passages[::2])
        if name == "cap":
            return lambda: tool_result.cap(1000)
        return lambda: tool_result.reduce(result)

    assert slope(prepare, (100, 400)) < 1.15


def test_the_lists_and_strings_of_an_object_are_cut_in_linear_time():
    sentences = "A sentence about the rain. " * 40

    def prepare(size):
        records = []
        for n in range(size):
            notes = [sentences.upper()] * 3
            records.append({"notes": notes, "text": f"First {n}. {sentences}"})
        tool_result = read_result(records)

        def find_firsts(text):
            return [match.span() for match in re.finditer(r'"First \d+', text)]

        denoiser = Keeping(find_firsts)
        result = denoiser.denoise("q", tool_result.passages)
        first_record, *_ = tool_result.reduce(result).value
        assert len(first_record["notes"]) == 1
        assert len(first_record["text"]) < len(sentences)
        return lambda: tool_result.reduce(result)

    assert slope(prepare, (25, 100)) < 1.15
