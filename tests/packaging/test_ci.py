"""CI runs the contributor's own commands on every Python that the package says it supports."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PYTHON = "Programming Language :: Python :: "


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def check_job() -> dict:
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text("utf-8")
    return yaml.safe_load(workflow)["jobs"]["check"]


def supported_versions() -> list[str]:
    names = [c.removeprefix(PYTHON) for c in project()["classifiers"] if PYTHON in c]
    return [name for name in names if re.fullmatch(r"3\.\d+", name)]


def test_the_matrix_is_the_versions_that_the_package_names():
    versions = supported_versions()
    assert check_job()["strategy"]["matrix"]["python"] == versions
    assert project()["requires-python"] == f">={versions[0]}"


def test_each_version_runs_the_checks_and_the_tests():
    commands = [step["run"] for step in check_job()["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert "\nmake check test\n" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_every_test_of_the_second_tier_is_there():
    """One that was renamed would slow the first tier down."""
    listed = (ROOT / "tests/conftest.py").read_text("utf-8")
    names = re.findall(r'^    "([\w/]+\.py)(?:::(\w+))?",$', listed, re.M)
    assert len(names) > 20
    for file, function in names:
        source = (ROOT / "tests" / file).read_text("utf-8")
        assert not function or f"def {function}(" in source, f"{file}::{function}"
