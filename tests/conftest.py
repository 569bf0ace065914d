"""What holds for every test: no time limits inside property tests, one thread for each numeric library, two tiers.

Times depend on what else the machine does, so no test may fail by them; and threads that wait for each
other on a busy machine make tiny models slower, not faster.

`FULL` names what `make test` leaves to `make test-all`; such files are not even read for ``-m "not full"``.

What tests of both adapters share as a fixture is here too: a server that speaks the OpenAI protocol.
"""

import importlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# How long an example takes is the machine's: neither a deadline nor the check of slow data may fail a test.
# Examples are the same at each run, so that a change fails for what it changed.
settings.register_profile(
    "full",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("here", settings.get_profile("full"), max_examples=25)
# A law over more examples and new ones: make test ARGS="FILE --hypothesis-profile=long --hypothesis-seed=1".
settings.register_profile(
    "long", settings.get_profile("full"), max_examples=500, derandomize=False
)
settings.load_profile("here")

TESTS = Path(__file__).parent
# Files and test functions: what starts browsers, clusters, kernels and builds, trains models, runs whole
# measurements, or takes more than five CPU seconds for one law.
FULL = frozenset({
    "core/cli/test_command.py::test_a_fit_shows_what_it_needs_beside_its_rivals_and_is_not_overwritten_unasked",
    "core/cli/test_hostile_files.py",
    "core/embedded/test_default.py::test_eight_threads_load_one_model",
    "core/end/test_export.py::test_every_family_with_a_class_is_served_with_equal_scores",
    "core/end/test_training.py",
    "core/runtime/test_linear_patterns.py",
    "core/runtime/test_outages.py",
    "core/runtime/test_weighted_caches.py::test_a_cache_counts_at_least_what_its_values_hold",
    "core/s2a/test_companions.py::test_texts_of_every_kind_keep_exact_spans_with_linear_work",
    "core/s2a/test_replies.py::test_a_reply_of_many_tags_takes_time_in_proportion_to_its_length",
    "core/s2a/test_replies.py::test_reading_a_list_takes_time_in_proportion_to_its_length",
    "core/service/test_generated.py",
    "core/service/test_ray_serve.py",
    "core/support/test_answers.py::test_work_grows_with_the_length_alone",
    "core/support/test_quotations.py::test_checking_takes_linear_time",
    "core/test_browser.py",
    "core/test_small_model.py",
    "docs/test_blocks.py::test_a_first_block_runs_where_only_its_page_was_followed",
    "docs/test_blocks.py::test_a_script_prints_what_its_page_shows",
    "docs/test_blocks.py::test_the_page_of_end",
    "docs/test_drawn.py",
    "docs/test_site.py",
    "langchain/test_types.py",
    "packaging/test_distributions.py",
    "packaging/test_package.py::test_an_import_loads_nothing_heavy",
    "packaging/test_package.py::test_the_readmes_commands_need_no_more_than_their_extras",
    "test_benchmarks.py::test_the_quick_form_runs",
    "test_cookbook.py::test_it_shows_what_it_stores",
    "test_cookbook_recipes.py::test_datasets_names_a_row_that_ends_its_worker",
    "test_cookbook_recipes.py::test_ray_does_each_row_once_and_goes_on",
    "test_cookbook_recipes.py::test_ray_names_a_row_that_ends_its_worker_beside_another_cluster",
})  # fmt: skip


def pytest_ignore_collect(collection_path, config):
    """Nothing of a file is wanted, so that what it imports is not loaded either."""
    if config.option.markexpr == "not full" and collection_path.is_relative_to(TESTS):
        return True if collection_path.relative_to(TESTS).as_posix() in FULL else None
    return None


def pytest_collection_modifyitems(items):
    for item in items:
        name = (
            item.path.relative_to(TESTS).as_posix()
            if item.path.is_relative_to(TESTS)
            else ""
        )
        if name in FULL or f"{name}::{getattr(item, 'originalname', '')}" in FULL:
            item.add_marker("full")


@pytest.fixture(scope="session")
def docs_tool():
    """Imports a module of ``docs/tools`` by its name."""
    folder = str(TESTS.parent / "docs" / "tools")
    sys.path.insert(0, folder)
    yield importlib.import_module
    sys.path.remove(folder)


@pytest.fixture
def server():
    """A running `openai_server.Server`, without faults yet."""
    from openai_server import Nonsense, serving

    with serving(Nonsense()) as running:
        yield running
