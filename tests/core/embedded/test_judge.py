"""The judge that ships: quotes stand where they say, what is unsure is unknown, weights are known by digest."""

import asyncio
import pickle

import pytest

from denoise_core import InputError, Passage
from denoise_core.embedded import judge
from denoise_core.embedded.reader import judge as shipped
from denoise_core.embedded.reader.judge import POINTS, Calibration, Logistic
from denoise_core.support.judging import Claim, Judge

TOWER = Passage("The Eiffel Tower in Paris was finished in 1889. It was built by Gustave Eiffel.", "tower")
BRIDGE = Passage("The Golden Gate Bridge was opened in 1937. It stands in San Francisco.", "bridge")
QUESTION = "When was the Eiffel Tower finished?"
ODD = ["", " ", "...", "😀", "half \ud83d", "x" * 5000, "اكتمل برج إيفل في عام ١٨٨٩"]


def claims(*texts):
    return tuple(Claim(t, 0, len(t)) for t in texts)


def said(text, question=QUESTION, passages=(BRIDGE, TOWER), point="even"):
    return judge(point).judge(question, claims(text), passages)[0]


def test_it_is_a_judge_and_names_its_point():
    assert isinstance(judge(), Judge)
    assert len({judge(p).id for p in POINTS}) == 3
    with pytest.raises(InputError, match="'lenient', 'even', 'strict'"):
        judge("sharp")


def test_a_right_answer_is_supported_by_the_span_that_says_it():
    for answer in ("1889", "It was finished in 1889."):
        found = said(answer)
        assert found.supported is True
        assert [q.relation for q in found.quotes] == ["supports"]
        assert found.quotes[0].span.passage_id == "tower"
        assert found.quotes[0].text == "1889"


def test_an_answer_to_something_else_is_not_and_the_better_one_is_quoted():
    found = said("1937")
    assert found.supported is not True
    assert found.probability < said("1889").probability
    if found.kind == "off_question":
        assert found.quotes[0].relation == "contradicts"


@pytest.mark.parametrize("claim", [*ODD, "1889", "Paris", "A long claim " * 40])
@pytest.mark.parametrize("question", ["", QUESTION, "Ist das wahr?"])
@pytest.mark.parametrize("passages", [(), (TOWER, BRIDGE), tuple(Passage(t, str(n)) for n, t in enumerate(ODD))])
def test_every_quote_stands_where_it_says(claim, question, passages):
    texts = {p.id: p.text for p in passages}
    (found,) = judge().judge(question, claims(claim), passages)
    assert found.probability is None or 0 <= found.probability <= 1
    assert (found.kind == "") == (found.supported is True)
    for q in found.quotes:
        assert texts[q.span.passage_id][q.span.start : q.span.end] == q.text != ""
    assert found.supported is not True or found.quotes


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When was the Eiffel Tower completed?", "The Eiffel Tower in Paris was completed in 1889."),
        ("How tall is the Eiffel Tower?", "It is 330 m tall."),
    ],
)
def test_a_sentence_that_stands_in_the_evidence_answers_by_what_it_says(question, sentence):
    """As it stands it is an unlikely span; what it says beyond the question is a likely one."""
    given = [Passage("The Eiffel Tower in Paris was completed in 1889. It is 330 m tall.", "eiffel")]
    (found,) = judge().judge(question, claims(sentence), given)
    assert found.supported
    assert found.probability > 0.9


def test_points_are_in_order():
    for text in ("1889", "1937", "Gustave Eiffel", "It was built by Gustave Eiffel in 1889."):
        passed = [said(text, point=p).supported is True for p in POINTS]
        assert passed == sorted(passed, reverse=True)


def test_what_lies_between_the_lines_is_unknown():
    line = Logistic({"x": 1.0}, 0.0, {"lenient": 0.5, "even": 0.6, "strict": 0.8}, 0.2)
    assert [line.decide(p, "even") for p in (0.1, 0.2, 0.5, 0.6)] == [False, None, None, True]
    assert line.decide(0.7, "strict") is None
    assert 0 < line.probability({"x": -1e9}) < line.probability({"x": 1e9}) < 1.0 + 1e-9


def test_several_claims_are_each_read_by_themselves():
    texts = ("The tower was finished in 1889.", "It was built by Gustave Eiffel.")
    together = judge().judge(QUESTION, claims(*texts), (TOWER, BRIDGE))
    assert len(together) == 2
    assert together.answers is True
    swapped = judge().judge(QUESTION, claims(*reversed(texts)), (TOWER, BRIDGE))
    assert [c.probability for c in swapped] == pytest.approx(
        [c.probability for c in reversed(list(together))], abs=1e-3
    )


def test_another_language_and_no_evidence_are_unknown():
    assert said("Der Turm wurde im Jahr 1889 fertig und ist sehr hoch.").kind == "language"
    (found,) = judge().judge(QUESTION, claims("1889"), ())
    assert (found.supported, found.kind) == (None, "empty_evidence")


def test_without_blocking_it_says_the_same():
    found = asyncio.run(judge().ajudge(QUESTION, claims("1889"), (TOWER,)))
    assert found == judge().judge(QUESTION, claims("1889"), (TOWER,))


def test_slips_of_users_say_what_to_type():
    with pytest.raises(InputError, match="sequence of Claim"):
        judge().judge(QUESTION, "1889", (TOWER,))
    with pytest.raises(InputError):
        judge().judge(QUESTION, claims("1889"), TOWER)


def test_it_travels_as_a_recipe():
    there = pickle.loads(pickle.dumps(judge("strict")))  # noqa: S301
    assert (there.point, there.reader) == ("strict", judge().reader)


def test_files_that_were_changed_are_refused(monkeypatch):
    assert Calibration.read(shipped.shipped("calibration.json").decode()).answers.weights
    for name in shipped.DIGESTS:
        assert shipped.shipped(name)
        monkeypatch.setitem(shipped.DIGESTS, name, "0" * 64)
        with pytest.raises(InputError, match="sha256"):
            shipped.shipped(name)
