"""LangChain's own compressors and ours, on the same model, documents and machine.

The model is the scripted one of `s2a_cost`: it finds the same sentences needed whoever asks, so the figures say
what each way of asking costs and what becomes of a reply, not how well a model chooses. The two embedding pieces
run on real MiniLM weights. Twenty real documents a question (HotpotQA: ten of its own, ten of another question).

Beside that: what the adapter costs over the core, what it costs to import, how long twenty calls of 0.1 s take,
and how many of twenty documents come through when one reply is bad.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from _s2a_shared import wilson
from harness import Benchmark, arguments
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from s2a_cost import QUOTES, Server, Work, token_counter, work

from denoise_core import Passage
from denoise_core.embedded.default import default_denoiser, encoder
from denoise_core.end import ENDDenoiser
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionScorer
from langchain_denoise import ChatModelLLM, DenoiseCompressor
from langchain_denoise.testing import FunctionChatModel

KEPT = 0.3  # share of the documents that the two embedding pieces keep


class FilterServer(Server):
    """The scripted model, which also knows the form that LLMChainFilter asks in; counts right under threads."""

    def __init__(self, count: Callable[[str], int], speed: float) -> None:
        super().__init__(count, speed)
        self.lock = threading.Lock()

    def answer(self, prompt: str) -> tuple[str, float]:
        with self.lock:
            return self._counted(prompt)

    def _counted(self, prompt: str) -> tuple[str, float]:
        if "> Relevant (YES / NO):" not in prompt:
            return super().answer(prompt)
        text = "YES" if any(s in prompt for s in self.wanted) else "NO"
        self.calls, self.read, self.written = self.calls + 1, self.read + self.count(prompt), self.written + 1
        return text, (0.05 + self.count(prompt) / 5000 + 1 / 60) / self.speed


class Scripted(BaseChatModel):
    """The same server as a LangChain chat model, for theirs and ours."""

    server: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _result(self, messages: Sequence[Any]) -> tuple[ChatResult, float]:
        prompt = "\n".join(str(m.text) for m in messages)
        text, seconds = self.server.answer(prompt)
        tokens = self.server.count(prompt), self.server.count(text)
        usage = UsageMetadata(input_tokens=tokens[0], output_tokens=tokens[1], total_tokens=sum(tokens))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))]), seconds

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        result, seconds = self._result(messages)
        time.sleep(seconds)
        return result

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        result, seconds = self._result(messages)
        await asyncio.sleep(seconds)
        return result


class MiniLM(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = encoder().vectors(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def embeddings_filter(k: int) -> BaseDocumentCompressor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports langchain-community, which warns that it is being split up
        from langchain_classic.retrievers.document_compressors import EmbeddingsFilter

        compressor: BaseDocumentCompressor = EmbeddingsFilter(embeddings=MiniLM(), k=k)
    return compressor


def compressors(model: BaseChatModel) -> dict[str, BaseDocumentCompressor]:
    from langchain_classic.retrievers.document_compressors import LLMChainExtractor, LLMChainFilter

    llm = ChatModelLLM(model)
    groups = Options(joint=True, window=4000)
    return {
        "LLMChainExtractor": LLMChainExtractor.from_llm(model),
        "LLMChainFilter": LLMChainFilter.from_llm(model),
        "ours, S2A select": DenoiseCompressor(denoiser=S2ADenoiser(llm, variant="select"), max_concurrency=10),
        "ours, S2A select in groups": DenoiseCompressor(
            denoiser=S2ADenoiser(llm, variant="select", options=groups), max_concurrency=10
        ),
    }


def as_documents(passages: Sequence[Passage]) -> list[Document]:
    return [
        Document(page_content=p.text, id=p.id, metadata={"title": p.metadata.get("title", "")}) for p in passages
    ]


def ask(compressor: BaseDocumentCompressor, documents: list[Document], query: str, sync: bool) -> list[Document]:
    if sync:
        return list(compressor.compress_documents(documents, query))
    return list(asyncio.run(compressor.acompress_documents(documents, query)))


def peers(bench: Benchmark, all_work: list[Work]) -> None:
    """Time, calls, tokens; gold sentences, ids and metadata kept."""
    server = FilterServer(token_counter(), speed=50.0 if bench.options.quick else 1.0)
    ways = [(name, c, sync) for name, c in compressors(Scripted(server=server)).items() for sync in (True, False)]
    ways += [("EmbeddingsFilter", embeddings_filter(6), True)]
    ways += [("ours, END default", DenoiseCompressor(denoiser=default_denoiser(keep=KEPT)), True)]
    ask(ways[-1][1], as_documents(all_work[0][1]), "warm up", True)
    for name, compressor, sync in ways:
        server.calls = server.read = server.written = 0
        gold = found = characters = given = ids = out_count = 0
        started = time.perf_counter()
        for question, passages, sparse, _ in all_work:
            server.wanted = sparse
            documents = as_documents(passages)
            out = ask(compressor, documents, question, sync)
            text = " ".join(d.page_content for d in out)
            gold += len(sparse)
            found += sum(s.strip(QUOTES) in text for s in sparse)
            characters += len(text)
            given += sum(len(d.page_content) for d in documents)
            known = {d.id for d in documents}
            ids += sum(d.id in known for d in out)
            out_count += len(out)
        seconds = (time.perf_counter() - started) / len(all_work)
        label = name if "Embed" in name or "END" in name else f"{name}, {'sync' if sync else 'async'}"
        bench.row(f"{label}: time a question", seconds, "s")
        bench.row(f"{label}: calls a question", server.calls / len(all_work), "calls")
        bench.row(f"{label}: tokens read a question", server.read / len(all_work), "tokens")
        bench.row(f"{label}: tokens written a question", server.written / len(all_work), "tokens")
        bench.row(f"{label}: gold sentences kept", found / gold, "share", interval=wilson(found, gold))
        bench.row(f"{label}: characters kept", characters / given, "share")
        goal = 1.0 if name.startswith("ours") else None
        bench.row(f"{label}: documents that keep their id", ids / max(1, out_count), "share", at_least=goal)


BAD = {
    "an error": TimeoutError("the model is busy"),
    "neither yes nor no": "I would rather not say.",
    "a remark after the answer": "NO_OUTPUT\n\nThe text does not mention it.",
}


def survival(bench: Benchmark) -> None:
    """Twenty documents, one reply of twenty bad: how many of the other nineteen come through, word for word?"""
    documents = [Document(page_content=f"Fact {i} is known. So is more.", id=str(i)) for i in range(20)]
    own = {str(d.id): d.page_content for d in documents}

    for what, bad in BAD.items():

        def reply(messages: Sequence[Any], bad: Any = bad) -> str:
            prompt = "\n".join(str(m.text) for m in messages)
            if "Fact 7 " in prompt:
                if isinstance(bad, Exception):
                    raise bad
                return str(bad)
            if "Relevant (YES / NO)" in prompt:
                return "YES"
            if "Extracted relevant parts:" in prompt:
                return next(f"Fact {i} is known." for i in range(20) if f"Fact {i} " in prompt)
            return "1"

        for name, compressor in compressors(FunctionChatModel(reply=reply)).items():
            if "groups" in name:
                continue
            for sync in (True, False):
                try:
                    out = ask(compressor, documents, "What is known?", sync)
                except Exception as error:
                    out, failed = [], f" ({type(error).__name__})"
                else:
                    failed = ""
                texts = [d.page_content.strip() for d in out]
                others = {i for i, text in own.items() if i != "7" and any(t and t in text for t in texts)}
                junk = sum(not any(t in text for text in own.values()) for t in texts)
                label = f"one bad reply, {what}: {name}, {'sync' if sync else 'async'}"
                goal = 19 if name.startswith("ours") else None
                bench.row(f"{label}: of the other 19 kept{failed}", len(others), "documents", at_least=goal)
                goal = 0 if name.startswith("ours") else None
                bench.row(f"{label}: texts that are not the source's", junk, "documents", at_most=goal)


def overhead(bench: Benchmark) -> None:
    """The adapter over the core: 20 documents of 2,000 characters, a scorer that costs nothing; processor time."""
    documents = [
        Document(page_content=("word " * 400)[:2000], id=str(i), metadata={"source": "x", "page": i})
        for i in range(20)
    ]
    denoiser = ENDDenoiser(FunctionScorer(lambda query, text: 1.0), threshold=-math.inf)
    compressor = DenoiseCompressor(denoiser=denoiser)
    passages = [Passage(d.page_content, str(d.id), metadata=d.metadata) for d in documents]

    async def adapter() -> None:
        await compressor.acompress_documents(documents, "q")

    async def core() -> None:
        await denoiser.adenoise("q", passages)

    rounds = 20 if bench.options.quick else 300
    with_adapter = median_ms(lambda: compressor.compress_documents(documents, "q"), rounds)
    alone = median_ms(lambda: denoiser.denoise("q", passages), rounds)
    goal = None if bench.options.quick else 1.0
    bench.row("core alone, 20 documents of 2,000 characters", alone, "CPU ms")
    bench.row("adapter over the core, sync", with_adapter - alone, "CPU ms", at_most=goal)
    with asyncio.Runner() as runner:
        with_adapter = median_ms(lambda: runner.run(adapter()), rounds)
        alone = median_ms(lambda: runner.run(core()), rounds)
    bench.row("adapter over the core, async", with_adapter - alone, "CPU ms", at_most=goal)


def median_ms(work: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1000 * statistics.median(times)


def concurrency(bench: Benchmark) -> None:
    """Twenty documents, 0.1 s a call, ten at once: two calls' time."""
    model = FunctionChatModel(reply=lambda messages: "1", seconds=0.1)
    denoiser = S2ADenoiser(ChatModelLLM(model), variant="select", max_concurrency=20)
    compressor = DenoiseCompressor(denoiser=denoiser, max_concurrency=10)
    documents = [Document(page_content=f"Sentence {i}. Another.", id=str(i)) for i in range(20)]
    ask(compressor, documents[:1], "q", True)
    for sync in (True, False):
        started = time.perf_counter()
        ask(compressor, documents, "q", sync)
        seconds = time.perf_counter() - started
        goal = None if bench.options.quick else 0.3
        bench.row(f"20 calls of 0.1 s, 10 at once, {'sync' if sync else 'async'}", seconds, "s", at_most=goal)


THEIRS = (
    "import numpy; from langchain_core.documents import BaseDocumentCompressor; "
    "from langchain_core.callbacks import Callbacks; from langchain_core.messages import AIMessage; "
    "from langchain_core.runnables import RunnableSerializable"
)


def imports(bench: Benchmark) -> None:
    """Processor seconds in a fresh interpreter, median; ours beyond what it uses of langchain-core and numpy."""
    rounds = 1 if bench.options.quick else 15
    statements = {
        "langchain_core and numpy": THEIRS,
        "langchain_denoise": f"{THEIRS}; import langchain_denoise",
        "its DenoiseCompressor": f"{THEIRS}; from langchain_denoise import DenoiseCompressor",
        "every name it has": f"{THEIRS}; from langchain_denoise import *",
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(rounds):  # in turns, so that a busy moment meets all of them
        for name, statement in statements.items():
            code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            times[name].append(float(done.stdout))
    base, *ours = ((name, statistics.median(t)) for name, t in times.items())
    bench.row(f"import {base[0]}", base[1], "CPU s")
    for name, seconds in ours:
        goal = None if bench.options.quick or name == "every name it has" else 0.1
        bench.row(f"import {name}, beyond these", seconds - base[1], "CPU s", at_most=goal)


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("langchain_peers", arguments(__doc__ or "", argv))
    all_work = work(bench, limit=6)
    overhead(bench)
    concurrency(bench)
    imports(bench)
    survival(bench)
    peers(bench, all_work)
    return bench.finish()


if __name__ == "__main__":
    main()
