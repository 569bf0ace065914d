"""Questions made without labels have the right passage right, wrong ones wrong, and are the same each time."""

import pytest

from denoise_core import InputError, Passage, Reply, run
from denoise_core.end.fit.data import (
    generate_questions,
    parse_question,
    questions_from_documents,
)
from denoise_core.testing import FunctionLLM

TOWNS = [
    "Arlen",
    "Borvik",
    "Celdan",
    "Dursk",
    "Elmora",
    "Fenby",
    "Gorst",
    "Hallin",
    "Iskra",
    "Jorden",
    "Kelm",
    "Lowick",
]
DOCUMENTS = [
    Passage(
        f"The town of {t} lies at the river number {i} of the old province. Its mill was built by the miller of "
        f"{t} in the year {1700 + i}. Few people live there now.",
        f"d{i}",
    )
    for i, t in enumerate(TOWNS)
]


def test_a_sentence_becomes_the_question_and_the_rest_the_relevant_passage():
    labelled_questions = questions_from_documents(DOCUMENTS, negatives=4)
    assert len(labelled_questions) == len(DOCUMENTS)
    source = {passage.id: passage.text for passage in DOCUMENTS}
    for query in labelled_questions:
        (gold,) = query.gold
        kept_items = next(passage for passage in query.passages if passage.id == gold)
        assert query.text in source[gold]
        assert query.text not in kept_items.text
        assert (
            "".join(
                source[gold][kept_span.start : kept_span.end]
                for kept_span in kept_items.spans
            )
            == kept_items.text
        )
        assert len(query.passages) == 5
        assert all(
            passage.text == source[passage.id]
            for passage in query.passages
            if passage.id != gold
        )
    assert (
        len(
            {
                [passage.id for passage in query.passages].index(next(iter(query.gold)))
                for query in labelled_questions
            }
        )
        > 1
    ), "no fixed place"


def test_the_seed_decides():
    assert questions_from_documents(DOCUMENTS, n=3) == questions_from_documents(
        DOCUMENTS, n=3
    )
    assert questions_from_documents(DOCUMENTS, n=3) != questions_from_documents(
        DOCUMENTS, n=3, seed=1
    )
    assert len(questions_from_documents(DOCUMENTS, n=3)) == 3


def test_half_of_the_others_are_the_most_alike():
    odd = [
        Passage(
            f"Zebra facts {i}. Nothing about rivers stands here at all, dear reader.",
            f"z{i}",
        )
        for i in range(9)
    ]
    for query in questions_from_documents([*DOCUMENTS, *odd], negatives=6):
        (gold,) = query.gold
        alike = [
            passage
            for passage in query.passages
            if passage.id[0] == gold[0] and passage.id != gold
        ]
        assert len(alike) >= 3


def test_a_copy_of_the_relevant_passage_is_never_an_irrelevant_one():
    copied = [*DOCUMENTS, Passage(DOCUMENTS[0].text, "copy")]
    for query in questions_from_documents(copied, negatives=12):
        if query.gold <= {"d0", "copy"}:
            assert len({"d0", "copy"} & {passage.id for passage in query.passages}) == 1


@pytest.mark.parametrize("texts", [[], ["One."], ["One.", "Two."], ["", " "]])
def test_documents_that_give_nothing_are_named(texts):
    with pytest.raises(InputError):
        questions_from_documents([Passage(t, str(i)) for i, t in enumerate(texts)])


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("Who built it?", "Who built it?"),
        ("Sure!\n1. **Who built it?**\nHope that helps.", "Who built it?"),
        ('<think>What? No.</think>\nQuestion: "Who built it?"', "Who built it?"),
        ("mill of Arlen builder", "mill of Arlen builder"),
        ("誰が建てましたか？", "誰が建てましたか？"),
        ("NONE", None),
        ("none.", None),
        ("", None),
        ("x" * 1000, None),
    ],
)
def test_a_reply_is_read_as_a_question_or_not(reply, question):
    assert parse_question(reply) == question


def test_an_llm_asks_and_what_it_declines_is_left_out():
    def ask(prompt_messages):
        assert "never an instruction" in prompt_messages[0].content
        input_text = prompt_messages[1].content
        if "Arlen" in input_text:
            return "NONE"
        if "Borvik" in input_text:
            raise ConnectionError("gone")
        return Reply(
            f"Who built the mill of {next(t for t in TOWNS if t in input_text)}?"
        )

    labelled_questions, trace = run(
        generate_questions(DOCUMENTS, negatives=3), llm=FunctionLLM(ask)
    )
    assert len(trace.events) == len(DOCUMENTS)
    assert {next(iter(query.gold)) for query in labelled_questions} == {
        f"d{i}" for i in range(2, len(DOCUMENTS))
    }
    assert all(
        next(iter(query.gold)) == f"d{TOWNS.index(query.text.split()[-1][:-1])}"
        for query in labelled_questions
    )


def test_when_the_llm_gives_nothing_the_reason_is_raised():
    with pytest.raises(InputError, match="no question for any of 12"):
        run(generate_questions(DOCUMENTS), llm=FunctionLLM(lambda message_list: "NONE"))

    def gone(prompt_messages):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        run(generate_questions(DOCUMENTS), llm=FunctionLLM(gone))
