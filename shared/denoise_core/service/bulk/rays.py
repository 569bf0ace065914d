"""Workers as actors of a Ray cluster: on whatever nodes it has. A lost node's actors begin anew on another."""

from __future__ import annotations

from collections import deque
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.service.bulk.worker import Task


class Actor:
    """Holds the task of one actor."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def there(self) -> None:
        """An actor that has found no room yet answers later; what is sent to it would wait as long."""

    def answer(self, chunk: Any) -> Any:
        return self.task(chunk)


class Rays:
    """``count`` actors of one CPU each, of the cluster at ``address`` (None: the one there is, or a local one).

    One CPU of the cluster stays free where there are several: an actor on each would starve whatever else the
    cluster has to do. Raises `InputError` when the cluster has no room for a single actor.
    """

    def __init__(self, task: Task, count: int | None, address: str | None = None) -> None:
        self._ray = require("ray", extra="ray")
        self._own = not self._ray.is_initialized()
        if self._own:
            self._ray.init(address=address, log_to_driver=False, include_dashboard=False)
        room = int(self._ray.cluster_resources().get("CPU", 0))
        if room < 1:
            raise InputError("the Ray cluster has no CPU for a worker")
        self.count = max(1, min(count or room, room - 1))
        self._task = task
        self._actors: list[Any] = [self._started() for _ in range(self.count)]
        self._there: list[Any] = [actor.there.remote() for actor in self._actors]  # None once it has answered
        self._asked: list[deque[Any]] = [deque() for _ in range(self.count)]

    def ready(self, worker: int) -> bool:
        return self._there[worker] is None

    def send(self, worker: int, chunk: Any) -> None:
        self._asked[worker].append(self._actors[worker].answer.remote(chunk))

    def wait(self) -> list[tuple[int, Any]]:
        first = {there: n for n, there in enumerate(self._there) if there is not None}
        first |= {asked[0]: n for n, asked in enumerate(self._asked) if asked}
        ready, _ = self._ray.wait(list(first), num_returns=1)
        out: list[tuple[int, Any]] = []
        for reference in ready:
            number = first[reference]
            try:
                answer = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError:
                raise  # an error of the worker's own code
            except self._ray.exceptions.RayError:
                self._actors[number] = self._started()
                self._there[number] = self._actors[number].there.remote()
                self._asked[number].clear()
                out.append((number, None))
                continue
            if reference == self._there[number]:
                self._there[number] = None
            else:
                self._asked[number].popleft()
                out.append((number, answer))
        return out

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        if self._own:
            self._ray.shutdown()

    def _started(self) -> Any:
        return self._ray.remote(num_cpus=1, max_restarts=0)(Actor).remote(self._task)
