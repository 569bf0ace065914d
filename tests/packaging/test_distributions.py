"""The two distributions that only re-export: built, installed beside the framework, and the same objects."""

import email
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from wheels import build_wheel

import denoise_core
import llamaindex_denoise

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "shared" / "names"
DISTRIBUTIONS = ("langchain-denoise", "llama-index-postprocessor-denoise")


def about(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("METADATA")]
        return email.message_from_bytes(archive.read(name))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_it_is_a_name_and_what_it_needs(name, tmp_path):
    wheel = build_wheel(NAMES / name, tmp_path)
    assert wheel.stat().st_size < 10_000
    found = about(wheel)
    assert found["Version"] == denoise_core.__version__
    (needs,) = found.get_all("Requires-Dist")
    assert re.fullmatch(rf"rag-denoise\[\w+\]=={denoise_core.__version__}", needs)
    files = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in n]
    assert not [
        f
        for f in files
        if f.startswith(("langchain_denoise", "llamaindex_denoise", "denoise_core"))
    ]
    assert "llama_index/__init__.py" not in files, "it would hide LlamaIndex itself"


def test_what_it_offers_are_the_very_objects(tmp_path):
    """In a process that finds LlamaIndex where it is installed and this package beside it."""
    folder = NAMES / "llama-index-postprocessor-denoise"
    code = (
        f"import llama_index; llama_index.__path__.append({str(folder / 'llama_index')!r})\n"
        "import llama_index.postprocessor as parent\n"
        f"parent.__path__.append({str(folder / 'llama_index' / 'postprocessor')!r})\n"
        "import llama_index.postprocessor.denoise as theirs, llamaindex_denoise as ours\n"
        "assert all(getattr(theirs, n) is getattr(ours, n) for n in ours.__all__); print(len(theirs.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(llamaindex_denoise.__all__)


def test_the_index_shows_links_that_lead_somewhere(tmp_path):
    """The README has links within the repository; away from it, in the wheel, each has an address."""
    text = about(build_wheel(ROOT, tmp_path)).get_payload()
    assert "# rag-denoise" in text
    assert (
        "](https://example.org/rag-denoise/source/raw/main/docs/" in text
        or "](https://" in text
    )
    relative = re.findall(
        r"\]\((?!https?:|#)([^)]+)\)|src=\"(?!https?:)([^\"]+)\"", text
    )
    assert not relative


def test_one_address_for_all():
    """The addresses of all distributions, the README's links and the citation are of one place."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "urls"
    ]
    assert {"Homepage", "Documentation", "Source", "Changelog", "Issues"} <= set(urls)
    home = urls["Homepage"]
    assert all(url.startswith(home) for url in urls.values())
    for path in (
        ROOT / "pyproject.toml",
        ROOT / "CITATION.cff",
        *NAMES.glob("*/pyproject.toml"),
    ):
        others = set(
            re.findall(
                r"https://[^\s\"'\\]+denoise[^\s\"'\\]*", path.read_text("utf-8")
            )
        )
        assert all(url.startswith(home) for url in others), path
