"""What S2A costs: output tokens and time of select against rewriting and against the nearest pieces elsewhere.

One scripted model serves everyone: it finds the same sentences needed whoever asks, answers in the form it is
asked for, and takes as long as a server that reads 5,000 tokens a second, writes 60 a second and needs 50 ms a
call. So the figures say what each *way of asking* costs, not how well a model chooses. Twenty real documents a
question (HotpotQA: ten of its own, ten of another question). Two scripts: only the supporting sentences are
needed ("sparse"), and all of the supporting paragraphs ("dense").

Against: LangChain's LLMChainExtractor, sync (one call after another) and async (all at once), and
LlamaIndex's LLMRerank, which chooses whole documents and cannot choose sentences.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from _s2a_shared import SMALL, passages_of, sentences_of
from harness import Benchmark, arguments, read

from denoise_core import LLM, Message, Passage, Reply, Usage
from denoise_core.s2a import Cache, Options, S2ADenoiser

READS, WRITES, OVERHEAD = 5000.0, 60.0, 0.05
_PIECE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
QUOTES = '" '  # some sentences of the set end in the quotation mark that opens the next
_GROUPS = Options(joint=True, window=4000)


class Server:
    """The scripted model. ``wanted`` are the sentences needed; ``calls`` and tokens are counted."""

    def __init__(self, count: Callable[[str], int], speed: float) -> None:
        self.count = count
        self.speed = speed  # 1 is as stated above; quick forms are faster
        self.wanted: list[str] = []
        self.calls = self.read = self.written = 0

    def answer(self, prompt: str) -> tuple[str, float]:
        found = [s for s in self.wanted if s in prompt]
        if "Extracted relevant parts:" in prompt:
            text = " ".join(found) or "NO_OUTPUT"
        elif "Relevance:" in prompt:
            documents = re.split(
                r"^Document (\d+):\n", prompt.split("Let's try this now:")[-1], flags=re.MULTILINE
            )
            named = [n for n, d in zip(documents[1::2], documents[2::2]) if any(s in d for s in self.wanted)]
            text = "\n".join(f"Doc: {n}, Relevance: 9" for n in named)
        elif "Each piece of the text begins with its number" in prompt:
            cut = _PIECE.split(prompt.split("\nEND ")[0])[1:]
            numbers = [int(n) for n, piece in zip(cut[::2], cut[1::2]) if self._needed(piece)]
            text = _ranges(numbers) or "NONE"
        else:
            question = prompt.split("Question:\n")[1].split("\n")[0]
            text = f"Context: {' '.join(found) or 'NONE'}\nQuestion: {question}"
        read, written = self.count(prompt), self.count(text)
        self.calls, self.read, self.written = self.calls + 1, self.read + read, self.written + written
        return text, (OVERHEAD + read / READS + written / WRITES) / self.speed

    def _needed(self, piece: str) -> bool:
        own = piece.split("\n\n")[0].strip()
        return any(own and (own in s or s in own) for s in self.wanted)


def _ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` -> ``1-3, 7``"""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


class OurModel:
    def __init__(self, server: Server) -> None:
        self.server = server

    def complete(self, messages: Sequence[Message]) -> Reply:
        text, seconds = self.server.answer("\n".join(m.content for m in messages))
        time.sleep(seconds)
        return Reply(text, Usage(0, self.server.count(text)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        text, seconds = self.server.answer("\n".join(m.content for m in messages))
        await asyncio.sleep(seconds)
        return Reply(text, Usage(0, self.server.count(text)))


def langchain_extractor(server: Server) -> Any:
    from langchain_classic.retrievers.document_compressors import LLMChainExtractor
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    def result(text: str) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            text, seconds = server.answer(messages[-1].text)
            time.sleep(seconds)
            return result(text)

        async def _agenerate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> ChatResult:
            text, seconds = server.answer(messages[-1].text)
            await asyncio.sleep(seconds)
            return result(text)

    return LLMChainExtractor.from_llm(Model())


def llamaindex_rerank(server: Server) -> Any:
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.postprocessor import LLMRerank

    class Model(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=100_000)

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            text, seconds = server.answer(prompt)
            time.sleep(seconds)
            return CompletionResponse(text=text)

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError("not used here")

    return LLMRerank(llm=Model(), choice_batch_size=10, top_n=20)


def token_counter() -> Callable[[str], int]:
    """Tokens of the cl100k vocabulary, which llama-index-core brings along; no download."""
    from llama_index.core.utils import get_tokenizer

    encode = get_tokenizer()
    return lambda text: len(encode(text))


Work = tuple[
    str, list[Passage], list[str], list[str]
]  # question, documents, supporting sentences, paragraphs' all


def work(bench: Benchmark, limit: int) -> list[Work]:
    if bench.options.quick:
        ps = [Passage(t, str(i)) for i, t in enumerate(SMALL)]
        return [("Where was Marie Curie born?", ps, sentences_of(SMALL[0])[:1], sentences_of(SMALL[0]))]
    records = [r for r in read(bench.options.data, "hotpotqa_distractor") if len(r["passages"]) == 10]
    out: list[Work] = []
    for one, other in zip(records, records[1:] + records[:1]):
        own = passages_of(one)
        documents = own + [Passage(p.text, f"other-{p.id}", metadata=p.metadata) for p in passages_of(other)]
        gold = [(p, n) for p in one["passages"] for n in p["gold_sentences"] if n < len(p["sentences"])]
        sparse = [s for p, n in gold if telling(s := p["sentences"][n].strip())]
        dense = [s for p in one["passages"] if p["is_gold"] for s in map(str.strip, p["sentences"]) if telling(s)]
        if sparse:
            out.append((one["question"], documents, sparse, dense))
    return out[:limit]


def telling(sentence: str) -> bool:
    """Long enough to be found in its document and nowhere else; the set has pieces like a lone bracket."""
    return len(sentence) >= 20


def ways(server: Server) -> dict[str, Callable[[str, list[Passage]], Any]]:
    """Each way to denoise, as a function of the question and the documents."""
    from langchain_core.documents import Document
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    llm: LLM = OurModel(server)
    extractor, rerank = langchain_extractor(server), llamaindex_rerank(server)
    select, default = S2ADenoiser(llm, variant="select"), S2ADenoiser(llm)
    grouped = S2ADenoiser(llm, variant="select", options=_GROUPS)

    def docs(passages: list[Passage]) -> list[Document]:
        return [Document(p.text, id=p.id) for p in passages]

    def nodes(passages: list[Passage]) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=p.text, id_=p.id)) for p in passages]

    return {
        "LLMChainExtractor, sync": lambda q, ps: extractor.compress_documents(docs(ps), q),
        "LLMChainExtractor, async": lambda q, ps: asyncio.run(extractor.acompress_documents(docs(ps), q)),
        "LLMRerank (whole documents)": lambda q, ps: rerank.postprocess_nodes(nodes(ps), QueryBundle(q)),
        "S2A default": default.denoise,
        "S2A select": select.denoise,
        "S2A select, groups of documents": grouped.denoise,
        "S2A select, groups, async": lambda q, ps: asyncio.run(grouped.adenoise(q, ps)),
    }


def main(argv: list[str] | None = None) -> Benchmark:
    options = arguments(__doc__ or "", argv)
    bench = Benchmark("s2a_cost", options)
    server = Server(token_counter(), speed=50.0 if options.quick else 1.0)
    all_work = work(bench, limit=12)
    for script in ("sparse", "dense"):
        spent: dict[str, tuple[int, int, int, float]] = {}
        lost = 0
        for name, way in ways(server).items():
            server.calls = server.read = server.written = 0
            started = time.perf_counter()
            for question, documents, sparse, dense in all_work:
                server.wanted = sparse if script == "sparse" else dense
                result = way(question, documents)
                if getattr(result, "fallback", None):
                    raise SystemExit(f"{name} fell back: {result.fallback}")
                if name == "S2A select, groups of documents":
                    text = " ".join(p.text for p in result.passages)
                    lost += sum(s.strip(QUOTES) not in text for s in server.wanted)
            seconds = (time.perf_counter() - started) / len(all_work)
            spent[name] = (server.calls, server.read, server.written, seconds)
        report(bench, script, spent, len(all_work), lost)
    again(bench, server, all_work)
    return bench.finish()


def report(
    bench: Benchmark, script: str, spent: dict[str, tuple[int, int, int, float]], count: int, lost: int
) -> None:
    for name, (calls, tokens_in, tokens_out, seconds) in spent.items():
        bench.row(f"{script}: {name}: calls a question", calls / count, "calls")
        bench.row(f"{script}: {name}: tokens read a question", tokens_in / count, "tokens")
        bench.row(f"{script}: {name}: tokens written a question", tokens_out / count, "tokens")
        bench.row(f"{script}: {name}: time a question", seconds, "s")
    best, plain = spent["S2A select, groups of documents"], spent["S2A select"]
    sync, parallel, default = (
        spent["LLMChainExtractor, sync"],
        spent["LLMChainExtractor, async"],
        spent["S2A default"],
    )
    quick = bench.options.quick
    tenth, quarter = (None, None) if quick else (0.10, 0.25)
    for name, ours in (("select", plain), ("select in groups", best)):
        goal = tenth if ours is best else None
        bench.row(f"{script}: {name} / extractor, tokens written", ours[2] / sync[2], "ratio", at_most=goal)
        bench.row(f"{script}: {name} / default, tokens written", ours[2] / default[2], "ratio", at_most=tenth)
        bench.row(f"{script}: {name} / extractor sync, time", ours[3] / sync[3], "ratio", at_most=quarter)
    ours_async = spent["S2A select, groups, async"]
    bench.row(f"{script}: select in groups / extractor async, time", ours_async[3] / parallel[3], "ratio")
    bench.row(f"{script}: needed sentences lost by select in groups", lost, "sentences", at_most=0)


def again(bench: Benchmark, server: Server, all_work: list[Work]) -> None:
    """The same questions once more, through the cache."""
    cached = S2ADenoiser(
        OurModel(server), variant="select", options=Options(joint=True, window=4000, cache=Cache("scripted"))
    )
    times = []
    for _ in range(2):
        server.calls = 0
        started = time.perf_counter()
        for question, documents, sparse, _ in all_work:
            server.wanted = sparse
            cached.denoise(question, documents)
        times.append((server.calls, (time.perf_counter() - started) / len(all_work)))
    bench.row("cache: calls the second time", times[1][0], "calls", at_most=0)
    bench.row("cache: time a question the second time", times[1][1], "s")


if __name__ == "__main__":
    main()
