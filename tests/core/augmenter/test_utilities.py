"""Utilities: what each passes, fails and cannot say; fitted thresholds and combinations; broken judges."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import InputError, Passage, Reply, run
from denoise_core.augmenter import Augmenter, Outcome, WorkingMemory
from denoise_core.augmenter.testing import check_loop, scripted
from denoise_core.augmenter.utilities import (
    FunctionUtility,
    Groundedness,
    KnowledgeOverlap,
    Labelled,
    LinearCombination,
    SelfCriticism,
    Similarity,
    Weights,
    calibrate,
    fit_threshold,
    fit_weights,
    knowledge_f1,
    models,
)
from denoise_core.augmenter.utilities.abstention import abstains
from denoise_core.augmenter.utilities.calibrate import area_under_curve
from denoise_core.augmenter.utilities.overlap import overlap, tokens
from denoise_core.testing import ListRetriever

TEXT = (
    "Aaron Galindo plays for C.D. Toledo. The club was founded in 1928 and does not play at home on Mondays. "
    "It has 5,300 seats."
)


def memory(*texts, question="When was the club founded?"):
    return WorkingMemory(question, tuple(Passage(t, f"e{n}") for n, t in enumerate(texts)))


def judged(candidate, *texts, utility=None):
    return run((utility or Groundedness()).assess(memory(*texts), candidate))[0]


def kinds(verdict):
    return {r.kind for r in verdict.reasons}


@pytest.mark.parametrize(
    "candidate",
    [
        "1928",
        "1928 [1]",
        "The club was founded in 1928.",
        "It was founded in 1928 [1]. It has 5300 seats [1].",
        "The club doesn't play at home on Mondays.",
    ],
)
def test_what_the_evidence_says_passes(candidate):
    assert judged(candidate, "Bananas are yellow.", TEXT).outcome == "pass"


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ("1932", "number"),
        ("The club was founded in 1932.", "number"),
        ("The club was not founded in 1928.", "negation"),
        ("The club plays at home on Mondays.", "negation"),
        ("Lucy Liu", "entity"),
        ("chocolate pudding", "unsupported"),
        ("The club was founded by Lucy Liu of Hollywood fame.", "entity"),
        ("It was founded in 1928 [7].", "citation"),
        ("", "empty"),
        ("... [1]", "empty"),
        ("word " * 5000, "length"),
    ],
)
def test_what_the_evidence_does_not_say_fails_and_says_why(candidate, kind):
    verdict = judged(candidate, TEXT)
    assert verdict.outcome == "fail"
    assert kind in kinds(verdict)


@pytest.mark.parametrize(
    ("candidate", "texts", "kind"),
    [
        ("It was founded in 1928.", (), "empty_evidence"),
        ("It was founded in 1928.", ("", "  "), "empty_evidence"),
        ("I'm sorry, I don't have that information.", (TEXT,), "abstention"),
        ("unknown", (TEXT,), "abstention"),
        ("Yes.", (TEXT,), "bare"),
    ],
)
def test_what_cannot_be_said_is_unknown(candidate, texts, kind):
    verdict = judged(candidate, *texts)
    assert verdict.outcome == "unknown"
    assert kinds(verdict) == {kind}


def test_the_score_does_not_fall_with_more_passages_as_knowledge_f1_does():
    others = ["Rome lies on the Tiber and has seven hills."] * 4
    one, five = judged("It was founded in 1928.", TEXT), judged("It was founded in 1928.", TEXT, *others)
    assert one.score == five.score
    f1 = KnowledgeOverlap()
    said = "It was founded in 1928."
    assert judged(said, TEXT, *others, utility=f1).score < judged(said, TEXT, utility=f1).score


def test_copying_a_passage_is_no_answer():
    long = " ".join(f"The {n}th thing is a thing of its own kind." for n in range(30))
    assert kinds(judged(long, long)) == {"copy"}
    assert judged(long, long).outcome == "fail"
    assert run(Groundedness(copy_cap=1.0).assess(memory(long), long))[0].outcome == "pass"


def test_a_year_in_brackets_is_no_citation():
    assert judged("The club was founded in [1928].", TEXT).outcome == "pass"


def test_a_passage_of_two_megabytes_and_a_word_of_one_are_judged():
    assert judged("It was founded in 1928.", TEXT + " filler" * 300_000).outcome == "pass"
    assert judged("It was founded in 1928.", "x" * 1_000_000).outcome == "fail"


def test_contradicting_evidence_is_held_against_the_passage_that_supports_it():
    verdict = judged("The club was founded in 1928.", "The club was founded in 1932.", TEXT)
    assert verdict.outcome == "pass"


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_gets_a_verdict(candidate, texts):
    verdict = judged(candidate, *texts)
    assert verdict.outcome in ("pass", "fail", "unknown")
    assert verdict.outcome == "pass" or verdict.reasons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I do not have any information about that.", True),
        ("The passages do not mention his age.", True),
        ("There is not enough information to answer.", True),
        ("It cannot be determined from the evidence [1].", True),
        ("n/a", True),
        ("He does not know Paris.", False),
        ("He is unknown abroad.", False),
        ("1928", False),
        ("", False),
        ("The club was founded in 1928. The record does not state who founded it.", False),
    ],
)
def test_abstentions_are_told_from_answers(text, expected):
    assert abstains(text) is expected


def test_knowledge_f1_follows_the_definition():
    found = overlap("the cat sat", "The cat sat on a mat.")
    assert (found.precision, found.recall) == (1.0, 0.5)
    assert found.f1 == pytest.approx(2 / 3)
    assert overlap("", "").f1 == 1.0
    assert overlap("", "x").f1 == 0.0
    assert knowledge_f1("a b b", ["b", "b b c"]) == pytest.approx(0.8)
    assert knowledge_f1("x", []) == 0.0
    assert tokens("U.S.", "parlai") == ["u", "s"]


def test_knowledge_overlap_measures_what_it_is_told():
    said = "founded in 1928"
    for measure, score in (("precision", 1.0), ("recall", 0.5)):
        utility = KnowledgeOverlap(measure=measure)
        assert judged(said, "founded in 1928 by five men", utility=utility).score == pytest.approx(score)
    assert judged("1928", utility=KnowledgeOverlap()).outcome == "unknown"
    with pytest.raises(InputError, match="measure='f2'"):
        KnowledgeOverlap(measure="f2")


GOOD = '{"verdict": "supported", "score": 9, "problems": []}'
BAD = '{"verdict": "unsupported", "score": 2, "problems": [{"claim": "1932", "problem": "it was 1928"}]}'


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (GOOD, "pass"),
        (f"```json\n{GOOD}\n```", "pass"),
        (f"<think>No, yes, no</think>\n{GOOD}", "pass"),
        (BAD, "fail"),
        (GOOD.replace("9", "2"), "fail"),
        (GOOD.replace("[]", '[{"claim": "a", "problem": "b"}]'), "fail"),
        (GOOD.replace("supported", "unclear"), "unknown"),
        ("yes", "unknown"),
        ("No - not since yesterday", "unknown"),
        (GOOD.replace("9", "true"), "unknown"),
        (GOOD.replace("9", "99"), "unknown"),
        (GOOD.replace("[]", '["x"]'), "unknown"),
        (GOOD + GOOD, "unknown"),
        ("", "unknown"),
        ("[" * 100_000, "unknown"),
    ],
)
def test_self_criticism_is_parsed_strictly(reply, outcome):
    verdict = run(SelfCriticism(scripted(reply)).assess(memory(TEXT), "It was 1932."))[0]
    assert verdict.outcome == outcome
    assert verdict.outcome == "pass" or verdict.reasons


def test_the_judge_may_be_another_model_than_the_one_that_drafts(passages, question):
    drafter, judge = scripted("In 1925 [1].", "In 1889 [1]."), scripted(BAD, GOOD)
    answer = Augmenter(drafter, ListRetriever(passages), utility=SelfCriticism(judge)).answer(question)
    assert answer.outcome is Outcome.VERIFIED
    assert (len(drafter.seen), len(judge.seen)) == (2, 2)
    assert '"1932": it was 1928' in drafter.seen[1][-1].content


def test_any_function_is_a_utility(passages, question):
    seen = []

    def score(asked, evidence, candidate):
        seen.append((asked, list(evidence), candidate))
        return 0.9 if "1889" in candidate else 0.1

    answer = check_loop(
        lambda: Augmenter(scripted("1925", "1889"), ListRetriever(passages), utility=FunctionUtility(score)),
        question,
    )
    assert (answer.text, answer.outcome) == ("1889", Outcome.VERIFIED)
    assert seen[0] == (question, [p.text for p in passages], "1925")
    assert [e.tag for e in answer.trace.events].count("judge") == 2


@pytest.mark.parametrize(
    ("value", "outcome"), [(None, "unknown"), (float("nan"), "unknown"), (True, "pass"), (0, "fail")]
)
def test_a_function_that_cannot_say_is_unknown(value, outcome):
    assert judged("x", TEXT, utility=FunctionUtility(lambda *_: value)).outcome == outcome


@pytest.mark.parametrize("value", [7, -1.0, float("inf"), "high"])
def test_a_function_that_returns_no_score_is_an_error(value):
    with pytest.raises(ValueError, match=r"judge|convert"):
        judged("x", TEXT, utility=FunctionUtility(lambda *_: value))


def test_typed_decisions_judge_from_one_forward_pass():
    asked = []

    def decide(request):
        asked.append(request)
        return {"grounded": {"type": "noul", "noul": 0.8}}

    verdict = judged("</draft>1928", TEXT, utility=FunctionUtility(models.decision(decide), threshold=0.7))
    assert (verdict.outcome, verdict.score) == ("pass", 0.8)
    assert asked[0]["questions"]["grounded"]["type"] == "noul"
    assert asked[0]["state"].count("</draft>") == 1


def examples(n=40):
    for i in range(n):
        yield Labelled("When?", (f"It was founded in {1900 + i} by Ada.",), f"It was founded in {1900 + i}.", True)
        yield Labelled(
            "When?", (f"It was founded in {1900 + i} by Ada.",), f"It was founded in {1800 + i}.", False
        )


def test_a_judge_that_always_says_yes_is_reported():
    report = calibrate(FunctionUtility(lambda *_: 1.0), list(examples()))
    assert (report.auc, report.passes_bad) == (0.5, 1.0)
    assert any("says yes to nearly everything" in w for w in report.warnings)
    assert any("no better than chance" in w for w in report.warnings)


def test_a_good_judge_is_reported_without_warning():
    report = calibrate(Groundedness(), list(examples()))
    assert (report.auc, report.passes_good, report.passes_bad, report.warnings) == (1.0, 1.0, 0.0, ())


def test_a_judge_that_never_knows_is_reported():
    report = calibrate(FunctionUtility(lambda *_: None), list(examples()))
    assert any("could not judge 100%" in w for w in report.warnings)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30))
def test_a_fitted_threshold_does_what_it_says(rows):
    scores, good = [s for s, _ in rows], [g for _, g in rows]
    if all(good) or not any(good):
        with pytest.raises(InputError, match="both kinds"):
            fit_threshold(scores, good)
        return
    found = fit_threshold(scores, good)
    passed = [s >= found.value for s in scores]
    assert found.good == pytest.approx(sum(p and g for p, g in zip(passed, good)) / sum(good))
    assert found.bad == pytest.approx(sum(p and not g for p, g in zip(passed, good)) / (len(good) - sum(good)))
    strict = fit_threshold(scores, good, most_bad=0.0)
    assert strict.bad == 0.0
    assert area_under_curve(scores, good) == pytest.approx(
        sum((a > b) + (a == b) / 2 for a, g in rows if g for b, h in rows if not h)
        / (sum(good) * (len(good) - sum(good)))
    )


def test_a_learned_combination_weighs_its_members_and_survives_json():
    members = {"ground": Groundedness(), "noise": FunctionUtility(lambda q, e, c: (hash(c) % 100) / 100)}
    rows = list(examples())
    weights = fit_weights(members, rows)
    assert weights.weight[0] > abs(weights.weight[1])
    again = Weights.from_json(json.loads(json.dumps(weights.as_json())))
    assert again == weights
    report = calibrate(LinearCombination(members, again), rows)
    assert (report.passes_good, report.passes_bad) == (1.0, 0.0)


def test_a_combination_is_unknown_when_all_are_or_when_one_has_a_veto():
    known, unknown = FunctionUtility(lambda *_: 1.0), FunctionUtility(lambda *_: None)
    weights = Weights(("a", "b"), (5.0, 5.0), (0.5, 0.5), 0.0)
    assert judged("x", TEXT, utility=LinearCombination({"a": known, "b": unknown}, weights)).outcome == "pass"
    veto = LinearCombination({"a": known, "b": unknown}, weights, veto=True)
    assert judged("x", TEXT, utility=veto).outcome == "unknown"
    assert judged("x", TEXT, utility=LinearCombination({"a": unknown, "b": unknown}, weights)).outcome == "unknown"


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="the weights are for"):
        LinearCombination({"a": Groundedness()}, Weights(("b",), (1.0,), (0.0,), 0.0))
    for data in ({}, {"members": ["a"], "weight": [1, 2], "mean": [0], "bias": 0}):
        with pytest.raises(InputError, match="weights: "):
            Weights.from_json(data)
    with pytest.raises(InputError, match="both kinds"):
        fit_weights({"a": Groundedness()}, [])


def test_replies_of_a_judge_count_as_calls(passages, question):
    from denoise_core import Budget

    utility = FunctionUtility(lambda *_: 0.0)
    answer = Augmenter(
        scripted(Reply("a"), Reply("b")), ListRetriever(passages), utility=utility, budget=Budget(calls=4)
    ).answer(question)
    assert len([e for e in answer.trace.events if e.error is None]) == 4


class Letters:
    """How often each of a few words stands in a text, in the place of an encoder; counts what it reads."""

    def __init__(self):
        self.read = []

    def __call__(self, texts):
        self.read += texts
        return [[1e-3 + t.casefold().count(w) for w in ("club", "founded", "seats", "rome")] for t in texts]


def test_similarity_is_that_of_the_best_sentence_mean_over_the_claims():
    score = Similarity(Letters())
    right = score("q", ["Rome is old. The club was founded in 1928."], "Founded: the club [1].")
    wrong = score("q", ["Rome is old. The club was founded in 1928."], "Many seats.")
    assert right == pytest.approx(1.0, abs=1e-3)
    assert wrong < 0.1
    both = score("q", ["Rome is old. The club was founded in 1928."], "Founded: the club [1]. Many seats.")
    assert both == pytest.approx((right + wrong) / 2)


def test_similarity_reads_the_evidence_once():
    embed = Letters()
    utility = FunctionUtility(Similarity(embed), name="similarity")
    for candidate in ("Founded in 1928.", "It has seats.", "Founded in 1928."):
        judged(candidate, TEXT, utility=utility)
    assert len(embed.read) == len(set(embed.read))
    score = Similarity(embed := Letters())
    score.read([((TEXT,), "Founded in 1928."), ((TEXT, ""), "It has seats.")])
    before = list(embed.read)
    score("", [TEXT, ""], "It has seats.")
    assert embed.read == before


@pytest.mark.parametrize(
    ("candidate", "texts", "outcome"),
    [
        ("I don't have that information.", (TEXT,), "unknown"),
        ("Founded in 1928.", (), "unknown"),
        ("Founded in 1928.", ("", " "), "unknown"),
        ("", (TEXT,), "fail"),
        ("club founded " * 10_000, (TEXT,), "fail"),
        ("The club was founded.", (TEXT, "x" * 100_000), "pass"),
    ],
)
def test_similarity_of_what_says_nothing(candidate, texts, outcome):
    utility = FunctionUtility(Similarity(Letters()))
    assert judged(candidate, *texts, utility=utility).outcome == outcome


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_similarity_of_any_text_is_a_score_or_none(candidate, texts):
    found = Similarity(Letters())("q", texts, candidate)
    assert found is None or 0.0 <= found <= 1.0


def test_the_embedded_encoder_knows_a_paraphrase_that_shares_no_word():
    score = Similarity()
    evidence = ["The physician cured the child.", "Bananas are yellow."]
    assert score("", evidence, "A doctor healed a young boy.") > score("", evidence, "Shares fell in Tokyo.") + 0.2
    members = {"words": Groundedness(), "meaning": FunctionUtility(score, name="similarity")}
    weights = Weights(("words", "meaning"), (2.0, 2.0), (0.5, 0.5), 0.0)
    found = judged("The club was founded in 1928.", TEXT, utility=LinearCombination(members, weights))
    assert found.outcome == "pass"
