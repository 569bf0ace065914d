"""The site, built once for all tests of this folder, from a copy, so that nothing is left behind here."""

import shutil

import pytest
from code_measures import ROOT
from command_line import run_python


@pytest.fixture(scope="session")
def build():
    """Builds the site of a copy; what the builder said."""
    return lambda copy: run_python("docs/tools/make_site.py", cwd=copy)


FOLDERS = (
    "docs",
    "shared/denoise_core",
    "langchain_denoise",
    "llamaindex_denoise",
    "cookbook",
)
FILES = (
    "*.md",
    "LICENSE",
    "pyproject.toml",
    "benchmarks/README.md",
    "benchmarks/results/*.*",
    "tests/compat/*.md",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A copy of what the site is made from."""
    copy = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("__pycache__", "*.safetensors")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for pattern in FILES:
        for path in ROOT.glob(pattern):
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return copy


@pytest.fixture(scope="session")
def html(site, build, tmp_path_factory):
    """The folder of pages, which no later build of the copy touches."""
    done = build(site)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return shutil.copytree(
        site / "build" / "site" / "html", tmp_path_factory.mktemp("built") / "html"
    )
