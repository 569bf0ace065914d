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
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.chat_engine import CondenseQuestionChatEngine
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
    NLSQLTableQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    BaseRetriever,
    QueryFusionRetriever,
)
from llama_index.core.schema import Document, ImageNode, NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool
from llamaindex_engines import QUESTION, RIGHT, WRONG, Fixed, always, inner, nodes
from pydantic import BaseModel

from denoise_core import InputError
from denoise_core.augmenter import Augmenter
from llamaindex_denoise import AugmentedQueryEngine, Checked, LlamaLLM
from llamaindex_denoise.models.retriever import LlamaRetriever


def outcome(response):
    return response.metadata["denoise"]["outcome"]


def checked(make, question=QUESTION):
    """The response, after checking that sync and async agree on the outcome and the text."""
    sync = Checked(make()).query(question)
    later = asyncio.run(Checked(make()).aquery(question))
    assert (str(sync), outcome(sync)) == (str(later), outcome(later))
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
    said = llm(always("The red tower was built in 1755 in Lisbon."))
    return TransformQueryEngine(inner(llm(always(RIGHT))), HyDEQueryTransform(llm=said))


def fusion(llm):
    made = QueryFusionRetriever(
        [Fixed(nodes())],
        llm=llm(always("red tower place\nred tower city")),
        use_async=False,
    )
    return inner(llm(always(RIGHT)), made)


def merging(llm):
    documents = [Document(text=n.node.text * 4, id_=n.node.node_id) for n in nodes()]
    parsed = HierarchicalNodeParser.from_defaults([128, 32])(documents)
    store = SimpleDocumentStore()
    store.add_documents(parsed)
    storage = StorageContext.from_defaults(docstore=store)
    index = VectorStoreIndex(
        get_leaf_nodes(parsed), embed_model=MockEmbedding(4), storage_context=storage
    )
    # Every similarity is the same and the ids are random, so the passages' order is: an answer that cites "[1]"
    # would be right in some orders only.
    said = llm(always("The red tower is in Porto."))
    return inner(
        said, AutoMergingRetriever(index.as_retriever(similarity_top_k=9), storage)
    )


def graph(llm):
    class Facts(CustomPGRetriever):
        def init(self, **kwargs):
            pass

        def custom_retrieve(self, query_str):
            return "The red tower is in Porto."

    retriever = Facts(SimplePropertyGraphStore())
    return inner(llm(always(RIGHT)), retriever)


SUPPORTED = {
    "router": router,
    "citation": citation,
    "HyDE": hyde,
    "fusion": fusion,
    "auto-merging": merging,
    "property graph": graph,
}


@pytest.mark.parametrize("name", SUPPORTED)
def test_a_right_answer_is_supported(scripted, name):
    assert outcome(checked(lambda: SUPPORTED[name](scripted))) == "supported"


def test_what_can_only_be_asked_whole_is_asked_once(scripted):
    asked = []
    engine = router(lambda reply: scripted(lambda m: asked.append(m) or reply(m)))
    Checked(engine).query(QUESTION)
    assert len(asked) <= 2


def sub_question(llm, answer):
    plan = json.dumps([{"sub_question": "Where is it?", "tool_name": "towers"}])
    made = LLMQuestionGenerator.from_defaults(llm=llm(always(plan)))
    engine = inner(llm(always(answer)))
    synth = get_response_synthesizer(llm=llm(always(answer)))
    return SubQuestionQueryEngine(made, synth, [tool(engine)], use_async=False)


def test_sub_questions_answers_are_no_evidence(scripted):
    right = Checked(sub_question(scripted, RIGHT)).query(QUESTION)
    assert outcome(right) == "supported"
    made_up = Checked(sub_question(scripted, WRONG)).query(QUESTION)
    assert outcome(made_up) == "unsupported", (
        "its own sub-answer was taken for evidence"
    )


def multi_step(llm, answer):
    asks = StepDecomposeQueryTransform(llm=llm(always(QUESTION)))
    synth = get_response_synthesizer(llm=llm(always(answer)))
    return MultiStepQueryEngine(
        inner(llm(always(answer))), asks, synth, index_summary="towers", num_steps=1
    )


def test_steps_answers_are_no_evidence(scripted):
    assert outcome(checked(lambda: multi_step(scripted, RIGHT))) == "supported"
    made_up = Checked(multi_step(scripted, WRONG)).query(QUESTION)
    assert outcome(made_up) == "unsupported", (
        "the answer of a step was taken for evidence"
    )


def test_a_sentence_window_is_read_whole(scripted):
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    said = "There is a red tower. It is in Porto. Bread is cheap."
    index = VectorStoreIndex(
        parser.get_nodes_from_documents([Document(text=said)]),
        embed_model=MockEmbedding(4),
    )
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    llm = scripted(always("There is a red tower. It is in Porto."))
    settings = {"llm": llm, "node_postprocessors": [window], "similarity_top_k": 3}
    assert outcome(checked(lambda: index.as_query_engine(**settings))) == "supported"


def test_an_engine_without_evidence_passes_its_answer_on(scripted):
    class Says(CustomQueryEngine):
        def custom_query(self, query_str):
            return WRONG

    response = checked(Says)
    assert (str(response), outcome(response)) == (WRONG, "unknown")


async def test_a_react_agent_is_told_the_verdict_by_its_tool(scripted):
    unsure = inner(scripted(always(WRONG)))
    tower = Checked(
        QueryEngineTool.from_defaults(unsure, name="towers", description="about towers")
    )
    seen = []

    def reply(messages):
        seen.append(messages[-1].content or "")
        if "Observation" in seen[-1]:
            return "Thought: I can answer.\nAnswer: Nobody confirmed it."
        return 'Thought: I look it up.\nAction: towers\nAction Input: {"input": "Where is the red tower?"}'

    agent = ReActAgent(tools=[tower], llm=scripted(reply), streaming=False)
    assert str(await agent.run(QUESTION)) == "Nobody confirmed it."
    assert "(unsupported: this answer was not confirmed by its sources)" in seen[-1]


class Answered(BaseModel):
    city: str
    year: int


def structured(llm, said):
    class Fields(BaseRetriever):
        def _retrieve(self, query_bundle):
            return [
                NodeWithScore(
                    node=TextNode(
                        text="The red tower is in Porto. It was built in 1889."
                    ),
                    score=1.0,
                )
            ]

    return RetrieverQueryEngine.from_args(
        Fields(), llm=llm(always(said)), output_cls=Answered
    )


@pytest.mark.parametrize(
    ("year", "expected"), [(1889, "supported"), (1755, "unsupported")]
)
def test_structured_output_comes_back_as_the_object_and_is_checked(
    scripted, year, expected
):
    response = Checked(
        structured(scripted, json.dumps({"city": "Porto", "year": year}))
    ).query(QUESTION)
    assert isinstance(response, PydanticResponse)
    assert response.response.year == year
    assert response.response.city == "Porto"
    assert outcome(response) == expected


def sql(llm):
    made = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    with made.begin() as connection:
        connection.execute(
            sqlalchemy.text("create table towers (name text, city text)")
        )
        connection.execute(
            sqlalchemy.text("insert into towers values ('red tower', 'Porto')")
        )
    replies = llm(
        lambda m: (
            "SELECT name, city FROM towers" if "SQLQuery" in m[-1].content else RIGHT
        )
    )
    return NLSQLTableQueryEngine(
        SQLDatabase(made), tables=["towers"], llm=replies, embed_model=MockEmbedding(4)
    )


def test_rows_of_a_database_are_evidence(scripted):
    response = Checked(sql(scripted)).query(QUESTION)
    assert outcome(response) == "supported", response.metadata["denoise"]["attempts"]


def test_a_caption_is_evidence(scripted):
    picture = ImageNode(
        text="The red tower is in Porto.", image_url="https://example.org/a.png"
    )
    engine = inner(
        scripted(always(RIGHT)), Fixed([NodeWithScore(node=picture, score=1.0)])
    )
    assert outcome(Checked(engine).query(QUESTION)) == "supported"


@pytest.mark.parametrize("how", ["draft", "checked"])
async def test_condense_chat_without_a_stream_over_an_engine_that_streams(
    scripted, how
):
    ours = Checked(inner(scripted(always(RIGHT)), streaming=True), streaming=how)
    chat = CondenseQuestionChatEngine.from_defaults(
        ours, llm=scripted(always(QUESTION))
    )
    assert str(await chat.achat(QUESTION)) == RIGHT


@pytest.mark.parametrize("how", ["draft", "checked"])
def test_both_ways_to_stream_end_with_the_answer(scripted, how):
    said = "The red tower is in Porto. Bread is cheap there."
    engine = inner(scripted(always(said)), streaming=True)
    response = Checked(engine, streaming=how).query(QUESTION)
    assert "".join(response.response_gen).strip() == said
    assert outcome(response) == "supported"


def test_from_args_takes_what_llamaindex_has(scripted):
    engine = AugmentedQueryEngine.from_args(Fixed(nodes()), llm=scripted(always(RIGHT)))
    assert outcome(engine.query(QUESTION)) == "supported"
    with pytest.raises(InputError, match="no default is resolved"):
        AugmentedQueryEngine.from_args(Fixed(nodes()))


def test_the_answer_can_be_had_with_its_trace(scripted):
    engine = Checked(inner(scripted(always(RIGHT))))
    answer = engine.answer(QUESTION)
    assert answer.outcome == "supported"
    assert any(e.tag == "draft" for e in answer.trace.events)


def test_a_retriever_or_model_handed_over_unwrapped_is_named(scripted):
    with pytest.raises(
        (InputError, TypeError), match=r"LlamaRetriever|Retriever|retriever"
    ):
        Augmenter(LlamaLLM(scripted(always(RIGHT))), Fixed(nodes()))
    with pytest.raises(InputError, match="expected a llama_index retriever"):
        LlamaRetriever(scripted(always(RIGHT)))
