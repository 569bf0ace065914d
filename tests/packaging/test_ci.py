"""CI runs the contributor's own commands on every Python that the package says it supports."""

import re
import tomllib

import yaml
from code_measures import ROOT


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def check_job():
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text("utf-8")
    return yaml.safe_load(workflow)["jobs"]["check"]


def supported_versions():
    classifiers = "\n".join(project()["classifiers"])
    return re.findall(r"^.*:: Python :: (3\.\d+)$", classifiers, re.M)


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
