"""Figures for Prometheus: requests, time, what was kept, and every fallback that was logged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from denoise_core.result import DenoiseResult
from denoise_core.running import fallbacks

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """A registry of its own, so that two services in a process do not mix."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("denoise_requests", "Requests by path and status.", ["path", "status"], **own)
        self.seconds = Histogram("denoise_request_seconds", "Seconds.", ["path"], buckets=_SECONDS, **own)
        self.characters = Counter("denoise_characters", "Characters, given and kept.", ["which"], **own)
        Gauge("denoise_waiting_requests", "Requests that wait.", **own).set_function(waiting)
        self.registry.register(_Fallbacks())

    def denoised(self, given: int, result: DenoiseResult) -> None:
        self.characters.labels("given").inc(given)
        self.characters.labels("kept").inc(sum(len(p.text) for p in result.passages))

    def page(self) -> bytes:
        return generate_latest(self.registry)


class _Fallbacks(Collector):
    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily("denoise_fallbacks", "Fallbacks by part and error.", labels=["part", "error"])
        for (part, error), count in fallbacks.counts().items():
            family.add_metric([part, error], count)
        yield family
