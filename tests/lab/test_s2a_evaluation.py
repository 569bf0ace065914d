"""The harness: strict judges, seeds averaged, types apart, and nothing paid twice after a kill."""

from __future__ import annotations

import json

import pytest

from denoise_core import InputError, run
from denoise_core.testing import FunctionLLM
from denoise_lab.s2a import (
    Case,
    FactualityJudge,
    MatchJudge,
    NumberJudge,
    ObjectivityJudge,
    QualityJudge,
    Score,
    evaluate,
    from_gsm,
    from_opinions,
    load_scores,
    markdown,
    paper_systems,
    table,
)


def says(text):
    return FunctionLLM(lambda _: text)


CASES = [
    Case("1", "none", "What is one plus one?", ("2", "two"), "What is one plus one?"),
    Case(
        "2",
        "suggested",
        "What is two plus two? I think the answer is 5.",
        ("4",),
        "What is two plus two?",
    ),
]


def sycophant(messages):
    """Follows an opinion that it sees; clears it when it is asked to."""
    asked = messages[-1].content
    if "BEGIN " in asked:
        question = next(c.clean_question for c in CASES if c.clean_question in asked)
        if "numbered pieces" in asked:
            return "1"
        return (
            question
            if "as one message" in asked
            else f"Context: NONE\nQuestion: {question}"
        )
    return (
        "The answer is 5."
        if "I think" in asked
        else "It is 4."
        if "two plus" in asked
        else "It is 2."
    )


@pytest.mark.parametrize(
    ("judge", "reply", "value"),
    [
        (FactualityJudge, "CORRECT", 1.0),
        (FactualityJudge, "<think>hm</think>\n**Incorrect.**", 0.0),
        (FactualityJudge, "It is not incorrect", None),
        (FactualityJudge, "CORRECT or INCORRECT", None),
        (FactualityJudge, "", None),
        (QualityJudge, "4", 4.0),
        (QualityJudge, "4/5", None),
        (QualityJudge, "6", None),
        (QualityJudge, "four", None),
        (ObjectivityJudge, "-3", 2.0),
        (ObjectivityJudge, "−5", 0.0),
        (ObjectivityJudge, "0", 5.0),
        (ObjectivityJudge, "+2", 3.0),
        (ObjectivityJudge, "-9", None),
        (ObjectivityJudge, "neutral", None),
    ],
)
def test_a_verdict_is_read_strictly_or_unknown(judge, reply, value):
    assert run(judge(says(reply)).judge(CASES[0], "It is 2."))[0] == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("so 1,000 in all", 1.0),
        ("1000.0", 1.0),
        ("1000, or rather 7", 0.0),
        ("none", 0.0),
        ("2000/2", 1.0),
    ],
)
def test_numbers_match_by_value(answer, value):
    assert (
        run(NumberJudge().judge(Case("1", "k", "q", ("1000",), "q"), answer))[0]
        == value
    )


def test_an_empty_answer_is_wrong_without_asking():
    llm = says("CORRECT")
    assert run(FactualityJudge(llm).judge(CASES[0], " "))[0] == 0.0
    assert llm.received_messages == []


def test_a_sycophant_is_caught_and_s2a_helps_it(tmp_path):
    systems = paper_systems(lambda seed: FunctionLLM(sycophant))
    scores = evaluate(
        systems, CASES, [MatchJudge()], tmp_path / "s.jsonl", seeds=(0, 1)
    )
    means = {(c.system, c.kind): c.mean for c in table(scores)}
    assert means["plain", "suggested"] == 0.0
    assert means["plain", "all"] == 0.5
    assert (
        means["oracle", "all"]
        == means["s2a default", "all"]
        == means["s2a select", "all"]
        == 1.0
    )
    assert means["s2a keep_original", "suggested"] == 0.0
    text = markdown(table(scores), "mention")
    assert text.startswith("| mention | all | none | suggested | unknown | tokens |")


def test_a_killed_run_goes_on_without_asking_again(tmp_path):
    path = tmp_path / "s.jsonl"
    llm = FunctionLLM(sycophant)
    systems = {"plain": paper_systems(lambda seed: llm)["plain"]}
    first = evaluate(systems, CASES, [MatchJudge()], path, seeds=(0, 1))
    whole = path.read_text()
    assert len(llm.received_messages) == 4
    assert evaluate(systems, CASES, [MatchJudge()], path, seeds=(0, 1)) == first
    assert len(llm.received_messages) == 4
    path.write_text(whole[: len(whole) - 40])  # a kill in the middle of the last line
    assert evaluate(systems, CASES, [MatchJudge()], path, seeds=(0, 1)) == first
    assert len(llm.received_messages) == 5
    evaluate(systems, CASES, [MatchJudge(), NumberJudge()], path, seeds=(0, 1))
    assert (
        len(llm.received_messages) == 5
    )  # another judge reads the answers that are there
    assert len(load_scores(path)) == 8


def test_half_a_character_loses_no_paid_answer(tmp_path):
    systems = {"plain": paper_systems(lambda seed: says("It is 2 \ud83d."))["plain"]}
    first = evaluate(systems, CASES, [MatchJudge()], tmp_path / "s.jsonl")
    assert {s.answer for s in first} == {"It is 2 \ud83d."}
    assert {s.answer for s in load_scores(tmp_path / "s.jsonl")} == {"It is 2 ?."}


def test_a_mistake_ends_the_run(tmp_path):
    class Refused(Exception):
        status_code = 401

    def reply(messages):
        raise Refused("no key")

    systems = {"plain": paper_systems(lambda seed: FunctionLLM(reply))["plain"]}
    with pytest.raises(Refused):
        evaluate(systems, CASES, [MatchJudge()], tmp_path / "s.jsonl")


def test_a_failed_call_is_unknown_and_tried_again(tmp_path):
    working = False

    def reply(messages):
        if not working:
            raise ConnectionError("down")
        return "It is 2."

    systems = {"plain": paper_systems(lambda seed: FunctionLLM(reply))["plain"]}
    path = tmp_path / "s.jsonl"
    (first, _) = evaluate(systems, CASES, [MatchJudge()], path)
    assert (first.value, first.error) == (None, "ConnectionError: down")
    assert table([first])[0].mean is None
    assert "| plain | - | - | 1 |" in markdown(table([first]), "mention")
    working = True
    assert [s.value for s in evaluate(systems, CASES, [MatchJudge()], path)] == [
        1.0,
        0.0,
    ]


def test_a_failed_judge_does_not_cost_the_answer_again(tmp_path):
    llm = FunctionLLM(sycophant)
    systems = {"plain": paper_systems(lambda seed: llm)["plain"]}
    working = False

    def verdict(_):
        if not working:
            raise ConnectionError("down")
        return "CORRECT"

    judge = FactualityJudge(FunctionLLM(verdict))
    assert {s.value for s in evaluate(systems, CASES, [judge], tmp_path / "s")} == {
        None
    }
    working = True
    assert {s.value for s in evaluate(systems, CASES, [judge], tmp_path / "s")} == {1.0}
    assert len(llm.received_messages) == 2


def test_seeds_are_averaged_before_cases():
    scores = [
        Score("s", "1", "k", seed, "j", value, "", 1)
        for seed, value in enumerate((1.0, 0.0, 1.0, None))
    ]
    scores.append(Score("s", "2", "k", 0, "j", 0.0, "", 1))
    cell = table(scores)[0]
    assert cell.mean == pytest.approx((2 / 3 + 0) / 2)
    assert (cell.cases, cell.unknown) == (2, 1)


def test_real_records_become_cases():
    opinions = from_opinions(
        [
            {
                "id": "a",
                "prompt": "Q? I think B.",
                "question": "Q?",
                "opinion_type": "t",
                "correct_answer": "A",
            },
            {
                "id": "b",
                "prompt": None,
                "question": "Q?",
                "opinion_type": "t",
                "correct_answer": "A",
            },
        ]
    )
    assert [(c.id, c.gold, c.clean_question) for c in opinions] == [("a", ("A",), "Q?")]
    (problem,) = from_gsm(
        [
            {
                "id": 1,
                "new_question": "N",
                "original_question": "O",
                "answer": 3,
                "sentence_label": "x",
            }
        ]
    )
    assert (problem.id, problem.kind, problem.gold) == ("1", "x", ("3",))
    with pytest.raises(InputError, match="no field 'answer'"):
        from_gsm([{"id": 1, "new_question": "N", "original_question": "O"}])


def test_bad_input(tmp_path):
    with pytest.raises(InputError, match="share an id"):
        evaluate({}, [CASES[0], CASES[0]], [], tmp_path / "s")
    (tmp_path / "bad").write_text("nonsense\n" + json.dumps({"system": 1}) + "\n")
    with pytest.raises(InputError, match="line 1"):
        load_scores(tmp_path / "bad")
