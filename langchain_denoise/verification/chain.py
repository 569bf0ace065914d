"""`verified(chain)`: judge and redraft around any chain, without a rewrite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.callbacks import AsyncParentRunManager, ParentRunManager
from langchain_core.runnables import RunnableConfig, RunnableGenerator
from langchain_core.runnables.base import RunnableLike, coerce_to_runnable
from langchain_core.runnables.config import merge_configs
from langchain_core.utils.pydantic import TypeBaseModel
from typing_extensions import override

from denoise_core import DenoiseError, InputError
from denoise_core.augmenter import Answer
from denoise_core.augmenter.drafting import DraftReply, DraftRequest
from denoise_core.augmenter.streaming import (
    Finished,
    Revised,
    Show,
    StreamEvent,
    TextReleased,
    stream_verified,
)
from denoise_core.augmenter.traces.record import answer_record
from denoise_core.runtime.budget import limit_concurrency
from denoise_core.runtime.fallbacks import log_fallback
from langchain_denoise.convert import chain_values
from langchain_denoise.convert.chain_values import EVIDENCE_KEYS, ValueSelector
from langchain_denoise.convert.claims import extract_output_claims
from langchain_denoise.convert.messages import (
    ConversationTurn,
    Messages,
    internal_config,
    to_core_messages,
)
from langchain_denoise.models.bindings import AnyRunnable
from langchain_denoise.observe import (
    AnyRunManager,
    Record,
    RecordedCall,
    RecordedRunnable,
    RunRecord,
    aemit_record,
    emit_record,
)
from langchain_denoise.verification.evidence import EvidenceHandler
from langchain_denoise.verification.redraft import (
    answer_keys,
    change_model,
    feedback_messages,
    find_model,
    has_step_of,
    with_feedback,
)
from langchain_denoise.verification.verifier import (
    Verifier,
    earlier_evidence,
    record_for_output,
    verifier_or_default,
)

DraftEvent: TypeAlias = str | DraftReply

GRAPH_MODULE = "langgraph.pregel"
HISTORY_MODULE = "langchain_core.runnables.history"
NO_EVIDENCE = (
    f"no evidence from the chain's retrievers and tools, nor under {EVIDENCE_KEYS}; "
    "name it by evidence="
)
NO_MODEL = "the chain shows no model; make it a step: prompt | model"


def verified(
    chain: RunnableLike[Any, Any],
    verifier: Verifier | None = None,
    *,
    question: ValueSelector = None,
    answer: ValueSelector = None,
    evidence: ValueSelector = None,
) -> VerifiedRunnable:
    """The chain with its answers checked against the evidence it found.

    It writes another draft while the answer is not supported. Input and output keep their
    form. A reply with tool calls is not judged, and returned as it is.

    The feedback goes to the model that writes, after its own prompt, and to no search:
    the chain's input stays the same. A chain that shows no model, such as a function, is
    run again without feedback, and the log says so.

    A chain whose tools ran is judged and not run again, because they would run twice; nor
    is a graph, an agent or a chain that writes a history. Use ``VerificationMiddleware``
    there, or allow another run with ``Verifier(limits=LoopLimits(rerun=True))``.

    The record (outcome, why it stopped, every attempt) is in ``output["denoise"]``, in a
    message's ``response_metadata["denoise"]``, in ``.denoise`` of a string, in the span
    ``denoise_record`` and the custom event ``denoise``.

    Args:
        chain: Any runnable, function or dict of them.
        verifier: How answers are judged; None is ``Verifier()``.
        question: The key of the question in the input, or a function of it. By default
            the input is a string, messages, or has ``question``, ``input`` or ``query``.
        answer: The key of the answer in the output, or a function of it. By default the
            output is a string, messages, or has ``answer``, ``output``, ``result`` or
            ``text``; of structured output (pydantic, a dataclass, a dict,
            ``include_raw=True``) without one of them every field is judged but sources,
            confidence and follow-up questions. A function may return a dict of the fields
            to judge.
        evidence: The key of the evidence, or a function of input and output. By default
            it is what the chain's retrievers and tools return while it runs, or else the
            documents under ``context``, ``documents`` or ``source_documents``.

    Raises:
        InputError: ``verifier`` is no `Verifier`.

    >>> documents = ["The tower was finished in 1889."]
    >>> output = {"answer": "The tower was finished in 1889.", "context": documents}
    >>> judge = lambda question, evidence, claim: "1889" in claim  # or your model
    >>> chain = verified(lambda chain_input: output, Verifier(judge=judge))
    >>> chain.invoke({"question": "When was the tower finished?"})["denoise"]["outcome"]
    'supported'
    """
    return VerifiedRunnable(
        chain=coerce_to_runnable(chain),
        verifier=verifier_or_default(verifier),
        question=question,
        answer=answer,
        evidence=evidence,
    )


class VerifiedRunnable(RecordedRunnable[Any, Any]):
    """A chain with verification; see `verified`, which builds it.

    ``stream`` yields one value: nothing is shown before it is judged. `stream_checked`
    shows the answer once it is judged, or the draft first and its verdict after.
    """

    chain: AnyRunnable
    verifier: Verifier
    question: ValueSelector = None
    answer: ValueSelector = None
    evidence: ValueSelector = None

    @override
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        unsupported = self.verifier.limits.unsupported
        if callable(self.answer) and unsupported != "send":
            raise InputError(
                f"unsupported={unsupported!r} puts another answer into the output, which "
                "needs answer='key'; a function only finds it"
            )

    @override
    def get_input_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        return self.chain.get_input_schema(config)

    @override
    def _prepare_call(
        self, input: Any, run: AnyRunManager, config: RunnableConfig, options: Record
    ) -> RecordedCall:
        return ChainDrafter(self, input, options)

    def stream_checked(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> Iterator[StreamEvent]:
        """Stream the answer as events of `denoise_core.augmenter.streaming`.

        A reader that leaves early ends the run, and its span, without an error.

        Args:
            input: The input of `invoke`.
            config: The config of the run.
            show: ``"checked"`` yields one `TextReleased` with the whole answer once it is
                judged; ``"draft"`` yields the first draft while it is written.

        Yields:
            The events; the last is `Finished` or `Revised` with the `Answer`.
        """
        traced = _TracedStream(self, show)
        for _ in traced.runnable().stream(input, config):
            yield traced.last_event

    async def astream_checked(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        show: Show = "checked",
    ) -> AsyncIterator[StreamEvent]:
        """`stream_checked` for async."""
        traced = _TracedStream(self, show)
        stream = traced.runnable().astream(input, config)
        try:
            async for _ in stream:
                yield traced.last_event
        except GeneratorExit:
            # A run that is closed is an error to LangChain, one that ends is not.
            traced.is_left = True
            async for _ in stream:
                pass
            raise


class ChainDrafter(RecordedCall):
    """One input of a chain, which is run once for each draft; a core `StreamingDrafter`."""

    def __init__(
        self, settings: VerifiedRunnable, chain_input: Any, options: Record
    ) -> None:
        self.settings = settings
        # Not stored with the settings: a copy may have another verifier or chain.
        model = find_model(settings.chain, answer_keys(settings.answer))
        self.loop = settings.verifier.loop_for(model)
        self.answer_key = settings.answer if isinstance(settings.answer, str) else None
        self.chain_input = chain_input
        self.options = options
        self.tool_calls = 0
        self.error: Exception | None = None
        self.question = chain_values.extract_question(chain_input, settings.question)
        messages: Messages = ()
        if not callable(settings.question):
            state = chain_values.as_mapping(chain_input)
            messages = chain_values.extract_messages(state) or ()
        turn = ConversationTurn.from_messages(messages)
        self.history = to_core_messages(turn.history)
        self.earlier = earlier_evidence(messages)

    @override
    def run(self) -> Answer:
        return self.loop.answer(self.question, self.history, drafter=self)

    @override
    async def arun(self) -> Answer:
        return await self.loop.aanswer(self.question, self.history, drafter=self)

    def stream_events(self, show: Show) -> Any:
        """The loop as a stream of events, for sync and async."""
        return stream_verified(
            self.loop, self.question, self.history, drafter=self, show=show
        )

    @override
    def record(self, result: Answer) -> RunRecord:
        return {"question": self.question}, answer_record(result)

    @property
    def repeatable(self) -> bool:
        """Whether running the chain again does no harm.

        A tool must not run twice, and a graph or a history may change more than the
        output.
        """
        has_effects = has_step_of(self.settings.chain, GRAPH_MODULE, HISTORY_MODULE)
        return not (self.tool_calls or has_effects)

    def draft(self, request: DraftRequest) -> DraftReply:
        """Run the chain."""
        with self._prepare_run(request) as (chain, config, handler):
            output = chain.invoke(self.chain_input, config, **self.options)
            return self._read_reply(output, handler)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        """`draft` for async."""
        with self._prepare_run(request) as (chain, config, handler):
            output = await chain.ainvoke(self.chain_input, config, **self.options)
            return self._read_reply(output, handler)

    def stream(self, request: DraftRequest) -> Iterator[DraftEvent]:
        """Run the chain as a stream: text as it comes, then the draft.

        A graph streams what its nodes return, which is no answer: it is run at once.
        """
        if has_step_of(self.settings.chain, GRAPH_MODULE):
            yield self.draft(request)
            return
        output = None
        with self._prepare_run(request) as (chain, config, handler):
            for chunk in chain.stream(self.chain_input, config, **self.options):
                output, text = self._add_chunk(output, chunk)
                if text:
                    yield text
            yield self._read_reply(output, handler)

    async def astream(self, request: DraftRequest) -> AsyncIterator[DraftEvent]:
        """`stream` for async."""
        if has_step_of(self.settings.chain, GRAPH_MODULE):
            yield await self.adraft(request)
            return
        output = None
        with self._prepare_run(request) as (chain, config, handler):
            async for chunk in chain.astream(self.chain_input, config, **self.options):
                output, text = self._add_chunk(output, chunk)
                if text:
                    yield text
            yield self._read_reply(output, handler)

    def _add_chunk(self, output: Any, chunk: Any) -> tuple[Any, str]:
        """The output with a chunk, and what the chunk adds to the answer's text.

        Parsers of JSON stream ever larger objects, which cannot be added: each holds all
        that came before.
        """
        text = answer_chunk(chunk, self.settings.answer)
        if output is None:
            return chunk, text
        try:
            return output + chunk, text
        except TypeError:
            earlier_text = answer_chunk(output, self.settings.answer)
            if text.startswith(earlier_text):
                return chunk, text.removeprefix(earlier_text)
            return chunk, ""

    @contextmanager
    def _prepare_run(
        self, request: DraftRequest
    ) -> Iterator[tuple[AnyRunnable, RunnableConfig, EvidenceHandler]]:
        """The chain of one run, its config and handler; notes tools' calls and an error."""
        handler = EvidenceHandler()
        config = merge_configs(internal_config(), {"callbacks": [handler]})
        try:
            yield self._chain_for(request), config, handler
        except Exception as error:
            self.error = error
            raise
        finally:
            self.tool_calls += handler.tool_calls

    def _chain_for(self, request: DraftRequest) -> AnyRunnable:
        """The chain to run, whose model reads the feedback if there is any."""
        chain = self.settings.chain
        messages = feedback_messages(request)
        if not messages:
            return chain
        redrafting_chain = change_model(
            chain,
            lambda model: with_feedback(model, messages),
            answer_keys(self.settings.answer),
        )
        if redrafting_chain is None:
            log_fallback("verified", NO_MODEL, "it is run again without feedback")
            return chain
        return redrafting_chain

    def _read_reply(self, output: Any, handler: EvidenceHandler) -> DraftReply:
        settings = self.settings
        retrieved = tuple(handler.retrieved)
        claims = extract_output_claims(output, settings.answer)
        chain_values.attach_record(output, {})  # raises where there is no room for it
        if settings.verifier.limits.unsupported != "send" and not claims.tool_calls:
            # Where no other answer can be put is an error whatever the verdict will be.
            chain_values.replace_answer(output, claims.text, self.answer_key)
        has_passages = any(evidence.passages for evidence in retrieved)
        # A chain that retrieves without callbacks may still return its documents.
        if settings.evidence is not None or not has_passages:
            retrieved = chain_values.extract_evidence(
                self.chain_input, output, settings.evidence
            )
        retrieved += self.earlier
        if not retrieved and not claims.tool_calls:
            log_fallback("verified", NO_EVIDENCE, "the answer cannot be checked")
        fields = claims.fields
        if claims.tool_calls:
            # A draft with neither text nor fields has failed.
            fields = {"tool_calls": claims.tool_calls}
        return DraftReply(
            claims.text,
            handler.usage,
            calls=handler.model_calls,
            retrieved=retrieved,
            fields=fields,
            judge=not claims.tool_calls,
            origin=output,
            citations=claims.citations or handler.citations.get(claims.text, ()),
            evidence_is_numbered=not handler.tool_calls,
        )

    @override
    def build_output(self, result: Answer) -> Any:
        """The output that gave the answer, with the record of the run."""
        best = result.best
        if best is None:
            raise self.error or DenoiseError(result.text)
        output = best.origin
        if result.text != best.candidate:
            output = chain_values.replace_answer(output, result.text, self.answer_key)
        return chain_values.attach_record(output, record_for_output(result))


@dataclass
class _TracedStream:
    """The events of one stream, of which LangChain traces the texts."""

    settings: VerifiedRunnable
    show: Show
    is_left: bool = False
    last_event: Any = None

    def runnable(self) -> RunnableGenerator[Any, str]:
        """The stream as a runnable that yields a text for each event."""
        texts: Any = self.texts
        atexts: Any = self.atexts
        return RunnableGenerator(texts, atexts, name=self.settings.get_name())

    def texts(
        self,
        inputs: Iterator[Any],
        run_manager: ParentRunManager,
        config: RunnableConfig,
    ) -> Iterator[str]:
        """The text of each event, which is then the last one."""
        call = ChainDrafter(self.settings, next(inputs), {})
        events = iter(call.stream_events(self.show))
        with limit_concurrency(config.get("max_concurrency")):
            self.last_event = next(events, None)
        while self.last_event is not None:
            if isinstance(self.last_event, (Finished, Revised)):
                emit_record(run_manager, *call.record(self.last_event.answer))
            yield self.text
            self.last_event = next(events, None)

    async def atexts(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncParentRunManager,
        config: RunnableConfig,
    ) -> AsyncIterator[str]:
        """`texts` for async."""
        call = ChainDrafter(self.settings, await anext(inputs), {})
        events = aiter(call.stream_events(self.show))
        with limit_concurrency(config.get("max_concurrency")):
            self.last_event = await anext(events, None)
        async with aclosing(events):
            while self.last_event is not None:
                if isinstance(self.last_event, (Finished, Revised)):
                    run_record = call.record(self.last_event.answer)
                    await aemit_record(run_manager, *run_record)
                yield self.text
                if self.is_left:
                    return
                self.last_event = await anext(events, None)

    @property
    def text(self) -> str:
        """What the last event shows."""
        event = self.last_event
        if isinstance(event, TextReleased):
            return event.text
        return event.answer.text if isinstance(event, Revised) else ""


def answer_chunk(chunk: Any, selector: ValueSelector) -> str:
    """The answer's text in one chunk of a stream; "" for a chunk of something else."""
    if callable(selector):
        return ""
    try:
        return extract_output_claims(chunk, selector).text
    except InputError:
        return ""
