"""What every adapter keeps, whatever denoiser it is given."""

import asyncio
import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_agents import both_ways, run
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


def in_retriever(compressor, test_kit, documents):
    return ContextualCompressionRetriever(
        base_compressor=compressor,
        base_retriever=test_kit.ListRetriever(found=documents),
    )


def in_pipeline(compressor, test_kit, documents):
    return in_retriever(
        DocumentCompressorPipeline(transformers=[compressor]), test_kit, documents
    )


def in_chain(compressor, test_kit, documents):
    found_documents = {
        "documents": test_kit.ListRetriever(found=documents),
        "query": RunnablePassthrough(),
    }
    return found_documents | compressor


def in_a_step(compressor, test_kit, documents):
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


def in_a_sync_retriever(compressor, test_kit, documents):
    return SyncOnly(compressor=compressor, found=documents)


def retriever_in_chain(compressor, test_kit, documents):
    return RunnablePassthrough() | in_retriever(compressor, test_kit, documents)


WAYS = {
    "retriever": (in_retriever, "ContextualCompressionRetriever/DenoiseCompressor"),
    "pipeline": (in_pipeline, "ContextualCompressionRetriever/DenoiseCompressor"),
    "chain": (in_chain, "RunnableSequence/DenoiseCompressor"),
    "step": (in_a_step, "step/DenoiseCompressor"),
    "sync retriever": (in_a_sync_retriever, "SyncOnly/DenoiseCompressor"),
    "retriever in a chain": (
        retriever_in_chain,
        "RunnableSequence/ContextualCompressionRetriever/DenoiseCompressor",
    ),
}


@pytest.fixture(params=[pytest.param(word, id=i) for i, word in WAYS.items()])
def way(request):
    return request.param


def test_documents_ids_metadata_order_and_inputs(make_denoiser, documents, test_kit):
    check_compressor(
        lambda: DenoiseCompressor(denoiser=make_denoiser()),
        documents,
        test_kit.question,
    )


async def test_every_way_of_calling_gives_the_same(
    make_denoiser, way, documents, test_kit
):
    expected_value = await DenoiseCompressor(
        denoiser=make_denoiser()
    ).acompress_documents(documents, test_kit.question)
    before = copy.deepcopy(documents)
    build, _ = way

    def build_anew():  # a denoiser remembers a model that it could not read
        return build(DenoiseCompressor(denoiser=make_denoiser()), test_kit, documents)

    question = test_kit.question
    assert await build_anew().ainvoke(question) == expected_value
    assert await asyncio.to_thread(build_anew().invoke, question) == expected_value
    assert documents == before


@pytest.mark.parametrize("own_setting", [3, None])
@pytest.mark.parametrize("outer_setting", [2, None])
async def test_model_calls_are_concurrent_and_bounded(
    own_setting, outer_setting, test_kit
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
        model = test_kit.chat(wait_for_all, seconds=0.05)  # a call too many comes in
        denoiser = test_kit.s2a_with(model, max_concurrency=own_setting or 6)
        denoiser.record.is_readable = True  # a new model is asked once alone
        compressor = DenoiseCompressor(denoiser=denoiser)
        await run(compressor, is_sync, chain_input, config)
        assert model.max_concurrent_calls == expected_value
        assert len(model.calls) == 6


def test_one_bad_reply_does_not_lose_the_batch(test_kit):
    def reply(messages):
        if "bad" in messages[-1].text:
            raise TimeoutError("model is slow today")
        return "1"

    documents = [
        Document(page_content=text, id=text) for text in ("good", "bad", "fine")
    ]
    run_output = DenoiseCompressor(denoiser=test_kit.s2a(reply)).compress_documents(
        documents, "q"
    )
    assert [document.id for document in run_output] == ["good", "bad", "fine"]
    fallbacks = [item.metadata.get("denoise_fallback") for item in run_output]
    assert "TimeoutError" in fallbacks[1]
    assert (fallbacks[0], fallbacks[2]) == (None, None)


def test_the_record_of_one_document(test_kit):
    documents = [
        Document(page_content="Yes. No.", id="a", metadata={"relevance_score": 0.25})
    ]
    spans = {
        "denoise_origin": "a",
        "denoise_spans": '{"a": [[0, 5]]}',
        "denoise_coverage": 0.625,
        "denoise_extractive": True,
        "denoise_score": 0.25,
    }
    compressor = DenoiseCompressor(denoiser=test_kit.s2a())
    [run_output] = compressor.compress_documents(documents, "q")
    assert run_output.page_content == "Yes. "
    assert run_output.metadata == {"relevance_score": 0.25, **spans}
    assert spans_in(run_output.metadata) == {"a": [[0, 5]]}


def test_scores_go_where_rerankers_put_them(test_kit):
    documents = [
        Document(page_content="a b", metadata={"relevance_score": 9.0}),
        Document(page_content="c d"),
    ]
    [run_output] = DenoiseCompressor(
        denoiser=test_kit.denoisers["end"]()
    ).compress_documents(documents, "a b")
    assert run_output.metadata["relevance_score"] == 2.0
    assert run_output.metadata["denoise_score"] == 2.0
    assert type(run_output.metadata["relevance_score"]) is float


def test_subclasses_and_extra_fields_survive(test_kit):
    class Page(Document):
        page: int = 0

    [run_output] = DenoiseCompressor(denoiser=test_kit.s2a()).compress_documents(
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
def test_bad_input_names_what_came(input_value, message, test_kit):
    with pytest.raises(ValueError, match=message):
        DenoiseCompressor(denoiser=test_kit.s2a()).invoke(input_value)


FAILED = "ConnectionError: no route to the model; the input was kept as it is"
EMPTY = "nothing was kept; the input was kept as it is"


@pytest.mark.parametrize(
    ("answer", "policy", "reason"),
    [
        ("fail", {}, FAILED),
        ("fail", {"on_error": "drop"}, None),
        ("drop_all", {}, EMPTY),
        ("drop_all", {"on_empty": "drop"}, None),
    ],
)
def test_what_a_failure_or_an_empty_result_gives(answer, policy, reason, test_kit):
    documents = [Document(page_content="one", id="a"), Document(page_content="two")]
    denoiser = test_kit.Answers(getattr(test_kit, answer))
    compressor = DenoiseCompressor(denoiser=denoiser, **policy)
    recorder = RunRecorder()
    output = compressor.compress_documents(documents, "q", callbacks=[recorder])
    assert asyncio.run(compressor.acompress_documents(documents, "q")) == output
    assert [
        (item.page_content, item.metadata["denoise_fallback"]) for item in output
    ] == ([("one", reason), ("two", reason)] if reason else [])
    assert recorder.events[0][1]["fallback"] is not None
    for setting in ("on_error", "on_empty"):
        compressor = DenoiseCompressor(denoiser=denoiser, **{setting: "raise"})
        if (setting == "on_error") is (answer == "fail"):
            with pytest.raises((ConnectionError, EmptyResult)):
                compressor.compress_documents(documents, "q")


@both_ways
async def test_spans_hang_under_the_right_parent(way, is_sync, documents, test_kit):
    build, path = way
    runnable = build(DenoiseCompressor(denoiser=test_kit.s2a()), test_kit, documents)
    recorder = RunRecorder()
    config = {"callbacks": [recorder], "tags": ["mine"]}
    await run(runnable, is_sync, test_kit.question, config)
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
async def test_what_is_read_once_is_read_whole(is_sync, documents, test_kit):
    """A generator, `filter` or the dicts of a checkpoint came back as nothing, or not at all."""
    compressor = DenoiseCompressor(denoiser=test_kit.s2a())
    outputs = []
    for given in (
        documents,
        (document for document in documents),
        filter(None, documents),
        [document.model_dump() for document in documents],
    ):
        chain_input = {"documents": given, "query": test_kit.question}
        outputs.append(await run(compressor, is_sync, chain_input))
    assert outputs[0]
    assert outputs == outputs[:1] * 4


def test_a_joint_rewrite_keeps_what_its_sources_agree_on(test_kit):
    documents = []
    for number, name in enumerate("ab"):
        metadata = {"source": "x", "page": number}
        documents.append(Document(page_content="one", id=name, metadata=metadata))
    compressor = DenoiseCompressor(denoiser=test_kit.Answers(test_kit.merge))
    [joint] = compressor.compress_documents(documents, "q")
    others = joint.metadata.keys() - set(RECORD_KEYS)
    assert (joint.id, others, joint.metadata["source"]) == ("joint", {"source"}, "x")
    assert spans_in(joint.metadata) == {"a": [[0, 3]], "b": [[0, 3]]}
    assert joint.metadata["denoise_extractive"] is False


def test_the_last_record_stands(test_kit):
    document = Document(page_content="Yes. No. Maybe.", id="a")
    for reply, spans in (("1, 2", "[[0, 9]]"), ("1", "[[0, 5]]")):
        model = test_kit.s2a(lambda messages, reply=reply: reply)
        compressor = DenoiseCompressor(denoiser=model)
        [document] = compressor.compress_documents([document], "q")
        assert document.metadata["denoise_spans"] == f'{{"a": {spans}}}'
    assert document.page_content == "Yes. "


def test_a_denoiser_of_the_settings_is_built_once(test_kit):
    """Each call built its own, so that replies nobody can read were counted anew."""
    compressor = DenoiseCompressor(model=test_kit.chat())
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


def test_a_retriever_builds_its_denoiser_once(documents, test_kit):
    inner = test_kit.ListRetriever(found=documents)
    retriever = DenoisingRetriever(retriever=inner, model=test_kit.chat())
    retriever.invoke(test_kit.question)
    built = retriever.denoiser_for({})
    assert retriever._compressor.denoiser_for({}) is built
    assert built.record.is_readable
