"""LlamaIndex's engines and agents with our check around them: what each row of the table in the docs says."""

import asyncio
import json

import pytest
from llama_index.core import (
    MockEmbedding,
    StorageContext,
    VectorStoreIndex,
    get_response_synthesizer,
)
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.indices.property_graph import CustomPGRetriever
from llama_index.core.indices.query.query_transform import (
    HyDEQueryTransform,
    StepDecomposeQueryTransform,
)
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    MultiStepQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
)
from llama_index.core.schema import Document, ImageNode, NodeWithScore
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool
from llamaindex_denoisers import scored, sync_and_async
from llamaindex_doubles import scripted_llm
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    Fixed,
    inner,
    nodes,
    outcome_of,
)
from pydantic import BaseModel

from denoise_core import InputError
from llamaindex_denoise import Checked

FACT = "The red tower is in Porto."


def checked(make):
    """The response, after checking that sync and async agree on the outcome and the text."""
    sync = Checked(make()).query(QUESTION)
    later = asyncio.run(Checked(make()).aquery(QUESTION))
    assert str(sync) == str(later)
    assert outcome_of(sync) == outcome_of(later)
    return sync


def tool(engine):
    return QueryEngineTool.from_defaults(engine, name="towers", description="towers")


def router(reply=RIGHT):
    choose = scripted_llm('[{"choice": 1, "reason": "towers"}]')
    return RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=choose),
        query_engine_tools=[tool(inner(reply))],
        llm=choose,
    )


def citation():
    return CitationQueryEngine.from_args(
        None, retriever=Fixed(nodes()), llm=scripted_llm(RIGHT)
    )


def hyde():
    reply_text = scripted_llm(WRONG)
    return TransformQueryEngine(inner(RIGHT), HyDEQueryTransform(llm=reply_text))


def fusion():
    built = QueryFusionRetriever(
        [Fixed(nodes())],
        llm=scripted_llm("red tower place\nred tower city"),
        use_async=False,
    )
    return inner(RIGHT, built)


def merging():
    documents = [
        Document(text=hit.node.text * 4, id_=hit.node.node_id) for hit in nodes()
    ]
    parsed = HierarchicalNodeParser.from_defaults([128, 32])(documents)
    store = SimpleDocumentStore()
    store.add_documents(parsed)
    storage = StorageContext.from_defaults(docstore=store)
    index = VectorStoreIndex(
        get_leaf_nodes(parsed), embed_model=MockEmbedding(4), storage_context=storage
    )
    # Every similarity is the same and the ids are random, so the passages' order is: an answer that cites "[1]"
    # would be right in some orders only.
    retriever = AutoMergingRetriever(index.as_retriever(similarity_top_k=9), storage)
    return inner(FACT, retriever)


def graph():
    class Facts(CustomPGRetriever):
        def init(self, **kwargs):
            pass

        def custom_retrieve(self, query_str):
            return FACT

    return inner(RIGHT, Facts(SimplePropertyGraphStore()))


def sub_question(answer=RIGHT):
    plan = json.dumps([{"sub_question": "Where is it?", "tool_name": "towers"}])
    built = LLMQuestionGenerator.from_defaults(llm=scripted_llm(plan))
    engine = inner(answer)
    synth = get_response_synthesizer(llm=scripted_llm(answer))
    return SubQuestionQueryEngine(built, synth, [tool(engine)], use_async=False)


def multi_step(answer=RIGHT):
    asks = StepDecomposeQueryTransform(llm=scripted_llm(QUESTION))
    synth = get_response_synthesizer(llm=scripted_llm(answer))
    return MultiStepQueryEngine(
        inner(answer), asks, synth, index_summary="towers", num_steps=1
    )


def sentence_window():
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    text = "There is a red tower. It is in Porto. Bread is cheap."
    parsed = parser.get_nodes_from_documents([Document(text=text)])
    index = VectorStoreIndex(parsed, embed_model=MockEmbedding(4))
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    return index.as_query_engine(
        llm=scripted_llm("There is a red tower. It is in Porto."),
        node_postprocessors=[window],
        similarity_top_k=3,
    )


def caption():
    picture = ImageNode(text=FACT, image_url="https://example.org/a.png")
    return inner(RIGHT, Fixed([NodeWithScore(node=picture, score=1.0)]))


def hyde_around_router():
    """An engine without a retrieval of its own is asked whole."""
    return TransformQueryEngine(
        router(), HyDEQueryTransform(llm=scripted_llm("Lisbon."))
    )


@pytest.mark.parametrize(
    "make",
    [
        router,
        citation,
        hyde,
        fusion,
        merging,
        graph,
        sub_question,
        multi_step,
        sentence_window,
        caption,
        hyde_around_router,
    ],
)
def test_a_right_answer_is_supported(make):
    assert outcome_of(checked(make)) == "supported"


def test_what_can_only_be_asked_whole_is_asked_once():
    drafts = []
    engine = router(lambda messages: drafts.append(messages) or RIGHT)
    assert str(Checked(engine).query(QUESTION)) == RIGHT
    assert len(drafts) == 1


@sync_and_async
def test_a_query_transform_runs_once_whatever_the_drafts(sync):
    transforms, drafts = [], []

    def transform(messages):
        transforms.append(messages)
        return "It is in Lisbon."

    def draft(messages):
        drafts.append(messages)
        return WRONG if len(drafts) == 1 else RIGHT

    hypothesis = HyDEQueryTransform(llm=scripted_llm(transform))
    ours = Checked(TransformQueryEngine(inner(draft), hypothesis))
    response = ours.query(QUESTION) if sync else asyncio.run(ours.aquery(QUESTION))
    assert str(response) == RIGHT
    assert len(transforms) == 1
    assert len(drafts) == 2


def test_callbacks_see_one_query_event_as_of_llamaindexs_own():
    handler = LlamaDebugHandler(print_trace_on_end=False)
    manager = CallbackManager([handler])
    engines = [inner(RIGHT, callback_manager=manager)]
    engines.append(Checked(engines[0]))
    for engine in engines:
        handler.flush_event_logs()
        response = engine.query(QUESTION)
        asyncio.run(engine.aquery(QUESTION))
        pairs = handler.get_event_pairs(CBEventType.QUERY)
        for start, end in pairs:
            assert start.payload[EventPayload.QUERY_STR] == QUESTION
            assert str(end.payload[EventPayload.RESPONSE]) == str(response)
        assert len(pairs) == 2


@pytest.mark.parametrize("make", [sub_question, multi_step])
def test_an_engines_own_answers_are_no_evidence(make):
    made_up = Checked(make(WRONG)).query(QUESTION)
    assert outcome_of(made_up) == "unsupported", "a step's answer was evidence"


@pytest.mark.parametrize(
    ("start", "outcome"),
    [
        ("Sub question: Where?\nResponse", "unknown"),
        ("\nQuestion: Where?\nAnswer", "unknown"),
        (f"Query: {QUESTION}\nResponse", "unknown"),
        ("Question: Where?\nAnswer", "supported"),  # a page of the user's
    ],
)
def test_what_a_model_wrote_is_no_evidence_whatever_its_score(start, outcome):
    answered = scored(f"{start}: {FACT}", 0.9, metadata={"page": 1})
    response = Checked(inner(FACT, Fixed([answered]))).query(QUESTION)
    assert outcome_of(response) == outcome


def test_an_engine_without_evidence_passes_its_answer_on():
    class Says(CustomQueryEngine):
        def custom_query(self, query_str):
            return WRONG

    response = checked(Says)
    assert str(response) == WRONG
    assert outcome_of(response) == "unknown"


class Answered(BaseModel):
    city: str
    year: int


@pytest.mark.parametrize(
    ("year", "expected"), [(1889, "supported"), (1755, "unsupported")]
)
def test_structured_output_comes_back_as_the_object_and_is_checked(year, expected):
    found = Fixed([scored("The red tower is in Porto. It was built in 1889.", 1.0)])
    answer = Answered(city="Porto", year=year)
    text = answer.model_dump_json()
    response = Checked(inner(text, found, output_cls=Answered)).query(QUESTION)
    assert isinstance(response, PydanticResponse)
    assert response.response == answer
    assert outcome_of(response) == expected
    llm = scripted_llm(text).as_structured_llm(Answered)
    streamed = Checked(inner(llm, found), streaming="draft").query(QUESTION)
    assert "".join(streamed.response_gen) == text
    assert outcome_of(streamed) == expected


class SaysFromMetadata(CustomQueryEngine):
    """Answers from rows that it puts into the response's metadata, not its sources."""

    def custom_query(self, query_str):
        return Response(FACT, [], {"rows": [FACT]})


@pytest.mark.parametrize("as_node", [False, True])
def test_evidence_that_is_no_source_node_is_given_by_a_function(as_node):
    def rows(response):
        texts = response.metadata["rows"]
        return [scored(text, id_="row") for text in texts] if as_node else texts

    without = Checked(SaysFromMetadata()).query(QUESTION)
    assert outcome_of(without) == "unknown"
    engine = Checked(SaysFromMetadata(), evidence=rows)
    for response in (engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
        assert outcome_of(response) == "supported"
        [source] = response.source_nodes
        assert source.node.text == FACT
        assert response.metadata["rows"]


@pytest.mark.parametrize("value", [FACT, None, 3])
def test_evidence_that_is_no_list_is_refused(value):
    engine = Checked(SaysFromMetadata(), evidence=lambda response: value)
    with pytest.raises(InputError, match="expected a list of nodes or texts"):
        engine.query(QUESTION)
