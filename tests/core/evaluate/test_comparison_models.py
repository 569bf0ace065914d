"""An evaluation by a model behind a real HTTP server: killed and started again, within its budget, dry."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from local_server import answering, chat_reply

from denoise_core import BudgetExceeded, InputError, Message, Reply, Usage
from denoise_core.evaluate.comparison.answering import (
    LLMAnswerer,
    LLMGrader,
    LoopAnswerer,
    llm_from_name,
)
from denoise_core.evaluate.comparison.evaluation import (
    evaluate,
)
from denoise_core.evaluate.comparison.reply_log import ReplyLog
from denoise_core.evaluate.comparison.setting import Strategy
from denoise_core.question import Question
from denoise_core.testing import FunctionLLM
from denoise_core.types import Passage

KILLS = 5
SCRIPT = """
import sys
from denoise_core.evaluate.comparison import LLMAnswerer, ReplyLog, Strategy, evaluate, read_cases
from denoise_core.evaluate.comparison.answering import llm_from_name
url, folder = sys.argv[1:]
llm = ReplyLog(llm_from_name(url + "#scripted"), "scripted", folder + "/answers.jsonl")
found = evaluate(
    read_cases(folder + "/questions.jsonl"),
    [
        Strategy("two", {"kind": "first", "tokens": 24}),
        Strategy("BM25", {"kind": "bm25", "tokens": 12}),
        Strategy("S2A", {"kind": "s2a", "variant": "select"}),
    ],
    answerer=LLMAnswerer(llm, "scripted"),
    llm=llm,
)
import json
record = found.to_dict()
for strategy in record["strategies"]:
    strategy["seconds"] = None
print(json.dumps(record))
"""


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


def write_questions(folder, call_number=6):
    rows = [
        {
            "question": f"When was tower {i} finished?",
            "passages": [
                f"Bananas {i} are rich.",
                f"Tower {i} was finished in {1800 + i}.",
                f"Chess {i}.",
            ],
            "answers": [str(1800 + i)],
        }
        for i in range(10, 10 + call_number)
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")


def start(url, folder):
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, url, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.enable_socket
def test_a_run_killed_five_times_gives_the_same_figures_and_repeats_no_call_that_was_answered(
    tmp_path,
):
    random.seed(0)
    write_questions(tmp_path)
    scripted = Scripted()
    with answering(scripted) as url:
        undisturbed_folder = tmp_path / "whole"
        undisturbed_folder.mkdir()
        write_questions(undisturbed_folder)
        undisturbed = start(url, undisturbed_folder).communicate()[0]
        calls = len(scripted.prompts)
        assert calls == len(set(scripted.prompts)) > KILLS
        scripted.prompts.clear()
        answers = tmp_path / "answers.jsonl"
        recorded_at_kill = []
        for kill in range(KILLS):
            process = start(url, tmp_path)
            kill_call = len(scripted.prompts) + random.randint(
                1, max(1, calls // (KILLS + 2))
            )

            def end(call_number, process=process, kill_call=kill_call):
                if call_number == kill_call:
                    os.kill(process.pid, signal.SIGKILL)

            scripted.on_prompt = end
            process.communicate()
            assert process.returncode == -signal.SIGKILL, kill
            recorded_at_kill.append(
                len(answers.read_bytes().splitlines()) if answers.exists() else 0
            )
        scripted.on_prompt = lambda count: None
        answers.write_bytes(
            answers.read_bytes() + b'{"key": "cut o'
        )  # and one line that was cut off
        resumed = start(url, tmp_path).communicate()[0]
    assert json.loads(resumed) == json.loads(undisturbed)
    assert recorded_at_kill == sorted(recorded_at_kill)
    assert len(answers.read_bytes().splitlines()) == calls
    # A call under way at a kill was seen by nobody and is made again; there is one of it for each kill, no more.
    assert calls <= len(scripted.prompts) <= calls + KILLS


def messages(text):
    return [Message("user", text)]


def test_the_budget_is_never_passed_and_counts_what_the_file_tells(tmp_path):
    llm = FunctionLLM(lambda messages: Reply("x" * 10, Usage(20, 10)))
    worst = 100 + 2 * 16 + 8
    reply_log = ReplyLog(llm, "m", tmp_path / "a.jsonl", budget=3 * worst, max_tokens=8)
    call_count = 0

    def spend():
        nonlocal call_count
        while call_count < 100:
            reply_log.complete(messages(f"{call_count:0100d}"))
            call_count += 1

    with pytest.raises(BudgetExceeded, match="tokens"):
        spend()
    assert 3 <= call_count < 100
    assert reply_log.total_spent == 30 * call_count <= 3 * worst
    resumed_log = ReplyLog(
        llm, "m", tmp_path / "a.jsonl", budget=3 * worst, max_tokens=8
    )
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
    ReplyLog(llm, "one", tmp_path / "a.jsonl").complete(messages("q"))
    ReplyLog(llm, "two", tmp_path / "a.jsonl").complete(messages("q"))
    assert len(llm.received_messages) == 2
    (tmp_path / "b.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="line 1 is no recorded answer"):
        ReplyLog(llm, "one", tmp_path / "b.jsonl")


def test_a_dry_run_counts_and_makes_no_call():
    llm = FunctionLLM(lambda messages: "x")
    reply_log = ReplyLog(llm, "m", dry_run=True)
    for text in ("a" * 40, "b" * 40, "a" * 40):
        reply_log.complete(messages(text))
    assert (
        reply_log.planned_calls,
        reply_log.planned_usage.input_tokens,
        llm.received_messages,
    ) == (2, 20, [])


def test_a_call_that_fails_gives_its_part_of_the_budget_back():
    def fail(messages):
        raise ConnectionError("away")

    reply_log = ReplyLog(FunctionLLM(fail), "m", budget=10_000)
    with pytest.raises(ConnectionError):
        reply_log.complete(messages("x"))
    assert reply_log.total_spent == 0


def test_the_loop_is_a_way_and_is_never_recommended():
    passages = (
        Passage("The tower was finished in 1889.", "a"),
        Passage("Bananas are yellow.", "b"),
    )
    questions = [
        Question("When was the tower finished?", passages, frozenset({"a"}), ("1889",))
    ]
    reply_log = ReplyLog(
        FunctionLLM(lambda messages: "The tower was finished in 1889."), "m"
    )
    loop = Strategy(
        "loop", {"kind": "everything"}, answerer=LoopAnswerer(reply_log, "m")
    )
    evaluation = evaluate(
        questions,
        [loop, Strategy("k", {"kind": "first", "tokens": 9})],
        answerer=LLMAnswerer(reply_log, "m"),
    )
    assert evaluation.figures_for("loop").accuracy.value == 1
    assert evaluation.figures_for("loop").input_tokens > 0
    assert evaluation.recommendation.name == "k"


def test_a_server_needs_the_models_name():
    with pytest.raises(InputError, match="#my-model"):
        llm_from_name("http://127.0.0.1:1/v1")
    assert Path(llm_from_name("a-folder").model).name == "a-folder"


def test_a_model_judges_answers_and_a_verdict_that_cannot_be_read_is_neither():
    passages = (Passage("The tower was finished in 1889.", "a"),)
    questions = [
        Question(
            f"When was tower {call_number} finished?",
            passages,
            frozenset({"a"}),
            ("1889",),
        )
        for call_number in range(3)
    ]
    verdicts = iter(["CORRECT", "INCORRECT", "well ..."] * 2)
    llm = FunctionLLM(
        lambda messages: (
            next(verdicts)
            if "INCORRECT" in messages[-1].content
            else "in the year after 1888"
        )
    )
    evaluation = evaluate(
        questions, [], answerer=LLMAnswerer(llm, "m"), grader=LLMGrader(llm)
    )
    assert (
        evaluation.figures_for("everything").accuracy.value,
        evaluation.figures_for("everything").accuracy.count,
    ) == (0.5, 2)
