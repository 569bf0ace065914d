"""An evaluation by a model behind a real HTTP server: killed and started again, within its budget, dry."""

import json
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
import scripted_evaluation
from local_server import answering, chat_reply
from scripted_evaluation import evaluate_records

from denoise_core import BudgetExceeded, InputError, Message, Reply, Usage
from denoise_core.errors import ServerUnreachable
from denoise_core.evaluate.comparison.answering import (
    LLMAnswerer,
    LLMGrader,
    LoopAnswerer,
)
from denoise_core.evaluate.comparison.evaluation import evaluate
from denoise_core.evaluate.comparison.reply_log import ReplyLog
from denoise_core.evaluate.comparison.setting import Strategy
from denoise_core.question import Question
from denoise_core.testing import FunctionLLM
from denoise_core.types import Passage

KILLS = 2
TOWER = Passage("The tower was finished in 1889.", "a")
QUESTIONS = [
    Question(f"When was tower {n} finished?", (TOWER,), frozenset({"a"}), ("1889",))
    for n in range(3)
]
ASKED = [
    {
        "question": f"When was tower {i} finished?",
        "passages": [
            f"Bananas {i} are rich.",
            f"Tower {i} was finished in {1800 + i}.",
            f"Chess {i}.",
        ],
        "answers": [str(1800 + i)],
    }
    for i in range(10, 16)
]


class Scripted:
    """Answers with the first year of the prompt, and to a selection with the first number."""

    def __init__(self):
        self.prompts = []
        self.on_prompt = lambda count: None

    def __call__(self, body):
        prompt = "\n".join(messages["content"] for messages in body["messages"])
        self.prompts.append(prompt)
        self.on_prompt(len(self.prompts))
        words = prompt.replace(".", " ").split()
        years = [w for w in words if w.isdigit() and len(w) == 4]
        asks_for_answer = "Reply with the answer" in prompt
        return chat_reply([*years, "1"][0] if asks_for_answer else "1", len(words))


def run_until_killed(scripted, url, answers, kill_call):
    script = scripted_evaluation.__file__
    command = [sys.executable, script, url, json.dumps(ASKED), answers]
    process = subprocess.Popen(command)
    scripted.on_prompt = lambda count: count == kill_call and process.kill()
    process.wait()
    scripted.on_prompt = lambda count: None
    assert len(scripted.prompts) >= kill_call


@pytest.mark.enable_socket
def test_a_run_killed_twice_gives_the_same_figures_and_repeats_no_call_that_was_answered(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    random.seed(0)
    scripted = Scripted()
    answers = tmp_path / "answers.jsonl"
    recorded_at_kill = []
    with answering(scripted) as url:
        undisturbed = evaluate_records(url, ASKED, tmp_path / "whole.jsonl")
        calls = len(scripted.prompts)
        assert calls == len(set(scripted.prompts)) > KILLS
        scripted.prompts.clear()
        for _ in range(KILLS):
            further_calls = random.randint(1, calls // (KILLS + 2))
            kill_call = len(scripted.prompts) + further_calls
            run_until_killed(scripted, url, answers, kill_call)
            recorded_at_kill.append(
                answers.exists() and len(answers.read_bytes().splitlines())
            )
        with answers.open("ab") as file:
            file.write(b'{"key": "cut o')  # and one line that was cut off
        assert evaluate_records(url, ASKED, answers) == undisturbed
    assert recorded_at_kill == sorted(recorded_at_kill)
    assert len(answers.read_bytes().splitlines()) == calls
    # A call under way at a kill was seen by nobody and is made again; there is one of it for each kill, no more.
    assert calls <= len(scripted.prompts) <= calls + KILLS


def messages(text):
    return [Message("user", text)]


def test_the_budget_is_never_passed_and_counts_what_the_file_tells(tmp_path):
    llm = FunctionLLM(lambda messages: Reply("x" * 10, Usage(20, 10)))
    budget = 3 * (100 + 2 * 16 + 8)  # three calls at their worst

    def open_log():
        return ReplyLog(llm, "m", tmp_path / "a.jsonl", budget=budget, max_tokens=8)

    reply_log = open_log()

    def spend():
        for number in range(100):
            reply_log.complete(messages(f"{number:0100d}"))

    with pytest.raises(BudgetExceeded, match="tokens"):
        spend()
    call_count = len(llm.received_messages)
    assert 3 <= call_count < 100
    assert reply_log.total_spent == 30 * call_count <= budget
    resumed_log = open_log()
    assert resumed_log.total_spent == reply_log.total_spent
    with pytest.raises(BudgetExceeded):
        resumed_log.complete(messages("y" * 100))
    assert resumed_log.complete(messages(f"{0:0100d}")).usage == Usage(20, 10)
    assert resumed_log.call_count == 0


def test_a_budget_below_0_is_refused():
    with pytest.raises(InputError, match="0 or more"):
        ReplyLog(FunctionLLM(lambda messages: "x"), "m", budget=-1)


def test_another_model_is_not_answered_from_the_file_and_a_foreign_file_is_refused(
    tmp_path,
):
    llm = FunctionLLM(lambda messages: "x")
    path = tmp_path / "a.jsonl"
    for name in ("one", "two"):
        ReplyLog(llm, name, path).complete(messages("q"))
    assert len(llm.received_messages) == 2
    path.write_text("{}\n")
    with pytest.raises(InputError, match="line 1 is no recorded answer"):
        ReplyLog(llm, "one", path)


def test_a_dry_run_counts_and_makes_no_call():
    llm = FunctionLLM(lambda messages: "x")
    reply_log = ReplyLog(llm, "m", dry_run=True)
    for letter in "aba":
        reply_log.complete(messages(letter * 40))
    assert reply_log.planned_calls == 2
    assert reply_log.planned_usage.input_tokens == 20
    assert llm.received_messages == []


def test_a_call_that_fails_gives_its_part_of_the_budget_back():
    def fail(messages):
        raise ConnectionError("away")

    reply_log = ReplyLog(FunctionLLM(fail), "m", budget=10_000)
    with pytest.raises(ConnectionError):
        reply_log.complete(messages("x"))
    assert reply_log.total_spent == 0


def test_a_server_that_was_never_reached_is_asked_once():
    def reply(messages):
        if messages[0].content != "c":
            raise ServerUnreachable("away")
        return "x"

    for texts, call_count in (("ab", 1), ("cde", 3)):
        reply_log = ReplyLog(FunctionLLM(reply), "m")
        for text in texts:
            with suppress(ServerUnreachable):
                reply_log.complete(messages(text))
        assert reply_log.call_count == call_count


def test_the_loop_is_a_way_and_is_never_recommended():
    reply_log = ReplyLog(FunctionLLM(lambda messages: TOWER.text), "m")
    loop = Strategy(
        "loop", {"kind": "everything"}, answerer=LoopAnswerer(reply_log, "m")
    )
    strategies = [loop, Strategy("k", {"kind": "first", "tokens": 9})]
    passages = (TOWER, Passage("Bananas are yellow.", "b"))
    question = replace(QUESTIONS[0], passages=passages)
    answerer = LLMAnswerer(reply_log, "m")
    evaluation = evaluate([question], strategies, answerer=answerer)
    assert evaluation.figures_for("loop").accuracy.value == 1
    assert evaluation.figures_for("loop").input_tokens > 0
    assert evaluation.recommendation.name == "k"


def test_a_model_judges_answers_and_a_verdict_that_cannot_be_read_is_neither():
    verdicts = iter(["CORRECT", "INCORRECT", "well ..."] * 2)

    def reply(messages):
        if "INCORRECT" in messages[-1].content:
            return next(verdicts)
        return "in the year after 1888"

    llm = FunctionLLM(reply)
    answerer, grader = LLMAnswerer(llm, "m"), LLMGrader(llm)
    evaluation = evaluate(QUESTIONS, [], answerer=answerer, grader=grader)
    accuracy = evaluation.figures_for("everything").accuracy
    assert (accuracy.value, accuracy.count) == (0.5, 2)
