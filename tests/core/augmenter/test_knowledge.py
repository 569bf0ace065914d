"""Knowledge: retrievers, links, chains, tables, queries, and the consolidator over them."""

import asyncio
import itertools

import numpy as np
import pytest
from augmenter_doubles import check_loop, scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import InputError, Message, Passage, Reply, Span, run
from denoise_core.augmenter import Augmenter, Outcome, WorkingMemory
from denoise_core.augmenter.knowledge import (
    BM25Retriever,
    ChainDenoiser,
    ChainRetriever,
    Consolidator,
    Link,
)
from denoise_core.augmenter.knowledge.chain import Chain, find_chains, pack_chains
from denoise_core.augmenter.knowledge.link import find_links
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.testing import FunctionLLM, ListRetriever, check_denoiser

CELLS = (
    "Cap is 7 ; Player is Ann Lee ; Home is Arden",
    "Cap is 8 ; Player is Bo Ray ; Home is Belmor",
    "Cap is 9 ; Player is Cy Moe",
)
ROWS = tuple(
    Passage(text, f"rovers#row{number}", metadata={"title": "Rovers", "kind": "row"})
    for number, text in enumerate(CELLS)
)
PAGES = (
    Passage(
        "Arden is a town on the Elk river.", "arden", metadata={"title": "Arden (town)"}
    ),
    Passage(
        "Belmor is a town on the Fox river.", "belmor", metadata={"title": "Belmor"}
    ),
    Passage(
        "A river rises in the hills and ends in a lake.",
        "river",
        metadata={"title": "River"},
    ),
    Passage(
        "Rovers are a club whose players come from many homes.",
        "club",
        metadata={"title": "Rovers"},
    ),
)
CORPUS = ROWS + PAGES
ASKED = "Which river is at the home of the Rovers player with cap 7?"


def everything(retriever, query):
    results = retriever.retrieve(query)
    assert asyncio.run(retriever.aretrieve(query)) == results
    return results


def test_bm25_finds_stems_titles_and_nothing_that_shares_no_word():
    retriever = BM25Retriever(CORPUS)
    assert everything(retriever, "rivers in Belmor")[0].id == "belmor"
    assert everything(retriever, "zebra") == ()
    assert everything(retriever, "") == ()
    scores = [p.score for p in everything(retriever, ASKED)]
    assert scores == sorted(scores, reverse=True)
    assert all(s > 0 for s in scores)


def test_bm25_uses_stop_words_only_when_there_is_nothing_else():
    retriever = BM25Retriever([Passage("The Who", "who"), Passage("bananas", "b")])
    assert [p.id for p in retriever.retrieve("the who")] == ["who"]
    assert [p.id for p in retriever.retrieve("who ate the bananas")] == ["b"]


@pytest.mark.parametrize(
    "passages", [(), (Passage("", "a"),), (Passage("🗼 …", "a"), Passage("  ", "b"))]
)
def test_nothing_to_search_finds_nothing(passages):
    for retriever in (BM25Retriever(passages), ChainRetriever(passages)):
        assert everything(retriever, "tower 🗼") == ()


def test_bm25_in_other_scripts_and_without_stemming():
    retriever = BM25Retriever(
        [Passage("東京は日本の首都", "jp"), Passage("Москва — столица", "ru")],
        language=None,
    )
    assert [p.id for p in retriever.retrieve("首都")] == ["jp"]
    assert [p.id for p in retriever.retrieve("столица")] == ["ru"]


def test_bad_settings_of_retrievers_are_refused():
    same = (Passage("a", "x"), Passage("b", "x"))
    for make, message in (
        (lambda: BM25Retriever(CORPUS, k=0), "k=0"),
        (lambda: BM25Retriever(same), "share the id"),
        (
            lambda: BM25Retriever(CORPUS, language="klingon").retrieve("a"),
            "language='klingon'",
        ),
        (lambda: ChainRetriever(CORPUS, tokens=0), "tokens=0"),
        (lambda: ChainDenoiser(tokens=0), "tokens=0"),
        (
            lambda: find_chains(CORPUS, np.zeros((2, 3), dtype=np.float32), []),
            "expected shape",
        ),
    ):
        with pytest.raises(InputError, match=message):
            make()


def test_links_are_exact_names_at_their_place_without_the_bracketed_part():
    links = find_links(CORPUS)
    assert Link(Span("rovers#row0", 39, 44), "Arden", "arden") in links
    assert ROWS[0].text[39:44] == "Arden"
    assert not any(link.target_id.startswith("rovers#") for link in links)
    assert not any(link.target_id == link.span.passage_id for link in links)


def test_of_several_bearers_of_a_name_the_surroundings_choose():
    known_passages = (
        Passage(
            "Mercury is a planet near the sun.",
            "planet",
            metadata={"title": "Mercury (planet)"},
        ),
        Passage(
            "Mercury is a metal, liquid when warm.",
            "metal",
            metadata={"title": "Mercury (element)"},
        ),
        Passage(
            "A novel.", "novel", metadata={"title": "Sun", "aliases": ["The Sun", 7]}
        ),
    )
    texts = (
        Passage("The probe flew by Mercury on its way to the sun.", "a"),
        Passage("Liquid metal: Mercury.", "b"),
    )
    results = {
        (link.span.passage_id, link.name): link.target_id
        for link in find_links((*texts, *known_passages))
    }
    assert results["a", "Mercury"] == "planet"
    assert results["b", "Mercury"] == "metal"
    assert results["a", "the sun"] == "novel"


def test_a_chain_brings_the_page_that_the_question_never_names():
    plain = [p.id for p in BM25Retriever(CORPUS, k=2).retrieve(ASKED)]
    assert "arden" not in plain
    first, second, *_ = everything(ChainRetriever(CORPUS, tokens=30), ASKED)
    assert {first.id, second.id} == {"rovers#row0", "arden"}
    assert sorted(first.metadata["chain"]["path"]) == ["arden", "rovers#row0"]
    assert first.metadata["chain"]["via"] == ["Arden"]
    assert first.metadata["chain"]["rank"] == 1


def test_the_budget_of_tokens_holds_and_each_passage_comes_once():
    for tokens in (1, 10, 20, 50, 1000):
        results = ChainRetriever(CORPUS, tokens=tokens).retrieve(ASKED)
        assert sum(-(-len(p.text) // 4) for p in results) <= tokens
        assert len({p.id for p in results}) == len(results)


def test_a_link_through_a_hub_costs_more_than_a_rare_one():
    scores = np.zeros((2, 22), dtype=np.float32)
    scores[0, 0], scores[1, 1] = 1.0, 1.0
    passages = tuple(Passage(f"passage {n}", str(n)) for n in range(22))
    rare_links = [Link(Span("0", 0, 1), "x", "1")]
    hub_links = list(rare_links)
    for number in range(2, 22):
        hub_links.append(Link(Span(str(number), 0, 1), "x", "0"))
        hub_links.append(Link(Span(str(number), 0, 1), "x", "1"))
    best_scores = []
    for links in (rare_links, hub_links):
        chains = find_chains(passages, scores, links)
        pair_scores = [
            c.score for c in chains if {p.id for p in c.passages} == {"0", "1"}
        ]
        best_scores += pair_scores
    assert best_scores[0] > best_scores[1]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text("ab c", max_size=8), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12),
    st.integers(0, 9),
)
def test_chains_are_paths_of_linked_passages_each_set_once(texts, pairs, tokens):
    passages = tuple(Passage(t, str(n)) for n, t in enumerate(texts))
    links = [Link(Span(str(a), 0, 1), "x", str(b)) for a, b in pairs]
    linked = {frozenset(pair) for pair in pairs}
    term_scores = BM25Retriever(passages).term_scores("a b c")
    chains = find_chains(passages, term_scores, links)
    sets = [frozenset(p.id for p in c.passages) for c in chains]
    assert len(set(sets)) == len(sets)
    assert [c.score for c in chains] == sorted(
        (c.score for c in chains), reverse=True
    ) or max(np.diff([c.score for c in chains])) < 1e-8
    for chain in chains:
        ids = [int(p.id) for p in chain.passages]
        assert len(ids) == len(set(ids)) <= 2
        assert all(frozenset(step) in linked for step in itertools.pairwise(ids))
        assert len(chain.links) == len(ids) - 1
    packed_passages = pack_chains(chains, tokens)
    assert sum(-(-len(p.text) // 4) for p, _ in packed_passages) <= tokens


def test_packing_passes_over_what_does_not_fit():
    long, short = Passage("x" * 400, "long"), Passage("x" * 4, "short")
    packed_passages = pack_chains([Chain((long, short), (), 1.0)], 50)
    assert [p.id for p, _ in packed_passages] == ["short"]


def test_the_chain_denoiser_keeps_every_law():
    result = check_denoiser(lambda: ChainDenoiser(tokens=25), ASKED, CORPUS)
    assert [p.id for p in result.passages] == ["rovers#row0", "arden"]
    scores = [drop.score for drop in result.dropped]
    assert all(s is not None for s in scores)


def test_dropped_chains_come_back_when_the_draft_fails():
    def make():
        retriever = ListRetriever(PAGES[1:] + ROWS + PAGES[:1])
        return Augmenter(
            scripted("The Elk river."), retriever, denoiser=ChainDenoiser(tokens=12)
        )

    answer = check_loop(make, ASKED)
    assert answer.outcome is Outcome.SUPPORTED
    assert "arden" in [p.id for p in answer.memory.evidence]


def test_several_sources_are_asked_at_once_and_merged_by_rank():
    one, two = ListRetriever(PAGES[:2]), ListRetriever(PAGES[1:])
    memory = WorkingMemory("q")
    results, trace = run(Consolidator([one, two]).gather(memory))
    assert [p.id for p in results.evidence] == ["arden", "belmor", "river", "club"]
    assert len(trace.events) == 2


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ("1. Arden river\n- Elk river\n", ["q", "Arden river", "Elk river"]),
        ('"Arden"\n\n' + "x" * 400, ["q", "Arden"]),
        ("a\nb\nc\nd\ne", ["q", "a", "b", "c"]),
        ("", ["q"]),
        (OSError("down"), ["q"]),
        (Reply(None), ["q"]),
    ],
)
def test_a_model_may_write_the_queries_and_may_fail(reply, queries):
    retriever = ListRetriever(PAGES)
    model = scripted(reply)
    memory = WorkingMemory("q", history=(Message("user", "Tell me of Arden"),))
    run(Consolidator(retriever, queries=LLMQueries(model)).gather(memory))
    assert retriever.queries == queries
    assert "Tell me of Arden" in model.received_messages[0][1].content


def test_queries_that_a_model_did_not_write_are_heard_of(caplog):
    from denoise_core.runtime import fallbacks

    def down(messages):
        raise ConnectionError("no route")

    fallbacks._counts.clear()
    memory = WorkingMemory("When was it built?")
    queries, _ = run(LLMQueries(FunctionLLM(down))(memory, False))
    assert queries == ("When was it built?",)
    assert "LLMQueries" in caplog.text
    assert "ConnectionError" in caplog.text
    assert "no route" not in caplog.text, "its text may be a user's"
