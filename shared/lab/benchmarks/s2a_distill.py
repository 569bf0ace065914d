"""Teaching the reader what S2A does: fine-tuning on its own distilled records, and what that gains.

The S2A paper's conclusion proposes to train on S2A's results, so that one call suffices. The recipe, in a few
minutes on one core:

1. S2A answers questions of the training world, with opinions in the question and a noisy context.
2. Each run becomes a record ``(x, x', y, verdict)``; kept are those that were right, added nothing and did not
   fall back (`denoise_lab.s2a.distill.faithful`), exported as chat examples from x straight to y.
3. A copy of the reader is trained on them, the replies' tokens only.
4. The copy answers the held-out questions of `s2a_opinions` in one plain call, beside the reader itself.

A control is trained on as many right answers of the plain reader to the same questions, so that what is gained by
S2A's answers can be told from what more training gains. ``--out FOLDER`` keeps the records, the examples and the
trained copy.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import Benchmark, reader_arguments

from denoise_core.s2a import S2AResult
from denoise_core.s2a.answer import S2AAnswer
from denoise_core.types import Message
from denoise_lab.experiments.flows import Batched, batches_of, describe, local, s2a_table, together
from denoise_lab.experiments.opinions import Asked, Told, ask, forms_in_context, scores
from denoise_lab.protocols.opinions import final, systems
from denoise_lab.s2a.distill import Record, export_chat, faithful, load, load_chat, save
from denoise_lab.s2a.fine_tune import BATCH, PASSES, RATE, fine_tuned
from denoise_lab.worlds.world import World

QUESTIONS, HELD_OUT = 200, 80  # each in four forms
TEACHER = "s2a keep_original"  # the best of them beside passages (`s2a_opinions`, other questions)
NAMES = ("plain, before", "plain, after", "plain, control", TEACHER)


def records(llm: Batched, asked: Sequence[Asked], system: str) -> list[Record]:
    """What a system said, with the verdict on it."""
    answer = systems(llm)[system]
    told = together([answer(a.case, 0) for a in asked])
    return [_record(a, said) for a, (said, _) in zip(asked, told, strict=True)]


def _record(asked: Asked, said: S2AAnswer) -> Record:
    right = final(said.text) in asked.case.gold
    return Record.of(asked.case.question, asked.case.passages, said, verdict="pass" if right else "fail")


def examples(found: Sequence[Record], folder: Path, name: str) -> list[tuple[Message, ...]]:
    """By way of the files, as somebody would who collects records over weeks."""
    save(found, folder / f"{name}.records.jsonl")
    kept = faithful(load(folder / f"{name}.records.jsonl"), only_passed=True)
    export_chat(kept, folder / f"{name}.chat.jsonl", target="answer")
    return load_chat(folder / f"{name}.chat.jsonl")


def main(argv: Sequence[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--out", type=Path)
    own, rest = parser.parse_known_args(argv)
    options, model_folder = reader_arguments(__doc__.splitlines()[0], rest)
    bench = Benchmark("s2a_distill", options)
    llm = _tiny() if options.quick else local(model_folder)
    reader = Batched(batches_of(llm))
    count, held_out = (2, 1) if options.quick else (QUESTIONS, HELD_OUT)
    rng = random.Random(f"distill/{options.seed}")
    asked = forms_in_context(World(rng), rng, count)
    with tempfile.TemporaryDirectory() as scratch:
        folder = own.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        chats = {
            name: examples(
                _gold(asked) if options.quick else records(reader, asked, name), folder, name.replace(" ", "_")
            )
            for name in (TEACHER, "plain")
        }
        bench.row("questions asked for records", len(asked), "count")
        for name, found in chats.items():
            bench.row(f"{name}: records worth learning from", len(found), "count")
        size = min(map(len, chats.values()))
        bench.row("examples trained on", size, "count")
        learners = {}
        for name, found in chats.items():
            chosen = random.Random(options.seed).sample(found, size)
            model = fine_tuned(llm.model, llm.tokenizer, chosen, options.seed)
            learners[name] = Batched(batches_of(_with(llm, model)))
            if own.out:
                model.save_pretrained(folder / f"{name.replace(' ', '_')}.model")
                llm.tokenizer.save_pretrained(folder / f"{name.replace(' ', '_')}.model")
    trained = f"AdamW, rate {RATE:g}, {PASSES} passes in batches of {BATCH}"
    describe(bench, model_folder, questions=f"{held_out} held out, each in four forms", training=trained)
    rng = random.Random(f"distill/held out/{options.seed}")
    test = forms_in_context(World(rng, test=True), rng, held_out)
    told = {
        "plain, before": ask(reader, test, "plain"),
        "plain, after": ask(learners[TEACHER], test, "plain"),
        "plain, control": ask(learners["plain"], test, "plain"),
        TEACHER: ask(reader, test, TEACHER),
    }
    report(bench, test, told)
    return bench.finish()


def report(bench: Benchmark, test: Sequence[Asked], told: dict[str, Told]) -> None:
    bench.row("held-out questions", len(test), "count")
    everything = [s for name in NAMES for s in scores(name, test, told[name])]
    s2a_table(bench, everything, "exact", "answers", "S2A distilled into the reader")
    wrong = [i for i, a in enumerate(test) if a.case.kind == "incorrect_suggested"]
    after, before, control = (told[n].right for n in ("plain, after", "plain, before", "plain, control"))
    bench.gain("after less before, all types", after, before, claim=True)
    bench.gain("after less control, all types", after, control, claim=True)
    own = [[right[i] for i in wrong] for right in (after, before, control)]
    bench.gain("after less before, incorrect_suggested", own[0], own[1], claim=True)
    bench.gain("after less control, incorrect_suggested", own[0], own[2], claim=True)
    bench.gain(f"after less {TEACHER}, all types", after, told[TEACHER].right, claim=False)


def _with(llm: Any, model: Any) -> Any:
    """The same tokenizer and settings around other weights."""
    from denoise_core.local.generation.llm import LocalLLM

    return LocalLLM(model, llm.tokenizer, max_new_tokens=llm.max_new_tokens)


def _gold(asked: Sequence[Asked]) -> list[Record]:
    """For the quick form, whose model gets nothing right: records of right answers."""
    found = []
    for a in asked:
        result = S2AResult(a.case.clean_question, a.case.clean_passages)
        found.append(_record(a, S2AAnswer(a.case.gold[0], a.case.clean_question, result)))
    return found


def _tiny() -> Any:
    """A random model of the reader's make, for the quick form."""
    import torch

    from denoise_core.local.generation.llm import LocalLLM
    from denoise_lab.training.network import Network, Shape, hugging_face
    from denoise_lab.training.vocabulary import train_tokenizer

    torch.manual_seed(0)
    tokenizer = train_tokenizer(conversations=100)
    shape = Shape(vocabulary=len(tokenizer), width=32, inner=32, layers=1, first=1, heads=2)
    return LocalLLM(hugging_face(Network(shape), tokenizer).float(), tokenizer, max_new_tokens=4)


if __name__ == "__main__":
    main()
