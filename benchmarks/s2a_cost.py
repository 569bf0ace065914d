"""What S2A costs in money: input, output and cached input, against the nearest pieces elsewhere at their defaults.

One scripted model serves everyone: it finds the same sentences needed whoever asks and answers in the form it
is asked for. So the figures say what each *way of asking* costs, not how well a model chooses. Twenty real
documents a question (HotpotQA: ten of its own, ten of another question). Two scripts: only the supporting
sentences are needed ("sparse"), and all of the supporting paragraphs ("dense").

Prices are per token, in units of an input token: output 4, cached input 0.25 (as with several hosted models;
where cached input costs 0.1 the warm figures are lower). *Cold*: nothing is cached. *Warm*: another question
about the same documents has been asked before; input counts as cached up to the longest prefix that an earlier
prompt had, in whole blocks of 16 tokens, as vLLM does.

Against, at their defaults: LangChain's LLMChainExtractor and LLMChainFilter (one call a document), LlamaIndex's
LLMRerank (ten documents a call; it and the filter choose whole documents, which is less than choosing
sentences).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from _s2a_shared import SMALL, passages_of, sentences_of
from harness import Benchmark, arguments, read_data_set

from denoise_core import LLM, Passage
from denoise_core.s2a import Options, S2ADenoiser
from denoise_lab.experiments.scripted_server import (
    ScriptedJsonLLM,
    ScriptedLLM,
    ScriptedServer,
    TokenUsage,
    cl100k_encoder,
    langchain_model,
    llamaindex_model,
)

QUOTES = '" '  # some sentences of the set end in the quotation mark that opens the next


Work = tuple[
    str, list[Passage], list[str], list[str]
]  # question, documents, supporting sentences, paragraphs' all


def work(bench: Benchmark, limit: int) -> list[Work]:
    if bench.options.quick:
        passages = [Passage(text, str(n)) for n, text in enumerate(SMALL)]
        sentences = sentences_of(SMALL[0])
        return [("Where was Marie Curie born?", passages, sentences[:1], sentences)]
    records = read_data_set(bench.options.data, "hotpotqa_distractor")
    records = [record for record in records if len(record["passages"]) == 10]
    out: list[Work] = []
    for one, other in zip(records, records[1:] + records[:1]):
        documents = passages_of(one)
        for passage in passages_of(other):
            documents.append(replace(passage, id=f"other-{passage.id}"))
        sparse, dense = [], []
        for passage in one["passages"]:
            sentences = [sentence.strip() for sentence in passage["sentences"]]
            gold = [
                sentences[n] for n in passage["gold_sentences"] if n < len(sentences)
            ]
            sparse += filter(telling, gold)
            if passage["is_gold"]:
                dense += filter(telling, sentences)
        if sparse:
            out.append((one["question"], documents, sparse, dense))
    return out[:limit]


def telling(sentence: str) -> bool:
    """Long enough to be found in its document and nowhere else; the set has pieces like a lone bracket."""
    return len(sentence) >= 20


EXTRACTOR, SELECT, ALONE, DEFAULT = (
    "LLMChainExtractor",
    "S2A select",
    "S2A select, one by one",
    "S2A default",
)
HELD = "S2A select, held to a schema"


def ways(server: ScriptedServer) -> dict[str, Callable[[str, list[Passage]], Any]]:
    """Each way to denoise, as a function of the question and the documents; calls one after another."""
    from langchain_classic.retrievers.document_compressors import (
        LLMChainExtractor,
        LLMChainFilter,
    )
    from langchain_core.documents import Document
    from llama_index.core.postprocessor import LLMRerank
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    llm: LLM = ScriptedLLM(server)
    model = langchain_model(server)
    extractor, whole = LLMChainExtractor.from_llm(model), LLMChainFilter.from_llm(model)
    rerank = LLMRerank(llm=llamaindex_model(server))

    def ours(**settings: Any) -> Callable[[str, list[Passage]], Any]:
        return S2ADenoiser(llm, max_concurrency=1, **settings).denoise

    def docs(passages: list[Passage]) -> list[Document]:
        return [Document(p.text, id=p.id) for p in passages]

    def nodes(passages: list[Passage]) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=p.text, id_=p.id)) for p in passages]

    return {
        EXTRACTOR: lambda q, ps: extractor.compress_documents(docs(ps), q),
        "LLMChainFilter (whole documents)": lambda q, ps: whole.compress_documents(
            docs(ps), q
        ),
        "LLMRerank (whole documents)": lambda q, ps: rerank.postprocess_nodes(
            nodes(ps), QueryBundle(q)
        ),
        SELECT: ours(),
        HELD: S2ADenoiser(ScriptedJsonLLM(server), max_concurrency=1).denoise,
        ALONE: ours(options=Options(join_passages=False)),
        DEFAULT: ours(variant="default"),
    }


def main(argv: list[str] | None = None) -> Benchmark:
    bench = Benchmark("s2a_cost", arguments(__doc__ or "", argv))
    server = ScriptedServer(cl100k_encoder())
    all_work = work(bench, limit=12)
    for script in ("sparse", "dense"):
        cold: dict[str, TokenUsage] = {}
        warm: dict[str, TokenUsage] = {}
        lost = 0
        for name, way in ways(server).items():
            server.clear_cache()
            # The second time with another question.
            for spent, shift in ((cold, 0), (warm, 1)):
                server.reset_counts()
                for i, (question, documents, sparse, dense) in enumerate(all_work):
                    if len(all_work) == 1:
                        question = f"{shift}: who?"
                    elif shift:
                        question = all_work[(i + 1) % len(all_work)][0]
                    server.needed_sentences = sparse if script == "sparse" else dense
                    result = way(question, documents)
                    if getattr(result, "fallback", None):
                        raise SystemExit(f"{name} fell back: {result.fallback}")
                    if name == SELECT and not shift:
                        text = " ".join(p.text for p in result.passages)
                        lost += sum(
                            s.strip(QUOTES) not in text for s in server.needed_sentences
                        )
                spent[name] = server.usage
        rows = bench.under(f"{script}: ")
        report(rows, cold, warm, len(all_work))
        rows.row(
            "needed sentences lost by select",
            lost,
            "sentences",
            at_most=0,
        )
    orders(bench, server, all_work)
    return bench.finish()


def report(
    bench: Benchmark,
    cold: dict[str, TokenUsage],
    warm: dict[str, TokenUsage],
    count: int,
) -> None:
    worth = "input tokens' worth"
    for name, spent in cold.items():
        rows = bench.under(f"{name}: ")
        rows.row("calls a question", spent.calls / count, "calls")
        rows.row("input a question", spent.input_tokens / count, "tokens")
        rows.row("output a question", spent.output_tokens / count, "tokens")
        rows.row("money, cold", spent.uncached_cost / count, worth)
        warm_money = warm[name].cached_cost / count
        rows.row("money, warm, vLLM", warm_money, worth)
    for name in (SELECT, HELD, ALONE, DEFAULT):
        rows = bench.under(f"{name} / extractor, money, ", has_targets=name == SELECT)
        ratio = cold[name].uncached_cost / cold[EXTRACTOR].uncached_cost
        rows.row(
            "cold",
            ratio,
            "ratio",
            at_most=0.6,
        )
        ratio = warm[name].cached_cost / warm[EXTRACTOR].cached_cost
        rows.row(
            "warm, vLLM",
            ratio,
            "ratio",
            at_most=0.35,
        )


def orders(bench: Benchmark, server: ScriptedServer, all_work: list[Work]) -> None:
    """A hundred documents and one question; then 80 of them, with another question and with the same one.

    What another question finds in a server's cache of prefixes, in the same order and in another, and with a call
    a document; and how many calls the same question costs again, with selections known by document and question.
    """
    documents = [p for w in all_work for p in w[1]]
    hundred = [Passage(p.text, str(n)) for n, p in enumerate((documents * 100)[:100])]
    eighty = [hundred[n] for n in range(100) if n % 5]
    mixed = random.Random(bench.options.seed).sample(eighty, len(eighty))
    server.needed_sentences = all_work[0][2]
    for name, options in (
        ("joint calls", Options()),
        ("a call a document", Options(join_passages=False)),
    ):
        for order, again in (("same order", eighty), ("other order", mixed)):
            server.clear_cache()
            denoiser = S2ADenoiser(
                ScriptedLLM(server), max_concurrency=1, options=options
            )
            denoiser.denoise("First question?", hundred)
            server.reset_counts()
            denoiser.denoise("Another question?", again)
            rows = bench.under(
                f"80 of 100 documents, another question, {order}, {name}: "
            )
            share = server.cached_tokens / server.input_tokens
            rows.row("prompt cached", share, "share")
            money = server.usage.cached_cost
            rows.row("money, warm", money, "input tokens' worth")


if __name__ == "__main__":
    main()
