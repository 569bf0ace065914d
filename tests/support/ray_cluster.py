"""A real Ray cluster of two nodes on this machine, while a block runs."""

import os
import sys
from contextlib import contextmanager


@contextmanager
def two_nodes():
    """The cluster; ``second`` is the node that may be removed. Workers of both find what this process finds."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    soon = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 4,
    }
    head = {
        "num_cpus": 2,
        "object_store_memory": 100 * 2**20,
        "include_dashboard": False,
        "_system_config": soon,
    }
    running = Cluster(initialize_head=True, head_node_args=head)
    running.second = running.add_node(num_cpus=2, object_store_memory=100 * 2**20)
    ray.init(address=running.address, log_to_driver=False)
    running.wait_for_nodes()
    try:
        yield running
    finally:
        ray.shutdown()
        running.shutdown()
