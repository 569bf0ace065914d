"""The whole loop as a runnable: checked answers, a record in plain JSON, children in the trace."""

import asyncio
import json

import pytest
from langchain_agents import both_ways, checked_events, run
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from recorded_runs import RunRecorder

from denoise_core.augmenter import Augmenter
from denoise_core.augmenter.streaming import Finished, Revised
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import AugmentedRunnable, ChatModelLLM, RetrieverAdapter

PARIS = "Paris is the capital of France."
SOURCE_DOCUMENTS = [
    Document(page_content=PARIS, metadata={"source": "atlas.md"}),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def second_time_right(messages):
    """Wrong at first; right when there is feedback in the prompt."""
    return (
        f"{PARIS} [1]" if len(messages) > 2 else "Lyon has been the capital since 1789."
    )


@pytest.fixture
def build(test_kit):
    def build(reply=second_time_right, **settings):
        model = test_kit.chat(reply)
        loop = Augmenter(
            ChatModelLLM(model),
            RetrieverAdapter(test_kit.ListRetriever(found=SOURCE_DOCUMENTS)),
            **settings,
        )
        return AugmentedRunnable(augmenter=loop), model

    return build


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


def test_evidence_cut_by_a_denoiser_says_what_it_stands_for(build, test_kit):
    denoiser = ENDDenoiser(FunctionScorer(test_kit.overlap), keep=1)
    run_output = build(denoiser=denoiser, reply=lambda message: f"{PARIS} [1]")[
        0
    ].invoke(test_kit.question)
    [document] = run_output["context"]
    assert json.loads(document.metadata["denoise_spans"]) == {
        document.id: [[0, len(PARIS)]]
    }
    assert (
        document.metadata["relevance_score"] == document.metadata["denoise_score"] > 0
    )


@pytest.mark.parametrize(
    "input_value",
    [
        3,
        {"query": "q"},
        {"question": None},
        {"question": " "},
        "",
    ],
)
def test_bad_input_names_what_came(build, input_value):
    with pytest.raises(ValueError, match="expected"):
        build()[0].invoke(input_value)


def test_sync_equals_async_and_a_stream_of_one_value(build, test_kit):
    first = build()[0].invoke(test_kit.question)
    assert asyncio.run(build()[0].ainvoke(test_kit.question)) == first
    assert list(build()[0].stream(test_kit.question)) == [first]


@both_ways
@pytest.mark.parametrize("show", [None, "checked", "draft"])
async def test_searches_and_drafts_are_children_of_the_run(
    build, test_kit, is_sync, show
):
    runnable, _ = build()
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "run_name": "asked", "tags": ["mine"]}
    if show is None:
        await run(runnable, is_sync, test_kit.question, config)
    else:
        question = test_kit.question
        events = await checked_events(runnable, is_sync, question, config, show)
        assert events[-1].answer.text == f"{PARIS} [1]"
        assert isinstance(events[-1], Finished if show == "checked" else Revised)
    paths = recorder.paths("chain")
    assert (paths[0], paths[-1]) == ("asked", "asked/denoise_record")
    assert set(recorder.paths("retriever")) == {"asked/ListRetriever"}
    assert recorder.paths("llm") == ["asked/FunctionChatModel"] * 2
    assert all({"mine", "nostream"} <= set(run.tags) for run in recorder.of_kind("llm"))
    assert all(run.ended and run.error is None for run in recorder.runs.values())
    [(name, record, _)] = recorder.events
    assert (name, record["outcome"]) == ("denoise", "supported")


@both_ways
async def test_a_checked_stream_that_is_left_or_fails_ends_its_run(
    build, test_kit, is_sync
):
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "max_concurrency": 1}
    runnable, _ = build()
    if is_sync:
        events = runnable.stream_checked(test_kit.question, config, show="draft")
        await asyncio.to_thread(next, events)
        await asyncio.to_thread(events.close)
    else:
        events = runnable.astream_checked(test_kit.question, config, show="draft")
        await anext(events)
        await events.aclose()
    (outer,) = (traced for traced in recorder.runs.values() if traced.parent is None)
    assert outer.ended
    assert outer.error is None, "a reader that leaves is no failure"

    failed_run = RunRecorder()
    with pytest.raises(ValueError, match="expected a question"):
        await checked_events(runnable, is_sync, 3, {"callbacks": [failed_run]})
    [outer] = failed_run.runs.values()
    assert "expected a question" in outer.error


def test_a_checked_answer_with_its_evidence_and_record(build, test_kit):
    runnable, model = build()
    output = runnable.invoke(test_kit.question)
    assert (output["question"], output["answer"], output["outcome"]) == (
        test_kit.question,
        f"{PARIS} [1]",
        "supported",
    )
    found = [(item.page_content, item.metadata) for item in output["context"]]
    assert [text for text, _ in found] == [
        item.page_content for item in SOURCE_DOCUMENTS
    ]
    assert found[0][1]["source"] == "atlas.md"
    record = output["denoise"]
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert [attempt["outcome"] for attempt in record["attempts"]] == ["fail", "pass"]
    assert record["calls"] == len(model.calls) == 2
    assert record["citations"] == [output["context"][0].id]
    words = [message.text.split() for call in model.calls for message in call]
    assert record["input_tokens"] == sum(map(len, words))
