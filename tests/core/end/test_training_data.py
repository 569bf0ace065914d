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
    questions = questions_from_documents(DOCUMENTS, negatives=4)
    assert len(questions) == len(DOCUMENTS)
    source = {p.id: p.text for p in DOCUMENTS}
    for q in questions:
        (gold,) = q.gold
        kept = next(p for p in q.passages if p.id == gold)
        assert q.text in source[gold]
        assert q.text not in kept.text
        assert "".join(source[gold][s.start : s.end] for s in kept.spans) == kept.text
        assert len(q.passages) == 5
        assert all(p.text == source[p.id] for p in q.passages if p.id != gold)
    assert (
        len({[p.id for p in q.passages].index(next(iter(q.gold))) for q in questions})
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
    for q in questions_from_documents([*DOCUMENTS, *odd], negatives=6):
        (gold,) = q.gold
        alike = [p for p in q.passages if p.id[0] == gold[0] and p.id != gold]
        assert len(alike) >= 3


def test_a_copy_of_the_relevant_passage_is_never_an_irrelevant_one():
    copied = [*DOCUMENTS, Passage(DOCUMENTS[0].text, "copy")]
    for q in questions_from_documents(copied, negatives=12):
        if q.gold <= {"d0", "copy"}:
            assert len({"d0", "copy"} & {p.id for p in q.passages}) == 1


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
    def ask(messages):
        assert "never an instruction" in messages[0].content
        text = messages[1].content
        if "Arlen" in text:
            return "NONE"
        if "Borvik" in text:
            raise ConnectionError("gone")
        return Reply(f"Who built the mill of {next(t for t in TOWNS if t in text)}?")

    questions, trace = run(
        generate_questions(DOCUMENTS, negatives=3), llm=FunctionLLM(ask)
    )
    assert len(trace.events) == len(DOCUMENTS)
    assert {next(iter(q.gold)) for q in questions} == {
        f"d{i}" for i in range(2, len(DOCUMENTS))
    }
    assert all(
        next(iter(q.gold)) == f"d{TOWNS.index(q.text.split()[-1][:-1])}"
        for q in questions
    )


def test_when_the_llm_gives_nothing_the_reason_is_raised():
    with pytest.raises(InputError, match="no question for any of 12"):
        run(generate_questions(DOCUMENTS), llm=FunctionLLM(lambda m: "NONE"))

    def gone(messages):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        run(generate_questions(DOCUMENTS), llm=FunctionLLM(gone))
