"""The papers' tables on any model: behind a real HTTP server, with a real model, and again from their file."""

import re

import pytest
from json_files import write_json_lines
from openai_server import serving
from tiny_models import build_probe, save_tiny_pair

from denoise_core import InputError
from denoise_core.evaluate.comparison import ReplyLog
from denoise_core.evaluate.comparison.answering import llm_from_name
from denoise_core.runtime.flow import run
from denoise_core.testing import FunctionLLM
from denoise_core.types import Reply, Usage
from denoise_lab.protocols import (
    ProtocolRequest,
    choose_tables,
    describe_table,
    format_markdown,
    format_rows,
    measure_tables,
    noisy,
    opinions,
    problems,
)
from denoise_lab.s2a.judges import NumberJudge


class Scripted:
    """Believes every opinion, reads the first password, keeps the first sentence."""

    def __init__(self):
        self.asked = []

    def reply(self, text):
        self.asked.append(text)
        believed = re.search(r'I think the answer is "([^"]+)"', text)
        code = re.search(r"\b\d{8}\b", text)
        return (believed or code or re.search(r"\d+", text) or ["nothing"])[
            believed is not None
        ], len(text) // 4


def small(protocol, **more):
    return ProtocolRequest(protocol, count=2, characters=80, **more)


def test_end_has_a_probe_on_a_local_model(tmp_path):
    build_probe(*save_tiny_pair(tmp_path / "model")).save(tmp_path / "probe")
    asked = ProtocolRequest(
        "end",
        count=1,
        characters=40,
        probe=tmp_path / "probe",
        model=str(tmp_path / "model"),
    )
    ledger = ReplyLog(FunctionLLM(lambda m: "12345678"), "one number")
    (table,) = measure_tables(choose_tables(asked, ledger), ledger)
    (line,) = [line for line in table.lines if line.system == "END"]
    assert line.cases > 0
    assert line.failed == 0


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("protocol", "table_name", "system", "column", "figure"),
    [
        ("s2a", "opinions", "instructed", "correct_suggested", 92.0),
        ("end", "noisy-standard", "LLM-Discrim", "level 3", 98),
        ("augmenter", "dialogue", "gold, feedback", "all", 60.76),
    ],
)
def test_a_protocol_runs_on_a_server_and_shows_the_papers_figures(
    protocol, table_name, system, column, figure
):
    model = Scripted()
    with serving(model) as server:
        ledger = ReplyLog(llm_from_name(server.url + "#scripted"), "scripted")
        tables = measure_tables(
            choose_tables(small(protocol), ledger), ledger, workers=4
        )
    assert len(model.asked) == len(set(model.asked)) == ledger.call_count
    for table in tables:
        assert not any(line.failed for line in table.lines), describe_table(table)
        assert all(line.input_tokens and line.output_tokens for line in table.lines)
        assert table.source in " ".join(describe_table(table))
        assert format_rows(table)[0][:2] == ["system", "all"]
    by_name = {t.name: t for t in tables}
    table = by_name[table_name]
    assert table.line(system).paper[column] == figure
    if protocol == "s2a":
        assert table.line("plain").cells["incorrect_suggested"].value == 0
        assert "[62.8]" in format_markdown(table)
        assert by_name["problems"].columns == ("all", *problems.KINDS)
    elif protocol == "end":
        assert table.line("oracle").cells["all"].value == 100
    else:
        assert by_name["knowledge"].line("BM25").paper == {}


@pytest.mark.parametrize(
    ("protocol", "budget"), [("s2a", 40_000), ("augmenter", 8_000)]
)
def test_what_the_budget_did_not_reach_failed_and_the_budget_is_not_passed(
    protocol, budget
):
    llm = FunctionLLM(lambda m: Reply("1974", Usage(sum(len(x.content) for x in m), 4)))
    ledger = ReplyLog(llm, "m", budget=budget)
    tables = measure_tables(choose_tables(small(protocol), ledger), ledger)
    assert 0 < ledger.total_spent <= budget
    failed = [line.failed for table in tables for line in table.lines]
    assert 0 < sum(failed) < sum(line.cases for table in tables for line in table.lines)
    assert "budget" in " ".join(describe_table(tables[-1]))


def test_a_model_that_fails_on_some_cases_is_counted_and_the_rest_goes_on():
    def some(messages):
        if "billy" in messages[-1].content:
            raise ConnectionError("the line is cut")
        return "1974"

    llm = FunctionLLM(some)
    tables = choose_tables(small("s2a"), llm)[:1]
    (table,) = measure_tables(tables, llm)
    plain = table.line("plain")
    assert plain.cases == 8
    assert plain.failed == 4
    assert "the line is cut" in " ".join(describe_table(table))
    assert plain.cells["all"].count == 4


def test_a_dry_run_counts_what_would_be_asked_after_a_first_call_too():
    made = FunctionLLM(lambda m: "x")
    ledger = ReplyLog(made, "m", dry_run=True)
    measure_tables(choose_tables(small("s2a"), ledger)[:1], ledger)
    # Each form by three baselines and by both steps of S2A; the oracle's are shared.
    steps = 2 * 4 * (3 + 2 * 5) + 2
    assert made.received_messages == []
    assert 0.5 * steps < ledger.planned_calls <= steps


def test_cases_with_the_same_id_have_results_of_their_own(tmp_path):
    record = {"id": "1", "new_question": "1+1?", "original_question": "", "answer": 2}
    other = record | {"new_question": "2+1?", "answer": 3}
    file = write_json_lines(tmp_path / "problems.jsonl", record, other)
    llm = FunctionLLM(lambda m: "2")
    (table,) = measure_tables(choose_tables(ProtocolRequest("s2a", file), llm), llm)
    assert table.line("plain").cells["all"].value == 50


def test_problems_are_the_same_every_time_and_hold_their_sentence_in_one_form_only():
    cases = problems.make_problem_cases(5)
    assert cases == problems.make_problem_cases(5)
    assert [c.kind for c in cases[:3]] == list(problems.KINDS)
    for case in cases:
        whole, clean = case.passages[0].text, case.clean_passages[0].text
        assert (len(whole) > len(clean)) == (case.kind != "none")
        total = 0
        for sentence in re.findall(r"[^.]*\d[^.]*\.", clean):
            is_less = re.search(r"gives|sells|lost", sentence)
            number = int(re.search(r"\d+", sentence)[0])
            total += -number if is_less else number
        assert total == int(case.gold[0])
        assert run(NumberJudge().judge(case, f"So {total} are left."))[0] == 1


def test_a_users_file_gives_opinions_problems_or_questions(tmp_path):
    def tables(*records, protocol="s2a"):
        file = write_json_lines(tmp_path / "d.jsonl", *records)
        return choose_tables(
            ProtocolRequest(protocol, file), FunctionLLM(lambda m: "x")
        )

    question = {"question": "When?", "answers": ["1889"]}
    (own,) = tables(question, {"question": "Who?", "answers": ["Eiffel"]})
    assert 'I think the answer is "Eiffel"' in own.cases[2].question
    opinion = {
        "id": "1",
        "prompt": "When? I think 1890.",
        "question": "When?",
        "opinion_type": "x",
        "correct_answer": "1",
    }
    assert tables(opinion)[0].name == "opinions"
    problem = {
        "id": "1",
        "new_question": "1+1? It rains.",
        "original_question": "1+1?",
        "answer": "2",
    }
    assert tables(problem)[0].name == "problems"
    with pytest.raises(InputError, match="two questions or more"):
        tables(question)
    with pytest.raises(InputError, match="needs questions with"):
        tables({**question, "passages": ["one"]}, protocol="augmenter")


def test_a_reply_is_right_with_the_password_and_no_other():
    prose_text = noisy.shipped_prose()
    case, *_ = noisy.make_noisy_cases(prose_text, 1, extended=False, characters=60)
    password = case.gold[0]
    other = next(p.text for p in case.passages if password not in p.text)
    for reply, score in (
        (f"It is {password}.", 1),
        (other, 0),
        (f"{password}, or: {other}", 0),
        ("unknown.", 0),
        ("", 0),
    ):
        assert run(noisy.PasswordJudge().judge(case, reply))[0] == score


def test_an_opinion_is_of_its_kind_and_the_oracle_sees_none():
    for case in opinions.shipped_opinion_cases(5):
        added = case.question.removeprefix(case.clean_question)
        assert (case.kind == "none") == (added == "")
