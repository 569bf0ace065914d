"""One pass: chunks read on from their scoring give what a masked reading of the whole prompt gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from denoise_core import Budget, BudgetExceeded, InputError, Passage
from denoise_core.augmenter import Augmenter, LoopLimits
from denoise_core.augmenter.memory import Reason, Verdict
from denoise_core.augmenter.policy import Rules
from denoise_core.augmenter.utility import without_effects
from denoise_core.end import ENDDenoiser, HiddenReader, Probe, ProbeScorer
from denoise_core.end.answering import OnePassAnswers, OnePassDrafter, SecondPass
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


def own_masks(early, ids, places):
    """What the model itself lets each block see, ``(tokens, tokens)`` each, and the blocks' other arguments."""
    seen, told = [], []

    def note(block, args, kwargs):
        mask = kwargs["attention_mask"]
        if mask is None:
            mask = torch.ones(len(ids), len(ids)).tril() > 0
        mask = mask if mask.dtype == torch.bool else mask == 0
        seen.append(mask.reshape(len(ids), len(ids)))
        told.append(kwargs)

    hooks = [block.register_forward_pre_hook(note, with_kwargs=True) for block in early.blocks]
    with torch.inference_mode():
        early.decoder(input_ids=torch.tensor([ids]), position_ids=torch.tensor([places]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return seen, told


def masked_reading(model, texts, switch):
    """The same by masks alone, over the whole prompt: below ``switch`` a chunk sees what it saw alone.

    Every mask is one that the model itself made, so windows and sections are its own. Logits of the last token.
    """
    early = early_layers(model)
    ids, owner, own = [*BEGIN], [-1] * len(BEGIN), list(range(len(BEGIN)))
    for n, text in enumerate(texts):
        if n:
            own += range(len(ids), len(ids) + len(GLUE))
            ids, owner = ids + GLUE, owner + [99] * len(GLUE)
        own += range(len(BEGIN), len(BEGIN) + len(text))
        ids, owner = ids + text, owner + [n] * len(text)
    own += range(len(ids), len(ids) + len(TAIL))
    ids, owner = ids + TAIL, owner + [99] * len(TAIL)
    seg, places = torch.tensor(owner), list(range(len(ids)))
    page, _ = own_masks(early, ids, places)
    _, told = own_masks(early, ids, own)
    alone = [torch.zeros(len(ids), len(ids), dtype=torch.bool) for _ in page]
    for n, text in enumerate(texts):
        prompt = [*BEGIN, *text]
        where = torch.tensor([*range(len(BEGIN)), *(i for i, o in enumerate(owner) if o == n)])
        for mask, small in zip(alone, own_masks(early, prompt, list(range(len(prompt))))[0], strict=True):
            mask[where[:, None], where[None, :]] = small
    for mask in alone:
        mask[seg == 99, 0] = True  # rows that do not count: attention to nothing is not a number
    x = None

    def instead(n):
        def hook(block, args, kwargs, output):
            nonlocal x
            x = args[0] if x is None else x

            def run(arguments, mask):
                bias = torch.zeros(1, 1, len(ids), len(ids)).masked_fill(~mask, torch.finfo(torch.float32).min)
                out = block.forward(x, **arguments | {"attention_mask": bias})
                return out[0] if isinstance(out, tuple) else out

            new = run(kwargs, page[n])
            if n < switch:
                new = torch.where((seg == 99)[None, :, None], new, run(told[n], alone[n]))
            x = new
            return (x, *output[1:]) if isinstance(output, tuple) else x

        return hook

    hooks = [b.register_forward_hook(instead(n), with_kwargs=True) for n, b in enumerate(early.blocks)]
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([ids]), position_ids=torch.tensor([places]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return ids, out.logits[0, -1]


def read_on(model, page):
    """Logits of the last token of what was read."""
    with torch.inference_mode():
        last, at = torch.tensor([page.ids[-1:]]), torch.tensor([[len(page.ids) - 1]])
        return model(input_ids=last, position_ids=at, past_key_values=page.past()).logits[0, -1]


BOUND = 2e-6  # of the largest logit, in float32: what docs/end.md promises; processors round differently


def off_by(found, wanted):
    return float((found - wanted).abs().max() / wanted.abs().max())


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
    assert off_by(read_on(model, page), wanted) < BOUND


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


REFUSED = {
    "no rotary positions": ("gpt2", "gpt_neo", "opt", "opt-350m", "bloom", "mpt", "falcon-alibi"),
    "recurrent layers": ("qwen3_next", "qwen3_5_text", "lfm2"),
    "entered in the middle": ("gemma4_text",),  # each block adds to the state what it makes of the token itself
}


def test_every_family_is_the_masked_reading_or_refused_with_the_reason(tiny, decoder):
    """With windows and sections a third of the prompt; docs/end.md names the families."""
    model = tiny(decoder, "AutoModelForCausalLM", **windows(decoder))
    early = early_layers(model)
    one_pass = OnePass(early, 3, 2)
    why = one_pass.off()
    expected = next((reason for reason, families in REFUSED.items() if decoder in families), None)
    if expected is not None:
        assert expected in why
        return
    assert why is None
    chunks = chunks_of(early, CHUNKS, layer=3)
    page = one_pass.read(None, chunks[:2], GLUE, TAIL)
    ids, wanted = masked_reading(model, CHUNKS[:2], 2)
    assert page.ids == ids
    assert off_by(read_on(model, page), wanted) < BOUND
    again = one_pass.read(page, chunks[2:], GLUE, TAIL)
    same(again, one_pass.read(None, chunks, GLUE, TAIL))
    ids, wanted = masked_reading(model, CHUNKS, 2)
    assert again.ids == ids
    assert off_by(read_on(model, again), wanted) < BOUND


def windows(family):
    """Sliding windows and sections of nine tokens, where a family has them: a third of the prompt."""
    import transformers

    known = transformers.CONFIG_MAPPING[family.partition("-")[0]]()
    return {name: 9 for name in ("sliding_window", "attention_chunk_size") if hasattr(known, name)}


@pytest.mark.parametrize("family", ["llama", "olmo2", "gemma3_text", "gptj", "deepseek_v3"])
def test_half_precision_is_held_against_its_own_rounding(tiny, family):
    model = tiny(family, "AutoModelForCausalLM").to(torch.bfloat16)
    assert OnePass(early_layers(model), 3, 2).off() is None


def test_keys_turned_wrongly_are_refused_in_every_precision(tiny):
    for dtype in (torch.float32, torch.bfloat16):
        model = tiny("llama", "AutoModelForCausalLM").to(dtype)
        early = early_layers(model)
        early.decoder.rotary_emb.register_buffer(
            "inv_freq", early.decoder.rotary_emb.inv_freq * 2, persistent=False
        )
        moved = early.decoder.rotary_emb.forward

        def other(x, at, moved=moved):
            return moved(x, at * 2)

        early.decoder.rotary_emb.forward = other
        assert "turned" in OnePass(early, 3, 2).off()


def test_blocks_that_hide_more_than_the_configuration_says_are_refused(tiny):
    model = tiny("llama", "AutoModelForCausalLM")

    def hide(block, args, kwargs):
        seen = (
            torch.ones(1, 1, args[0].shape[1], args[0].shape[1]).tril()
            - torch.ones(args[0].shape[1]).diag(-3)[:-3, :-3]
        )
        return args, kwargs | {"attention_mask": seen > 0}

    early = early_layers(model)
    early.blocks[1].register_forward_pre_hook(hide, with_kwargs=True)
    assert "hide other tokens" in OnePass(early, 3, 2).off()


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
    again = answers.answer("which hall?", texts[2:], "be brief", before=first)
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
    assert (await end.aagain(found, left)).text == more.text
    assert {p.id for p in more.result.passages} == {p.id for p in PASSAGES}
    assert found.result.dropped
    assert not more.result.dropped
    assert [e.tag for e in more.trace.events] == ["denoise", "answer", "again"]
    assert more.trace.events[-1].usage.input_tokens == len(more.read.ids)
    exact = SecondPass(ENDDenoiser(answers.scorer, keep=2), answers.llm).answer("which hall?", PASSAGES)
    with pytest.raises(InputError, match="one_pass"):
        end.again(exact, left)
    with pytest.raises(InputError, match="list of Passage"):
        end.again(found, left[0])


def test_what_comes_again_draws_on_what_is_left_of_the_budget(answers):
    found = second_pass(answers, budget=Budget(calls=2)).answer("which hall?", PASSAGES)
    more = second_pass(answers, budget=Budget(calls=2)).again(found, PASSAGES[2:])
    with pytest.raises(BudgetExceeded):
        second_pass(answers, budget=Budget(calls=2)).again(more, PASSAGES[2:])
    with pytest.raises(BudgetExceeded):
        second_pass(answers, budget=Budget(tokens=found.trace.usage.total)).again(found, PASSAGES[2:])


async def test_a_stream_in_one_pass_is_the_answer_in_one_pass(answers):
    end = second_pass(answers)
    whole = end.answer("which hall?", PASSAGES)
    kept, pieces = end.stream("which hall?", PASSAGES)
    assert kept.passages == whole.result.passages
    assert pieces.answered is None
    assert "".join(pieces) == whole.text
    assert pieces.answered.read.ids == whole.read.ids
    assert [e.tag for e in pieces.answered.trace.events] == ["denoise", "answer"]
    assert pieces.answered.trace.usage == whole.trace.usage
    _, later = await end.astream("which hall?", PASSAGES)
    assert "".join([piece async for piece in later]) == whole.text
    more = end.again(pieces.answered, [Passage("Late news.", "d")])
    assert more.text == end.again(whole, [Passage("Late news.", "d")]).text
    with pytest.raises(BudgetExceeded):
        second_pass(answers, budget=Budget(calls=0)).stream("which hall?", PASSAGES)


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3_text", "olmo3"])
def test_answers_again_and_drafts_beyond_a_sliding_window_are_the_reference(
    tiny, byte_tokenizer, chat_template, family
):
    tokenizer = byte_tokenizer(template=chat_template)
    texts = ["The hall is gold and wide.", "Rain fell all night.", "The tower is old."]
    model = tiny(family, "AutoModelForCausalLM", max_position_embeddings=2048, sliding_window=70)
    reader = HiddenReader(model, tokenizer=tokenizer)
    probe = Probe(np.ones(32, dtype=np.float32), 0.0, reader.reading(LAYER))
    found = OnePassAnswers(
        ProbeScorer(model, probe, tokenizer=tokenizer), LocalLLM(model, tokenizer, max_new_tokens=4)
    )
    assert found.off() is None
    first = found.answer("which hall?", texts[:1])  # one text: the exact reading
    assert len(first.ids) > 3 * 70
    ids = torch.tensor([first.ids])
    with torch.inference_mode():
        wanted = model(input_ids=ids).logits[0, -1]
    assert off_by(read_on(model, first.page), wanted) < 1e-5
    whole = found.answer("which hall?", texts)
    again = found.answer("which hall?", texts[2:], before=found.answer("which hall?", texts[:2]))
    same(again.page, whole.page, 1e-4)
    assert again.ids == whole.ids
    drafter = OnePassDrafter(found)
    passages = [Passage(t, str(n)) for n, t in enumerate(texts)]
    drafter.draft(Asked(passages[:2]))
    assert drafter.draft(Asked(passages)) == again.reply


def test_a_loop_with_two_readmissions_shows_them_in_trace_and_budget(answers):
    class Strict:
        def assess(self, memory, candidate):
            return without_effects(Verdict("fail", 0.0, (Reason("name the hall"),)))

    loop = Augmenter(
        retriever=ListRetriever(PASSAGES),
        denoiser=ENDDenoiser(answers.scorer, keep=1),
        judge=Strict(),
        policy=Rules(readmit=1, widen=False),
        limits=LoopLimits(attempts=3),
        budget=Budget(tokens=100_000),
    )
    found = loop.answer("which hall?", drafter=OnePassDrafter(answers))
    drafts = [e for e in found.trace.events if e.tag == "draft"]
    assert len(drafts) == 3
    sizes = [e.usage.input_tokens for e in drafts]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert {p.id for p in found.memory.evidence} == {p.id for p in PASSAGES}
    assert found.trace.usage.total == sum(e.usage.total for e in drafts)


def test_what_cannot_be_read_in_one_pass_is_read_exactly_and_said(answers, tiny, caplog):
    learned = tiny("gpt2", "AutoModelForCausalLM", n_positions=512)
    tokenizer = answers.llm.tokenizer
    reader = HiddenReader(learned, tokenizer=tokenizer)
    probe = Probe(np.ones(learned.config.hidden_size, dtype=np.float32), 0.0, reader.reading(LAYER))
    scorer, llm = ProbeScorer(learned, probe, tokenizer=tokenizer), LocalLLM(learned, tokenizer, max_new_tokens=4)
    found = SecondPass(ENDDenoiser(scorer, keep=2), llm, reading="one_pass").answer("which hall?", PASSAGES[:1])
    assert found.read is None
    assert "no rotary positions" in caplog.text
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
    loop = Augmenter(retriever=ListRetriever(PASSAGES), judge=Strict(), limits=LoopLimits(attempts=2))
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
