"""What every adapter keeps, whatever denoiser it is given."""

import asyncio
import copy
import json
import threading

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_records import spans_in
from recorded_runs import RunRecorder

from denoise_core.runtime import fallbacks
from langchain_denoise import DenoiseCompressor
from langchain_denoise.convert.documents import RECORD_KEYS


def check_compressor(make, documents, query):
    """Run a compressor and check its contract; returns the documents for further checks.

    Documents keep id, type, order and every metadata key; extractive text is the original's at its spans;
    the record is plain JSON; inputs are unchanged; sync equals async; no documents give none.
    ``make`` builds a fresh compressor each time, so that scripted replies start anew.
    """
    before = copy.deepcopy(list(documents))
    out = make().compress_documents(documents, query)
    assert list(documents) == before, "the input documents were changed"
    again = asyncio.run(make().acompress_documents(documents, query))
    assert again == out, f"sync and async differ:\n{out}\n{again}"
    assert make().compress_documents([], query) == [], (
        "no documents in, some documents out"
    )

    at = -1
    for document in out:
        record = {k: v for k, v in document.metadata.items() if k in RECORD_KEYS}
        assert all(type(v) in (str, int, float, bool) for v in record.values()), (
            f"not flat: {record}"
        )
        assert json.loads(json.dumps(record, allow_nan=False)) == record, (
            f"not plain JSON: {record}"
        )
        found = next(
            (i for i, d in enumerate(documents) if i > at and _copy_of(d, document)),
            None,
        )
        if found is None:
            assert not record["denoise_extractive"], (
                f"order, id or metadata lost: {document}"
            )
            continue
        at = found
        if record["denoise_extractive"]:
            spans = spans_in(record)[record["denoise_origin"]]
            own = "".join(documents[at].page_content[start:end] for start, end in spans)
            assert document.page_content == own, (
                f"text {document.page_content!r} is not its spans' {own!r}"
            )
    return out


def _copy_of(original, document):
    ours = (*RECORD_KEYS, "relevance_score")
    kept = {k: v for k, v in document.metadata.items() if k not in ours}
    given = {k: v for k, v in original.metadata.items() if k not in ours}
    return (
        document.id == original.id
        and type(document) is type(original)
        and kept == given
    )


def in_retriever(compressor, kit, documents):
    return ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=kit.ListRetriever(found=documents)
    )


def in_pipeline(compressor, kit, documents):
    return in_retriever(
        DocumentCompressorPipeline(transformers=[compressor]), kit, documents
    )


def in_chain(compressor, kit, documents):
    found = {
        "documents": kit.ListRetriever(found=documents),
        "query": RunnablePassthrough(),
    }
    return found | compressor


def in_a_step(compressor, kit, documents):
    """Called by hand inside another runnable, without passing a config on."""

    def sync(query):
        return compressor.compress_documents(documents, query)

    async def native(query):
        return await compressor.acompress_documents(documents, query)

    return RunnableLambda(sync, native, name="step")


class SyncOnly(BaseRetriever):
    """A retriever as many write it: no async of its own, so LangChain calls the sync one with async callbacks."""

    compressor: DenoiseCompressor
    found: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        return self.compressor.compress_documents(
            self.found, query, callbacks=run_manager.get_child()
        )


def in_a_sync_retriever(compressor, kit, documents):
    return SyncOnly(compressor=compressor, found=documents)


def retriever_in_chain(compressor, kit, documents):
    return RunnablePassthrough() | in_retriever(compressor, kit, documents)


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


@pytest.fixture(params=[pytest.param(w, id=i) for i, w in WAYS.items()])
def way(request):
    return request.param


def test_documents_ids_metadata_order_and_inputs(make_denoiser, documents, kit):
    check_compressor(
        lambda: DenoiseCompressor(denoiser=make_denoiser()), documents, kit.question
    )


async def test_every_way_of_calling_gives_the_same(make_denoiser, way, documents, kit):
    expected = await DenoiseCompressor(denoiser=make_denoiser()).acompress_documents(
        documents, kit.question
    )
    before = copy.deepcopy(documents)
    build, _ = way
    runnable = build(DenoiseCompressor(denoiser=make_denoiser()), kit, documents)
    assert await runnable.ainvoke(kit.question) == expected
    assert await asyncio.to_thread(runnable.invoke, kit.question) == expected
    assert documents == before


@pytest.mark.parametrize("sync", [True, False])
async def test_spans_hang_under_the_right_parent(way, sync, documents, kit):
    build, path = way
    runnable = build(DenoiseCompressor(denoiser=kit.s2a()), kit, documents)
    seen = RunRecorder()
    config = {"callbacks": [seen], "tags": ["mine"], "metadata": {"tenant": "t1"}}
    if sync:
        await asyncio.to_thread(runnable.invoke, kit.question, config)
    else:
        await runnable.ainvoke(kit.question, config)
    assert seen.paths("llm") == [f"{path}/FunctionChatModel"] * 5
    for run in seen.of_kind("llm"):
        assert {"mine", "nostream"} <= set(run.tags)
        assert run.metadata["tenant"] == "t1"
        assert run.metadata["lc_source"] == "denoise"
    assert all(run.ended and run.error is None for run in seen.runs.values())
    [(name, data, run_id)] = seen.events
    assert (name, seen.runs[run_id].name) == ("denoise", "DenoiseCompressor")
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@pytest.mark.parametrize("own", [3, None])
@pytest.mark.parametrize("around", [2, None])
async def test_model_calls_are_concurrent_and_bounded(own, around, kit):
    documents = [Document(page_content=f"Sentence {i}.", id=str(i)) for i in range(6)]
    expected = min(b for b in (own, around, 6) if b)
    together = threading.Barrier(
        expected, timeout=60
    )  # nobody answers before as many as may be are under way

    def wait_for_all(messages):
        together.wait()
        return "1"

    for sync, model in (
        (True, kit.chat(wait_for_all)),
        (False, kit.chat(seconds=0.15)),
    ):
        denoiser = kit.s2a_with(model, max_concurrency=6)
        compressor = DenoiseCompressor(denoiser=denoiser, max_concurrency=own)
        given = ({"documents": documents, "query": "q"}, {"max_concurrency": around})
        if sync:
            await asyncio.to_thread(compressor.invoke, *given)
        else:
            await compressor.ainvoke(*given)
        assert model.max_concurrent_calls == expected
        assert len(model.calls) == 6


@pytest.mark.parametrize(
    ("answer", "policy", "kept", "why"),
    [
        (
            "fail",
            {},
            2,
            "ConnectionError: no route to the model; the input was kept as it is",
        ),
        ("fail", {"on_error": "drop"}, 0, None),
        ("fail", {"on_error": "raise"}, ConnectionError, None),
        ("drop_all", {}, 2, "nothing was kept; the input was kept as it is"),
        ("drop_all", {"on_empty": "drop"}, 0, None),
        ("drop_all", {"on_empty": "raise"}, RuntimeError, None),
    ],
)
def test_what_a_failure_or_an_empty_result_gives(answer, policy, kept, why, kit):
    documents = [
        Document(page_content="one", id="a", metadata={"k": 1}),
        Document(page_content="two"),
    ]
    compressor = DenoiseCompressor(denoiser=kit.Answers(getattr(kit, answer)), **policy)
    seen = RunRecorder()

    def both():
        sync = compressor.compress_documents(documents, "q", callbacks=[seen])
        assert asyncio.run(compressor.acompress_documents(documents, "q")) == sync
        return sync

    if isinstance(kept, type):
        with pytest.raises(kept):
            both()
        assert seen.of_kind("chain")[0].error.startswith(
            ("ConnectionError", "EmptyResult")
        )
        return
    out = both()
    assert [d.page_content for d in out] == ["one", "two"][:kept]
    assert [d.metadata.get("denoise_fallback") for d in out] == [why] * kept
    assert seen.events[0][1]["fallback"] is not None


def test_one_bad_reply_does_not_lose_the_batch(kit):
    def reply(messages):
        if "bad" in messages[-1].text:
            raise TimeoutError("model is slow today")
        return "1"

    documents = [Document(page_content=t, id=t) for t in ("good", "bad", "fine")]
    out = DenoiseCompressor(denoiser=kit.s2a(reply)).compress_documents(documents, "q")
    assert [d.id for d in out] == ["good", "bad", "fine"]
    assert "TimeoutError" in out[1].metadata["denoise_fallback"]


def test_the_record_of_one_document(kit):
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
    dropped = '[{"start": 5, "end": 8, "score": null, "reason": "not needed for the question"}]'
    for detail, record in (
        ("spans", spans),
        ("full", {**spans, "denoise_kept": "[]", "denoise_dropped": dropped}),
        ("none", {}),
    ):
        [out] = DenoiseCompressor(denoiser=kit.s2a(), record=detail).compress_documents(
            documents, "q"
        )
        assert out.page_content == "Yes. "
        assert out.metadata == {"relevance_score": 0.25, **record}
        assert spans_in(out.metadata) == ({} if detail == "none" else {"a": [[0, 5]]})


def test_scores_go_where_rerankers_put_them(kit):
    documents = [
        Document(page_content="a b", metadata={"relevance_score": 9.0}),
        Document(page_content="c d"),
    ]
    [out] = DenoiseCompressor(denoiser=kit.denoisers["end"]()).compress_documents(
        documents, "a b"
    )
    assert out.metadata["relevance_score"] == 2.0
    assert out.metadata["denoise_score"] == 2.0
    assert type(out.metadata["relevance_score"]) is float


def test_a_joint_rewrite_keeps_what_its_sources_agree_on(kit):
    documents = [
        Document(page_content="one", id="a", metadata={"source": "x", "page": 1}),
        Document(page_content="two", id="b", metadata={"source": "x", "page": 2}),
    ]
    [out] = DenoiseCompressor(denoiser=kit.Answers(kit.merge)).compress_documents(
        documents, "q"
    )
    own = {k: v for k, v in out.metadata.items() if k not in RECORD_KEYS}
    assert (out.id, own) == ("joint", {"source": "x"})
    assert spans_in(out.metadata) == {"a": [[0, 3]], "b": [[0, 3]]}
    assert out.metadata["denoise_extractive"] is False


def test_the_last_record_stands(kit):
    documents = [Document(page_content="Yes. No. Maybe.", id="a")]
    compressor = DenoiseCompressor(
        denoiser=kit.s2a(lambda m: "1, 2" if "Maybe" in m[-1].text else "1")
    )
    [once] = compressor.compress_documents(documents, "q")
    [twice] = compressor.compress_documents([once], "q")
    assert twice.page_content == "Yes. "
    assert once.metadata["denoise_spans"] == '{"a": [[0, 9]]}'
    assert twice.metadata["denoise_spans"] == '{"a": [[0, 5]]}'


def test_subclasses_and_extra_fields_survive(kit):
    class Page(Document):
        page: int = 0

    [out] = DenoiseCompressor(denoiser=kit.s2a()).compress_documents(
        [Page(page_content="A. B.", page=7)], "q"
    )
    assert (type(out), out.page) == (Page, 7)


@pytest.mark.parametrize(
    ("given", "message"),
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
def test_bad_input_names_what_came(given, message, kit):
    with pytest.raises(ValueError, match=message):
        DenoiseCompressor(denoiser=kit.s2a()).invoke(given)


def test_one_document_that_cannot_be_read_costs_no_other(documents, kit, caplog):
    fallbacks._counts.clear()
    broken = Document.model_construct(page_content=None, id="x", metadata={})
    given = {"documents": [documents[0], broken, documents[1]], "query": kit.question}
    kept = DenoiseCompressor(denoiser=kit.s2a()).invoke(given)
    assert [d.page_content for d in kept] == [
        "Paris is the capital of France. ",
        "Bananas are yellow.",
        None,
    ]
    assert "documents[1] was kept as it is; InputError. " in caplog.text
    assert (
        len(DenoiseCompressor(denoiser=kit.s2a(), on_error="drop").invoke(given)) == 2
    )
    with pytest.raises(
        ValueError, match="passage 'x': expected its text as a str, got NoneType"
    ):
        DenoiseCompressor(denoiser=kit.s2a(), on_error="raise").invoke(given)


def once(documents):
    yield from documents


@pytest.mark.parametrize("sync", [True, False])
async def test_what_is_read_once_is_read_whole(sync, documents, kit):
    """A generator, `filter` or the dicts of a checkpoint came back as nothing, or not at all."""
    compressor = DenoiseCompressor(denoiser=kit.s2a())
    expected = await asyncio.to_thread(
        compressor.compress_documents, documents, kit.question
    )
    dumped = [d.model_dump() for d in documents]
    for given in (once(documents), filter(None, documents), tuple(documents), dumped):
        if sync:
            found = await asyncio.to_thread(
                compressor.compress_documents, given, kit.question
            )
        else:
            found = await compressor.acompress_documents(given, kit.question)
        assert found == expected
