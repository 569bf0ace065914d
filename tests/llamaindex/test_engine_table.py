"""LlamaIndex's engines and agents with our check around them: what each row of the table in the docs says."""

import asyncio
import json

import pytest
import sqlalchemy
from llama_index.core import (
    MockEmbedding,
    SQLDatabase,
    StorageContext,
    VectorStoreIndex,
    get_response_synthesizer,
)
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.chat_engine import CondenseQuestionChatEngine, SimpleChatEngine
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
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    MultiStepQueryEngine,
    NLSQLTableQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
)
from llama_index.core.schema import Document, ImageNode, NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool
from llamaindex_engines import (
    QUESTION,
    RIGHT,
    WRONG,
    Fixed,
    always,
    inner,
    nodes,
    outcome_of,
)
from pydantic import BaseModel

from denoise_core import InputError
from llamaindex_denoise import Checked


def checked(make, question=QUESTION):
    """The response, after checking that sync and async agree on the outcome and the text."""
    sync = Checked(make()).query(question)
    later = asyncio.run(Checked(make()).aquery(question))
    assert str(sync) == str(later)
    assert outcome_of(sync) == outcome_of(later)
    return sync


def tool(engine, name="towers"):
    return QueryEngineTool.from_defaults(engine, name=name, description="about towers")


def router(llm):
    choose = llm(always('[{"choice": 1, "reason": "towers"}]'))
    return RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=choose),
        query_engine_tools=[tool(inner(llm(always(RIGHT))))],
        llm=choose,
    )


def citation(llm):
    return CitationQueryEngine.from_args(
        None, retriever=Fixed(nodes()), llm=llm(always(RIGHT))
    )


def hyde(llm):
    reply_text = llm(always("The red tower was built in 1755 in Lisbon."))
    return TransformQueryEngine(
        inner(llm(always(RIGHT))), HyDEQueryTransform(llm=reply_text)
    )


def fusion(llm):
    built = QueryFusionRetriever(
        [Fixed(nodes())],
        llm=llm(always("red tower place\nred tower city")),
        use_async=False,
    )
    return inner(llm(always(RIGHT)), built)


def merging(llm):
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
    reply_text = llm(always("The red tower is in Porto."))
    return inner(
        reply_text,
        AutoMergingRetriever(index.as_retriever(similarity_top_k=9), storage),
    )


def graph(llm):
    class Facts(CustomPGRetriever):
        def init(self, **kwargs):
            pass

        def custom_retrieve(self, query_str):
            return "The red tower is in Porto."

    retriever = Facts(SimplePropertyGraphStore())
    return inner(llm(always(RIGHT)), retriever)


def sub_question(llm, answer=RIGHT):
    plan = json.dumps([{"sub_question": "Where is it?", "tool_name": "towers"}])
    built = LLMQuestionGenerator.from_defaults(llm=llm(always(plan)))
    engine = inner(llm(always(answer)))
    synth = get_response_synthesizer(llm=llm(always(answer)))
    return SubQuestionQueryEngine(built, synth, [tool(engine)], use_async=False)


def multi_step(llm, answer=RIGHT):
    asks = StepDecomposeQueryTransform(llm=llm(always(QUESTION)))
    synth = get_response_synthesizer(llm=llm(always(answer)))
    return MultiStepQueryEngine(
        inner(llm(always(answer))), asks, synth, index_summary="towers", num_steps=1
    )


def sentence_window(llm):
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    text = "There is a red tower. It is in Porto. Bread is cheap."
    parsed = parser.get_nodes_from_documents([Document(text=text)])
    index = VectorStoreIndex(parsed, embed_model=MockEmbedding(4))
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    return index.as_query_engine(
        llm=llm(always("There is a red tower. It is in Porto.")),
        node_postprocessors=[window],
        similarity_top_k=3,
    )


def caption(llm):
    picture = ImageNode(
        text="The red tower is in Porto.", image_url="https://example.org/a.png"
    )
    found = Fixed([NodeWithScore(node=picture, score=1.0)])
    return inner(llm(always(RIGHT)), found)


def sql(llm):
    built = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    with built.begin() as connection:
        connection.execute(
            sqlalchemy.text("create table towers (name text, city text)")
        )
        connection.execute(
            sqlalchemy.text("insert into towers values ('red tower', 'Porto')")
        )
    replies = llm(
        lambda messages: (
            "SELECT name, city FROM towers"
            if "SQLQuery" in messages[-1].content
            else RIGHT
        )
    )
    return NLSQLTableQueryEngine(
        SQLDatabase(built), tables=["towers"], llm=replies, embed_model=MockEmbedding(4)
    )


def hyde_around_router(llm):
    """An engine without a retrieval of its own is asked whole."""
    return TransformQueryEngine(
        router(llm), HyDEQueryTransform(llm=llm(always("Lisbon.")))
    )


SUPPORTED = {
    "router": router,
    "citation": citation,
    "HyDE": hyde,
    "fusion": fusion,
    "auto-merging": merging,
    "property graph": graph,
    "sub-questions": sub_question,
    "steps": multi_step,
    "sentence window": sentence_window,
    "caption": caption,
    "rows of a database": sql,
    "HyDE around a router": hyde_around_router,
}


@pytest.mark.parametrize("name", SUPPORTED)
def test_a_right_answer_is_supported(scripted_llm, name):
    assert outcome_of(checked(lambda: SUPPORTED[name](scripted_llm))) == "supported"


def test_what_can_only_be_asked_whole_is_asked_once(scripted_llm):
    seen_prompts = []
    engine = router(
        lambda reply: scripted_llm(
            lambda messages: seen_prompts.append(messages) or reply(messages)
        )
    )
    Checked(engine).query(QUESTION)
    assert len(seen_prompts) <= 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_query_transform_runs_once_whatever_the_drafts(scripted_llm, is_async):
    transforms = []
    drafts = []

    def transform(messages):
        transforms.append(messages)
        return "It is in Lisbon."

    def draft(messages):
        drafts.append(messages)
        return WRONG if len(drafts) == 1 else RIGHT

    engine = TransformQueryEngine(
        inner(scripted_llm(draft)), HyDEQueryTransform(llm=scripted_llm(transform))
    )
    ours = Checked(engine)
    response = asyncio.run(ours.aquery(QUESTION)) if is_async else ours.query(QUESTION)
    assert str(response) == RIGHT
    assert len(transforms) == 1
    assert len(drafts) == 2


def test_callbacks_see_one_query_event_as_of_llamaindexs_own(scripted_llm):
    handler = LlamaDebugHandler(print_trace_on_end=False)
    manager = CallbackManager([handler])
    engines = [inner(scripted_llm(always(RIGHT)), callback_manager=manager)]
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
def test_an_engines_own_answers_are_no_evidence(scripted_llm, make):
    made_up = Checked(make(scripted_llm, WRONG)).query(QUESTION)
    assert outcome_of(made_up) == "unsupported", "a step's answer was evidence"


def test_an_engine_without_evidence_passes_its_answer_on(scripted_llm):
    class Says(CustomQueryEngine):
        def custom_query(self, query_str):
            return WRONG

    response = checked(Says)
    assert str(response) == WRONG
    assert outcome_of(response) == "unknown"


class Answered(BaseModel):
    city: str
    year: int


def structured(llm, reply_text):
    node = TextNode(text="The red tower is in Porto. It was built in 1889.")
    found = Fixed([NodeWithScore(node=node, score=1.0)])
    return inner(llm(always(reply_text)), found, output_cls=Answered)


@pytest.mark.parametrize(
    ("year", "expected"), [(1889, "supported"), (1755, "unsupported")]
)
def test_structured_output_comes_back_as_the_object_and_is_checked(
    scripted_llm, year, expected
):
    response = Checked(
        structured(scripted_llm, json.dumps({"city": "Porto", "year": year}))
    ).query(QUESTION)
    assert isinstance(response, PydanticResponse)
    assert response.response.year == year
    assert response.response.city == "Porto"
    assert outcome_of(response) == expected


@pytest.mark.parametrize("how", ["draft", "checked"])
async def test_condense_chat_without_a_stream_over_an_engine_that_streams(
    scripted_llm, how
):
    ours = Checked(inner(scripted_llm(always(RIGHT)), streaming=True), streaming=how)
    chat = CondenseQuestionChatEngine.from_defaults(
        ours, llm=scripted_llm(always(QUESTION))
    )
    assert str(await chat.achat(QUESTION)) == RIGHT


class SaysFromMetadata(CustomQueryEngine):
    """Answers from rows that it puts into the response's metadata, not its sources."""

    def custom_query(self, query_str: str):
        return Response(
            RIGHT.removesuffix(" [1]"), [], {"rows": ["The red tower is in Porto."]}
        )


@pytest.mark.parametrize("as_node", [False, True])
def test_evidence_that_is_no_source_node_is_given_by_a_function(as_node):
    def rows(response):
        texts = response.metadata["rows"]
        if not as_node:
            return texts
        return [NodeWithScore(node=TextNode(text=text, id_="row")) for text in texts]

    def judge(question, evidence, claim):
        return any("Porto" in text for text in evidence)

    without = Checked(SaysFromMetadata(), judge=judge).query(QUESTION)
    assert outcome_of(without) == "unknown"
    engine = Checked(SaysFromMetadata(), judge=judge, evidence=rows)
    for response in (engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
        assert outcome_of(response) == "supported"
        [source] = response.source_nodes
        assert source.node.text == "The red tower is in Porto."
        assert response.metadata["rows"]


@pytest.mark.parametrize("value", ["The red tower is in Porto.", None, 3])
def test_evidence_that_is_no_list_is_refused(value):
    judge = {"judge": lambda question, evidence, claim: True}
    engine = Checked(SaysFromMetadata(), **judge, evidence=lambda response: value)
    with pytest.raises(InputError, match="expected a list of nodes or texts"):
        engine.query(QUESTION)


@pytest.mark.parametrize(
    "text",
    [
        "The red tower is in Porto.",
        "Question: where is the red tower?\nAnswer: in Porto.",
    ],
)
def test_evidence_of_a_chat_is_given_by_a_function(scripted_llm, text):
    chat = SimpleChatEngine.from_defaults(llm=scripted_llm(always(RIGHT)))
    judge = {"judge": lambda question, evidence, claim: "Porto" in str(evidence)}
    assert outcome_of(Checked(chat, **judge).chat(QUESTION)) == "unknown"
    checked_chat = Checked(chat, **judge, evidence=lambda response: [text])
    assert outcome_of(checked_chat.chat(QUESTION)) == "supported"


def test_the_prompts_of_the_wrapped_engine_are_listed_and_used(scripted_llm):
    llm = scripted_llm(always(RIGHT))
    engine = Checked(inner(llm))
    key = "response_synthesizer:text_qa_template"
    assert f"query_engine:{key}" in engine.get_prompts()
    template = PromptTemplate("Say it with flowers. {context_str} {query_str}")
    engine.query_engine.update_prompts({key: template})
    engine.query(QUESTION)
    assert "Say it with flowers." in llm.seen_prompts[0][-1].content
