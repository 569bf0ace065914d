"""Questions made without labels have the right passage right, wrong ones wrong, and are the same each time."""

from dataclasses import replace

import pytest
from growing_texts import numbered_texts, passages_of

from denoise_core import InputError, Passage
from denoise_core.end.fit.data import questions_from_documents

TOWN = (
    "The town of Arlen{n} lies at the river number {n} of the old province. Its mill was built by the "
    "miller of Arlen{n} in the year 17{n}. Few people live there now."
)
DOCUMENTS = passages_of(numbered_texts(TOWN, 12))


def gold_index(question):
    return question.labels.index(True)


def test_a_sentence_becomes_the_question_and_the_rest_the_relevant_passage():
    questions = questions_from_documents(DOCUMENTS, negatives=4)
    assert len(questions) == len(DOCUMENTS)
    source = {passage.id: passage.text for passage in DOCUMENTS}
    for question in questions:
        assert len(question.passages) == 5
        for passage, is_gold in zip(question.passages, question.labels, strict=True):
            text = source[passage.id]
            if is_gold:
                assert question.text in text
                assert question.text not in passage.text
                kept_parts = [text[span.start : span.end] for span in passage.spans]
                text = "".join(kept_parts)
            assert passage.text == text
    assert len({gold_index(question) for question in questions}) > 1, "no fixed place"


def test_the_seed_decides():
    first, again, other = (
        questions_from_documents(DOCUMENTS, n=3, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(first) == 3


def test_half_of_the_others_are_the_most_alike():
    text = "Nothing about rivers stands here at all, dear reader."
    odd = [Passage(f"Zebra facts {i}. {text}", f"z{i}") for i in range(9)]
    for question in questions_from_documents([*DOCUMENTS, *odd], negatives=6):
        kinds = [passage.id[0] == "z" for passage in question.passages]
        assert kinds.count(kinds[gold_index(question)]) >= 4


def test_a_copy_of_the_relevant_passage_is_never_an_irrelevant_one():
    copied = [*DOCUMENTS, replace(DOCUMENTS[0], id="copy")]
    for question in questions_from_documents(copied, negatives=12):
        if question.gold <= {"0", "copy"}:
            ids = {passage.id for passage in question.passages}
            assert len({"0", "copy"} & ids) == 1


@pytest.mark.parametrize("texts", [[], ["One."], ["One.", "Two."], ["", " "]])
def test_documents_that_give_nothing_are_named(texts):
    with pytest.raises(InputError):
        questions_from_documents(passages_of(texts))
