"""One question's way through somebody else's query engine, so that the loop can search and draft with it.

The loop asks a retriever and a model; a session answers for both. Feedback reaches the engine's synthesizer
only: what is embedded and searched for is the question, always.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE, AsyncStreamingResponse, StreamingResponse
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.schema import NodeWithScore, QueryBundle

from denoise_core import InputError, Message, Passage, Reply
from denoise_core.augmenter import Augmenter, Utility, Verdict, WorkingMemory
from denoise_core.augmenter.actions import Action
from denoise_core.augmenter.engine import draft_prompt
from denoise_core.running.effects import Flow
from llamaindex_denoise.engines.base import atext_of_response, text_of_response
from llamaindex_denoise.models.threads import Threads, owner
from llamaindex_denoise.nodes.convert import says_something, to_passages
from llamaindex_denoise.nodes.headers import source_of


class EngineSession:
    """Retriever, model, policy and utility of one run over ``engine``; holds that run's state.

    An engine that can retrieve and synthesize separately retrieves once and synthesizes each draft. Any
    other is queried whole: the sources of its first answer are the evidence, and each draft is judged
    against the sources of its own answer.
    """

    def __init__(
        self,
        engine: BaseQueryEngine,
        settings: Augmenter,
        threads: Threads,
        nodes: Sequence[NodeWithScore] | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.nodes = None if nodes is None else list(nodes)
        self.split = can_retrieve(engine)
        self.memory: WorkingMemory | None = None
        self.responses: dict[str, RESPONSE_TYPE] = {}
        self._waiting: tuple[str, RESPONSE_TYPE] | None = None
        self._threads = threads

    def augmenter(self) -> Augmenter:
        s = self.settings
        return Augmenter(
            self,
            self,
            utility=s.utility if self.split else _OwnSources(self, s.utility),
            policy=self,
            feedback=s.feedback,
            budget=s.budget,
            limits=s.limits,
            task=s.task,
        )

    def choose(self, memory: WorkingMemory) -> Action:
        self.memory = memory
        return self.settings.policy.choose(memory)

    def retrieve(self, query: str) -> Sequence[Passage]:
        if self.nodes is None:
            if self.split:
                self.nodes = self.engine.retrieve(QueryBundle(query))
            else:
                response = self.engine.query(query)
                self._waiting = (text_of_response(response), response)
                self.nodes = list(response.source_nodes)
        return to_passages(self.nodes, captions=True)

    async def aretrieve(self, query: str) -> Sequence[Passage]:
        if self.nodes is None:
            if self.split:
                self.nodes = await aretrieve(self.engine, QueryBundle(query), self._threads)
            elif blocks_the_loop(self.engine):
                return await self._threads.run(lambda: self.retrieve(query))
            else:
                response = await self.engine.aquery(query)
                self._waiting = (await atext_of_response(response), response)
                self.nodes = list(response.source_nodes)
        return to_passages(self.nodes, captions=True)

    def complete(self, messages: Sequence[Message]) -> Reply:
        query = self._query_for(messages)
        if self._waiting is not None:
            text, response = self._take()
        else:
            response = self.engine.synthesize(query, self._evidence()) if self.split else self.engine.query(query)
            text = text_of_response(response)
        return self._drafted(text, response)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        if self._waiting is None and blocks_the_loop(self.engine):
            return await self._threads.run(lambda: self.complete(messages))
        query = self._query_for(messages)
        if self._waiting is not None:
            text, response = self._take()
        else:
            asked = self.engine.asynthesize(query, self._evidence()) if self.split else self.engine.aquery(query)
            response = await asked
            text = await atext_of_response(response)
        return self._drafted(text, response)

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """`complete` in pieces, where the engine's own response is a stream."""
        if self._waiting is not None or not self.split:
            yield self.complete(messages).text
            return
        response = self.engine.synthesize(self._query_for(messages), self._evidence())
        if not isinstance(response, StreamingResponse):
            yield self._drafted(text_of_response(response), response).text
            return
        text = ""
        for piece in response.response_gen:
            text += piece
            yield piece
        self._drafted(text, response)

    async def astream(self, messages: Sequence[Message]) -> AsyncGenerator[str, None]:
        """`stream` for async; an engine that would block the event loop gives its draft in one piece."""
        if self._waiting is not None or not self.split or blocks_the_loop(self.engine):
            yield (await self.acomplete(messages)).text
            return
        response = await self.engine.asynthesize(self._query_for(messages), self._evidence())
        if not isinstance(response, AsyncStreamingResponse):
            yield self._drafted(await atext_of_response(response), response).text
            return
        text = ""
        async for piece in response.async_response_gen():
            text += piece
            yield piece
        self._drafted(text, response)

    def _query_for(self, messages: Sequence[Message]) -> QueryBundle:
        """The question, with the feedback on the last draft if there is any, for the engine's synthesizer."""
        memory = self.memory
        if memory is None or tuple(messages) != draft_prompt(memory, self.settings.task):
            raise InputError(
                "a utility, policy or feedback asked the wrapped query engine as if it were a model; give it a "
                "model of its own, such as llm=LlamaLLM(...)"
            )
        feedback = messages[2:]
        if not feedback:
            return QueryBundle(memory.question)
        text = "\n\n".join([memory.question, *(m.content for m in feedback)])
        return QueryBundle(text, custom_embedding_strs=[memory.question])

    def _evidence(self) -> list[NodeWithScore]:
        """The nodes behind the evidence, and those without text, which no passage stands for."""
        shown = self.memory.evidence if self.memory else ()
        nodes = [n for p in shown if (n := source_of(p)) is not None]
        return nodes + [n for n in self.nodes or () if not says_something(n.node)]

    def _take(self) -> tuple[str, RESPONSE_TYPE]:
        assert self._waiting is not None
        waiting, self._waiting = self._waiting, None
        return waiting

    def _drafted(self, text: str, response: RESPONSE_TYPE) -> Reply:
        self.responses.setdefault(text.strip(), response)
        return Reply(text)


class _OwnSources:
    """Judges a candidate against the sources of the answer that brought it."""

    def __init__(self, session: EngineSession, utility: Utility) -> None:
        self.session = session
        self.utility = utility

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        response = self.session.responses.get(candidate)
        if response is not None:
            memory = replace(memory, evidence=to_passages(response.source_nodes, captions=True))
        verdict = yield from self.utility.assess(memory, candidate)
        return verdict


def can_retrieve(engine: BaseQueryEngine) -> bool:
    """Whether the engine brings its own ``retrieve`` and ``synthesize``."""
    return all(owner(engine, m) not in (None, BaseQueryEngine) for m in ("retrieve", "synthesize", "asynthesize"))


def blocks_the_loop(engine: BaseQueryEngine) -> bool:
    """Whether the engine's model would run its asynchronous form on the event loop (most local models)."""
    synthesizer = getattr(engine, "_response_synthesizer", None)
    model = getattr(synthesizer, "_llm", None) or getattr(engine, "_llm", None)
    return isinstance(model, LLM) and owner(model, "achat") is CustomLLM


async def aretrieve(engine: BaseQueryEngine, query: QueryBundle, threads: Threads) -> list[NodeWithScore]:
    """``engine.aretrieve`` where there is one that leaves the loop free; a thread otherwise."""
    own = getattr(engine, "aretrieve", None)
    retriever = getattr(engine, "_retriever", None)
    blocks = isinstance(retriever, BaseRetriever) and owner(retriever, "_aretrieve") is BaseRetriever
    if own is None or blocks:
        return await threads.run(lambda: engine.retrieve(query))
    found: list[NodeWithScore] = await own(query)
    return found
