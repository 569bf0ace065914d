"""What S2A costs in money: input, output and cached input, next to filters of LangChain and LlamaIndex.

One scripted model serves all methods: it finds the same sentences needed for each and answers in the requested
form. So the figures compare *ways of asking*, not how well a model selects. Twenty real documents a question
(HotpotQA: ten of its own, ten of another question). Two scripts: only the supporting sentences are needed
("sparse"), or all sentences of the supporting paragraphs ("dense").

Prices are per token, in units of an input token: output 4, cached input 0.25 (as with several hosted models;
where cached input costs 0.1 the warm figures are lower). *Cold*: nothing is cached. *Warm*: another question
about the same documents was asked before; input counts as cached up to the longest prefix of an earlier
prompt, in whole blocks of 16 tokens, as in vLLM.

Peers run at their defaults: LangChain's LLMChainExtractor and LLMChainFilter (one call a document), LlamaIndex's
LLMRerank (ten documents a call). Filter and reranker choose whole documents, which is less work than choosing
sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from _s2a_shared import ScriptedQuestion, count_kept, scripted_questions
from harness import Benchmark

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

EXTRACTOR = "LLMChainExtractor"
SELECT = "S2A select"
SELECT_WITH_SCHEMA = "S2A select, held to a schema"
SELECT_ONE_BY_ONE = "S2A select, one by one"
REWRITE = "S2A default"
ONE_BY_ONE = Options(join_passages=False)
MONEY_UNIT = "input tokens' worth"

Filter: TypeAlias = Callable[[str, list[Passage]], Any]


def main() -> None:
    bench = Benchmark("s2a_cost", __doc__)
    server = ScriptedServer(cl100k_encoder())
    questions = scripted_questions(bench, limit=12)
    for script in ("sparse", "dense"):
        is_sparse = script == "sparse"
        cold: dict[str, TokenUsage] = {}
        warm: dict[str, TokenUsage] = {}
        lost_count = 0
        for name, filter_passages in build_filters(server).items():
            server.clear_cache()
            cold[name], lost = ask_all(
                server, filter_passages, questions, is_sparse, shift=0
            )
            warm[name], _ = ask_all(
                server, filter_passages, questions, is_sparse, shift=1
            )
            if name == SELECT:
                lost_count = lost
        rows = bench.under(f"{script}: ")
        report_money(rows, cold, warm, len(questions))
        rows.row("needed sentences lost by select", lost_count, "sentences", at_most=0)
    report_changed_documents(bench, server, questions)
    bench.finish()


def build_filters(server: ScriptedServer) -> dict[str, Filter]:
    """Return each filter as a function of question and documents; calls are made one after another."""
    from langchain_classic.retrievers.document_compressors import (
        LLMChainExtractor,
        LLMChainFilter,
    )
    from langchain_core.documents import Document
    from llama_index.core.postprocessor import LLMRerank
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    chat_model = langchain_model(server)
    reranker = LLMRerank(llm=llamaindex_model(server))

    def as_filter(compressor: Any) -> Filter:
        def compress(question: str, passages: list[Passage]) -> Any:
            documents = [Document(passage.text, id=passage.id) for passage in passages]
            return compressor.compress_documents(documents, question)

        return compress

    def rerank(question: str, passages: list[Passage]) -> Any:
        nodes = []
        for passage in passages:
            node = TextNode(text=passage.text, id_=passage.id)
            nodes.append(NodeWithScore(node=node))
        return reranker.postprocess_nodes(nodes, QueryBundle(question))

    def denoise(llm: LLM, **settings: Any) -> Filter:
        return S2ADenoiser(llm, max_concurrency=1, **settings).denoise

    llm = ScriptedLLM(server)
    return {
        EXTRACTOR: as_filter(LLMChainExtractor.from_llm(chat_model)),
        "LLMChainFilter (whole documents)": as_filter(
            LLMChainFilter.from_llm(chat_model)
        ),
        "LLMRerank (whole documents)": rerank,
        SELECT: denoise(llm),
        SELECT_WITH_SCHEMA: denoise(ScriptedJsonLLM(server)),
        SELECT_ONE_BY_ONE: denoise(llm, options=ONE_BY_ONE),
        REWRITE: denoise(llm, variant="default"),
    }


def ask_all(
    server: ScriptedServer,
    filter_passages: Filter,
    questions: Sequence[ScriptedQuestion],
    is_sparse: bool,
    shift: int,
) -> tuple[TokenUsage, int]:
    """Return what all questions cost, and how many needed sentences the filter lost.

    With ``shift`` 1 the documents of each question are asked with the next question.
    """
    server.reset_counts()
    lost_count = 0
    for number, question in enumerate(questions):
        text = questions[(number + shift) % len(questions)].text
        if len(questions) == 1:
            text = f"{shift}: who?"
        server.needed_sentences = question.gold_paragraphs
        if is_sparse:
            server.needed_sentences = question.gold_sentences
        result = filter_passages(text, question.passages)
        if getattr(result, "fallback", None):
            raise SystemExit(f"fell back: {result.fallback}")
        kept_texts = [passage.text for passage in getattr(result, "passages", ())]
        lost_count += len(server.needed_sentences) - count_kept(
            server.needed_sentences, kept_texts
        )
    return server.usage, lost_count


def report_money(
    bench: Benchmark,
    cold: dict[str, TokenUsage],
    warm: dict[str, TokenUsage],
    count: int,
) -> None:
    for name in cold:
        cold_money = cold[name].uncached_cost
        warm_money = warm[name].cached_cost
        bench.row(f"{name}: money, cold", cold_money / count, MONEY_UNIT)
        bench.row(f"{name}: money, warm, vLLM", warm_money / count, MONEY_UNIT)
        if not name.startswith("S2A"):
            continue
        rows = bench.under(f"{name} / extractor, money, ", has_targets=name == SELECT)
        cold_ratio = cold_money / cold[EXTRACTOR].uncached_cost
        rows.row("cold", cold_ratio, "ratio", at_most=0.6)
        warm_ratio = warm_money / warm[EXTRACTOR].cached_cost
        rows.row("warm, vLLM", warm_ratio, "ratio", at_most=0.35)


def report_changed_documents(
    bench: Benchmark, server: ScriptedServer, questions: Sequence[ScriptedQuestion]
) -> None:
    """Ask about a hundred documents, then about 80 of them with another question.

    The rows say how much of the second prompt a cache of prefixes has, with joint calls
    and with a call a document.
    """
    documents: list[Passage] = []
    for question in questions:
        documents += question.passages
    hundred = []
    for number in range(100):
        text = documents[number % len(documents)].text
        hundred.append(Passage(text, str(number)))
    eighty = [passage for number, passage in enumerate(hundred) if number % 5]
    server.needed_sentences = questions[0].gold_sentences
    for name, options in (
        ("joint calls", Options()),
        ("a call a document", ONE_BY_ONE),
    ):
        server.clear_cache()
        denoiser = S2ADenoiser(ScriptedLLM(server), max_concurrency=1, options=options)
        denoiser.denoise("First question?", hundred)
        server.reset_counts()
        denoiser.denoise("Another question?", eighty)
        rows = bench.under(
            f"80 of 100 documents, another question, same order, {name}: "
        )
        rows.row("prompt cached", server.cached_tokens / server.input_tokens, "share")
        rows.row("money, warm", server.usage.cached_cost, MONEY_UNIT)


if __name__ == "__main__":
    main()
