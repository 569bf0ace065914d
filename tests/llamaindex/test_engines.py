"""The query engines: checked answers, true sources, delegation, prompts through wrappers, streams held back."""

import asyncio
import json
from typing import get_args

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex, get_response_synthesizer
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate, RichPromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine, RetryQueryEngine, SubQuestionQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode

from denoise_core import Budget, InputError
from denoise_core.augmenter import Augmenter, Limits
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import S2A
from denoise_core.s2a.options import Variant
from denoise_core.testing import FunctionScorer
from llamaindex_denoise import (
    AnswerEvent,
    AugmentedQueryEngine,
    DenoisePostprocessor,
    LlamaLLM,
    RetrieverAdapter,
    S2AQueryEngine,
    record,
)

QUESTION = "Where is the red tower?"
RIGHT = "The red tower is in Porto. [1]"
WRONG = "The red tower is in Lisbon, built in 1755."


def nodes():
    texts = [
        "The red tower is in Porto. Bread is cheap there.",
        "The blue bridge crosses the river.",
        "Ships are long.",
    ]
    return [
        NodeWithScore(node=TextNode(text=t, id_=f"n{i}", metadata={"page": i}), score=0.9 - i / 10)
        for i, t in enumerate(texts)
    ]


class Fixed(BaseRetriever):
    """Finds the same nodes for every query and remembers the queries; has no async form of its own."""

    def __init__(self, found):
        self.found, self.queries = found, []
        super().__init__()

    def _retrieve(self, query_bundle):
        self.queries.append(query_bundle)
        return self.found


def first_wrong_then_right(messages):
    """A model that gets it right once it is told what was wrong."""
    asked = " ".join(m.content or "" for m in messages)
    return RIGHT if "Lisbon" in asked else WRONG


def always(text):
    return lambda messages: text


def own_loop(scripted, reply=first_wrong_then_right, retriever=None, **settings):
    retriever = retriever or Fixed(nodes())
    return AugmentedQueryEngine(Augmenter(LlamaLLM(scripted(reply)), RetrieverAdapter(retriever), **settings))


def inner(llm, retriever=None, **settings):
    return RetrieverQueryEngine.from_args(retriever or Fixed(nodes()), llm=llm, **settings)


def around(scripted, reply=first_wrong_then_right, retriever=None, **settings):
    return AugmentedQueryEngine.around(inner(scripted(reply), retriever), **settings)


MAKE = {"own loop": own_loop, "around an engine": around}


@pytest.fixture(params=MAKE)
def make(request, scripted):
    return lambda *args, **settings: MAKE[request.param](scripted, *args, **settings)


def both(make_engine, question=QUESTION):
    """Sync and async response of fresh engines, after checking that they agree."""
    sync = make_engine().query(question)
    later = asyncio.run(make_engine().aquery(question))
    assert str(sync) == str(later)
    assert sync.metadata == later.metadata
    assert [n.model_dump_json() for n in sync.source_nodes] == [n.model_dump_json() for n in later.source_nodes]
    return sync


def test_a_wrong_draft_is_told_what_is_wrong_and_mended(make):
    response = both(make)
    note = response.metadata["denoise"]
    assert response.response == RIGHT
    assert note["outcome"] == "verified"
    assert note["stopped_because"] == "passed"
    assert [a["outcome"] for a in note["attempts"]] == ["fail", "pass"]
    assert "1755" in note["attempts"][0]["feedback"]
    assert json.loads(json.dumps(note)) == note


def test_an_answer_that_never_passes_is_sent_but_says_so(make):
    response = both(lambda: make(always(WRONG)))
    assert response.response == WRONG
    assert response.metadata["denoise"]["outcome"] == "unverified"


def test_limits_decide_what_is_sent_instead(make):
    response = both(lambda: make(always(WRONG), limits=Limits(unverified="abstain")))
    assert response.metadata["denoise"]["outcome"] == "abstained"
    assert "Lisbon" not in str(response)


def test_sources_are_the_users_nodes(make):
    response = both(make)
    assert [n.node.node_id for n in response.source_nodes] == ["n0", "n1", "n2"]
    assert [n.score for n in response.source_nodes] == [0.9, 0.8, 0.7]
    assert [n.node.metadata["page"] for n in response.source_nodes] == [0, 1, 2]
    assert set(response.metadata) == {"n0", "n1", "n2", "denoise"}


def test_the_search_sees_the_question_and_never_the_feedback(make):
    retriever = Fixed(nodes())
    make(retriever=retriever).query(QUESTION)
    assert {q.query_str for q in retriever.queries} == {QUESTION}


def test_nothing_found_is_an_abstention_without_asking(make, scripted):
    response = both(lambda: make(retriever=Fixed([])))
    assert response.metadata["denoise"]["outcome"] == "abstained"
    assert response.metadata["denoise"]["attempts"] == []
    assert response.source_nodes == []


def test_a_model_that_fails_gives_a_response_that_says_so(make):
    def down(messages):
        raise ConnectionError("model is down")

    response = both(lambda: make(down))
    assert response.metadata["denoise"]["outcome"] == "refused"
    assert "model is down" in response.metadata["denoise"]["failures"][0]["error"]


def test_the_budget_holds(make):
    response = make(always(WRONG), budget=Budget(calls=2)).query(QUESTION)
    assert response.metadata["denoise"]["stopped_because"] == "budget"
    assert response.metadata["denoise"]["calls"] <= 2


def test_a_blank_question_is_refused(make):
    with pytest.raises(InputError, match="not blank"):
        make().query("  ")


def test_denoised_evidence_points_to_the_users_nodes(scripted):
    denoiser = ENDDenoiser(FunctionScorer(lambda q, t: float("Porto" in t)), threshold=0.5)
    response = both(lambda: own_loop(scripted, always(RIGHT), denoiser=denoiser))
    (node,) = response.source_nodes
    assert record(node.node)["origin_id"] == "n0"
    assert record(node.node)["origin_spans"] == [[0, len(nodes()[0].node.text)]]


def test_readmitted_text_points_to_the_users_nodes(scripted):
    denoiser = ENDDenoiser(FunctionScorer(lambda q, t: float("bridge" in t)), threshold=0.5)
    response = both(lambda: own_loop(scripted, denoiser=denoiser))
    assert {"n0", "n1"} <= {n.node.node_id for n in response.source_nodes}
    assert all(record(n.node)["origin_extractive"] for n in response.source_nodes)


def test_retrieve_and_synthesize_are_delegated(make):
    engine = make()
    bundle = QueryBundle(QUESTION)
    found = engine.retrieve(bundle)
    assert [n.node.node_id for n in found] == ["n0", "n1", "n2"]
    assert [n.node.node_id for n in asyncio.run(engine.aretrieve(bundle))] == ["n0", "n1", "n2"]
    image = NodeWithScore(node=ImageNode(image_url="https://example.org/a.png", id_="img"))
    extra = NodeWithScore(node=TextNode(text="more", id_="extra"))
    for response in (
        engine.synthesize(bundle, [found[0], image], [extra]),
        asyncio.run(engine.asynthesize(bundle, [found[0], image], [extra])),
    ):
        assert response.metadata["denoise"]["outcome"] == "verified"
        assert [n.node.node_id for n in response.source_nodes] == ["n0", "img", "extra"]


def test_events_and_spans_for_a_real_handler(make, watched):
    events, spans = watched
    make().query(QUESTION)
    asyncio.run(make().aquery(QUESTION))
    assert sum(isinstance(e, QueryStartEvent) for e in events) == 2
    assert sum(isinstance(e, QueryEndEvent) for e in events) == 2
    told = [e for e in events if isinstance(e, AnswerEvent)]
    assert [e.record["outcome"] for e in told] == ["verified", "verified"]
    tree = spans.tree()
    assert {"AugmentedQueryEngine._query", "AugmentedQueryEngine._aquery", "Scripted.chat"} <= set(tree)
    assert tree["Scripted.chat"], "the model's span has no parent"


async def test_no_blocking_call_and_a_retriever_without_async_form(scripted, no_blocking):
    class Slow(Fixed):
        def _retrieve(self, query_bundle):
            import time

            time.sleep(0.01)  # on the event loop this would be an error here
            return super()._retrieve(query_bundle)

    response = await own_loop(scripted, retriever=Slow(nodes())).aquery(QUESTION)
    assert response.metadata["denoise"]["outcome"] == "verified"


@pytest.mark.parametrize("whole", [False, True])
async def test_around_a_local_model_the_event_loop_stays_free(local, no_blocking, whole):
    """LlamaIndex would run such a model, and such a retriever, on the loop."""
    import threading

    here, ran = threading.get_ident(), []

    def reply(prompt):
        ran.append(threading.get_ident())
        return RIGHT if "Lisbon" in prompt else WRONG

    class Slow(Fixed):
        def _retrieve(self, query_bundle):
            ran.append(threading.get_ident())
            return super()._retrieve(query_bundle)

    engine = inner(local(reply), Slow(nodes()))
    if whole:  # an engine of the same parts that can only be asked
        engine = Whole(reply)
        engine._llm = local(reply)
    response = await AugmentedQueryEngine.around(engine).aquery(QUESTION)
    assert response.metadata["denoise"]["outcome"] == "verified"
    assert ran
    assert here not in ran


async def test_many_questions_at_once_do_not_mix(make):
    engine = make()
    responses = await asyncio.gather(*(engine.aquery(f"{QUESTION} ({i})") for i in range(20)))
    assert all(r.metadata["denoise"]["outcome"] == "verified" for r in responses)
    assert [set(r.metadata["denoise"]["queries"]) for r in responses] == [{f"{QUESTION} ({i})"} for i in range(20)]


@pytest.mark.parametrize("how", ["own loop", "around an engine"])
def test_a_stream_carries_only_the_final_text(scripted, how):
    engine = MAKE[how](scripted)
    engine.streaming = True
    response = engine.query(QUESTION)
    assert isinstance(response, StreamingResponse)
    assert "".join(response.response_gen) == RIGHT
    assert response.metadata["denoise"]["outcome"] == "verified"

    async def read():
        later = await engine.aquery(QUESTION)
        assert isinstance(later, AsyncStreamingResponse)
        return "".join([piece async for piece in later.async_response_gen()])

    assert asyncio.run(read()) == RIGHT


def test_an_engine_that_streams_inside_is_read_and_checked(scripted):
    def make_engine():
        return AugmentedQueryEngine.around(inner(scripted(first_wrong_then_right), streaming=True))

    sync = make_engine().query(QUESTION)
    assert str(sync) == RIGHT
    assert str(asyncio.run(make_engine().aquery(QUESTION))) == RIGHT
    assert isinstance(sync, Response)


class Whole(BaseQueryEngine):
    """An engine without ``retrieve`` and ``synthesize``: it can only be asked."""

    def __init__(self, answer):
        super().__init__(None)
        self.answer, self.asked = answer, []

    def _query(self, query_bundle):
        self.asked.append(query_bundle)
        return Response(self.answer(query_bundle.query_str), nodes()[:2], {"inner": 1})

    async def _aquery(self, query_bundle):
        return self._query(query_bundle)

    def _get_prompt_modules(self):
        return {}


def test_around_an_engine_that_can_only_be_asked():
    def make_engine():
        return AugmentedQueryEngine.around(Whole(lambda q: RIGHT if "Lisbon" in q else WRONG))

    response = both(make_engine)
    assert response.metadata["denoise"]["outcome"] == "verified"
    assert response.metadata["inner"] == 1
    assert [n.node.node_id for n in response.source_nodes] == ["n0", "n1"]
    engine = make_engine()
    engine.query(QUESTION)
    first, second = engine.query_engine.asked
    assert first.query_str == QUESTION
    assert second.embedding_strs == [QUESTION], "feedback would be embedded"
    with pytest.raises(NotImplementedError, match="Whole does not support synthesize"):
        engine.synthesize(QueryBundle(QUESTION), nodes())


def test_a_judge_that_would_ask_the_engine_as_a_model_is_told_off(scripted):
    from denoise_core.augmenter.utilities.groundedness import Groundedness
    from denoise_core.effects import complete
    from denoise_core.types import Message

    class Judge(Groundedness):
        def assess(self, memory, candidate):
            yield from complete((Message("user", "is it true?"),), tag="judge")
            return self.judge(memory, candidate)

    response = around(scripted, utility=Judge()).query(QUESTION)
    assert any("model of its own" in f["error"] for f in response.metadata["denoise"]["failures"])


def test_inside_a_condense_question_chat_engine(scripted):
    chat = CondenseQuestionChatEngine.from_defaults(
        query_engine=own_loop(scripted), llm=scripted(always(QUESTION))
    )
    response = chat.chat(QUESTION)
    assert response.response == RIGHT
    assert response.sources[0].raw_output.metadata["denoise"]["outcome"] == "verified"


def test_inside_a_sub_question_engine_and_a_retry_engine(scripted):
    from llama_index.core.evaluation import FaithfulnessEvaluator
    from llama_index.core.tools import QueryEngineTool

    class OneQuestion:
        def generate(self, tools, query):
            from llama_index.core.question_gen.types import SubQuestion

            return [SubQuestion(sub_question=QUESTION, tool_name="towers")]

        def _get_prompts(self):
            return {}

    llm = scripted(always(RIGHT))
    outer = SubQuestionQueryEngine(
        question_gen=OneQuestion(),
        response_synthesizer=get_response_synthesizer(llm=llm, use_async=False),
        query_engine_tools=[QueryEngineTool.from_defaults(own_loop(scripted), name="towers")],
        verbose=False,
        use_async=False,
    )
    assert str(outer.query(QUESTION)) == RIGHT
    judged = RetryQueryEngine(own_loop(scripted), FaithfulnessEvaluator(llm=scripted(always("YES"))))
    assert judged.query(QUESTION).metadata["denoise"]["outcome"] == "verified"


def test_over_a_vector_index(scripted):
    index = VectorStoreIndex([n.node for n in nodes()], embed_model=MockEmbedding(embed_dim=4))
    engine = AugmentedQueryEngine.around(
        index.as_query_engine(
            llm=scripted(first_wrong_then_right),
            similarity_top_k=3,
            node_postprocessors=[
                DenoisePostprocessor(
                    denoiser=ENDDenoiser(FunctionScorer(lambda q, t: float("Porto" in t)), threshold=0.5)
                )
            ],
        )
    )
    response = engine.query(QUESTION)
    assert str(response) == RIGHT
    assert [n.node.node_id for n in response.source_nodes] == ["n0"]


def test_prompts_are_reached_through_two_wrappers(scripted):
    llm = scripted(always(RIGHT))
    engine = AugmentedQueryEngine.around(inner(llm))
    key = "query_engine:response_synthesizer:text_qa_template"
    assert key in engine.get_prompts()
    engine.update_prompts({key: PromptTemplate("Say it with flowers. {context_str} {query_str}")})
    engine.query(QUESTION)
    assert "Say it with flowers." in llm.asked[0][-1].content
    with pytest.raises(InputError, match="no prompt named 'query_engine:nothing'"):
        engine.update_prompts({"query_engine:nothing": PromptTemplate("x")})


def test_the_loops_own_instruction_can_be_changed(scripted):
    llm = scripted(always(RIGHT))
    augmenter = Augmenter(LlamaLLM(llm), RetrieverAdapter(Fixed(nodes())))
    engine = AugmentedQueryEngine(augmenter)
    engine.update_prompts({"instruction": PromptTemplate("Answer like a pirate.")})
    engine.query(QUESTION)
    assert "Answer like a pirate." in llm.asked[0][0].content
    assert "pirate" not in augmenter.task.instruction, "an augmenter that others may share was changed"


def keep_red(messages):
    asked = messages[-1].content
    if "BEGIN " in asked:
        return "1" if "red" in asked.split("BEGIN ", 1)[1] else "NONE"
    return f"Heard: {asked}"


def s2a_engine(scripted, retriever=None, **settings):
    s2a = S2A(LlamaLLM(scripted(keep_red)), variant="select")
    return S2AQueryEngine(s2a, retriever or Fixed(nodes()), **settings)


def test_s2a_answers_from_what_it_kept(scripted):
    response = both(lambda: s2a_engine(scripted))
    assert "The red tower is in Porto." in str(response)
    assert "bread" not in str(response).lower()
    assert "bridge" not in str(response)
    (node,) = response.source_nodes
    assert record(node.node)["origin_spans"] == [[0, 27]]
    note = response.metadata["denoise"]
    assert note["outcome"] == "answered"
    assert note["calls"] == 4
    assert {d["id"] for d in note["dropped"]} == {"n0", "n1", "n2"}


def test_s2a_without_context_asks_nobody(scripted):
    response = both(lambda: s2a_engine(scripted, Fixed([])))
    assert str(response) == "Empty Response"
    assert response.metadata["denoise"] == {"outcome": "no_context", "calls": 0}


def test_s2a_delegates_streams_and_runs_postprocessors(scripted):
    drop_ships = DenoisePostprocessor(
        denoiser=ENDDenoiser(FunctionScorer(lambda q, t: float("Ships" not in t)), threshold=0.5)
    )
    engine = s2a_engine(scripted, node_postprocessors=[drop_ships], streaming=True)
    assert [n.node.node_id for n in engine.retrieve(QueryBundle(QUESTION))] == ["n0", "n1"]
    response = engine.query(QUESTION)
    assert "".join(response.response_gen).startswith("Heard: The red tower is in Porto.")
    assert record(response.source_nodes[0].node)["op"] == "ENDDenoiser > S2A.select"


def test_s2a_prompts_can_be_read_and_changed(scripted):
    s2a = S2A(LlamaLLM(scripted(keep_red)), variant="select")
    engine = S2AQueryEngine(s2a, Fixed(nodes()))
    prompts = engine.get_prompts()
    assert set(prompts) == {"s2a_select", "s2a_answer"}
    system, user = (m.content for m in prompts["s2a_select"].message_templates)
    engine.update_prompts({"s2a_answer": PromptTemplate("BRIEFLY {context} {question}")})
    assert "Heard: BRIEFLY The red tower" in str(engine.query(QUESTION))
    assert s2a.denoiser.options.prompts.answer_fairly.version != "custom", "a shared S2A was changed"
    changed = ChatPromptTemplate.from_messages([("system", system), ("user", "Quickly!\n" + user)])
    engine.update_prompts({"s2a_select": changed})
    assert engine.get_prompts()["s2a_select"].message_templates[1].content.startswith("Quickly!")
    assert "BRIEFLY" in engine.get_prompts()["s2a_answer"].message_templates[-1].content
    with pytest.raises(InputError, match=r"lacks \{context\}"):
        engine.update_prompts({"s2a_answer": PromptTemplate("{question}")})
    with pytest.raises(InputError, match="single braces"):
        engine.update_prompts({"s2a_answer": RichPromptTemplate("{{ question }}")})


@pytest.mark.parametrize("variant", get_args(Variant))
def test_the_prompts_of_every_variant_are_the_ones_it_uses(scripted, variant):
    asked = []

    def reply(messages):
        asked.append(messages[-1].content)
        return f"Context: The red tower is in Porto.\nQuestion: {QUESTION}"

    engine = S2AQueryEngine(S2A(LlamaLLM(scripted(reply)), variant=variant), Fixed(nodes()))
    marked = {
        name: PromptTemplate(f"<{name}> " + template.message_templates[-1].content)
        for name, template in engine.get_prompts().items()
    }
    engine.update_prompts(marked)
    engine.query(QUESTION)
    assert set(marked) == {f"s2a_{variant}", "s2a_answer"}
    assert asked[0].startswith(f"<s2a_{variant}>")
    assert asked[-1].startswith("<s2a_answer>")


def test_the_postprocessors_prompts_are_reached_too(scripted):
    from denoise_core.s2a import S2ADenoiser

    shared = S2ADenoiser(LlamaLLM(scripted(keep_red)), variant="select")
    pp = DenoisePostprocessor(denoiser=shared)
    engine = AugmentedQueryEngine.around(inner(scripted(always(RIGHT)), node_postprocessors=[pp]))
    key = "postprocessor_0:s2a_select"
    template = engine.get_prompts()[key]
    engine.update_prompts({key: PromptTemplate("Quickly! " + template.message_templates[-1].content)})
    assert pp.get_prompts()["s2a_select"].message_templates[-1].content.startswith("Quickly!")
    assert pp.get_prompts()["s2a_select"].message_templates[0].content == template.message_templates[0].content
    assert not shared.options.prompts.select.user.startswith("Quickly!")


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: AugmentedQueryEngine("x"), "expected a denoise_core Augmenter, got str"),
        (lambda: AugmentedQueryEngine.around(Fixed([])), "expected a llama_index query engine, got Fixed"),
        (lambda: S2AQueryEngine("x", Fixed([])), "expected a denoise_core S2A, got str"),
        (lambda: LlamaLLM("gpt-4"), "expected a llama_index LLM, got str"),
        (lambda: RetrieverAdapter([]), "expected a llama_index retriever, got list"),
    ],
)
def test_wrong_parts_are_named(build, says):
    with pytest.raises(InputError, match=says):
        build()


def test_passages_that_were_never_nodes_keep_their_own_metadata(scripted):
    """A retriever of the core brings its own passages: a source must still say what page it is of."""
    from denoise_core import Passage
    from denoise_core.augmenter.knowledge import ChainRetriever

    tower = Passage("The red tower is in Porto.", "a", metadata={"title": "Tower", "tags": ("x", "y")})
    town = Passage("Porto has a mayor.", "b", metadata={"title": "Porto"})
    engine = AugmentedQueryEngine(
        Augmenter(LlamaLLM(scripted(lambda m: "The red tower is in Porto. [1]")), ChainRetriever([tower, town]))
    )
    found = {n.node.node_id: n.node.metadata for n in engine.query("Where is the red tower?").source_nodes}
    assert {i: m["title"] for i, m in found.items()} == {"a": "Tower", "b": "Porto"}
    assert found["b"]["chain"]["path"] == ["a", "b"], "which chain brought it"
    assert json.loads(json.dumps(found)) == found
