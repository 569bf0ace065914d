"""Outages of a scorer, a judge and a store, and how long it takes afterwards until a call is served."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
from faults import PASSAGES, QUERY
from outage_server import OutageServer

from denoise_core import Guard
from denoise_core.end import ENDDenoiser
from denoise_core.errors import is_user_error
from denoise_core.runtime.caches import Cache
from denoise_core.runtime.engines import RemoteLimits
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.scorers import RemoteReranker
from denoise_core.support.check import check
from denoise_core.support.quoting import LLMJudge
from denoise_core.testing import FunctionLLM

CASES_AT_A_TIME = 5  # so that what is timed is not the machine
MAX_RECOVERY_SECONDS = 120.0  # after which an outage has no end
CALLERS = 2  # that ask all the while
CALL_SECONDS = 0.5  # of a request
ALL_TEXTS = [passage.text for passage in PASSAGES]


def connect(url):
    """A function that posts a body there and gives the reply, JSON both."""
    client = httpx.Client(base_url=url, timeout=CALL_SECONDS)
    return lambda body: client.post("/", json=body).json()


class RemoteStore:
    def __init__(self, url):
        self.post = connect(url)

    def get(self, key):
        return self.post({"get": key})

    def put(self, key, text):
        self.post({"put": key, "text": text})


def reply_scores(body):
    rows = []
    for index, text in enumerate(body["documents"]):
        rows.append({"index": index, "relevance_score": float("tower" in text)})
    return {"results": rows}


def serve_texts():
    texts = {}

    def reply(body):
        if "get" in body:
            return texts.get(body["get"])
        texts[body["put"]] = body["text"]
        return None

    return reply


def ask_scorer(url):
    limits = RemoteLimits(timeout=CALL_SECONDS, attempts=2, cooldown=1)
    guard = Guard(ENDDenoiser(RemoteReranker(url, limits=limits), keep=1))

    def call():
        result = guard.denoise(QUERY, PASSAGES)
        texts = [passage.text for passage in result.passages]
        assert texts == (ALL_TEXTS if result.fallback else ALL_TEXTS[:1])
        return result.fallback is None

    return call


def ask_judge(url):
    post = connect(url)
    llm = FunctionLLM(lambda messages: post([m.content for m in messages])["text"])
    judge = LLMJudge(llm, name="m")

    def call():
        try:
            return check(QUERY, "It is in Porto.", PASSAGES, judge=judge).supported
        except Exception as error:
            if is_user_error(error):
                raise
            return False

    return call


def ask_store(url):
    """The store has served when the second of two equal calls costs no completion."""
    cache = Cache("m", RemoteStore(url))
    numbers = count()

    def call():
        completions = []
        llm = FunctionLLM(lambda messages: completions.append(1) or "1")
        denoiser = S2ADenoiser(
            llm,
            variant="select",
            options=Options(cache=cache),
        )
        query = f"{QUERY} {next(numbers)}"
        for _ in range(2):
            result = denoiser.denoise(query, PASSAGES)
            assert result.passages
            assert result.fallback is None
        return len(completions) == 1

    return call


BOUNDARIES = {
    "remote scorer": (lambda: reply_scores, ask_scorer),
    "LLM judge": (lambda: lambda body: {"text": "1 supported 1.1\nanswers"}, ask_judge),
    "store": (serve_texts, ask_store),
}


def seconds_until_well(call):
    start_time = time.monotonic()
    while not call():
        if time.monotonic() - start_time > MAX_RECOVERY_SECONDS:
            raise TimeoutError("it never recovered")
        time.sleep(0.05)
    return time.monotonic() - start_time


def run_outage(boundary, kind, seconds):
    """Return how long it takes after an outage until a call is served; raises for a lost call."""
    serve, ask = BOUNDARIES[boundary]
    server = OutageServer(serve())
    call = ask(server.url)
    seconds_until_well(call)
    is_over = threading.Event()

    def keep_asking():
        calls = 0
        while not is_over.wait(0.05):
            call()
            calls += 1
        return calls

    with ThreadPoolExecutor(CALLERS) as pool:
        callers = [pool.submit(keep_asking) for _ in range(CALLERS)]
        try:
            server.fail(kind, seconds)
            recovery_seconds = seconds_until_well(call)
        finally:
            is_over.set()
        assert all(caller.result(60) for caller in callers)
    server.kill()
    return recovery_seconds


def run_outages(boundary, cases):
    """Return the kinds of some outages, and the seconds of each until a call was served."""
    random_number = random.Random(boundary)
    kinds = [("kill", "hang", "flap")[n % 3] for n in range(cases)]
    lengths = [random_number.uniform(0.2, 3) for _ in range(cases)]
    with ThreadPoolExecutor(CASES_AT_A_TIME) as pool:
        recoveries = list(pool.map(run_outage, [boundary] * cases, kinds, lengths))
    return kinds, recoveries
