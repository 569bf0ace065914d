"""Groundedness passes what its judge finds, and is unknown where nothing can be said or nobody judges."""

import pytest
from judging import TEXT, judged

from denoise_core.augmenter.utility import Groundedness
from denoise_core.support.check import has_no_answer


@pytest.mark.parametrize(
    ("candidate", "texts", "outcome", "kind"),
    [
        ("", (TEXT,), "fail", "empty"),
        ("... [1]", (TEXT,), "fail", "empty"),
        ("<think>1928?</think>", (TEXT,), "fail", "empty"),
        ("When was the club founded?", (TEXT,), "fail", "question"),
        ("word " * 5000, (TEXT,), "unknown", "length"),
        ("👍", (TEXT,), "unknown", "unjudged"),
        ("∞", (TEXT,), "unknown", "unjudged"),
        ("It was founded in 1928.", (), "unknown", "empty_evidence"),
        ("It was founded in 1928.", ("", "  "), "unknown", "empty_evidence"),
        ("Hello! How can I help you today?", (TEXT,), "unknown", "unjudged"),
        ("Which club do you mean?", (TEXT,), "unknown", "unjudged"),
    ],
)
def test_what_needs_no_judge_is_the_same_with_and_without_one(
    candidate, texts, outcome, kind
):
    for utility in (None, Groundedness()):
        verdict = judged(candidate, *texts, utility=utility)
        assert (verdict.outcome, verdict.kinds) == (outcome, {kind})
        assert verdict.reason


def test_a_finding_says_where_its_claim_is_and_what_differs():
    verdict = judged("It plays there. The club was founded in 1932.", TEXT)
    finding = verdict.findings[-1]
    assert (finding.start, finding.end, finding.kind) == (16, 45, "contradicted")
    assert [d.claimed_text for d in finding.differences] == ["1932"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"answered": false, "nearest": "its height"}', True),
        ('```json\n{"answered": false}\n```', True),
        ('Send {"answer": null}. It was built in 1925.', False),
        ('{"answer": null}\nIt was built in 1925.', False),
        ('{"answer": null, "reason": "not there"}', True),
        ('{"answered": true, "answer": "1889"}', False),
        ("I do not know.", False),
        ("{not json", False),
    ],
)
def test_json_without_an_answer_is_known_by_its_form(text, expected):
    assert has_no_answer(text) is expected
