"""Denoisers for bulk jobs that can be killed: they travel, and note in a file what they have computed."""

import os
import signal
import time
from pathlib import Path

from denoise_core.result import DenoiseResult
from denoise_core.types import Drop, Span


class Noted:
    """Keeps passages with a word of the query. Writes a line to ``log`` for each row; waits ``pause`` seconds.

    A query ``die once`` kills the process the first time, ``die`` every time; ``fail`` raises, ``hang`` takes
    an hour.
    """

    def __init__(self, log, pause=0.0):
        self.log = str(log)
        self.pause = pause

    def denoise(self, query, passages):
        flag = Path(f"{self.log}.{query.replace(' ', '-')}")
        if query == "die" or (query.startswith("die once") and not flag.exists()):
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if query == "fail":
            raise OSError("the disk is gone, api_key=sk-verysecret1")
        time.sleep(3600 if query == "hang" else self.pause)
        with open(self.log, "ab", buffering=0) as log:
            log.write(b"%s\n" % query.encode())
        kept = tuple(p for p in passages if set(query.split()) & set(p.text.split()))
        dropped = tuple(Drop(Span(p.id, 0, len(p.text)), "no word") for p in passages if p not in kept)
        return DenoiseResult(query, kept, dropped)

    async def adenoise(self, query, passages):
        return self.denoise(query, passages)


class Logged(Noted):
    """Another denoiser, row by row, with a line in ``log`` for each."""

    def __init__(self, log, inner):
        super().__init__(log)
        self.inner = inner

    def denoise(self, query, passages):
        with open(self.log, "ab", buffering=0) as log:
            log.write(b"%s\n" % query.encode())
        return self.inner.denoise(query, passages)
