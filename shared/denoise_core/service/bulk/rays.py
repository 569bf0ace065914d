"""Past one machine: Ray Data hands the plan's pieces to actors, starts lost ones anew, holds back what is ahead.

Input and output lie where every node finds them. Within an actor a process of its own does the work, so what hangs
or kills costs its rows and nothing else, as on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.bulk.rows import Piece
from denoise_core.service.bulk.workers import Done, Task, carried_out


class Actor:
    """One of the cluster: a batch of pieces in, what was written of each out."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        parts = self.task.folder
        pieces = [p for p in batch["item"] if not (parts / f"{p.name}.jsonl").exists()]  # else a lost actor's
        done = list(carried_out(self.task, pieces, 1))
        died = max((d.died for d in done), default=0)
        return {"rows": [sum(d.rows for d in done)], "bad": [sum(d.bad for d in done)], "died": [died]}


def on_ray(task: Task, pieces: Sequence[Piece], count: int | None) -> Iterator[Done]:
    """Every piece done, on ``count`` actors of one CPU each (all of the cluster's but one, left out).

    Raises `InputError` when the cluster has no room for a single actor.
    """
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
    died = 0
    for row in done.iter_rows():
        died += int(row["died"])
        yield Done(int(row["rows"]), int(row["bad"]), died)


def begun() -> Any:
    """Ray, connected to the cluster there is, or to a local one begun here."""
    ray = require("ray", extra="ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    return ray
