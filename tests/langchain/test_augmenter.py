"""The whole loop as a runnable: checked answers, a record in plain JSON, children in the trace."""

import asyncio
import json

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from recorded_runs import RunRecorder

from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.streaming import Finished, Revised
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import AugmentedRunnable, ChatModelLLM, RetrieverAdapter

PARIS = "Paris is the capital of France."
FOUND = [
    Document(page_content=PARIS, metadata={"source": "atlas.md"}),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def second_time_right(messages):
    """Wrong at first; right when there is feedback in the prompt."""
    return (
        f"{PARIS} [1]" if len(messages) > 2 else "Lyon has been the capital since 1789."
    )


@pytest.fixture
def build(kit):
    def build(reply=second_time_right, **settings):
        model = kit.chat(reply)
        loop = Augmenter(
            ChatModelLLM(model),
            RetrieverAdapter(kit.ListRetriever(found=FOUND)),
            **settings,
        )
        return AugmentedRunnable(augmenter=loop), model

    return build


def test_a_checked_answer_with_its_evidence_and_record(build, kit):
    runnable, model = build()
    out = runnable.invoke(kit.question)
    assert (out["question"], out["answer"], out["outcome"]) == (
        kit.question,
        f"{PARIS} [1]",
        "supported",
    )
    assert [d.page_content for d in out["context"]] == [d.page_content for d in FOUND]
    assert out["context"][0].metadata["source"] == "atlas.md"
    record = out["denoise"]
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert [a["outcome"] for a in record["attempts"]] == ["fail", "pass"]
    assert record["attempts"][0]["feedback"]
    assert record["stopped_because"] == "passed"
    assert record["calls"] == len(model.calls) == 2
    assert record["citations"] == [out["context"][0].id]
    assert not record["tokens_estimated"]
    assert record["input_tokens"] == sum(
        len(m.text.split()) for call in model.calls for m in call
    )


def test_sync_equals_async_and_batch_and_stream(build, kit):
    first = build()[0].invoke(kit.question)
    assert asyncio.run(build()[0].ainvoke(kit.question)) == first
    assert build()[0].batch([kit.question, {"question": kit.question}]) == [
        first,
        first,
    ]
    assert list(build()[0].stream(kit.question)) == [first]
    chain = build()[0] | (lambda out: out["answer"])
    assert chain.invoke(kit.question) == first["answer"]


@pytest.mark.parametrize("sync", [True, False])
async def test_searches_and_drafts_are_children_of_the_run(build, kit, sync):
    seen = RunRecorder()
    call = build()[0]
    if sync:
        await asyncio.to_thread(call.invoke, kit.question, {"callbacks": [seen]})
    else:
        await call.ainvoke(kit.question, {"callbacks": [seen]})
    assert seen.paths("retriever") == ["AugmentedRunnable/ListRetriever"] * len(
        seen.of_kind("retriever")
    )
    assert seen.paths("llm") == ["AugmentedRunnable/FunctionChatModel"] * 2
    assert all("nostream" in r.tags for r in seen.of_kind("llm"))
    assert [name for name, _, _ in seen.events] == ["denoise"]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("show", ["checked", "draft"])
async def test_a_checked_stream_is_a_run_like_any_other(build, kit, sync, show):
    runnable, _ = build()
    heard, seen = [], RunRecorder()
    runnable.on_answer = heard.append
    config = {"callbacks": [seen], "run_name": "asked", "tags": ["mine"]}
    if sync:
        events = await asyncio.to_thread(
            lambda: list(runnable.stream_checked(kit.question, config, show=show))
        )
    else:
        events = [
            e async for e in runnable.astream_checked(kit.question, config, show=show)
        ]
    assert events[-1].answer.text == f"{PARIS} [1]"
    assert heard == [events[-1].answer]
    assert isinstance(events[-1], Finished if show == "checked" else Revised)
    paths = seen.paths("chain")
    assert (paths[0], paths[-1]) == ("asked", "asked/denoise_record")
    assert seen.paths("retriever") == ["asked/ListRetriever"] * len(
        seen.of_kind("retriever")
    )
    assert seen.paths("llm") == ["asked/FunctionChatModel"] * 2
    assert all("mine" in r.tags for r in seen.of_kind("llm"))
    assert all(run.ended and run.error is None for run in seen.runs.values())
    assert [name for name, _, _ in seen.events] == ["denoise"]


@pytest.mark.parametrize("sync", [True, False])
async def test_a_checked_stream_that_is_left_or_fails_ends_its_run(build, kit, sync):
    def left(config):
        events = build()[0].stream_checked(kit.question, config, show="draft")
        next(events)
        events.close()

    async def aleft(config):
        events = build()[0].astream_checked(kit.question, config, show="draft")
        await anext(events)
        await events.aclose()

    seen = RunRecorder()
    config = {"callbacks": [seen], "max_concurrency": 1}
    await (asyncio.to_thread(left, config) if sync else aleft(config))
    (outer,) = (run for run in seen.runs.values() if run.parent is None)
    assert outer.ended
    assert outer.error is None

    def breaks(answer):
        raise TypeError("on_answer is mistaken")

    runnable, failed = build()[0], RunRecorder()
    runnable.on_answer = breaks

    async def read():
        config = {"callbacks": [failed]}
        if sync:
            return await asyncio.to_thread(
                lambda: list(runnable.stream_checked(kit.question, config))
            )
        return [e async for e in runnable.astream_checked(kit.question, config)]

    with pytest.raises(TypeError, match="mistaken"):
        await read()
    (outer,) = (run for run in failed.runs.values() if run.parent is None)
    assert "mistaken" in outer.error


def test_history_reaches_the_model_as_text(build):
    runnable, model = build()
    history = [
        SystemMessage("be kind"),
        HumanMessage("I like maps."),
        AIMessage("So do I."),
    ]
    runnable.invoke({"question": "And the capital?", "history": history})
    assert "I like maps." in model.calls[0][-1].text
    assert "So do I." in model.calls[0][-1].text


def test_evidence_cut_by_a_denoiser_says_what_it_stands_for(build, kit):
    denoiser = ENDDenoiser(FunctionScorer(kit.overlap), keep=1)
    out = build(denoiser=denoiser, reply=lambda m: f"{PARIS} [1]")[0].invoke(
        kit.question
    )
    [document] = out["context"]
    assert json.loads(document.metadata["denoise_spans"]) == {
        document.id: [[0, len(PARIS)]]
    }
    assert (
        document.metadata["relevance_score"] == document.metadata["denoise_score"] > 0
    )


@pytest.mark.parametrize(
    "given", [3, {"query": "q"}, {"question": None}, {"question": " "}, ""]
)
def test_bad_input_names_what_came(build, given):
    with pytest.raises(ValueError, match="expected"):
        build()[0].invoke(given)
