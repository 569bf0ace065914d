"""Spans tile the text, whatever the text; sentences are cut where a reader would cut them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws import check_tiling

from denoise_core import InputError, Passage, Span
from denoise_core.errors import ContractViolation
from denoise_core.text.chunk import (
    extract_spans,
    no_chunking,
    sentence_chunker,
    sentence_spans,
)

TEXTS = st.text(
    alphabet=st.sampled_from("aZ9 .!?…。！？؟\n\t\"'()-–אب你😀\r\u200f\u00a0"),
    max_size=200,
) | st.text(max_size=80)


def span_texts(passage, spans):
    return [passage.text[span.start : span.end] for span in spans]


@given(TEXTS)
@example("")
@example(" \n\n ")
@example("a" * 45_000)
def test_sentences_tile_any_text(text):
    passage = Passage(text, "p")
    spans = sentence_spans(passage)
    check_tiling(passage, spans)
    assert all(len(span) for span in spans)
    if text.strip():
        assert all(
            sentence_text.strip() for sentence_text in span_texts(passage, spans)
        ), "a sentence of white space only"


@given(TEXTS, st.integers(1, 50))
def test_chunks_tile_any_text_and_keep_their_size(text, max_characters):
    passage = Passage(text, "p")
    spans = sentence_chunker(max_characters)(passage)
    check_tiling(passage, spans)
    assert all(0 < len(span) <= max_characters for span in spans)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith left. He ran.", ["Dr. Smith left. ", "He ran."]),
        ("It cost 3.50 dollars. Yes!", ["It cost 3.50 dollars. ", "Yes!"]),
        (
            "Well... he said, e.g. this. Done.",
            ["Well... he said, e.g. this. ", "Done."],
        ),
        ("你好。世界！", ["你好。", "世界！"]),
        ("مرحبا؟ نعم.", ["مرحبا؟ ", "نعم."]),
        ("One.\n\nTwo.", ["One.\n\n", "Two."]),
        ("😀 Hi there. Bye.", ["😀 Hi there. ", "Bye."]),
    ],
)
def test_sentences_in_several_scripts(text, expected):
    passage = Passage(text, "p")
    assert span_texts(passage, sentence_spans(passage)) == expected


def test_chunks_pack_whole_sentences():
    passage = Passage("One two. Three four. Five six.", "p")
    assert span_texts(passage, sentence_chunker(21)(passage)) == [
        "One two. Three four. ",
        "Five six.",
    ]


def test_a_very_long_text_is_cut_into_bounded_chunks():
    passage = Passage("The cat sat on the mat. " * 90_000, "p")  # 2 MB
    spans = sentence_chunker(1000)(passage)
    check_tiling(passage, spans)
    assert len(spans) < 3000


@given(TEXTS, st.data())
def test_extract_is_the_source_at_its_spans(text, hypothesis_data):
    passage = Passage(text, "p", score=0.5, metadata={"k": 1})
    sentences = sentence_spans(passage)
    kept_spans = [span for span in sentences if hypothesis_data.draw(st.booleans())]
    extracted_passage = extract_spans(passage, kept_spans)
    if not kept_spans:
        assert extracted_passage is None
        return
    assert (
        extracted_passage.text
        == "".join(span_texts(passage, kept_spans))
        == "".join(span_texts(passage, extracted_passage.source_spans))
    )
    assert (
        extracted_passage.id,
        extracted_passage.score,
        extracted_passage.metadata,
    ) == ("p", 0.5, {"k": 1})
    assert len(kept_spans) < len(sentences) or extracted_passage is passage
    assert all(
        span.end < next_span.start
        for span, next_span in zip(extracted_passage.spans, extracted_passage.spans[1:])
    )


def test_no_chunking_returns_one_chunk_even_of_an_empty_text():
    assert no_chunking(Passage("", "p")) == (Span("p", 0, 0),)
    assert extract_spans(Passage("", "p"), [Span("p", 0, 0)]) == Passage("", "p")


def test_an_invalid_size_is_an_error():
    with pytest.raises(InputError, match="max_characters=0"):
        sentence_chunker(0)


def test_spans_of_an_earlier_result_refer_to_its_present_text():
    earlier_passage = Passage("def ghi", "a", spans=(Span("a", 3, 10),))
    assert extract_spans(earlier_passage, [Span("a", 0, 7)]).source_spans == (
        Span("a", 0, 7),
    )


def test_half_characters_do_not_stop_the_splitter():
    passage = Passage("One \ud83d. Two.", "p")
    assert span_texts(passage, sentence_spans(passage)) == ["One \ud83d. ", "Two."]


@pytest.mark.parametrize("space", "\u00a0\u2003\u3000\u2028\x85\u202f")
def test_a_wide_space_before_a_full_stop_breaks_nothing(space):
    """The splitter panicked, and a panic is no `Exception`: it passed every error policy."""
    text = f"Signed: M{space}. Smith. The next one."
    check_tiling(Passage(text, "p"), sentence_spans(Passage(text, "p")))
    assert (
        span_texts(Passage(text, "p"), sentence_spans(Passage(text, "p")))[-1]
        == "The next one."
    )


def test_a_panic_of_the_splitter_is_a_failure(monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(language, text):
        raise PanicException("not a char boundary")

    monkeypatch.setattr("sentencex.get_sentence_boundaries", panic)
    with pytest.raises(ContractViolation, match="not a char boundary"):
        sentence_spans(Passage("A text by itself.", "p"))
