"""Laws of kept text over generated values, cuts and faults: what is called kept is byte-equal at the last door.

The laws are the tests of `LAWS`; a round is one seed. A stopped run goes on with the seeds that it has not done.

make bench ONLY=kept_text ARGS="--runs 100000"
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from harness import Benchmark, arguments

ROOT = Path(__file__).parents[1]
CORE = "tests/core/test_tool_results.py::"
LAWS = (
    f"{CORE}test_a_broken_scorer_loses_nothing_of_any_result",
    f"{CORE}test_text_kept_of_any_result_is_verbatim",
    f"{CORE}test_text_that_end_keeps_of_any_result_is_verbatim",
    "tests/langchain/test_tool_messages.py::test_a_broken_scorer_leaves_every_result_as_it_was",
    "tests/langchain/test_tool_messages.py::test_what_a_denoiser_keeps_is_what_the_model_reads",
    "tests/llamaindex/test_denoised_tools.py::test_a_broken_scorer_leaves_every_result_as_it_was",
    "tests/llamaindex/test_denoised_tools.py::test_what_a_denoiser_keeps_is_what_the_model_reads",
)
_PASSING = re.compile(r"(\d+) passing, \d+ failing")  # as Hypothesis says it


def main(argv: list[str] | None = None) -> Benchmark:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--runs", type=int, default=8_000)
    parser.add_argument("--folder", type=Path, default=Path("kept_text_seeds"))
    given, rest = parser.parse_known_args(argv)
    options = arguments(__doc__ or "", rest)
    bench = Benchmark("kept_text", options)
    wanted = 100 if options.quick else given.runs
    profile = "here" if options.quick else "long"
    given.folder.mkdir(exist_ok=True)
    seed, runs, failures = options.seed, 0, list[str]()
    while runs < wanted:
        output = read_round(given.folder, seed, profile)
        round_runs = sum(map(int, _PASSING.findall(output)))
        runs += round_runs
        failures += re.findall(r"^FAILED (\S+)", output, re.MULTILINE)
        if not round_runs:
            raise SystemExit(output)
        seed += 1
    for failure in failures:
        print(failure)
    bench.row("laws", len(LAWS), "laws")
    bench.row("runs", runs, "runs", at_least=wanted)
    bench.row("laws that failed, over all seeds", len(failures), "laws", at_most=0)
    return bench.finish()


def read_round(folder: Path, seed: int, profile: str) -> str:
    """Return the output of a seed's round, run now unless the folder has it."""
    log_file = folder / f"{profile}-{seed}.txt"
    if log_file.exists():
        return log_file.read_text("utf-8")
    flags = f"-q -p no:cacheprovider --hypothesis-show-statistics --hypothesis-profile={profile}"
    command = [sys.executable, "-m", "pytest", *flags.split()]
    command += [f"--hypothesis-seed={seed}", *LAWS]
    environment = {
        **os.environ,
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder.resolve() / "failed"),
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode < 2:  # the laws held, or not: another status says that none ran
        log_file.write_text(done.stdout, "utf-8")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
