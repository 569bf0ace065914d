"""`shadow=True`: no byte changes, and the report names the answers that would have lost something."""

import uuid

import pytest
from langchain_agents import (
    QUESTION_INPUT,
    both_ways,
    by_words,
    run,
    search_then_answer,
    tool_message,
)
from langchain_core.runnables import RunnableLambda

from langchain_denoise import DenoiseCompressor, DenoisingRetriever, ShadowReport
from langchain_denoise.middleware import DenoiseToolResults

QUESTION = "What is yellow?"
ANSWER = "Paris has two million people."  # in a document that nothing yellow is in


def rag(part, answer=ANSWER):
    return RunnableLambda(lambda question: part(question)) | (lambda found: answer)


@pytest.fixture(params=["compressor", "retriever"])
def make_part(request, documents, test_kit):
    def make(**settings):
        if request.param == "retriever":
            inner = test_kit.ListRetriever(found=documents)
            return DenoisingRetriever(retriever=inner, **settings).invoke
        compressor = DenoiseCompressor(**settings)
        return lambda question: compressor.invoke(
            {"documents": documents, "query": question}
        )

    return make


@pytest.mark.parametrize(
    "make_denoiser",
    [
        lambda kit: by_words(),
        lambda kit: kit.Answers(kit.drop_all),
        lambda kit: kit.Answers(kit.fail),
    ],
    ids=["cuts", "drops", "fails"],
)
@pytest.mark.parametrize("policy", ["keep", "drop", "raise"])
def test_what_comes_back_is_what_went_in(
    make_part, documents, test_kit, make_denoiser, policy
):
    settings = {"on_error": policy, "on_empty": policy, "top_n": 1}
    part = make_part(denoiser=make_denoiser(test_kit), shadow=True, **settings)
    assert part(QUESTION) == documents


def test_the_report_counts_tokens_and_names_the_request(make_part, tmp_path):
    report = ShadowReport(tmp_path / "shadow.jsonl")
    chain = rag(make_part(denoiser=by_words(), shadow=True))
    run_ids = [uuid.uuid4() for _ in range(3)]
    questions = [QUESTION, "Paris million people", QUESTION]
    for run_id, question in zip(run_ids, questions, strict=True):
        chain.invoke(question, {"callbacks": [report], "run_id": run_id})
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
    assert report.log.summary()["requests"] == len(questions)
    assert len(report.log.summary()["losses"]) == questions.count("lost")


def test_an_answer_may_follow_a_retriever_that_is_called_alone(documents, test_kit):
    report = ShadowReport()
    retriever = DenoisingRetriever(
        retriever=test_kit.ListRetriever(found=documents),
        denoiser=by_words(),
        shadow=True,
    )
    retriever.invoke(QUESTION, {"callbacks": [report]})
    [request] = report.log.requests
    assert not request.is_answered
    assert report.log.add_answer(request.request_id, ANSWER).losses
    assert report.log.summary()["answered"] == 1


def test_a_failing_chain_is_counted_without_an_answer(make_part, test_kit):
    def stop(found):
        raise RuntimeError("no model")

    report = ShadowReport()
    chain = (
        RunnableLambda(make_part(denoiser=test_kit.Answers(test_kit.fail), shadow=True))
        | stop
    )
    with pytest.raises(RuntimeError):
        chain.invoke(QUESTION, {"callbacks": [report]})
    summary = report.log.summary()
    assert (summary["requests"], summary["answered"], summary["failures"]) == (1, 0, 1)


async def test_an_agents_answer_from_what_would_be_cut_is_named(make_agent):
    middleware = DenoiseToolResults(by_words(), min_characters=0, shadow=True)
    shadow_agent, _ = make_agent(
        middleware,
        reply=search_then_answer(
            lambda messages: 'They are: "Capital letters are big."'
        ),
    )
    report = ShadowReport()
    await shadow_agent.ainvoke(QUESTION_INPUT, {"callbacks": [report]})
    [counts] = report.log.summary()["losses"].values()
    assert counts["quotation"] == 1


@both_ways
@pytest.mark.parametrize("where", ["view", "state"])
async def test_an_agent_reads_what_its_tools_returned(make_agent, is_sync, where):
    middleware = DenoiseToolResults(
        by_words(), min_characters=0, where=where, recall=True, shadow=True
    )
    report = ShadowReport()
    results = []
    for parts, config in (([], None), ([middleware], {"callbacks": [report]})):
        agent, model = make_agent(*parts)
        state = await run(agent, is_sync, QUESTION_INPUT, config)
        result = tool_message(state).model_dump(exclude={"id"})
        results.append((result, model.calls[-1][-1].content))
    assert results[0] == results[1]
    assert not getattr(middleware, "tools", ())
    summary = report.log.summary()
    assert (summary["requests"], summary["answered"]) == (1, 1)
    assert 0 < summary["kept_tokens"] < summary["tokens"]
