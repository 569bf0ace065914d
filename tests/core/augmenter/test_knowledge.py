"""Knowledge: retrievers, links, chains, tables, queries, and the consolidator over them."""

import asyncio
import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from augmenter_doubles import scripted
from growing_texts import numbered_texts, passages_of
from hypothesis import given, settings
from hypothesis import strategies as st

from denoise_core import InputError, Message, Passage, Reply, Span, run
from denoise_core.augmenter import WorkingMemory
from denoise_core.augmenter.knowledge import (
    BM25Retriever,
    ChainDenoiser,
    ChainRetriever,
    Consolidator,
    DenseRetriever,
    HybridRetriever,
    Link,
)
from denoise_core.augmenter.knowledge.chain import Chain, find_chains, pack_chains
from denoise_core.augmenter.knowledge.link import find_links
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.runtime import fallbacks
from denoise_core.testing import ListRetriever, check_denoiser

CELLS = (
    "Cap is 7 ; Player is Ann Lee ; Home is Arden",
    "Cap is 8 ; Player is Bo Ray ; Home is Belmor",
    "Cap is 9 ; Player is Cy Moe",
)
ROWS = tuple(
    Passage(text, f"rovers#row{number}", metadata={"title": "Rovers", "kind": "row"})
    for number, text in enumerate(CELLS)
)


def titled(text, passage_id, title, *aliases):
    metadata = {"title": title, "aliases": aliases}
    return Passage(text, passage_id, metadata=metadata)


PAGES = (
    titled("Arden is a town on the Elk river.", "arden", "Arden (town)"),
    titled("Belmor is a town on the Fox river.", "belmor", "Belmor"),
    titled("A river rises in the hills and ends in a lake.", "river", "River"),
    titled("Rovers are a club whose players come from many homes.", "club", "Rovers"),
)
CORPUS = ROWS + PAGES
ASKED = "Which river is at the home of the Rovers player with cap 7?"


def ids(passages):
    return [passage.id for passage in passages]


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
    assert ids(retriever.retrieve("the who")) == ["who"]
    assert ids(retriever.retrieve("who ate the bananas")) == ["b"]


@pytest.mark.parametrize(
    "passages", [(), (Passage("", "a"),), (Passage("🗼 …", "a"), Passage("  ", "b"))]
)
def test_nothing_to_search_finds_nothing(passages):
    for retriever in (BM25Retriever(passages), ChainRetriever(passages)):
        assert everything(retriever, "tower 🗼") == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BM25Retriever(CORPUS, k=0), "k=0"),
        (lambda: BM25Retriever(CORPUS[:1] * 2), "share the id"),
        (
            lambda: BM25Retriever(CORPUS, language="klingon").retrieve("a"),
            "language='klingon'",
        ),
        (lambda: DenseRetriever(CORPUS, len, k=0), "k=0"),
        (lambda: HybridRetriever([]), "one retriever or more"),
        (lambda: ChainRetriever(CORPUS, tokens=0), "tokens=0"),
        (lambda: ChainDenoiser(tokens=0), "tokens=0"),
        (lambda: find_chains(CORPUS, np.zeros((2, 3)), []), "expected shape"),
    ],
)
def test_bad_settings_of_retrievers_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def letters(texts):
    return np.array(
        [[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for t in texts],
        dtype=np.float64,
    )


def test_dense_finds_the_nearest_and_embeds_once():
    calls = []

    def embed(texts):
        calls.append(len(texts))
        return letters(texts)

    retriever = DenseRetriever(CORPUS, embed, k=2)
    results = everything(retriever, "Belmor Belmor is a town on the Fox river.")
    assert results[0].id == "belmor"
    assert len(results) == 2
    assert results[0].score == pytest.approx(1.0, abs=0.05)
    assert calls == [len(CORPUS), 1, 1]
    assert DenseRetriever([], embed).retrieve("x") == ()


def test_dense_search_is_the_same_without_the_extra(monkeypatch):
    passages = [Passage(text, text) for text in ("abc", "zz", "ab", "b")]
    with_faiss = DenseRetriever(passages, letters, k=3).retrieve("ab")
    monkeypatch.setitem(sys.modules, "faiss", None)
    without = DenseRetriever(passages, letters, k=3).retrieve("ab")
    assert ids(without) == ["ab", "abc", "b"]
    assert without == with_faiss


@pytest.mark.parametrize(
    "embed",
    [
        lambda t: np.zeros(3),
        lambda t: np.zeros((1, 3)),
        lambda t: np.full((len(t), 2), np.nan),
    ],
)
def test_wrong_embeddings_are_refused(embed):
    with pytest.raises(InputError, match="embed "):
        DenseRetriever(CORPUS, embed).retrieve("x")


def test_hybrid_adds_reciprocal_ranks_and_joins_equal_texts():
    a, b, c = (Passage(t, t) for t in "abc")
    other_passage = Passage("b", "other id")
    results = everything(
        HybridRetriever(
            [ListRetriever([a, b]), ListRetriever([other_passage, other_passage, c])]
        ),
        "q",
    )
    assert [(p.id, p.score) for p in results] == [
        ("b", 1 / 62 + 1 / 61),
        ("a", 1 / 61),
        ("c", 1 / 63),
    ]


def test_links_are_exact_names_at_their_place_without_the_bracketed_part():
    links = find_links(CORPUS)
    assert Link(Span("rovers#row0", 39, 44), "Arden", "arden") in links
    assert ROWS[0].text[39:44] == "Arden"
    assert not any(link.target_id.startswith("rovers#") for link in links)
    assert not any(link.target_id == link.span.passage_id for link in links)


def test_of_several_bearers_of_a_name_the_surroundings_choose():
    passages = (
        titled("Mercury is a planet near the sun.", "planet", "Mercury (planet)"),
        titled("Mercury is a metal, liquid when warm.", "metal", "Mercury (element)"),
        titled("A novel of 1984.", "novel", "Sun", "The Sun", 7, "1984"),
        Passage("The probe flew by Mercury on its way to the sun in 1984.", "a"),
        Passage("Liquid metal: Mercury.", "b"),
    )
    targets = {}
    for link in find_links(passages):
        targets[link.span.passage_id, link.name] = link.target_id
    assert targets["a", "Mercury"] == "planet"
    assert targets["b", "Mercury"] == "metal"
    assert targets["a", "the sun"] == "novel"
    assert ("a", "1984") not in targets


def test_a_chain_brings_the_page_that_the_question_never_names():
    plain = ids(BM25Retriever(CORPUS, k=2).retrieve(ASKED))
    assert "arden" not in plain
    first, second, *_ = everything(ChainRetriever(CORPUS, tokens=30), ASKED)
    assert {first.id, second.id} == {"rovers#row0", "arden"}
    assert sorted(first.metadata["chain"]["path"]) == ["arden", "rovers#row0"]
    assert first.metadata["chain"]["via"] == ["Arden"]
    assert first.metadata["chain"]["rank"] == 1


def test_a_link_through_a_hub_costs_more_than_a_rare_one():
    def score_of_pair(links):
        chains = find_chains(passages, scores, links)
        return next(c.score for c in chains if {p.id for p in c.passages} == {"0", "1"})

    passages = passages_of(numbered_texts("passage {n}", 22))
    scores = np.zeros((2, 22), dtype=np.float32)
    scores[0, 0] = scores[1, 1] = 1.0
    rare = [Link(Span("0", 0, 1), "x", "1")]
    hub = list(rare)
    for n in range(2, 22):
        hub += [Link(Span(str(n), 0, 1), "x", target) for target in "01"]
    assert score_of_pair(rare) > score_of_pair(hub)


@settings(max_examples=50)
@given(
    st.lists(st.text("ab c", max_size=8), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12),
    st.integers(0, 9),
)
def test_chains_are_paths_of_linked_passages_each_set_once(texts, pairs, tokens):
    passages = tuple(passages_of(texts))
    links = [Link(Span(str(a), 0, 1), "x", str(b)) for a, b in pairs]
    linked = {frozenset(pair) for pair in pairs}
    term_scores = BM25Retriever(passages).term_scores("a b c")
    chains = find_chains(passages, term_scores, links)
    sets = [frozenset(p.id for p in c.passages) for c in chains]
    assert len(set(sets)) == len(sets)
    scores = [chain.score for chain in chains]
    assert all(b - a < 1e-8 for a, b in itertools.pairwise(scores))
    for chain in chains:
        ids = [int(p.id) for p in chain.passages]
        assert len(ids) == len(set(ids)) <= 2
        assert all(frozenset(step) in linked for step in itertools.pairwise(ids))
        assert len(chain.links) == len(ids) - 1
    packed = [passage for passage, _ in pack_chains(chains, tokens)]
    assert sum(-(-len(p.text) // 4) for p in packed) <= tokens
    assert len({p.id for p in packed}) == len(packed)


def test_packing_passes_over_what_does_not_fit():
    long, short = Passage("x" * 400, "long"), Passage("x" * 4, "short")
    packed_passages = pack_chains([Chain((long, short), (), 1.0)], 50)
    assert [p.id for p, _ in packed_passages] == ["short"]


def test_the_chain_denoiser_keeps_every_law():
    result = check_denoiser(
        lambda: ChainDenoiser(tokens=25),
        ASKED,
        CORPUS,
    )
    assert ids(result.passages) == ["rovers#row0", "arden"]
    scores = [drop.score for drop in result.dropped]
    assert all(s is not None for s in scores)


def test_several_sources_are_asked_at_once_and_merged_by_rank():
    one, two = ListRetriever(PAGES[:2]), ListRetriever(PAGES[1:])
    memory = WorkingMemory("q")
    results, trace = run(Consolidator([one, two]).gather(memory))
    assert ids(results.evidence) == ["arden", "belmor", "river", "club"]
    assert len(trace.events) == 2


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ("1. Arden river\n- Elk river\n", ["q", "Arden river", "Elk river"]),
        ('"Arden"\n\n' + "x" * 400, ["q", "Arden"]),
        ("a\nb\nc\nd\ne", ["q", "a", "b", "c"]),
        ("", ["q"]),
        (ConnectionError("no route"), ["q"]),
        (Reply(None), ["q"]),
    ],
)
def test_a_model_may_write_the_queries_and_may_fail_aloud(reply, queries, caplog):
    fallbacks._counts.clear()
    retriever = ListRetriever(PAGES)
    model = scripted(reply)
    memory = WorkingMemory("q", history=(Message("user", "Tell me of Arden"),))
    run(Consolidator(retriever, queries=LLMQueries(model)).gather(memory))
    assert retriever.queries == queries
    assert "Tell me of Arden" in model.received_messages[0][1].content
    has_failed = not isinstance(reply, str)
    assert ("LLMQueries" in caplog.text) is has_failed
    assert "no route" not in caplog.text, "its text may be a user's"


def test_a_wide_search_asks_with_the_turn_before():
    history = (Message("user", "Tell me of Arden"), Message("assistant", "A town."))
    memory = WorkingMemory("Its river?", history=history)
    retriever = ListRetriever(PAGES)
    run(Consolidator(retriever).gather(memory, wide=True))
    assert retriever.queries == ["Its river?", "Tell me of Arden Its river?"]
    asked = replace(memory, queries=("Its river?",))
    retriever.queries.clear()
    run(Consolidator(retriever).gather(asked, wide=True))
    assert retriever.queries == ["Tell me of Arden Its river?"]
