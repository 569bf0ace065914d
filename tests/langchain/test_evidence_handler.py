"""Evidence and usage from a run's own callbacks, whatever the chain's shape; feedback to no search."""

from function_chat_model import FunctionChatModel
from langchain_agents import both_ways, checked_events, run
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool

from langchain_denoise import DenoisingRetriever, Verifier, verified
from langchain_denoise.verification.evidence import EvidenceHandler

TOWER = "The Eiffel Tower was completed in 1889 by the company of Gustave Eiffel."
LIE = "It was completed in 1912 by Otto Brenner, in the Grand Hall."
QUESTION = "When was the Eiffel Tower completed?"
PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")


class Searching(BaseRetriever):
    """Finds the tower whatever it is asked for, and tells what that was."""

    queries: list[str]

    def _get_relevant_documents(self, query, *, run_manager):
        self.queries.append(query)
        return [Document(page_content=TOWER, id="tower")]


def chain_of(retriever, model):
    """The usual chain: what is found and the question go into a prompt."""
    context = retriever | (lambda documents: documents[0].page_content)
    steps = {"context": context, "question": RunnablePassthrough()}
    return steps | PROMPT | model


def until_told(messages):
    return TOWER if any(message.type == "ai" for message in messages) else LIE


@both_ways
async def test_text_to_text_is_judged_by_what_it_searched_and_told_in_the_right_place(
    is_sync,
):
    """It could not be judged without a function that searches again, and searched for its own rejected draft."""
    retriever = Searching(queries=[])
    model = FunctionChatModel(reply=until_told)
    chain = chain_of(retriever, model) | StrOutputParser()
    events = await checked_events(verified(chain), is_sync, QUESTION)
    answer = events[-1].answer
    assert answer.text == TOWER
    assert retriever.queries == [QUESTION] * 2
    assert (answer.outcome, [passage.id for passage in answer.memory.evidence]) == (
        "supported",
        ["tower"],
    )
    assert [message.type for message in model.calls[-1]] == ["human", "ai", "human"]
    assert model.calls[-1][0] == model.calls[0][0]


@both_ways
async def test_the_outermost_retriever_is_what_was_read(is_sync):
    outer = DenoisingRetriever(retriever=Searching(queries=[]), denoiser=None, keep=1)
    chain = chain_of(outer, FunctionChatModel(reply=until_told))
    recorder = EvidenceHandler()
    await run(chain, is_sync, QUESTION, {"callbacks": [recorder]})
    [evidence] = recorder.retrieved
    assert [passage.id for passage in evidence.passages] == ["tower"]
    assert evidence.query == QUESTION


@both_ways
async def test_text_that_a_model_wrote_inside_a_tool_is_no_evidence(is_sync):
    inner = FunctionChatModel(reply=lambda message: LIE)

    @tool
    def ask_expert(query: str):
        """Asks an expert."""
        return inner.invoke(query).text

    @tool
    def look_up(query: str):
        """Looks it up."""
        return TOWER

    for used, provenance in ((ask_expert, "model"), (look_up, "tool")):
        recorder = EvidenceHandler()
        await run(
            RunnableLambda(lambda query, used=used: used.invoke({"query": query})),
            is_sync,
            QUESTION,
            {"callbacks": [recorder]},
        )
        [evidence] = recorder.retrieved
        assert evidence.query == QUESTION
        assert [item.provenance for item in evidence.passages] == [provenance]


@both_ways
async def test_a_chain_whose_tools_ran_is_not_run_again(is_sync):
    sent_messages = []

    @tool
    def send_mail(text: str):
        """Sends."""
        sent_messages.append(text)
        return TOWER

    chain = RunnableLambda(lambda query: send_mail.invoke({"text": query})) | (
        lambda found_documents: LIE
    )
    output = await run(verified(chain), is_sync, QUESTION)
    assert output == LIE
    assert sent_messages == [QUESTION]
    assert output.denoise["stopped_because"] == "not_repeatable"


def test_a_model_judges_when_it_is_given_as_the_judge():
    judge = FunctionChatModel(reply=until_told)
    assert Verifier(judge=judge).loop.utility.name == "units"


@both_ways
async def test_tokens_are_those_the_models_report(is_sync):
    """The account said 356 of 70,262 tokens."""
    models = [FunctionChatModel(reply=until_told) for _ in range(2)]
    recorder = EvidenceHandler()
    chain = RunnableLambda(lambda text: models[0].invoke(text).text) | models[1]
    await run(chain, is_sync, QUESTION, {"callbacks": [recorder]})
    words = [message.text.split() for model in models for message in model.calls[0]]
    assert recorder.usage.input_tokens == sum(map(len, words))
    assert recorder.model_calls == 2
    silent = FunctionChatModel(reply=lambda messages: AIMessage("two words"))
    silent.invoke("x", {"callbacks": [recorder]})
    assert (recorder.usage, recorder.model_calls) == (None, 3)
