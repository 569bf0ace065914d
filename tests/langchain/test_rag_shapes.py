"""The shapes of RAG that LangChain documents: in each, the evidence is found and the answer judged by it."""

import itertools
from typing import Any, TypedDict

import pytest
from chain_parts import ListRetriever, chat
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    dynamic_prompt,
)
from langchain_agents import calls, cut_results, keep_only
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough, chain
from langchain_core.tools import create_retriever_tool, tool
from langgraph.graph import START, MessagesState, StateGraph
from recorded_runs import RunRecorder

from langchain_denoise import S2AMessages, verified
from langchain_denoise.middleware import VerificationMiddleware

QUESTION = "When was the tower finished?"
ASKED = [HumanMessage(QUESTION)]
FACT = "The tower was finished in 1889."
DOCUMENTS = [
    Document(page_content=f"{FACT} It is made of iron.", id="tower"),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def find(question):
    """A search that no callback sees, as `VectorStore.similarity_search`."""
    return DOCUMENTS


def join_texts(documents):
    return "\n\n".join(document.page_content for document in documents)


RETRIEVER = ListRetriever(found=DOCUMENTS)


@pytest.fixture
def model():
    return chat(lambda messages: FACT)


@pytest.fixture
def searching_model():
    return chat(
        lambda messages: (
            calls("search", query="tower") if messages[-1].type == "human" else FACT
        )
    )


def answer_of(agent):
    answer = agent.invoke({"messages": ASKED})["messages"][-1]
    return answer.text, answer.response_metadata["denoise"]


PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")


# Chains


def piped_chain(model):
    context = RETRIEVER | join_texts
    steps = {"context": context, "question": RunnablePassthrough()}
    return steps | PROMPT | model | StrOutputParser(), QUESTION


def assigned_chain(model):
    """`create_retrieval_chain`: the output has the documents."""
    find_context = RunnableLambda(lambda state: find(state["input"]))
    write = RunnableLambda(lambda state: FACT)
    assigned = RunnablePassthrough.assign(context=find_context)
    return assigned.assign(answer=write), {"input": QUESTION}


def query_chain(model):
    """`RetrievalQA` with its source documents."""

    def run(state):
        return {"result": FACT, "source_documents": find(state["query"])}

    return RunnableLambda(run), {"query": QUESTION}


def function_chain(model):
    @chain
    def answer(question):
        documents = RETRIEVER.invoke(question)
        prompt = PROMPT.invoke({"context": documents, "question": question})
        return model.invoke(prompt)

    return answer, QUESTION


def conversational_chain(model):
    """A question rewritten from the conversation, then searched for."""
    rewrite = RunnableLambda(lambda state: state["messages"][-1].content) | RETRIEVER
    answer = RunnableLambda(lambda state: model.invoke(state["messages"]))
    whole = RunnablePassthrough.assign(context=rewrite).assign(answer=answer)
    messages = [HumanMessage("I like towers."), AIMessage("So do I.")]
    return whole, {"messages": messages + ASKED}


def two_step_graph(model):
    class State(TypedDict, total=False):
        question: str
        context: list[Document]
        answer: str

    graph = StateGraph(State)
    retrieve = ("retrieve", lambda state: {"context": find(state["question"])})
    graph.add_sequence([retrieve, ("generate", lambda state: {"answer": FACT})])
    graph.add_edge(START, "retrieve")
    return graph.compile(), {"question": QUESTION}


def agentic_graph(model):
    """Agentic RAG: a node that decides to search, a `ToolNode`, a node that answers."""
    from langgraph.prebuilt import ToolNode

    search = create_retriever_tool(RETRIEVER, "search", "Searches.")
    graph = StateGraph(MessagesState)
    decide = ("decide", lambda state: {"messages": [calls("search", query="tower")]})
    answer = ("answer", lambda state: {"messages": [AIMessage(FACT)]})
    graph.add_sequence([decide, ("retrieve", ToolNode([search])), answer])
    graph.add_edge(START, "decide")
    return graph.compile(), {"messages": ASKED}


@pytest.mark.parametrize(
    "shape",
    [
        piped_chain,
        assigned_chain,
        query_chain,
        function_chain,
        conversational_chain,
        two_step_graph,
        agentic_graph,
    ],
)
def test_chains(shape, model):
    runnable, chain_input = shape(model)
    recorder = RunRecorder()
    checked_chain = verified(runnable)
    checked_chain.invoke(chain_input, {"callbacks": [recorder]})
    [(_, record, _)] = recorder.events
    assert record["evidence"]
    assert record["outcome"] == "supported"
    *_, event = checked_chain.stream_checked(chain_input)
    assert any("1889" in passage.text for passage in event.answer.memory.evidence)
    assert event.answer.outcome == "supported"


# Agents


def documents_tool():
    """The retrieval tool of LangChain's RAG agent: text for the model, documents kept."""

    @tool(response_format="content_and_artifact")
    def search(query: str):
        """Searches."""
        return join_texts(DOCUMENTS), DOCUMENTS

    return {"tools": [search]}


def retriever_tool():
    return {"tools": [create_retriever_tool(RETRIEVER, "search", "Searches.")]}


def text_tool():
    @tool
    def search(query: str):
        """Searches."""
        return join_texts(DOCUMENTS)

    return {"tools": [search]}


def prompt_with_context():
    """LangChain's RAG chain in one call: documents in a dynamic system prompt."""

    @dynamic_prompt
    def prompt(request):
        return f"Use this context:\n\n{join_texts(find(QUESTION))}"

    return {"tools": [], "middleware": [prompt], "evidence": "prompt"}


def state_with_context():
    """LangChain's RAG chain with its source documents: a middleware puts them into the state."""

    class State(AgentState):
        context: list[Document]

    class Retrieve(AgentMiddleware[State, Any]):
        state_schema = State

        def before_model(self, state, runtime):
            message = state["messages"][-1]
            content = f"{message.text}\n\nContext:\n{join_texts(find(message.text))}"
            update = {"content": content}
            return {
                "messages": [message.model_copy(update=update)],
                "context": DOCUMENTS,
            }

    return {"tools": [], "middleware": [Retrieve()]}


@pytest.mark.parametrize(
    "is_outside",
    [True, False],
)
@pytest.mark.parametrize(
    "shape",
    [
        documents_tool,
        retriever_tool,
        text_tool,
        prompt_with_context,
        state_with_context,
    ],
)
def test_agents_in_either_order_of_middleware(
    shape, model, searching_model, is_outside
):
    settings = shape()
    checker = VerificationMiddleware(evidence=settings.pop("evidence", "turn"))
    others = settings.pop("middleware", [])
    middleware = [checker, *others] if is_outside else [*others, checker]
    writer = searching_model if settings["tools"] else model
    _, record = answer_of(create_agent(writer, **settings, middleware=middleware))
    assert record["evidence"]
    assert record["outcome"] == "supported"


@pytest.mark.parametrize(
    ("shape", "evidence", "cited_ids"),
    [
        (state_with_context, "turn", ["tower"]),
        (prompt_with_context, lambda messages: DOCUMENTS, ["tower"]),
        (prompt_with_context, "prompt", []),
    ],
)
def test_a_number_counts_the_documents_unless_others_number_them(
    shape, evidence, cited_ids
):
    model = chat(lambda messages: f"{FACT} [1]")
    checker = VerificationMiddleware(evidence=evidence)
    agent = create_agent(model, [], middleware=[checker, *shape()["middleware"]])
    assert answer_of(agent)[1]["citations"] == cited_ids


@pytest.mark.parametrize(
    "order",
    itertools.permutations(range(3)),
)
def test_what_others_cut_and_clear_changes_no_verdict(order, searching_model):
    """A cut result and a cleared one are judged as the tool returned them."""
    edit = ClearToolUsesEdit(trigger=1, keep=0)
    parts = [
        VerificationMiddleware(),
        cut_results(keep_only("yellow"), where="view", tools=["search"]),
        ContextEditingMiddleware(edits=[edit]),
    ]
    agent = create_agent(
        searching_model,
        **text_tool(),
        middleware=[parts[place] for place in order],
    )
    assert answer_of(agent)[1]["outcome"] == "supported"


def test_an_answer_without_evidence_is_heard_and_not_written_again(model, caplog):
    agent = create_agent(model, [], middleware=[VerificationMiddleware()])
    text, record = answer_of(agent)
    assert text == FACT
    assert (record["outcome"], record["stopped_because"]) == ("unknown", "no_evidence")
    assert len(model.calls) == 1
    assert "no evidence in tools' results, nor under context" in caplog.text


# Spellings of messages


@pytest.mark.parametrize(
    "messages",
    [
        ASKED,
        [("user", QUESTION)],
        [{"role": "user", "content": QUESTION}],
        [QUESTION],
    ],
)
def test_four_spellings_are_read_everywhere(messages, model):
    def run(state):
        return {"answer": FACT, "context": DOCUMENTS}

    checked = verified(RunnableLambda(run)).invoke({"messages": messages})
    assert checked["denoise"]["outcome"] == "supported"
    [message] = S2AMessages(model=model).invoke({"messages": messages})
    assert message.text == QUESTION
    assert not isinstance(message, SystemMessage)
