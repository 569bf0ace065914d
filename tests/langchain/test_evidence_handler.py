"""Evidence and usage from a run's own callbacks, whatever the chain's shape; feedback to no search."""

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from recorded_runs import RunRecorder

from denoise_core.augmenter.streaming import Finished, Revised, TextReleased
from denoise_core.augmenter.traces.recording import from_lines, to_lines
from langchain_denoise import DenoisingRetriever, Verifier, verified
from langchain_denoise.testing import FunctionChatModel
from langchain_denoise.verification.evidence import EvidenceHandler

TOWER = "The Eiffel Tower was completed in 1889 by the company of Gustave Eiffel."
HALL = "Otto Brenner completed the Grand Hall in 1912."
LIE = "It was completed in 1912 by Otto Brenner, in the Grand Hall."
QUESTION = "When was the Eiffel Tower completed?"
PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")

both_ways = pytest.mark.parametrize("sync", [True, False])


async def asked(runnable, given, sync, config=None):
    return (
        await asyncio.to_thread(runnable.invoke, given, config)
        if sync
        else await runnable.ainvoke(given, config)
    )


@pytest.fixture
def searching(kit):
    """A retriever that finds whatever it is asked for, its own hallucination too, and tells what that was."""
    queries = []

    class Searching(kit.ListRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            queries.append(query)
            return [
                d
                for d in self.found
                if set(query.lower().split()) & set(d.page_content.lower().split())
            ]

        async def _aget_relevant_documents(self, query, *, run_manager):
            return self._get_relevant_documents(query, run_manager=run_manager)

    found = [
        Document(page_content=TOWER, id="tower"),
        Document(page_content=HALL, id="hall"),
    ]
    return Searching(found=found[:1]), queries


def joined(documents):
    return "\n".join(d.page_content for d in documents)


def until_told(messages):
    told = [m for m in messages if isinstance(m, AIMessage)]
    return TOWER if told else LIE


@both_ways
async def test_text_to_text_is_judged_by_what_it_searched_and_told_in_the_right_place(
    searching, sync
):
    """It could not be judged without a function that searches again, and searched for its own rejected draft."""
    retriever, queries = searching
    model = FunctionChatModel(reply=until_told)
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | PROMPT
        | model
        | StrOutputParser()
    )
    answers = []
    checked = verified(chain, Verifier(on_answer=answers.append))
    assert await asked(checked, QUESTION, sync) == TOWER
    assert queries == [QUESTION] * 2
    (answer,) = answers
    assert (answer.outcome, [p.id for p in answer.memory.evidence]) == (
        "supported",
        ["tower"],
    )
    assert [m.type for m in model.calls[-1]] == ["human", "ai", "human"]
    assert model.calls[-1][0] == model.calls[0][0]
    assert list(to_lines(from_lines(to_lines(answer)))) == list(to_lines(answer))


@both_ways
async def test_the_outermost_retriever_is_what_was_read(searching, sync):
    retriever, _ = searching
    outer = DenoisingRetriever(retriever=retriever, denoiser=None, keep=1)
    chain = (
        {"context": outer | joined, "question": RunnablePassthrough()}
        | PROMPT
        | FunctionChatModel(reply=lambda m: TOWER)
    )
    seen = EvidenceHandler()
    await asked(chain, QUESTION, sync, {"callbacks": [seen]})
    assert [[p.id for p in f.passages] for f in seen.retrieved] == [["tower"]]
    assert seen.retrieved[0].query == QUESTION


@both_ways
async def test_tokens_are_those_the_models_report(searching, sync):
    """The account said 356 of 70,262 tokens."""
    retriever, _ = searching
    rewrite = FunctionChatModel(reply=lambda m: QUESTION)
    model = FunctionChatModel(reply=until_told)
    chain = (
        RunnablePassthrough.assign(
            context=lambda x: joined(
                retriever.invoke(rewrite.invoke(x["question"]).text)
            )
        )
        | PROMPT
        | model
    )
    answers = []
    checked = verified(chain, Verifier(on_answer=answers.append))
    await asked(checked, {"question": QUESTION}, sync)
    models = [m for one in (rewrite, model) for m in one.calls]
    read = sum(len(str(m.text).split()) for messages in models for m in messages)
    usage = answers[0].trace.usage
    assert (usage.input_tokens, usage.is_estimated) == (read, False)
    assert answers[0].trace.events[0].reply.calls == 2


@both_ways
async def test_text_that_a_model_wrote_inside_a_tool_is_no_evidence(sync):
    inner = FunctionChatModel(reply=lambda m: LIE)

    @tool
    def ask_expert(query: str) -> str:
        """Asks an expert."""
        return inner.invoke(query).text

    @tool
    def look_up(query: str) -> str:
        """Looks it up."""
        return TOWER

    for used, provenance in ((ask_expert, "model"), (look_up, "tool")):
        seen = EvidenceHandler()
        await asked(
            RunnableLambda(lambda q, used=used: used.invoke({"query": q})),
            QUESTION,
            sync,
            {"callbacks": [seen]},
        )
        assert [
            (p.provenance, f.query) for f in seen.retrieved for p in f.passages
        ] == [(provenance, QUESTION)]


@both_ways
async def test_a_chain_whose_tools_ran_is_not_run_again(sync):
    sent = []

    @tool
    def send_mail(text: str) -> str:
        """Sends."""
        sent.append(text)
        return TOWER

    chain = RunnableLambda(lambda q: send_mail.invoke({"text": q})) | (
        lambda found: LIE
    )
    answers = []
    assert (
        await asked(verified(chain, Verifier(on_answer=answers.append)), QUESTION, sync)
        == LIE
    )
    assert (sent, answers[0].stop_reason) == ([QUESTION], "not_repeatable")


@both_ways
async def test_history_and_input_are_not_touched(searching, sync):
    retriever, queries = searching
    model = FunctionChatModel(reply=until_told)
    chain = (
        RunnableLambda(
            lambda m: [HumanMessage(joined(retriever.invoke(m[-1].text))), *m]
        )
        | model
    )
    given = [HumanMessage("Hi."), AIMessage("Hello."), HumanMessage(QUESTION)]
    before = [m.model_copy() for m in given]
    out = await asked(verified(chain), given, sync)
    assert out.response_metadata["denoise"]["outcome"] in ("supported", "unsupported")
    assert given == before
    assert set(queries) == {QUESTION}


@both_ways
async def test_streams_show_the_checked_answer_or_the_draft_first(searching, sync):
    retriever, _ = searching
    model = FunctionChatModel(reply=until_told)
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | PROMPT
        | model
        | StrOutputParser()
    )

    async def events(show):
        checked, seen = verified(chain), RunRecorder()
        config = {"callbacks": [seen]}
        if sync:
            found = await asyncio.to_thread(
                lambda: list(checked.stream_checked(QUESTION, config, show=show))
            )
        else:
            found = [
                e async for e in checked.astream_checked(QUESTION, config, show=show)
            ]
        paths = seen.paths("chain")
        assert (paths[0], paths[-1]) == (
            "VerifiedRunnable",
            "VerifiedRunnable/denoise_record",
        )
        assert all(path.startswith("VerifiedRunnable/") for path in seen.paths("llm"))
        assert all(run.ended for run in seen.runs.values())
        assert seen.events[-1][1]["outcome"] == "supported"
        return found

    shown, last = await events("checked")
    assert shown == TextReleased(TOWER)
    assert isinstance(last, Finished)
    assert last.answer.text == TOWER
    first = await events("draft")
    shown = [e.text for e in first if isinstance(e, TextReleased)]
    assert len(shown) > 5
    assert "".join(shown).startswith("It was completed in 1912")
    assert isinstance(first[-1], Revised)


def test_a_model_judges_when_it_is_given_as_the_judge():
    judge = FunctionChatModel(reply=lambda m: '{"supported": 1.0, "problems": []}')
    assert Verifier(judge=judge).loop.utility.name == "quotes"
    with pytest.raises(ValueError, match="expected a function"):
        Verifier(judge=3)


def test_tokens_are_unknown_where_one_model_reports_none():
    counted = FunctionChatModel(reply=lambda m: "two words")
    silent = FunctionChatModel(reply=lambda m: AIMessage("two words"))
    for models, is_known in (([counted], True), ([silent, counted], False)):
        seen = EvidenceHandler()
        for model in models:
            model.invoke("x", {"callbacks": [seen]})
        assert seen.model_calls == len(models)
        assert (seen.usage is not None) is is_known
