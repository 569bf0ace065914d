"""Shadow mode: losses that are named, losses that are none, and the report of a file."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from denoise_core import DenoiseResult, InputError, Passage
from denoise_core.shadow import (
    ShadowCall,
    ShadowLog,
    ShadowRequest,
    find_losses,
    summarize_requests,
)
from denoise_core.text.chunk import extract_spans
from denoise_core.types import Span

TOWER = Passage("The tower was completed in 1889 by Gustave Eiffel.", "tower")
FRUIT = Passage("Bananas are yellow and sweet when they are ripe.", "fruit")
PASSAGES = (TOWER, FRUIT)


def call_keeping(*kept):
    return ShadowCall.from_result(PASSAGES, DenoiseResult("What is it?", kept))


def log_request(log, request_id, *answers):
    """A request with a call that keeps the fruit alone, and these answers."""
    log.add_call(request_id, call_keeping(FRUIT))
    for answer in answers:
        log.add_answer(request_id, answer)


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ('It "was completed in 1889 by".', {"quotation", "fact"}),
        ("It is old [1].", {"citation"}),
        ("It is old [tower].", {"citation"}),
        (
            "The tower was completed in 1889 by Gustave Eiffel [1].",
            {"quotation", "citation", "fact"},
        ),
        ("In 1889.", {"fact"}),
        ("Gustave Eiffel built it.", {"fact"}),
        ("Bananas are yellow [2].", set()),
        ('They "are yellow and sweet".', set()),
        ("In 1920, says nobody.", set()),
        ("I do not know.", set()),
        ("", set()),
    ],
)
def test_what_an_answer_takes_from_dropped_text_is_named(answer, kinds):
    losses = find_losses([call_keeping(FRUIT)], answer)
    assert {loss.kind for loss in losses} == kinds
    assert all(loss.passage_ids == ("tower",) for loss in losses)
    assert all(0 <= loss.start < loss.end <= len(answer) for loss in losses)
    assert find_losses([call_keeping(*PASSAGES)], answer) == ()
    # What another call keeps is no loss.
    assert find_losses([call_keeping(FRUIT), call_keeping(TOWER)], answer) == ()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("In 1889 [1].", None),
        ("Gustave Eiffel [1].", "fact"),
        ("It is red [1.3].", None),
        ("It was built once [1.2].", None),
        ("It is big [1.1].", "citation"),
    ],
)
def test_a_kept_part_of_a_passage_is_no_loss_and_its_dropped_part_is(answer, kind):
    # A label counts the sentences of the passage, never of what is kept of it.
    text = "By Gustave Eiffel it is. It was built in 1889. It is red."
    kept = extract_spans(
        Passage(text, "a"), [Span("a", text.index("It was"), len(text))]
    )
    result = DenoiseResult("Why?", (kept,))
    call = ShadowCall.from_result([Passage(text, "a")], result)
    kinds = [loss.kind for loss in find_losses([call], answer)]
    assert kinds == ([kind] if kind else [])


def test_facts_of_the_question_need_no_passage():
    result = DenoiseResult("What was in 1889?", (FRUIT,))
    call = ShadowCall.from_result(PASSAGES, result)
    assert find_losses([call], "In 1889 nothing was.") == ()


def test_a_joint_text_counts_once_and_for_each_of_its_passages():
    spans = (*TOWER.source_spans, *FRUIT.source_spans)
    joint = Passage(
        "Built in 1889.",
        "joint",
        spans=spans,
        is_rewritten=True,
    )
    call = call_keeping(joint)
    assert call.counts["dropped"] == 0
    assert call.counts["kept_tokens"] == 4
    assert find_losses([call], "In 1889 [1][2].") == ()


def test_the_file_has_no_text_and_its_last_line_of_a_request_counts(tmp_path):
    path = tmp_path / "shadow.jsonl"
    log = ShadowLog(path)
    log_request(log, "first", None, "In 1889.")
    log_request(log, "second", "Yellow.")
    lines = path.read_text("utf-8").splitlines()
    for word in ("1889", "Eiffel", "yellow", "What is it"):
        assert word not in path.read_text("utf-8")
    requests = [ShadowRequest.from_json(line) for line in lines]
    assert {**summarize_requests(requests), "forgotten": 0} == log.summary()
    assert log.summary()["losses"] == {"first": {"fact": 1}}
    assert log.summary()["requests"] == log.summary()["answered"] == 2
    assert log.add_answer("third", "In 1889.") is None


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"losses": 3}', '{"losses": []}'])
def test_another_file_is_an_error_that_says_so(line):
    with pytest.raises(InputError, match="shadow mode"):
        ShadowRequest.from_json(line)


def test_open_and_listed_requests_are_bounded_and_counted(monkeypatch):
    monkeypatch.setattr("denoise_core.shadow.MAX_OPEN_REQUESTS", 3)
    monkeypatch.setattr("denoise_core.shadow.MAX_LISTED_REQUESTS", 5)
    log = ShadowLog()
    for number in range(8):
        log_request(log, str(number))
    summary = log.summary()
    assert summary["requests"] == 5
    assert summary["forgotten"] == 3
    assert log.requests[0].request_id == "3"
    assert log.add_answer("4", "In 1889.") is None
    assert log.add_answer("5", "In 1889.").losses


def test_a_call_after_the_answer_adds_to_its_request(tmp_path):
    log = ShadowLog(tmp_path / "shadow.jsonl")
    log.add_call("first", call_keeping(FRUIT))
    answered = log.add_answer("first", "In 1889.")
    log.add_call("first", call_keeping(FRUIT))
    [request] = log.requests
    assert request.losses == answered.losses != ()
    assert request.calls == 2
    assert request.tokens == 2 * answered.tokens
    assert request.is_answered
    assert log.add_answer("first", None).losses == answered.losses


def test_a_file_that_cannot_be_written_is_an_error_before_the_first_request(tmp_path):
    with pytest.raises(InputError, match="in a folder that exists"):
        ShadowLog(tmp_path / "missing" / "shadow.jsonl")
    with pytest.raises(InputError, match="cannot write there"):
        ShadowLog(tmp_path)


def test_an_opentelemetry_meter_counts_what_the_log_counts():
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    reader = metrics.export.InMemoryMetricReader()
    meter = metrics.MeterProvider([reader]).get_meter("rag-denoise")
    log = ShadowLog(meter=meter)
    log_request(log, "first", "In 1889.")
    log_request(log, "second", None)
    counts = {}
    [resource] = reader.get_metrics_data().resource_metrics
    for metric in resource.scope_metrics[0].metrics:
        [point] = metric.data.data_points
        counts[metric.name.removeprefix("denoise.shadow.")] = point.value
    summary = log.summary()
    for name in ("calls", "passages", "dropped", "tokens", "kept_tokens"):
        assert counts[name] == summary[name]
    assert counts["answers"] == 1
    assert counts["losses"] == 1
    with pytest.raises(InputError, match="get_meter"):
        ShadowLog(meter="rag-denoise")


def test_threads_lose_no_request(tmp_path):
    log = ShadowLog(tmp_path / "shadow.jsonl")

    def ask(name):
        for number in range(20):
            log_request(log, f"{name}-{number}", "In 1889.")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, "abcd"))
    lines = log.path.read_text("utf-8").splitlines()
    assert len({json.loads(line)["request_id"] for line in lines}) == 80
    assert len(log.summary()["losses"]) == 80


def test_a_request_in_use_is_not_the_first_to_be_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("denoise_core.shadow.MAX_LISTED_REQUESTS", 2)
    path = tmp_path / "shadow.jsonl"
    log = ShadowLog(path)
    for request_id, answer in [
        ("used all day", "In 1889."),
        ("b", "Yellow."),
        ("used all day", "Yellow."),
        ("c", "Yellow."),
        ("used all day", "Yellow."),
    ]:
        log_request(log, request_id, answer)
    last_line = path.read_text("utf-8").splitlines()[-1]
    last_request = ShadowRequest.from_json(last_line)
    assert last_request.request_id == "used all day"
    assert last_request.losses
