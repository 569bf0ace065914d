"""`verified(chain)`: judge and redraft around any chain, without rewriting it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import (
    RunnableBindingBase,
    RunnableLike,
    RunnableParallel,
    RunnableSequence,
    coerce_to_runnable,
)
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.passthrough import RunnableAssign
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import PrivateAttr, field_validator
from typing_extensions import override

from denoise_core import Budget, InputError
from denoise_core.augmenter import Answer, LoopLimits
from denoise_core.augmenter.drafting import DraftReply, DraftRequest, RetrievedEvidence
from denoise_core.augmenter.traces.record import answer_record
from langchain_denoise.convert import chain_values
from langchain_denoise.convert.claims import (
    change_at_path,
    extract_claims,
    replace_claim_text,
    resolve_sources,
    validate_claims,
)
from langchain_denoise.convert.messages import internal_config
from langchain_denoise.verification.evidence import EvidenceHandler
from langchain_denoise.verification.redraft import (
    RedraftRequest,
    current_redraft,
    insert_redrafting,
)
from langchain_denoise.verification.runnable import LoopRun, VerifyingRunnable
from langchain_denoise.verification.verifier import (
    Verifier,
    annotate_message,
    history_before_question,
)

OutputType = Literal["output", "answer"]


def verified(
    chain: RunnableLike[Any, Any],
    verifier: Verifier | None = None,
    *,
    judge: Any = None,
    limits: LoopLimits | None = None,
    budget: Budget | None = None,
    question: str | Callable[..., Any] | None = None,
    answer: str | Callable[..., Any] | None = None,
    evidence: str | Callable[..., Any] | None = None,
    feedback: str | Callable[..., Any] | None = None,
    output_type: OutputType = "output",
    claims: Sequence[str] | None = None,
) -> VerifiedRunnable:
    """``chain`` with its answers held against what it found, and asked again while they do not hold.

    ``judge``, ``limits`` and ``budget`` are `Verifier`'s, whose other settings go through ``verifier``.

    Input and output keep their form. The evidence is what the chain's retrievers and tools bring while it runs, or
    else the documents under a usual key (``context documents source_documents``); ``evidence`` says where else: a
    key, or a function of input and output as they are. ``question`` and ``answer`` say the same of these; left
    out, each is a string, messages, or under one of the keys ``question input query`` and ``answer output result
    text``.

    Of structured output (pydantic, a dataclass, a dict, ``include_raw=True``) the same fields are judged, or those
    that ``claims`` names: ``["answer", "findings[].text"]``; where it has none of these every field but sources,
    confidence and follow-up questions. ``sources citations references`` are looked up in the evidence: the
    record's ``sources`` lists the documents, and under ``unresolved`` what stands nowhere.

    What is wrong with a draft goes to the model that writes, behind its own prompt, and to no search: the chain's
    input stays as it was. ``feedback`` is for a chain in which no model can be seen: a key of the input, or a
    function ``(input, draft, feedback) -> input``.

    A chain whose tools ran is not run again, since they would run twice; a graph or agent raises `InputError`, and
    has ``VerificationMiddleware``. ``Verifier(limits=LoopLimits(rerun=True))`` says that it does no harm.

    The record (outcome, why it stopped, every attempt) is in ``output["denoise"]``, in a message's
    ``response_metadata["denoise"]``, in ``.denoise`` of a string, in the span ``denoise_record`` and the custom
    event ``denoise``. ``returns="answer"`` gives the `denoise_core.augmenter.Answer` in the output's place.

    >>> found = ["The tower was finished in 1889."]
    >>> checked = verified(lambda asked: {"answer": "The tower was finished in 1889.", "context": found})
    >>> checked.invoke({"question": "When was the tower finished?"})["denoise"]["outcome"]
    'supported'
    """
    if verifier is None:
        verifier = Verifier(judge=judge, limits=limits, budget=budget)
    elif not isinstance(verifier, Verifier) or any(
        x is not None for x in (judge, limits, budget)
    ):
        raise InputError(
            "verifier: expected Verifier(...) alone, or judge=, limits= and budget= without it"
        )
    chain = coerce_to_runnable(chain)
    homes = {c.__module__ for part in visible_steps(chain) for c in type(part).__mro__}
    if "langchain_core.runnables.history" in homes:
        raise InputError(
            "a history inside verified(...) would keep every draft, rejected ones too; read it before the chain "
            "and write to it what verified(chain) gives"
        )
    if (
        any(home.startswith("langgraph.pregel") for home in homes)
        and not verifier.limits.rerun
    ):
        raise InputError(
            "verified(...) runs its chain again, and a graph or agent may have effects outside; put "
            "VerificationMiddleware() into create_agent(middleware=[...]), or a JudgeNode into the graph, or say "
            "Verifier(limits=LoopLimits(rerun=True)) where running it twice does no harm"
        )
    return VerifiedRunnable(
        chain=chain,
        verifier=verifier,
        question=question,
        answer=answer,
        evidence=evidence,
        feedback=feedback,
        output_type=output_type,
        claims=validate_claims(claims),
    )


def visible_steps(chain: Runnable[Any, Any]) -> Iterator[Runnable[Any, Any]]:
    """A chain and the steps that can be seen in it."""
    yield chain
    inner: Sequence[Runnable[Any, Any]] = ()
    if isinstance(chain, RunnableBindingBase):
        inner = [chain.bound]
    elif isinstance(chain, RunnableSequence):
        inner = chain.steps
    elif isinstance(chain, RunnableParallel):
        inner = list(chain.steps__.values())
    elif isinstance(chain, RunnableAssign):
        inner = [chain.mapper]
    for one in inner:
        yield from visible_steps(one)


class VerifiedRunnable(VerifyingRunnable[Any, Any]):
    """A chain with verification around it; see `verified`, which builds it."""

    chain: Runnable[Any, Any]
    verifier: Verifier
    question: str | Callable[..., Any] | None = None
    answer: str | Callable[..., Any] | None = None
    evidence: str | Callable[..., Any] | None = None
    feedback: str | Callable[..., Any] | None = None
    output_type: OutputType = "output"
    claims: Sequence[str] | None = None

    _redrafting_chain: Runnable[Any, Any] | None = PrivateAttr(default=None)

    @field_validator("claims", mode="before")
    @classmethod
    def _a_list_of_paths(cls, claims: Any) -> Any:
        return validate_claims(claims)

    @override
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if callable(self.answer) and self.verifier.limits.unsupported != "send":
            raise InputError(
                f"unsupported={self.verifier.limits.unsupported!r} puts another answer into the output, which "
                "needs answer='key'; a function only finds it"
            )
        self._redrafting_chain = (
            insert_redrafting(self.chain) if self.feedback is None else None
        )

    @override
    def get_input_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        return self.chain.get_input_schema(config)

    @override
    def _loop_run(self, input: Any, options: dict[str, Any]) -> LoopRun:
        drafts = ChainDrafter(self, input, options)
        messages = (
            None
            if callable(self.question)
            else chain_values.extract_messages(chain_values.as_mapping(input))
        )
        history = history_before_question(messages) if messages else ()
        question, verifier = (
            chain_values.extract_question(input, self.question),
            self.verifier,
        )
        return LoopRun(
            verifier.loop,
            question,
            history,
            verifier.notify,
            drafts.output_for_answer,
            drafts,
        )


class ChainDrafter:
    """One input's way through the chain, once for each draft; a core `StreamingDrafter`."""

    def __init__(
        self, settings: VerifiedRunnable, given: Any, options: dict[str, Any]
    ) -> None:
        self.settings = settings
        self.given = given
        self.options = options
        self.tools = 0
        self.error: Exception | None = None

    @property
    def repeatable(self) -> bool:
        return self.tools == 0

    def draft(self, request: DraftRequest) -> DraftReply:
        with self._noted() as handler, self._asked(request) as (chain, given):
            brought = chain.invoke(given, self._config(handler), **self.options)
            return self._drafted(brought, handler)

    async def adraft(self, request: DraftRequest) -> DraftReply:
        with self._noted() as handler, self._asked(request) as (chain, given):
            brought = await chain.ainvoke(given, self._config(handler), **self.options)
            return self._drafted(brought, handler)

    def stream(
        self, request: DraftRequest
    ) -> Iterator[str | RetrievedEvidence | DraftReply]:
        whole = None
        with self._noted() as handler, self._asked(request) as (chain, given):
            for chunk in chain.stream(given, self._config(handler), **self.options):
                whole = chunk if whole is None else whole + chunk
                yield from handler.new_evidence()
                if piece := answer_chunk(chunk, self.settings.answer):
                    yield piece
            yield self._drafted(whole, handler)

    async def astream(
        self, request: DraftRequest
    ) -> AsyncIterator[str | RetrievedEvidence | DraftReply]:
        whole = None
        with self._noted() as handler, self._asked(request) as (chain, given):
            async for chunk in chain.astream(
                given, self._config(handler), **self.options
            ):
                whole = chunk if whole is None else whole + chunk
                for found in handler.new_evidence():
                    yield found
                if piece := answer_chunk(chunk, self.settings.answer):
                    yield piece
            yield self._drafted(whole, handler)

    def _config(self, handler: EvidenceHandler) -> RunnableConfig:
        return merge_configs(internal_config(), {"callbacks": [handler]})

    @contextmanager
    def _noted(self) -> Iterator[EvidenceHandler]:
        """What one run found and whether tools ran. What the user has to put right is not run into twice."""
        if isinstance(self.error, InputError):
            raise self.error
        handler = EvidenceHandler()
        try:
            yield handler
        except Exception as error:
            self.error = error
            raise
        finally:
            self.tools += handler.tool_calls

    @contextmanager
    def _asked(self, request: DraftRequest) -> Iterator[tuple[Runnable[Any, Any], Any]]:
        """The chain to run and what to give it: the input as it is, and feedback beside it."""
        s = self.settings
        told = RedraftRequest.from_request(request)
        if told is None:
            yield s.chain, self.given
        elif s.feedback is not None:
            yield (
                s.chain,
                chain_values.add_feedback(
                    self.given, told.rejected, told.feedback, s.feedback
                ),
            )
        elif (
            s._redrafting_chain is None
            and chain_values.extract_messages(self.given) is not None
        ):
            yield (
                s.chain,
                chain_values.append_feedback_messages(
                    self.given, told.feedback_messages
                ),
            )
        else:
            token = current_redraft.set(told)
            try:
                yield s._redrafting_chain or s.chain, self.given
            finally:
                current_redraft.reset(token)

    def _drafted(self, brought: Any, handler: EvidenceHandler) -> DraftReply:
        s, found = self.settings, handler.retrieved
        brought = chain_values.remove_feedback_messages(brought)
        said = extract_claims(brought, s.answer, s.claims)
        if s.evidence is not None or not any(f.passages for f in found):
            passages = chain_values.extract_evidence(
                self.given, brought, s.evidence, required=False
            )
            found = [RetrievedEvidence(passages)] if passages else []
        return DraftReply(
            said.text,
            handler.usage,
            calls=handler.model_calls,
            retrieved=tuple(found),
            fields=said.fields,
            origin=brought,
        )

    def output_for_answer(self, answer: Answer) -> tuple[Any, dict[str, Any]]:
        """The output that brought the answer, with the record of the run in it, and that record."""
        best, record = answer.best, answer_record(answer)
        if best is None:
            raise self.error or RuntimeError(f"no draft: {answer.text}")
        output = best.origin
        said = extract_claims(output, self.settings.answer, self.settings.claims)
        if sources := resolve_sources(said.sources, answer.memory.evidence):
            record["sources"] = sources
        shown = (
            said.text.strip()
            if said.fields is None and not callable(self.settings.answer)
            else best.candidate
        )
        if (
            answer.text != best.candidate or shown != best.candidate
        ):  # reasoning is not sent
            if said.fields is not None:
                raise InputError(
                    f"cannot put another answer into a {type(output).__name__}: pass answer='key', or limits that "
                    "send unsupported answers as they are"
                )
            output = replace_claim_text(output, answer.text, said.path)
        if self.settings.verifier.annotate and said.fields is None:
            noted = partial(
                chain_values.change_answer_message,
                change=partial(annotate_message, answer=answer),
            )
            output = change_at_path(output, noted, said.path)
        return (
            answer
            if self.settings.output_type == "answer"
            else chain_values.attach_record(output, record),
            record,
        )


def answer_chunk(chunk: Any, place: str | Callable[..., Any] | None) -> str:
    """The answer's text in one chunk of a stream; "" for a chunk of something else."""
    if callable(place):
        return ""
    try:
        return chain_values.extract_answer(chunk, place)
    except InputError:
        return ""
