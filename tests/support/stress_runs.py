"""One random run: a part, passages, a fault somewhere outside it; and what must hold whatever happened.

*lost*: text came in, none came out, and no policy asked for that. *unreported*: a fault was met and neither
raised nor named in the result. *law broken*: spans that do not tile, ids that were not given. *budget over*:
more calls than allowed.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

import numpy as np
from faults import faults_of
from laws import check_result

from denoise_core import (
    Budget,
    DenoiseResult,
    Guard,
    InputError,
    Passage,
    Pipeline,
    Reply,
    Usage,
)
from denoise_core.augmenter import Augmenter
from denoise_core.end import ENDDenoiser
from denoise_core.errors import is_user_error
from denoise_core.s2a import Cache, Options, S2ADenoiser

LINES = (
    "The tower is 330 m tall. ",
    "I think it is lovely! ",
    "It opened in 1889.\n\n",
    "Bananas are yellow. ",
    "\n",
    "<evidence>END document</evidence> ",
    "Größe: 330 m… ",
    "塔高330米。",
    "\u200b",
    "x" * 40 + " ",
)
QUERY = "How tall is the tower?"
S2A_REPLIES = ("1", "1, 2", "NONE", "2-3", "1-3")
ANSWERS = (
    "The tower is 330 m tall [1].",
    "It is 500 m tall [1].",
    "I do not know.",
    "yes",
)
PARTS = {
    "END": "score",
    "S2A": "complete",
    "S2A cached": "complete",
    "Augmenter": "complete",
    "Guard": "denoise",
    "Pipeline": "complete",
    "LangChain": "complete",
    "LlamaIndex": "complete",
}
"""Each part by the verb of what it works with."""
BUDGETED = ("S2A", "S2A cached", "Augmenter", "LangChain", "LlamaIndex")
GUARDED = ("END", "Guard", "Pipeline")
MISTAKE = "raises a mistake"
WAITS = ("never replies", "cancelled")  # where the caller is async
SECONDS = 0.05  # how long one waits for what never replies


def kinds_of(verb):
    waits = WAITS if verb == "complete" else ()
    return [*faults_of(verb), MISTAKE, *waits]


KINDS = {kind for verb in PARTS.values() for kind in kinds_of(verb)}


class Tally:
    """What happened in all runs, by name, and an example of each thing that went wrong."""

    def __init__(self):
        self.runs = 0
        self.faults, self.parts, self.wrong = Counter(), Counter(), Counter()
        self.examples = []

    def bad(self, what, run, why=""):
        self.wrong[what] += 1
        self.examples.append(f"{what}: {run.part}, {run.fault}: {why}")


@dataclass(frozen=True)
class Run:
    part: str
    fault: str
    at: int
    passages: tuple[Passage, ...]
    reply: str
    calls: int | None

    @staticmethod
    def draw(drawn):
        part = drawn.choice(list(PARTS))
        fault = "none"
        if drawn.random() < 0.85:
            fault = drawn.choice(kinds_of(PARTS[part]))
        passages = []
        for number in range(drawn.randint(0, 5)):
            lines = drawn.choices(LINES, k=drawn.randint(0, 5))
            passages.append(Passage("".join(lines), str(number)))
        reply = drawn.choice(ANSWERS if part == "Augmenter" else S2A_REPLIES)
        budget = None
        if drawn.random() < 0.15:
            budget = drawn.randint(0, 3)
        return Run(part, fault, drawn.randint(1, 3), tuple(passages), reply, budget)

    @property
    def has_text(self):
        return has_text(self.passages)

    def build(self, outside):
        """The method to call, before "a" for its async form, and the arguments."""
        seconds = SECONDS if self.fault == "never replies" else None
        budget = Budget(calls=self.calls, seconds=seconds)
        cache = None
        if self.part == "S2A cached":
            cache = Cache("m")
        options = Options(cache=cache, join_passages=False)
        s2a = S2ADenoiser(outside, variant="select", budget=budget, options=options)
        end = ENDDenoiser(outside, keep=0.5)
        match self.part:
            case "END":
                part = Guard(end)
            case "Guard":
                part = Guard(outside)
            case "Pipeline":
                part = Guard(Pipeline(end, s2a))
            case "Augmenter":
                loop = Augmenter(outside, outside, budget=budget)
                return loop, "answer", (QUERY,)
            case "LangChain":
                return langchain_call(s2a, self.passages)
            case "LlamaIndex":
                return llamaindex_call(s2a, self.passages)
            case _:
                part = s2a
        return part, "denoise", (QUERY, iter(self.passages))


def langchain_call(denoiser, passages):
    from langchain_core.documents import Document

    from langchain_denoise import DenoiseCompressor

    documents = [Document(page_content=p.text, id=p.id) for p in passages]
    compressor = DenoiseCompressor(denoiser=denoiser)
    return compressor, "compress_documents", (documents, QUERY)


def llamaindex_call(denoiser, passages):
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    from llamaindex_denoise import DenoisePostprocessor

    nodes = []
    for passage in passages:
        node = TextNode(text=passage.text, id_=passage.id)
        nodes.append(NodeWithScore(node=node))
    postprocessor = DenoisePostprocessor(denoiser=denoiser)
    return postprocessor, "postprocess_nodes", (nodes, QueryBundle(QUERY))


class Outside:
    """The model, the scorer, the retriever and the denoiser of a run, with its fault from the nth call on."""

    def __init__(self, run):
        self.run = run
        self.calls = 0
        self.met = 0

    def _serve(self, verb, right, *given):
        self.calls += 1
        if self.calls < self.run.at:
            return right
        if self.run.fault == MISTAKE:
            self.met += 1
            raise InputError("that variable is not set")
        fault = faults_of(verb).get(self.run.fault)
        if fault is None:
            return right
        self.met += 1
        return fault(*given)

    def complete(self, messages):
        return self._serve("complete", Reply(self.run.reply, Usage(10, 2)), messages)

    async def acomplete(self, messages):
        reply = self.complete(messages)
        if self.run.fault in WAITS and self.calls >= self.run.at:
            self.met += 1
            await asyncio.sleep(3600)
        await asyncio.sleep(0)
        return reply

    def score(self, query, texts):
        scores = np.arange(len(texts), dtype=np.float32)
        return self._serve("score", scores, query, texts)

    def denoise(self, query, passages):
        result = DenoiseResult(query, tuple(passages)[:1])
        return self._serve("denoise", result, query, tuple(passages))

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)

    def retrieve(self, query):
        return self._serve("raise", self.run.passages)

    async def aretrieve(self, query):
        return self.retrieve(query)


def run_sync(run, tally):
    outside = Outside(run)
    part, method, arguments = run.build(outside)
    try:
        output = getattr(part, method)(*arguments)
    except Exception as error:
        _raised(run, error, tally)
    else:
        _returned(run, outside, output, tally)
    _counted(run, outside, tally)


async def run_async(run, tally):
    """One run, which may be cancelled."""
    outside = Outside(run)
    part, method, arguments = run.build(outside)
    task = asyncio.ensure_future(getattr(part, "a" + method)(*arguments))
    if run.fault == "cancelled":
        asyncio.get_running_loop().call_later(0.005, task.cancel)
    try:
        output = await asyncio.wait_for(task, 60)
    except asyncio.CancelledError:
        if run.fault != "cancelled":
            tally.bad("unreported", run, "cancelled by nobody")
    except Exception as error:
        _raised(run, error, tally)
    else:
        _returned(run, outside, output, tally)
    _counted(run, outside, tally)


def _counted(run, outside, tally):
    tally.runs += 1
    tally.parts[run.part] += 1
    if outside.met:
        tally.faults[run.fault] += 1
    is_over = run.calls is not None and outside.calls > run.calls
    if is_over and run.part in BUDGETED:
        tally.bad("budget over", run, f"{outside.calls} calls of {run.calls}")


def _raised(run, error, tally):
    """Only mistakes may come through: every policy here is to keep."""
    if not is_user_error(error):
        tally.bad("lost", run, f"raised {error!r}")
    elif run.fault != MISTAKE:
        tally.bad("unreported", run, f"raised as a mistake: {error!r}")


def _returned(run, outside, output, tally):
    is_raised = run.fault.startswith("raises") or run.fault == "never replies"
    if run.fault == MISTAKE and outside.met:
        tally.bad("unreported", run, "a mistake was swallowed")
    elif run.part == "Augmenter":
        has_ended = output.stop_reason in ("passed", "sent")
        failures = [what for what, _ in output.memory.failures if what]
        if outside.met and is_raised and has_ended and not failures:
            tally.bad("unreported", run, output.stop_reason)
    elif run.part in ("LangChain", "LlamaIndex"):
        _check_documents(run, outside.met and is_raised, output, tally)
    else:
        _check_output(run, outside, output, tally)


def _check_output(run, outside, output, tally):
    try:
        check_result(run.passages, output)
    except AssertionError as error:
        tally.bad("law broken", run, error)
    is_empty = not has_text(output.passages) and output.relevant is not False
    if run.part in GUARDED and run.has_text and is_empty:
        tally.bad("lost", run, "nothing was kept")
    # One passage has no other order; what a wrong reply says may be right by chance.
    if outside.met and run.has_text and run.fault not in SILENT:
        notes = [output.fallback, *output.failures, output.note]
        for report in getattr(output, "reports", ()):
            notes.append(report.problem)
        if not any(notes):
            tally.bad("unreported", run, output)


SILENT = ("gives another order", "cancelled")


def _check_documents(run, has_failed, output, tally):
    source_text = "\n".join(passage.text for passage in run.passages)
    texts = []
    fallbacks = []
    for text, fallback in read_documents(run.part, output):
        texts.append(text)
        fallbacks.append(fallback)
        for line in filter(str.strip, text.split("\n")):
            words = line.split()
            is_verbatim = line.strip() in source_text
            if not is_verbatim and not all(word in source_text for word in words):
                tally.bad("law broken", run, line)
    if not has_failed or not run.has_text:
        return
    if not any(fallbacks):
        tally.bad("unreported", run, texts[:1])
    if run.at > 1:
        return
    for passage in run.passages:
        if passage.text.strip() and passage.text not in texts:
            tally.bad("lost", run, "not every document came back whole")


def read_documents(part, output):
    """Each document's text, and what its record says went wrong."""
    for item in output:
        if part == "LangChain":
            yield item.page_content, item.metadata.get("denoise_fallback")
            continue
        from llamaindex_denoise import record

        yield item.node.get_content(), (record(item.node) or {}).get("fallback")


def has_text(passages):
    return any(passage.text.strip() for passage in passages)
