"""Past one machine: Ray Data hands pieces of the input to actors, starts lost ones anew, holds back what is ahead.

Chunks and parts lie where every node finds them. Within an actor a process of its own does the work, so what hangs
or kills costs its rows and nothing else, as on one machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.bulk.rows import Piece
from denoise_core.service.bulk.workers import Task, carried_out


class Actor:
    """One of the cluster: a batch of pieces in, what became of them out."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        parts = self.task.folder
        pieces = [p for p in batch["item"] if not (parts / f"{p.name}.jsonl").exists()]  # else a lost actor's
        done = sum(carried_out(self.task, pieces, 1), Counter[str]())
        return {name: [done[name]] for name in ("rows", "bad", "died")}


def on_ray(task: Task, pieces: Sequence[Piece], count: int | None) -> Iterator[Counter[str]]:
    """As `carried_out`, on ``count`` actors of one CPU each (all of the cluster's but one, left out).

    Raises `InputError` when the cluster has no room for a single actor.
    """
    if not pieces:
        return
    ray = begun()
    data = require("ray.data", extra="ray")
    room = int(ray.cluster_resources().get("CPU", 0))
    if room < 1:
        raise InputError("the Ray cluster has no CPU for a worker")
    count = max(1, min(count or room, room - 1))  # actors on every CPU would starve whoever feeds them
    given = data.from_items(list(pieces), override_num_blocks=min(len(pieces), max(8 * count, len(pieces) // 64)))
    done = given.map_batches(
        Actor, fn_constructor_args=(task,), batch_size=8, compute=data.ActorPoolStrategy(size=count), num_cpus=1
    )
    yield from map(Counter[str], done.iter_rows())


def begun() -> Any:
    """Ray, connected to the cluster there is, or to a local one begun here."""
    ray = require("ray", extra="ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    return ray
