"""What every adapter keeps, whatever denoiser it is given."""

import asyncio
import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from chain_parts import (
    QUESTION,
    Answers,
    ListRetriever,
    chat,
    drop_all,
    fail,
    merge,
    s2a,
    s2a_with,
)
from langchain_agents import both_ways, keep_only, run
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_records import spans_in
from recorded_runs import RunRecorder

from denoise_core import EmptyResult
from langchain_denoise import DenoiseCompressor, DenoisingRetriever
from langchain_denoise.convert.documents import RECORD_KEYS


def check_compressor(make, documents, query):
    """Run a compressor and check its contract.

    Documents keep id, type, order and every metadata key; extractive text is the original's at its spans;
    the record is flat, plain JSON; inputs are unchanged; sync equals async; no documents give none.
    ``make`` builds a fresh compressor each time, so that scripted replies start anew.
    """
    before = copy.deepcopy(list(documents))
    output = make().compress_documents(documents, query)
    assert list(documents) == before, "the input documents were changed"
    assert asyncio.run(make().acompress_documents(documents, query)) == output
    assert make().compress_documents([], query) == []
    originals = iter(documents)
    for document in output:
        record = {
            key: value for key, value in document.metadata.items() if key in RECORD_KEYS
        }
        assert {type(value) for value in record.values()} <= {str, int, float, bool}
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        if document.id == "joint":
            assert not record["denoise_extractive"]
            continue
        # The iterator is read on, so that documents in another order are not found.
        original = next(item for item in originals if is_copy_of(item, document))
        if record["denoise_extractive"]:
            spans = spans_in(record)[record["denoise_origin"]]
            kept = [original.page_content[start:end] for start, end in spans]
            assert document.page_content == "".join(kept)


def is_copy_of(original, document):
    ours = dict.fromkeys((*RECORD_KEYS, "relevance_score"))
    is_equal = {**document.metadata, **ours} == {**original.metadata, **ours}
    return is_equal and document.id == original.id and type(document) is type(original)


def in_retriever(compressor, documents):
    return ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=ListRetriever(found=documents)
    )


def in_pipeline(compressor, documents):
    pipeline = DocumentCompressorPipeline(transformers=[compressor])
    return in_retriever(pipeline, documents)


def in_chain(compressor, documents):
    retriever = ListRetriever(found=documents)
    return {"documents": retriever, "query": RunnablePassthrough()} | compressor


def in_a_step(compressor, documents):
    """Called by hand inside another runnable, without passing a config on."""

    def is_sync(query):
        return compressor.compress_documents(documents, query)

    async def native(query):
        return await compressor.acompress_documents(documents, query)

    return RunnableLambda(is_sync, native, name="step")


class SyncOnly(BaseRetriever):
    """A retriever as many write it: without async, so LangChain calls the sync one with async callbacks."""

    compressor: DenoiseCompressor
    found: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        return self.compressor.compress_documents(
            self.found, query, callbacks=run_manager.get_child()
        )


def in_a_sync_retriever(compressor, documents):
    return SyncOnly(compressor=compressor, found=documents)


WAYS = {
    "retriever": (in_retriever, "ContextualCompressionRetriever/DenoiseCompressor"),
    "pipeline": (in_pipeline, "ContextualCompressionRetriever/DenoiseCompressor"),
    "chain": (in_chain, "RunnableSequence/DenoiseCompressor"),
    "step": (in_a_step, "step/DenoiseCompressor"),
    "sync retriever": (in_a_sync_retriever, "SyncOnly/DenoiseCompressor"),
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def test_documents_ids_metadata_order_and_inputs(make_denoiser, documents):
    check_compressor(
        lambda: DenoiseCompressor(denoiser=make_denoiser()), documents, QUESTION
    )


async def test_every_way_of_calling_gives_the_same(make_denoiser, way, documents):
    direct = DenoiseCompressor(denoiser=make_denoiser())
    expected_value = await direct.acompress_documents(documents, QUESTION)
    build, _ = way
    for is_sync in (True, False):
        # Built anew: a denoiser remembers a model that it could not read.
        compressor = DenoiseCompressor(denoiser=make_denoiser())
        runnable = build(compressor, documents)
        assert await run(runnable, is_sync, QUESTION) == expected_value


@pytest.mark.parametrize("own_setting", [3, None])
@pytest.mark.parametrize("outer_setting", [2, None])
async def test_model_calls_are_concurrent_and_bounded(
    own_setting,
    outer_setting,
):
    documents = [Document(page_content=f"Sentence {i}.", id=str(i)) for i in range(6)]
    chain_input = {"documents": documents, "query": "q"}
    config = {"max_concurrency": outer_setting}
    expected_value = min(block for block in (own_setting, outer_setting, 6) if block)
    together = threading.Barrier(
        expected_value, timeout=60
    )  # nobody answers before as many as may be are under way
    # The loop's own executor has four threads and one for each core.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))

    def wait_for_all(messages):
        together.wait()
        return "1"

    for is_sync in (True, False):
        model = chat(wait_for_all, seconds=0.05)  # a call too many comes in
        denoiser = s2a_with(model, max_concurrency=own_setting or 6)
        denoiser.record.is_readable = True  # a new model is asked once alone
        compressor = DenoiseCompressor(denoiser=denoiser)
        await run(compressor, is_sync, chain_input, config)
        assert model.max_concurrent_calls == expected_value
        assert len(model.calls) == 6


def test_subclasses_and_extra_fields_survive():
    class Page(Document):
        page: int = 0

    [run_output] = DenoiseCompressor(denoiser=s2a()).compress_documents(
        [Page(page_content="A. B.", page=7)], "q"
    )
    assert (type(run_output), run_output.page) == (Page, 7)


@pytest.mark.parametrize(
    ("input_value", "message"),
    [
        ("text", "got a str"),
        ({"question": "q"}, r"a dict with the keys \['question'\]"),
        ({"documents": [], "query": None}, "query: expected a str, got NoneType"),
        (
            {"documents": ["text"], "query": "q"},
            r"documents\[0\]: expected a langchain_core Document, got str",
        ),
        (
            {"documents": Document(page_content="x"), "query": "q"},
            "got a Document; write documents=",
        ),
    ],
)
def test_bad_input_names_what_came(input_value, message):
    with pytest.raises(ValueError, match=message):
        DenoiseCompressor(denoiser=s2a()).invoke(input_value)


@pytest.mark.parametrize(
    ("answer", "setting", "error", "reason"),
    [
        (fail, "on_error", ConnectionError, "ConnectionError: no route to the model"),
        (drop_all, "on_empty", EmptyResult, "nothing was kept"),
    ],
)
def test_what_a_failure_or_an_empty_result_gives(answer, setting, error, reason):
    documents = [Document(page_content="one", id="a"), Document(page_content="two")]
    denoiser = Answers(answer)
    reason = f"{reason}; the input was kept as it is"
    for policy, expected in (
        ({}, [("one", reason), ("two", reason)]),
        ({setting: "drop"}, []),
    ):
        compressor = DenoiseCompressor(denoiser=denoiser, **policy)
        recorder = RunRecorder()
        output = compressor.compress_documents(documents, "q", callbacks=[recorder])
        assert asyncio.run(compressor.acompress_documents(documents, "q")) == output
        assert [
            (item.page_content, item.metadata["denoise_fallback"]) for item in output
        ] == expected
        assert recorder.events[0][1]["fallback"] is not None
    raising = DenoiseCompressor(denoiser=denoiser, **{setting: "raise"})
    with pytest.raises(error):
        raising.compress_documents(documents, "q")


@both_ways
async def test_spans_hang_under_the_right_parent(way, is_sync, documents):
    build, path = way
    runnable = build(DenoiseCompressor(denoiser=s2a()), documents)
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "tags": ["mine"]}
    await run(runnable, is_sync, QUESTION, config)
    assert recorder.paths("llm") == [f"{path}/FunctionChatModel"] * 5
    for traced in recorder.of_kind("llm"):
        assert {"mine", "nostream"} <= set(traced.tags)
        assert traced.metadata["lc_source"] == "denoise"
    assert all(traced.ended and not traced.error for traced in recorder.runs.values())
    [(name, data, run_id)] = recorder.events
    assert (name, recorder.runs[run_id].name) == ("denoise", "DenoiseCompressor")
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    chain_runs = recorder.of_kind("chain")
    [span] = [traced for traced in chain_runs if traced.name == "denoise_record"]
    assert span.output == data


@both_ways
async def test_what_is_read_once_is_read_whole(is_sync, documents):
    """A generator, `filter` or the dicts of a checkpoint came back as nothing, or not at all."""
    compressor = DenoiseCompressor(denoiser=s2a())
    outputs = []
    for given in (
        documents,
        (document for document in documents),
        filter(None, documents),
        [document.model_dump() for document in documents],
    ):
        chain_input = {"documents": given, "query": QUESTION}
        outputs.append(await run(compressor, is_sync, chain_input))
    assert outputs[0]
    assert outputs == outputs[:1] * 4


def test_a_joint_rewrite_keeps_what_its_sources_agree_on():
    documents = [
        Document("one", id=name, metadata={"source": "x", "page": page})
        for page, name in enumerate("ab")
    ]
    compressor = DenoiseCompressor(denoiser=Answers(merge))
    [joint] = compressor.compress_documents(documents, "q")
    others = joint.metadata.keys() - set(RECORD_KEYS)
    assert (joint.id, others, joint.metadata["source"]) == ("joint", {"source"}, "x")
    assert spans_in(joint.metadata) == {"a": [[0, 3]], "b": [[0, 3]]}
    assert joint.metadata["denoise_extractive"] is False


def test_a_score_replaces_a_value_that_only_equals_it():
    metadata = {"relevance_score": True}
    document = Document("one", metadata=metadata)
    compressor = DenoiseCompressor(denoiser=keep_only("one"))
    [scored] = compressor.compress_documents([document], "q")
    assert scored.metadata["relevance_score"] is not True


def test_a_denoiser_of_the_settings_is_built_once():
    """Each call built its own, so that replies nobody can read were counted anew."""
    compressor = DenoiseCompressor(model=chat())
    built = compressor.denoiser_for({})
    built.record.is_readable = True
    assert compressor.denoiser_for({"top_n": 2}) is built
    dropping = compressor.denoiser_for({"on_irrelevant": "drop", "max_tokens": 9})
    assert dropping.llm is built.llm
    assert dropping.record is built.record
    assert dropping.on_irrelevant == "drop"
    assert built.on_irrelevant == "keep"
    compressor.on_irrelevant = "drop"
    assert compressor.denoiser_for({}).on_irrelevant == "drop"
    changed = compressor.model_copy(update={"max_tokens": 9})
    assert changed.denoiser_for({}).keep is not None


def test_a_retriever_builds_its_denoiser_once(documents):
    inner = ListRetriever(found=documents)
    retriever = DenoisingRetriever(retriever=inner, model=chat())
    retriever.invoke(QUESTION)
    built = retriever.denoiser_for({})
    assert retriever._compressor.denoiser_for({}) is built
    assert built.record.is_readable
