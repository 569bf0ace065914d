"""The shapes of RAG that LangChain documents: in each, the evidence is found and the answer judged by it."""

import itertools
from typing import Any, TypedDict

import pytest
from function_chat_model import FunctionChatModel
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    dynamic_prompt,
)
from langchain_agents import calls, cut_results
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough, chain
from langchain_core.tools import create_retriever_tool, tool
from langgraph.graph import START, MessagesState, StateGraph
from recorded_runs import RunRecorder

from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import S2AMessages, verified
from langchain_denoise.middleware import VerificationMiddleware

QUESTION = "When was the tower finished?"
FACT = "The tower was finished in 1889."
DOCUMENTS = [
    Document(page_content=f"{FACT} It is made of iron.", id="tower"),
    Document(page_content="Bananas are yellow.", id="fruit"),
]


def find(question: str) -> list[Document]:
    """A search that no callback sees, as `VectorStore.similarity_search`."""
    return DOCUMENTS


def join_texts(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


@pytest.fixture
def retriever(test_kit):
    return test_kit.ListRetriever(found=DOCUMENTS)


@pytest.fixture
def model():
    """Searches first where it has a tool, then states the fact."""

    class Model(FunctionChatModel):
        def bind_tools(self, tools, **kwargs):
            return self.bind(has_tools=True)

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            is_searching = kwargs.pop("has_tools", False)
            is_searching &= messages[-1].type == "human"
            self.reply = lambda _: (
                calls("search", query="tower") if is_searching else FACT
            )
            return super()._generate(messages, stop, run_manager, **kwargs)

    return Model(reply=lambda messages: FACT)


PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")


# Chains


def piped_chain(model, retriever):
    context = retriever | join_texts
    steps = {"context": context, "question": RunnablePassthrough()}
    return steps | PROMPT | model | StrOutputParser(), QUESTION


def assigned_chain(model, retriever):
    """`create_retrieval_chain`: the output has the documents."""
    find_context = RunnableLambda(lambda state: find(state["input"]))
    write = RunnableLambda(lambda state: FACT)
    assigned = RunnablePassthrough.assign(context=find_context)
    return assigned.assign(answer=write), {"input": QUESTION}


def query_chain(model, retriever):
    """`RetrievalQA` with its source documents."""

    def run(state):
        return {"result": FACT, "source_documents": find(state["query"])}

    return RunnableLambda(run), {"query": QUESTION}


def function_chain(model, retriever):
    @chain
    def answer(question):
        documents = retriever.invoke(question)
        prompt = PROMPT.invoke({"context": documents, "question": question})
        return model.invoke(prompt)

    return answer, QUESTION


def conversational_chain(model, retriever):
    """A question rewritten from the conversation, then searched for."""
    rewrite = RunnableLambda(lambda state: state["messages"][-1].content) | retriever
    answer = RunnableLambda(lambda state: model.invoke(state["messages"]))
    whole = RunnablePassthrough.assign(context=rewrite).assign(answer=answer)
    messages = [HumanMessage("I like towers."), AIMessage("So do I.")]
    return whole, {"messages": [*messages, HumanMessage(QUESTION)]}


def two_step_graph(model, retriever):
    class State(TypedDict, total=False):
        question: str
        context: list[Document]
        answer: str

    graph = StateGraph(State)
    retrieve = ("retrieve", lambda state: {"context": find(state["question"])})
    graph.add_sequence([retrieve, ("generate", lambda state: {"answer": FACT})])
    graph.add_edge(START, "retrieve")
    return graph.compile(), {"question": QUESTION}


def agentic_graph(model, retriever):
    """Agentic RAG: a node that decides to search, a `ToolNode`, a node that answers."""
    from langgraph.prebuilt import ToolNode

    search = create_retriever_tool(retriever, "search", "Searches.")
    graph = StateGraph(MessagesState)
    decide = ("decide", lambda state: {"messages": [calls("search", query="tower")]})
    answer = ("answer", lambda state: {"messages": [AIMessage(FACT)]})
    graph.add_sequence([decide, ("retrieve", ToolNode([search])), answer])
    graph.add_edge(START, "decide")
    return graph.compile(), {"messages": [HumanMessage(QUESTION)]}


CHAINS = [
    piped_chain,
    assigned_chain,
    query_chain,
    function_chain,
    conversational_chain,
    two_step_graph,
    agentic_graph,
]


@pytest.mark.parametrize("shape", CHAINS)
def test_chains(shape, model, retriever):
    runnable, chain_input = shape(model, retriever)
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


def documents_tool(retriever):
    """The retrieval tool of LangChain's RAG agent: text for the model, documents kept."""

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Searches."""
        return join_texts(DOCUMENTS), DOCUMENTS

    return {"tools": [search]}


def retriever_tool(retriever):
    return {"tools": [create_retriever_tool(retriever, "search", "Searches.")]}


def text_tool(retriever):
    @tool
    def search(query: str) -> str:
        """Searches."""
        return join_texts(DOCUMENTS)

    return {"tools": [search]}


def prompt_with_context(retriever):
    """LangChain's RAG chain in one call: documents in a dynamic system prompt."""

    @dynamic_prompt
    def prompt(request):
        return f"Use this context:\n\n{join_texts(find(QUESTION))}"

    return {"tools": [], "middleware": [prompt], "evidence": "prompt"}


def state_with_context(retriever):
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


AGENTS = [
    documents_tool,
    retriever_tool,
    text_tool,
    prompt_with_context,
    state_with_context,
]


@pytest.mark.parametrize(
    "is_outside",
    [True, False],
    ids=["outside", "inside"],
)
@pytest.mark.parametrize("shape", AGENTS)
def test_agents_in_either_order_of_middleware(shape, model, retriever, is_outside):
    settings = shape(retriever)
    checker = VerificationMiddleware(evidence=settings.pop("evidence", "turn"))
    others = settings.pop("middleware", [])
    middleware = [checker, *others] if is_outside else [*others, checker]
    agent = create_agent(model, **settings, middleware=middleware)
    answer = agent.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1]
    record = answer.response_metadata["denoise"]
    assert record["evidence"]
    assert record["outcome"] == "supported"


def test_twelve_shapes():
    assert len(CHAINS) + len(AGENTS) == 12


@pytest.mark.parametrize(
    "order",
    list(itertools.permutations(range(3))),
    ids=str,
)
def test_what_others_cut_and_clear_changes_no_verdict(order, model, retriever):
    """A cut result and a cleared one are judged as the tool returned them."""

    def by_fruit(query, text):
        return float("yellow" in text)

    edit = ClearToolUsesEdit(trigger=1, keep=0)
    parts = [
        VerificationMiddleware(),
        cut_results(
            ENDDenoiser(FunctionScorer(by_fruit), keep=1),
            where="view",
            tools=["search"],
        ),
        ContextEditingMiddleware(edits=[edit]),
    ]
    agent = create_agent(
        model, **text_tool(retriever), middleware=[parts[place] for place in order]
    )
    answer = agent.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1]
    assert answer.response_metadata["denoise"]["outcome"] == "supported"


def test_an_answer_without_evidence_is_heard_and_not_written_again(model, caplog):
    from denoise_core.runtime import fallbacks

    fallbacks._counts.clear()
    agent = create_agent(model, [], middleware=[VerificationMiddleware()])
    answer = agent.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1]
    assert answer.text == FACT
    record = answer.response_metadata["denoise"]
    assert (record["outcome"], record["stopped_because"]) == ("unknown", "no_evidence")
    assert len(model.calls) == 1
    assert "no evidence in tools' results, nor under context" in caplog.text


# Spellings of messages


SPELLINGS = [
    [HumanMessage(QUESTION)],
    [("user", QUESTION)],
    [{"role": "user", "content": QUESTION}],
    [QUESTION],
]


@pytest.mark.parametrize(
    "messages",
    SPELLINGS,
    ids=["object", "pair", "dict", "text"],
)
def test_four_spellings_are_read_everywhere(messages, model, retriever):
    def run(state):
        return {"answer": FACT, "context": DOCUMENTS}

    checked = verified(RunnableLambda(run)).invoke({"messages": messages})
    assert checked["denoise"]["outcome"] == "supported"
    agent = create_agent(
        model, **text_tool(retriever), middleware=[VerificationMiddleware()]
    )
    answer = agent.invoke({"messages": messages})["messages"][-1]
    assert answer.response_metadata["denoise"]["outcome"] == "supported"
    [message] = S2AMessages(model=model).invoke({"messages": messages})
    assert message.text == QUESTION
    assert not isinstance(message, SystemMessage)
