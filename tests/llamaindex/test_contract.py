"""The contract of every adapter, over every denoiser: what goes in comes back true, in sync and async."""

import asyncio
import copy
import json
import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from pydantic import ValidationError

from denoise_core import DenoiseResult, Drop, EmptyResult, InputError, Keep, Passage, Span, arun, run
from denoise_core.chunk import extract, sentences
from denoise_core.effects import Batch, Complete, Failed
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM, FunctionScorer
from denoise_core.types import Message
from llamaindex_denoise import DenoiseEvent, DenoisePostprocessor, record

QUESTION = "Where is the red tower?"
TEXTS = (
    "The red tower is in Porto. Bread is cheap. The tower is 40 m high.",
    "Nothing here helps. It never does.",
    "⚓ برج أحمر. The red 塔 stands. 真的。",
    "",
    "A red herring.",
)


class Untouched:
    """Keeps everything as it is."""

    def denoise(self, query, passages):
        return DenoiseResult(query, tuple(passages))

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


class RedSentences(Untouched):
    """Extractive: keeps the sentences that say red, with a score each."""

    def denoise(self, query, passages):
        kept, dropped, scored = [], [], []
        for p in passages:
            spans = sentences(p)
            red = [s for s in spans if "red" in p.text[s.start : s.end]]
            scored += [Keep(s, 0.75) for s in red]
            dropped += [Drop(s, "not red", 0.1) for s in spans if s not in red]
            part = extract(p, red)
            kept += [part] if part else []
        return DenoiseResult(query, tuple(kept), tuple(dropped), kept=tuple(scored))


class Shouts(Untouched):
    """Generative: writes every passage anew."""

    def denoise(self, query, passages):
        out = [Passage(p.text.upper(), p.id, p.score, p.metadata, p.covered, rewritten=True) for p in passages]
        return DenoiseResult(query.upper(), tuple(out))


class Joins(Untouched):
    """Generative over all passages at once: one text out of many."""

    def denoise(self, query, passages):
        if not passages:
            return DenoiseResult(query, ())
        spans = tuple(s for p in passages for s in p.covered)
        text = " ".join(p.text for p in passages)
        return DenoiseResult(query, (Passage(text, "joint", None, {}, spans, rewritten=True),))


class AsksPerPassage:
    """Asks a model about each passage in one batch and keeps those it says yes to; a failure is a yes."""

    def __init__(self, llm):
        self.llm = llm

    def flow(self, query, passages):
        replies = yield Batch(tuple(Complete((Message("user", p.text),), "ask", self.llm) for p in passages))
        kept = [p for p, r in zip(passages, replies) if isinstance(r, Failed) or r.text == "yes"]
        failed = sum(isinstance(r, Failed) for r in replies)
        return DenoiseResult(query, tuple(kept), fallback=f"{failed} replies failed" if failed else None)

    def denoise(self, query, passages):
        return run(self.flow(query, passages))[0]

    async def adenoise(self, query, passages):
        return (await arun(self.flow(query, passages)))[0]


class Fails:
    def denoise(self, query, passages):
        raise ConnectionError("model is down")

    async def adenoise(self, query, passages):
        raise ConnectionError("model is down")


def s2a_model(variant):
    """Answers each variant's prompt in its own form, keeping what says red."""
    numbers = {
        "select": ("1", "NONE"),
        "remove": ("NONE", "ALL"),
        "auto": ("KEEP 1", "DROP ALL"),
    }

    def reply(messages):
        document = messages[-1].content.split("BEGIN ", 1)[1].split("\n", 1)[1].split("\nEND ", 1)[0]
        red = [s for s in document.split(". ") if "red" in s]
        if variant in numbers:
            return numbers[variant][0 if red else 1]
        if variant == "single":
            return ". ".join([*red, QUESTION])
        return f"Context: {'. '.join(red) or 'NONE'}\nQuestion: {QUESTION}"

    return FunctionLLM(reply)


DENOISERS = {
    "end": lambda: ENDDenoiser(FunctionScorer(lambda q, t: float("red" in t)), threshold=0.5),
    "end_sentences": lambda: ENDDenoiser(
        FunctionScorer(lambda q, t: float("red" in t)), threshold=0.5, chunker=sentences
    ),
    "s2a_default": lambda: S2ADenoiser(s2a_model("default")),
    "s2a_relevance": lambda: S2ADenoiser(s2a_model("relevance"), variant="relevance"),
    "s2a_single": lambda: S2ADenoiser(s2a_model("single"), variant="single"),
    "s2a_keep_original": lambda: S2ADenoiser(s2a_model("default"), variant="keep_original"),
    "s2a_select": lambda: S2ADenoiser(s2a_model("select"), variant="select"),
    "s2a_remove": lambda: S2ADenoiser(s2a_model("remove"), variant="remove"),
    "s2a_auto": lambda: S2ADenoiser(s2a_model("auto"), variant="auto"),
    "untouched": Untouched,
    "extractive": RedSentences,
    "generative": Shouts,
    "joint": Joins,
    "asks": lambda: AsksPerPassage(FunctionLLM(lambda m: "yes" if "red" in m[-1].content else "no")),
    "fails": Fails,
}


@pytest.fixture(params=DENOISERS)
def denoiser(request):
    return DENOISERS[request.param]()


def nodes_of(texts=TEXTS):
    out = []
    for i, text in enumerate(texts):
        node = TextNode(
            text=text,
            id_=f"n{i}",
            metadata={"page": i, "tags": ["a", "b"]},
            embedding=[0.0, 1.0],
            start_char_idx=100 * i,
            end_char_idx=100 * i + len(text),
            excluded_llm_metadata_keys=["tags"],
            relationships={
                NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", metadata={"title": "Towers"}),
                NodeRelationship.NEXT: RelatedNodeInfo(node_id=f"n{i + 1}"),
            },
        )
        out.append(NodeWithScore(node=node, score=0.9 - i / 10))
    return out


def frozen(nodes):
    return [n.model_dump_json() for n in nodes]


def both(postprocessor, nodes, query=QUESTION):
    """The result, after checking that sync and async agree."""
    out = postprocessor.postprocess_nodes(nodes, query_str=query)
    later = asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str=query))
    assert frozen(out) == frozen(later), "sync and async differ"
    return out


def test_originals_untouched_and_identity_kept(denoiser):
    nodes = nodes_of()
    before = frozen(nodes)
    vectors = [n.node.embedding for n in nodes]
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes)
    assert frozen(nodes) == before
    assert [n.node.embedding for n in nodes] == vectors
    assert out
    originals = {n.node.node_id: n for n in nodes}
    ids = [n.node.node_id for n in out]
    assert ids == [i for i in originals if i in ids] or ids == ["joint"]
    for n in out:
        origin = originals.get(n.node.node_id, nodes[0])
        assert n.node is not origin.node
        assert n.score == origin.score
        assert n.node.ref_doc_id == "doc"
        assert n.node.metadata["tags"] == ["a", "b"]
        assert "tags" in n.node.excluded_llm_metadata_keys
        if n.node.node_id in originals:
            assert n.node.relationships == origin.node.relationships
            assert n.node.metadata["page"] == origin.node.metadata["page"]


def test_what_we_add_stays_out_of_prompts_and_embeddings(denoiser):
    for n in both(DenoisePostprocessor(denoiser=denoiser), nodes_of()):
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "denoise" not in n.node.get_content(mode)
            assert "origin" not in n.node.get_content(mode)


def test_every_node_says_where_its_text_stands(denoiser):
    nodes = nodes_of()
    source = {n.node.node_id: n.node for n in nodes}
    for n in both(DenoisePostprocessor(denoiser=denoiser), nodes):
        note = record(n.node)
        assert note is not None
        assert json.loads(json.dumps(note)) == note, "the record is not plain JSON"
        assert note["origin_hash"] == source[n.node.node_id].hash if n.node.node_id in source else True
        if note["origin_extractive"]:
            text = source[note["origin_id"]].text
            assert n.node.text == "".join(text[a:b] for a, b in note["origin_spans"])
            document_start = source[note["origin_id"]].start_char_idx
            assert note["doc_spans"] == [[a + document_start, b + document_start] for a, b in note["origin_spans"]]


def test_changed_nodes_lose_what_is_no_longer_true():
    out = both(DenoisePostprocessor(denoiser=RedSentences()), nodes_of())
    first, _, _ = out
    assert first.node.text == "The red tower is in Porto. "
    assert first.node.embedding is None
    assert (first.node.start_char_idx, first.node.end_char_idx) == (0, 27)  # one stretch: the range is true
    assert out[-1].node.embedding == [0.0, 1.0]  # kept whole
    (gap,) = both(DenoisePostprocessor(denoiser=RedSentences()), nodes_of(["A red cat. Ok so. A red dog."]))
    assert (gap.node.start_char_idx, gap.node.end_char_idx) == (None, None)
    assert record(gap.node)["doc_spans"] == [[0, 11], [18, 28]]


def test_the_methods_score_is_noted_or_put_in_place():
    kept = both(DenoisePostprocessor(denoiser=RedSentences()), nodes_of())
    replaced = both(DenoisePostprocessor(denoiser=RedSentences(), scores="replace"), nodes_of())
    assert [n.score for n in kept] == [0.9, 0.7, 0.5]
    assert [n.score for n in replaced] == [0.75, 0.75, 0.75]
    assert [record(n.node)["score_before"] for n in replaced] == [0.9, 0.7, 0.5]


def test_a_numpy_score_becomes_a_float(denoiser):
    numpy = pytest.importorskip("numpy")
    node = NodeWithScore(node=TextNode(text="red", id_="x"))
    node.score = numpy.float32(0.5)
    for n in both(DenoisePostprocessor(denoiser=denoiser), [node]):
        assert type(n.score) is float
        n.model_dump_json()


def test_two_methods_in_a_row_still_point_to_the_users_node():
    nodes = nodes_of(["Hi all. A red cat. Hi all. A red and blue dog. A red cow."])

    class Blue(RedSentences):
        def denoise(self, query, passages):
            out = [extract(p, [s for s in sentences(p) if "c" in p.text[s.start : s.end]]) for p in passages]
            return DenoiseResult(query, tuple(p for p in out if p))

    once = both(DenoisePostprocessor(denoiser=RedSentences()), nodes)
    (twice,) = both(DenoisePostprocessor(denoiser=Blue()), once)
    note = record(twice.node)
    text = nodes[0].node.text
    assert twice.node.text == "A red cat. A red cow."
    assert "".join(text[a:b] for a, b in note["origin_spans"]) == twice.node.text
    assert note["origin_id"] == "n0"
    assert note["origin_hash"] == nodes[0].node.hash
    assert note["op"] == "RedSentences > Blue"
    assert note["score_before"] == 0.9
    rewritten = both(DenoisePostprocessor(denoiser=Shouts()), [twice])[0]
    assert record(rewritten.node)["origin_extractive"] is False
    again = both(DenoisePostprocessor(denoiser=Untouched()), [rewritten])[0]
    assert record(again.node)["origin_extractive"] is False, "a copy of written text is not the source's"


def test_the_users_own_metadata_under_our_key_is_kept():
    node = TextNode(text="red", id_="x", metadata={"denoise": {"mine": 1}})
    (out,) = both(DenoisePostprocessor(denoiser=Untouched()), [NodeWithScore(node=node)])
    assert record(out.node)["previous"] == {"mine": 1}
    assert node.metadata == {"denoise": {"mine": 1}}


def test_nodes_without_text_pass_through_in_place(watched):
    image = NodeWithScore(node=ImageNode(image_url="https://example.org/a.png", text="a red picture", id_="img"))
    sound = NodeWithScore(node=Node(audio_resource=MediaResource(url="https://example.org/a.mp3"), id_="snd"))
    first, *rest = nodes_of()
    given_nodes = [image, first, sound, *rest]
    out = both(DenoisePostprocessor(denoiser=RedSentences()), given_nodes)
    assert [n.node.node_id for n in out] == ["img", "n0", "snd", "n2", "n4"]
    assert out[0] is image
    assert out[2] is sound
    events = [e for e in watched[0] if isinstance(e, DenoiseEvent)]
    assert [e.passed_through for e in events] == [["img", "snd"]] * 2


def test_documents_and_text_only_nodes_are_denoised():
    document = Document(text=TEXTS[0], id_="d", metadata={"a": 1})
    node = Node(text_resource=MediaResource(text=TEXTS[0]), id_="m")
    out = both(DenoisePostprocessor(denoiser=RedSentences()), [NodeWithScore(node=n) for n in (document, node)])
    assert [n.node.get_content() for n in out] == ["The red tower is in Porto. "] * 2
    assert [type(n.node) for n in out] == [Document, Node]
    assert document.text == TEXTS[0]


def test_duplicate_ids_keep_apart(denoiser):
    nodes = [
        NodeWithScore(node=TextNode(text=t, id_="same"), score=s) for t, s in (("red one", 0.3), ("red two", 0.2))
    ]
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes)
    if len(out) == 2:
        assert [n.node.node_id for n in out] == ["same", "same"]
        assert [n.node.text.lower() for n in out] == ["red one", "red two"]
        assert [n.score for n in out] == [0.3, 0.2]


def test_no_nodes_give_none(denoiser):
    assert both(DenoisePostprocessor(denoiser=denoiser), []) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.sampled_from(sorted(DENOISERS)))
def test_any_text_survives(texts, name):
    nodes = nodes_of(texts)
    before = frozen(nodes)
    out = both(DenoisePostprocessor(denoiser=DENOISERS[name]()), nodes)
    assert frozen(nodes) == before
    if any(t.strip() for t in texts):
        assert any(n.node.text.strip() for n in out), "context was lost"


def test_two_thousand_nodes():
    out = both(DenoisePostprocessor(denoiser=RedSentences()), nodes_of(["red."] * 2000))
    assert len(out) == 2000


@pytest.mark.parametrize("how", ["keep", "drop", "raise"])
def test_on_error(how):
    nodes = nodes_of()
    postprocessor = DenoisePostprocessor(denoiser=Fails(), on_error=how)
    if how == "raise":
        with pytest.raises(ConnectionError, match="model is down"):
            postprocessor.postprocess_nodes(nodes, query_str=QUESTION)
        with pytest.raises(ConnectionError, match="model is down"):
            asyncio.run(postprocessor.apostprocess_nodes(nodes, query_str=QUESTION))
        return
    out = both(postprocessor, nodes)
    assert [n.node.text for n in out] == (list(TEXTS) if how == "keep" else [])
    assert all("model is down" in record(n.node)["fallback"] for n in out)


@pytest.mark.parametrize("how", ["keep", "drop", "raise"])
def test_on_empty(how):
    nodes = nodes_of(["Not here.", "Not at all."])
    postprocessor = DenoisePostprocessor(denoiser=RedSentences(), on_empty=how)
    if how == "raise":
        with pytest.raises(EmptyResult, match="nothing was kept of 2"):
            postprocessor.postprocess_nodes(nodes, query_str=QUESTION)
        return
    out = both(postprocessor, nodes)
    assert [n.node.text for n in out] == (["Not here.", "Not at all."] if how == "keep" else [])
    assert all("nothing was kept" in record(n.node)["fallback"] for n in out)


def test_one_bad_reply_loses_no_other():
    def reply(messages):
        if "herring" in messages[-1].content:
            raise TimeoutError("slow")
        return "yes" if "red" in messages[-1].content else "no"

    out = both(DenoisePostprocessor(denoiser=AsksPerPassage(FunctionLLM(reply))), nodes_of())
    assert [n.node.node_id for n in out] == ["n0", "n2", "n4"]
    assert "1 replies failed" in record(out[0].node)["fallback"]


def test_the_query_may_be_a_bundle_and_must_be_there():
    postprocessor = DenoisePostprocessor(denoiser=Untouched())
    assert len(postprocessor.postprocess_nodes(nodes_of(), QueryBundle(QUESTION))) == 5
    with pytest.raises(InputError, match="query_str"):
        postprocessor.postprocess_nodes(nodes_of())
    with pytest.raises(InputError, match="query_str"):
        asyncio.run(postprocessor.apostprocess_nodes(nodes_of()))


def test_bad_arguments_say_what_is_expected():
    with pytest.raises(ValidationError, match="on_eror"):
        DenoisePostprocessor(denoiser=Untouched(), on_eror="keep")
    with pytest.raises(ValidationError, match="on_error"):
        DenoisePostprocessor(denoiser=Untouched(), on_error="ignore")
    with pytest.raises(ValidationError, match="Denoiser"):
        DenoisePostprocessor(denoiser="s2a")
    with pytest.raises(ValidationError, match="max_concurrency"):
        DenoisePostprocessor(denoiser=Untouched(), max_concurrency=0)
    with pytest.raises(InputError, match=r"nodes\[1\]: expected a NodeWithScore, got TextNode"):
        DenoisePostprocessor(denoiser=Untouched()).postprocess_nodes(
            [*nodes_of()[:1], TextNode(text="a")], query_str="q"
        )


def test_events_for_a_real_handler(watched, denoiser):
    events, _ = watched
    nodes = nodes_of()
    out = DenoisePostprocessor(denoiser=denoiser).postprocess_nodes(nodes, query_str=QUESTION)
    start, own, end = [e for e in events if isinstance(e, (ReRankStartEvent, DenoiseEvent, ReRankEndEvent))]
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(end, ReRankEndEvent)
    assert [n.node.node_id for n in start.nodes] == [n.node.node_id for n in nodes]
    assert end.nodes == out
    assert own.summary["given"] == ["n0", "n1", "n2", "n3", "n4"]
    assert "Porto" not in own.model_dump_json()
    assert own.span_id, "the event belongs to no span"


def test_text_can_be_kept_out_of_events(watched):
    DenoisePostprocessor(denoiser=RedSentences(), events_with_text=False).postprocess_nodes(
        nodes_of(), query_str=QUESTION
    )
    ours = [e for e in watched[0] if isinstance(e, (ReRankStartEvent, DenoiseEvent, ReRankEndEvent))]
    assert len(ours) == 3
    assert not any("Porto" in e.model_dump_json() for e in ours)


def test_spans_sync_and_async(watched, denoiser):
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    postprocessor.postprocess_nodes(nodes_of(), query_str=QUESTION)
    asyncio.run(postprocessor.apostprocess_nodes(nodes_of(), query_str=QUESTION))
    assert {"DenoisePostprocessor._postprocess_nodes", "DenoisePostprocessor._apostprocess_nodes"} <= set(
        watched[1].tree()
    )


def test_a_callback_manager_can_be_set_and_sees_the_reranking():
    from llama_index.core.callbacks import CBEventType, LlamaDebugHandler

    debug = LlamaDebugHandler(print_trace_on_end=False)
    postprocessor = DenoisePostprocessor(denoiser=RedSentences())
    postprocessor.callback_manager = CallbackManager([debug])
    postprocessor.postprocess_nodes(nodes_of(), query_str=QUESTION)
    ((start, end),) = debug.get_event_pairs(CBEventType.RERANKING)
    assert len(start.payload["nodes"]) == 5
    assert len(end.payload["nodes"]) == 3


class Counting:
    """An LLM that releases nobody until ``expected`` calls are inside, and knows the most that ever were."""

    def __init__(self, expected):
        self.expected, self.inside, self.most = expected, 0, 0
        self.lock = threading.Condition()
        self.arrived = None

    def complete(self, messages):
        from denoise_core import Reply

        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.lock.notify_all()
            assert self.lock.wait_for(lambda: self.most >= self.expected, timeout=20), f"only {self.most} at once"
            self.inside -= 1
        return Reply("yes")

    async def acomplete(self, messages):
        from denoise_core import Reply

        self.arrived = self.arrived or asyncio.Event()
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.most >= self.expected:
            self.arrived.set()
        await asyncio.wait_for(self.arrived.wait(), 20)
        await asyncio.sleep(0)
        self.inside -= 1
        return Reply("yes")


@pytest.mark.parametrize("bound", [3, 10])
def test_calls_are_concurrent_up_to_our_bound_sync(bound):
    llm = Counting(bound)
    DenoisePostprocessor(denoiser=AsksPerPassage(llm), max_concurrency=bound, on_error="raise").postprocess_nodes(
        nodes_of(["red"] * 20), query_str=QUESTION
    )
    assert llm.most == bound


@pytest.mark.parametrize("bound", [3, 10])
async def test_calls_are_concurrent_up_to_our_bound_async(bound, no_blocking):
    llm = Counting(bound)
    await DenoisePostprocessor(
        denoiser=AsksPerPassage(llm), max_concurrency=bound, on_error="raise"
    ).apostprocess_nodes(nodes_of(["red"] * 20), query_str=QUESTION)
    assert llm.most == bound


async def test_one_instance_serves_many_at_once(no_blocking, denoiser):
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    batches = [nodes_of([f"red {i}.", "Not here."]) for i in range(20)]
    outs = await asyncio.gather(*(postprocessor.apostprocess_nodes(b, query_str=QUESTION) for b in batches))
    for i, out in enumerate(outs):
        assert f"red {i}." in out[0].node.text.lower()


async def test_cancellation_goes_through():
    started = asyncio.Event()

    class Hangs(Untouched):
        async def adenoise(self, query, passages):
            started.set()
            await asyncio.Event().wait()

    postprocessor = DenoisePostprocessor(denoiser=Hangs())
    task = asyncio.create_task(postprocessor.apostprocess_nodes(nodes_of(), query_str=QUESTION))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_results_copy_and_pickle(denoiser):
    out = both(DenoisePostprocessor(denoiser=denoiser), nodes_of())
    assert frozen(copy.deepcopy(out)) == frozen(out)
    assert frozen(pickle.loads(pickle.dumps(out))) == frozen(out)  # noqa: S301


def test_copies_of_the_postprocessor_work_and_share_the_denoiser():
    class Locked(RedSentences):
        def __init__(self):
            self.lock = threading.Lock()  # neither copies nor pickles

    postprocessor = DenoisePostprocessor(denoiser=Locked(), on_error="raise", on_empty="drop")
    twin = copy.deepcopy({"deep": [postprocessor]})["deep"][0]
    assert twin.denoiser is postprocessor.denoiser
    assert twin.on_empty == "drop"
    assert frozen(both(twin, nodes_of())) == frozen(both(postprocessor, nodes_of()))
    with pytest.raises((TypeError, AttributeError), match="pickle"):
        pickle.dumps(postprocessor)
    assert both(postprocessor, nodes_of()), "a failed pickle must leave the object whole"


def test_a_postprocessor_pickles_when_its_denoiser_does():
    postprocessor = DenoisePostprocessor(denoiser=RedSentences(), scores="replace")
    twin = pickle.loads(pickle.dumps(postprocessor))  # noqa: S301
    assert frozen(both(twin, nodes_of())) == frozen(both(postprocessor, nodes_of()))


def test_settings_store_and_load_with_the_denoiser_passed_in():
    postprocessor = DenoisePostprocessor(
        denoiser=RedSentences(), scores="replace", on_empty="drop", max_concurrency=3
    )
    data = json.loads(json.dumps(postprocessor.to_dict()))
    assert len(data["denoiser"]) == 64, "a hash, and nothing of the denoiser itself"
    twin = DenoisePostprocessor.from_dict(data, denoiser=RedSentences())
    assert twin.to_dict() == postprocessor.to_dict()
    assert frozen(both(twin, nodes_of())) == frozen(both(postprocessor, nodes_of()))
    with pytest.raises(ValidationError, match="denoiser"):
        DenoisePostprocessor.from_dict(data)


def test_a_denoiser_that_invents_a_passage_is_shown_as_such():
    class Invents(Untouched):
        def denoise(self, query, passages):
            return DenoiseResult(query, (Passage("made up", "new", 0.4, {}, (Span("nowhere", 0, 3),)),))

    (out,) = both(DenoisePostprocessor(denoiser=Invents()), nodes_of())
    assert record(out.node)["origin_id"] is None
    assert record(out.node)["origin_extractive"] is False
    assert out.score == 0.4


@pytest.mark.parametrize("name", [n for n in DENOISERS if n.startswith(("end", "s2a"))])
def test_our_methods_do_their_work_rather_than_fall_back(name):
    out = both(DenoisePostprocessor(denoiser=DENOISERS[name](), on_error="raise", on_empty="raise"), nodes_of())
    assert [n.node.node_id for n in out] == ["n0", "n2", "n4"]
    assert all(record(n.node)["fallback"] is None for n in out)
