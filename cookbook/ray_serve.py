"""The service on a Ray cluster: Ray Serve starts replicas, shares requests among them and replaces lost ones.

    pip install 'rag-denoise[embedded,serve]' 'ray[serve]'
    serve run ray_serve:app      # in this folder; then http://127.0.0.1:8000/v1/rerank, /v1/denoise, /docs

Each replica is a whole service, with a model, batches and readings of passages of its own. A request goes
to the replica with the fewest, not to the one that has read its passages before: where passages come again, give
`default_denoiser` a ``cache_folder`` that all nodes see. ``/metrics`` is that of the replica that answers.
"""

from fastapi import FastAPI
from ray import serve

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service, ServiceLimits
from denoise_core.service.app import make_app

AT_ONCE = 64  # requests in one replica; others wait in front of it


def build() -> FastAPI:
    """Called in each replica: what the application holds does not travel, and need not."""
    # hosts: the names by which others call it, such as ("denoise.internal",); this machine's own unless given.
    limits = ServiceLimits(max_waiting=AT_ONCE, workers=1)
    return make_app(Service(default_denoiser(), limits=limits))


@serve.deployment(
    max_ongoing_requests=AT_ONCE,
    ray_actor_options={"num_cpus": 1},  # {"num_gpus": 1} for a model of one's own
    autoscaling_config={"min_replicas": 2, "max_replicas": 8, "target_ongoing_requests": 4},
    health_check_period_s=10,
)
@serve.ingress(build)
class Denoising:
    """All paths are those of the service."""


app = Denoising.bind()
