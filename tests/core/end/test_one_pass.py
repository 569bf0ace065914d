"""One pass: chunks read on from their scoring give what a masked reading of the whole prompt gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from denoise_core import InputError, Passage
from denoise_core.augmenter import Augmenter, LoopLimits
from denoise_core.augmenter.memory import Reason, Verdict
from denoise_core.augmenter.utility import without_effects
from denoise_core.end import ENDDenoiser, HiddenReader, Probe, ProbeScorer
from denoise_core.end.answering.drafting import OnePassDrafter
from denoise_core.end.answering.one_pass import OnePassAnswers
from denoise_core.end.answering.second_pass import SecondPass
from denoise_core.local.first_layers import early_layers
from denoise_core.local.generation.llm import LocalLLM
from denoise_core.local.keeping.kv import record
from denoise_core.local.keeping.one_pass import Chunk, OnePass
from denoise_core.local.keeping.prefix import PrefixCache
from denoise_core.local.layout import Prompt
from denoise_core.testing import FunctionLLM, ListRetriever

LAYER = 4
BEGIN, GLUE, TAIL = [5, 6, 7], [8, 9], [10, 11, 12, 13]
CHUNKS = [[20, 21, 22, 23, 24], [30, 31, 32], [40, 41, 42, 43, 44, 45, 46]]


def chunks_of(early, texts, layer=LAYER):
    prompts = [Prompt((*BEGIN, *t, *TAIL), (3, 3 + len(t)), (3 + len(t), 7 + len(t)), 3 + len(t)) for t in texts]
    _, kept = record(early, prompts, [p.shared for p in prompts], layer, 2, states=True)
    return [Chunk(p.ids, *p.passage, k) for p, k in zip(prompts, kept, strict=True)]


def same(one, other, tolerance=1e-5):
    assert one.ids == other.ids
    for (k1, v1), (k2, v2) in zip(one.cache, other.cache, strict=True):
        assert torch.allclose(k1, k2, atol=tolerance)
        assert torch.allclose(v1, v2, atol=tolerance)


def masked_reading(model, texts, switch):
    """The same by masks alone, over the whole prompt: below ``switch`` a chunk sees the beginning and itself."""
    ids, owner = [*BEGIN], [-1] * len(BEGIN)
    own = list(range(len(BEGIN)))  # the place at which a token was read when its chunk stood alone
    for n, text in enumerate(texts):
        if n:
            own += range(len(ids), len(ids) + len(GLUE))
            ids, owner = ids + GLUE, owner + [99] * len(GLUE)
        own += range(len(BEGIN), len(BEGIN) + len(text))
        ids, owner = ids + text, owner + [n] * len(text)
    own += range(len(ids), len(ids) + len(TAIL))
    ids, owner = ids + TAIL, owner + [99] * len(TAIL)
    seg, at = torch.tensor(owner), torch.arange(len(ids))
    causal = at[:, None] >= at[None, :]
    below = causal & ((seg[None] == -1) | (seg[:, None] == seg[None]) | (seg[:, None] == 99))
    alone = torch.where(seg == 99, at, torch.tensor(own))
    base = model.model

    def bias(seen):
        return torch.zeros(1, 1, len(ids), len(ids)).masked_fill(~seen, torch.finfo(torch.float32).min)

    def block(layer, x, places, mask):
        out = layer(x, attention_mask=bias(mask), position_embeddings=base.rotary_emb(x, places[None]))
        return out[0] if isinstance(out, tuple) else out

    with torch.inference_mode():
        x = base.embed_tokens(torch.tensor([ids]))
        for n, layer in enumerate(base.layers):
            if n < switch:  # chunks where they stood alone, the rest at its place over keys turned to theirs
                by_itself = block(layer, x, alone, below)
                x = torch.where((seg == 99)[None, :, None], block(layer, x, at, below), by_itself)
            else:
                x = block(layer, x, at, causal)
        return ids, model.lm_head(base.norm(x[:, -1:]))[0, 0]


@pytest.fixture(scope="module")
def model(tiny):
    return tiny("llama", "AutoModelForCausalLM", max_position_embeddings=2048)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_it_is_the_masked_reading_of_the_whole_prompt(model, count):
    early = early_layers(model)
    one_pass = OnePass(early, LAYER, 2)
    assert one_pass.off() is None
    page = one_pass.read(None, chunks_of(early, CHUNKS[:count]), GLUE, TAIL)
    ids, wanted = masked_reading(model, CHUNKS[:count], LAYER - 1)
    assert page.ids == ids
    with torch.inference_mode():
        last, at = torch.tensor([page.ids[-1:]]), torch.tensor([[len(ids) - 1]])
        found = model(input_ids=last, position_ids=at, past_key_values=page.past()).logits[0, -1]
    assert torch.allclose(found, wanted, atol=1e-4)


def test_a_single_chunk_is_the_exact_reading(model):
    early = early_layers(model)
    one_pass = OnePass(early, LAYER, 2)
    assert one_pass.off() is None
    page = one_pass.read(None, chunks_of(early, CHUNKS[:1]), GLUE, TAIL)
    ids = torch.tensor([page.ids])
    assert page.ids == [*BEGIN, *CHUNKS[0], *TAIL]
    kwargs = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 2, "attention_mask": torch.ones_like(ids)}
    assert (
        model.generate(ids, **kwargs).tolist()
        == model.generate(ids, past_key_values=page.past(), **kwargs).tolist()
    )


def test_again_is_reading_the_same_order_from_the_start(model):
    early = early_layers(model)
    one_pass = OnePass(early, LAYER, 2)
    assert one_pass.off() is None
    chunks = chunks_of(early, CHUNKS)
    first = one_pass.read(None, chunks[:2], GLUE, TAIL)
    model.generate(torch.tensor([first.ids]), past_key_values=first.past(), max_new_tokens=5, pad_token_id=2)
    later = [*TAIL, 14, 15]
    same(one_pass.read(first, chunks[2:], GLUE, later), one_pass.read(None, chunks, GLUE, later))
    same(one_pass.read(first, [], GLUE, later), one_pass.read(None, chunks[:2], GLUE, later))


def test_every_family_is_read_like_itself_or_refused_with_the_reason(tiny, decoder):
    early = early_layers(tiny(decoder))
    one_pass = OnePass(early, 3, 2)
    why = one_pass.off()
    if why is not None:
        assert any(
            word in why for word in ("rotary", "frequencies", "turned", "entered in the middle", "own states")
        )
        return
    chunks = chunks_of(early, CHUNKS, layer=3)
    page = one_pass.read(None, chunks[:2], GLUE, TAIL)
    longest = one_pass.longest() or 99
    if len(page.ids) <= longest:  # beyond its window a sliding model is read exactly
        same(one_pass.read(page, chunks[2:], GLUE, TAIL[:2]), one_pass.read(None, chunks, GLUE, TAIL[:2]), 1e-3)


@pytest.mark.parametrize("scaling", ["yarn", "llama3", "linear", "dynamic", "longrope"])
def test_frequencies_that_depend_on_the_length_are_refused_and_fixed_ones_are_turned(tiny, scaling):
    more = {"original_max_position_embeddings": 256}
    if scaling == "llama3":
        more |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if scaling == "longrope":
        more |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    scaled = tiny("llama", rope_parameters={"rope_type": scaling, "rope_theta": 500.0, "factor": 2.0, **more})
    why = OnePass(early_layers(scaled), 3, 2).off()
    assert (why is None) == (scaling in ("yarn", "llama3", "linear")), why
    assert why is None or scaling in why


@pytest.fixture(scope="module")
def answers(model, byte_tokenizer, chat_template):
    tokenizer = byte_tokenizer(template=chat_template)
    reader = HiddenReader(model, tokenizer=tokenizer)
    probe = Probe(np.random.default_rng(0).normal(size=32).astype(np.float32), 0.0, reader.reading(LAYER))
    scorer = ProbeScorer(model, probe, tokenizer=tokenizer)
    return OnePassAnswers(scorer, LocalLLM(model, tokenizer, max_new_tokens=8))


def test_an_answer_again_is_the_answer_from_the_start(answers):
    texts = ["The hall is gold.", "Rain fell.", "The tower is old \U0001f642."]
    first = answers.answer("which hall?", texts[:2])
    assert answers.off() is None
    assert answers.apart is not None
    assert answers.apart.divergence >= 0
    again = answers.again(first, texts[2:], "be brief")
    whole = answers.answer("which hall?\n\nbe brief", texts)
    assert again.ids == whole.ids
    assert again.reply == whole.reply


def test_what_left_the_cache_is_read_again(answers):
    read = answers.answer("which hall?", ["The hall is gold.", "Rain fell."])
    answers.scorer.reader.prefix.clear()
    assert answers.answer("which hall?", ["The hall is gold.", "Rain fell."]).reply == read.reply
    none = HiddenReader(answers.llm.model, tokenizer=answers.llm.tokenizer, prefix=PrefixCache(0))
    off = OnePassAnswers(ProbeScorer(none, answers.scorer.probe), answers.llm)
    assert "switched off" in (off.off() or "")
    with pytest.raises(InputError, match="switched off"):
        off.answer("q", ["a"])


def test_two_models_are_refused_with_what_to_type(answers, tiny):
    other = LocalLLM(tiny("llama", "AutoModelForCausalLM", seed=1), answers.llm.tokenizer)
    with pytest.raises(InputError, match="the same loaded object"):
        OnePassAnswers(answers.scorer, other).off()


def second_pass(answers, **settings):
    denoiser = ENDDenoiser(answers.scorer, keep=2)
    return SecondPass(denoiser, answers.llm, reading="one_pass", **settings)


PASSAGES = [Passage("The hall is gold.", "a"), Passage("Rain fell.", "b", header="Weather"), Passage("Snow.", "c")]


async def test_the_second_pass_reads_on_and_again(answers):
    end = second_pass(answers)
    found = end.answer("which hall?", PASSAGES)
    assert (await end.aanswer("which hall?", PASSAGES)).text == found.text
    kept = [p.headed for p in PASSAGES if p.id in {k.id for k in found.result.passages}]
    assert found.read.ids == answers.answer("which hall?", kept).ids
    assert [e.tag for e in found.trace.events] == ["denoise", "answer"]
    assert found.trace.events[1].usage.input_tokens == len(found.read.ids)
    left = [p for p in PASSAGES if p.id not in {k.id for k in found.result.passages}]
    more = end.again(found, left)
    assert more.text == answers.answer("which hall?", [*kept, *(p.headed for p in left)]).reply.text
    exact = SecondPass(ENDDenoiser(answers.scorer, keep=2), answers.llm).answer("which hall?", PASSAGES)
    with pytest.raises(InputError, match="one_pass"):
        end.again(exact, left)


def test_what_cannot_be_read_in_one_pass_is_read_exactly_and_said(answers, tiny, caplog):
    sliding = tiny("mistral", "AutoModelForCausalLM", sliding_window=16)
    tokenizer = answers.llm.tokenizer
    reader = HiddenReader(sliding, tokenizer=tokenizer)
    probe = Probe(np.ones(32, dtype=np.float32), 0.0, reader.reading(LAYER))
    scorer, llm = ProbeScorer(sliding, probe, tokenizer=tokenizer), LocalLLM(sliding, tokenizer, max_new_tokens=4)
    found = SecondPass(ENDDenoiser(scorer, keep=2), llm, reading="one_pass").answer("which hall?", PASSAGES[:1])
    assert found.read is None
    assert "slides over 16" in caplog.text
    assert found.text == SecondPass(ENDDenoiser(scorer, keep=2), llm).answer("which hall?", PASSAGES[:1]).text
    with pytest.raises(InputError, match="only a probe"):
        SecondPass(FunctionDenoiser(), answers.llm, reading="one_pass")
    with pytest.raises(InputError, match="LocalLLM"):
        SecondPass(ENDDenoiser(answers.scorer), FunctionLLM(lambda m: "x"), reading="one_pass")
    with pytest.raises(InputError, match="'exact' or 'one_pass'"):
        SecondPass(ENDDenoiser(answers.scorer), answers.llm, reading="twice")


def test_a_loop_drafts_on_from_what_was_read(answers):
    feedbacks = []

    class Strict:
        def assess(self, memory, candidate):
            feedbacks.append(candidate)
            return without_effects(Verdict("fail", 0.0, (Reason("name the hall"),)))

    drafter = OnePassDrafter(answers)
    loop = Augmenter(retriever=ListRetriever(PASSAGES), utility=Strict(), limits=LoopLimits(attempts=2))
    found = loop.answer("which hall?", drafter=drafter)
    assert found.memory.attempts
    usage = [e.usage for e in found.trace.events if e.tag == "draft"]
    assert usage
    assert all(u is not None and not u.estimated for u in usage)
    first = answers.answer("which hall?", [p.headed for p in PASSAGES])
    assert feedbacks[0] == first.reply.text.strip() or feedbacks[0] == first.reply.text


async def test_a_drafter_appends_what_is_admitted_and_starts_anew_for_other_evidence(answers):
    drafter = OnePassDrafter(answers)
    texts = [p.headed for p in PASSAGES]
    first = drafter.draft(Asked(PASSAGES[:2]))
    assert first == answers.answer("which hall?", texts[:2]).reply
    more = await drafter.adraft(Asked(PASSAGES, "be brief"))
    assert more == answers.answer("which hall?", texts, "be brief").reply
    other = drafter.draft(Asked(PASSAGES[::-1]))
    assert other == answers.answer("which hall?", texts[::-1]).reply
    with pytest.raises(InputError, match="nothing to read"):
        OnePassDrafter(answers).draft(Asked([]))


@dataclass
class Asked:
    evidence: list
    feedback: str = ""
    question: str = "which hall?"


class FunctionDenoiser:
    def denoise(self, query, passages):
        raise AssertionError

    async def adenoise(self, query, passages):
        raise AssertionError
