"""`shadow=True`: no byte changes, and the report names the answers that would have lost something."""

import uuid

import pytest
from chain_parts import Answers, ListRetriever, drop_all, fail
from langchain_agents import (
    QUESTION_INPUT,
    both_ways,
    by_words,
    make_agent,
    run,
    search_then_answer,
    tool_message,
)
from langchain_core.runnables import RunnableLambda

from langchain_denoise import DenoiseCompressor, DenoisingRetriever, ShadowReport
from langchain_denoise.middleware import DenoiseToolResults

QUESTION = "What is yellow?"
ANSWER = "Paris has two million people."  # in a document that nothing yellow is in


@pytest.fixture(params=["compressor", "retriever"])
def make_part(request, documents):
    def make(**settings):
        if request.param == "retriever":
            inner = ListRetriever(found=documents)
            return DenoisingRetriever(retriever=inner, **settings).invoke
        compressor = DenoiseCompressor(**settings)
        return lambda question: compressor.invoke(
            {"documents": documents, "query": question}
        )

    return make


@pytest.mark.parametrize("answer", [None, drop_all, fail])
@pytest.mark.parametrize("policy", ["keep", "drop", "raise"])
def test_what_comes_back_is_what_went_in(make_part, documents, answer, policy):
    denoiser = Answers(answer) if answer else by_words()
    settings = {"on_error": policy, "on_empty": policy, "top_n": 1}
    part = make_part(denoiser=denoiser, shadow=True, **settings)
    assert part(QUESTION) == documents


def test_the_report_counts_tokens_and_names_the_request(make_part, tmp_path):
    report = ShadowReport(tmp_path / "shadow.jsonl")
    part = make_part(denoiser=by_words(), shadow=True)
    chain = RunnableLambda(part) | (lambda found: ANSWER)
    run_ids = []
    for question in (QUESTION, "Paris million people", QUESTION):
        run_ids.append(uuid.uuid4())
        chain.invoke(question, {"callbacks": [report], "run_id": run_ids[-1]})
    summary = report.log.summary()
    assert (summary["requests"], summary["answered"], summary["calls"]) == (3, 3, 3)
    assert summary["kept_tokens"] < summary["tokens"]
    assert set(summary["losses"]) == {str(run_ids[0]), str(run_ids[2])}
    assert len(report.log.path.read_text("utf-8").splitlines()) == 3


async def test_concurrent_requests_keep_their_answers_apart(documents):
    compressor = DenoiseCompressor(denoiser=by_words(), shadow=True)

    async def find(question):
        await compressor.ainvoke({"documents": documents, "query": QUESTION})
        return ANSWER if question == "lost" else "Bananas are yellow."

    report = ShadowReport()
    questions = ["kept"] * 10 + ["lost"] * 3 + ["kept"] * 17
    await RunnableLambda(find).abatch(questions, {"callbacks": [report]})
    summary = report.log.summary()
    assert summary["requests"] == len(questions)
    assert len(summary["losses"]) == questions.count("lost")


def test_a_failing_chain_is_counted_without_an_answer(make_part):
    def stop(found):
        raise RuntimeError("no model")

    report = ShadowReport()
    part = make_part(denoiser=Answers(fail), shadow=True)
    chain = RunnableLambda(part) | stop
    with pytest.raises(RuntimeError):
        chain.invoke(QUESTION, {"callbacks": [report]})
    summary = report.log.summary()
    assert (summary["requests"], summary["answered"], summary["failures"]) == (1, 0, 1)


def quote(messages):
    return 'They are: "Capital letters are big."'


@both_ways
@pytest.mark.parametrize("where", ["view", "state"])
async def test_an_agent_reads_what_its_tools_returned(is_sync, where):
    middleware = DenoiseToolResults(
        by_words(), min_characters=0, where=where, recall=True, shadow=True
    )
    report = ShadowReport()
    results = []
    for parts in ([], [middleware]):
        agent, model = make_agent(*parts, reply=search_then_answer(quote))
        config = {"callbacks": [report] * len(parts)}
        state = await run(agent, is_sync, QUESTION_INPUT, config)
        result = tool_message(state).model_dump(exclude={"id"})
        results.append((result, model.calls[-1][-1].content))
    assert results[0] == results[1]
    assert not getattr(middleware, "tools", ())
    summary = report.log.summary()
    assert (summary["requests"], summary["answered"]) == (1, 1)
    [counts] = summary["losses"].values()
    assert counts["quotation"] == 1, "the answer is from what would be cut"
    assert 0 < summary["kept_tokens"] < summary["tokens"]
