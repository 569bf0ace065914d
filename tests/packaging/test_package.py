"""What importing costs, what is exported, and that the folder `shared` is never a package."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "langchain_denoise", "llamaindex_denoise")
HEAVY = {
    "torch",
    "transformers",
    "pydantic",
    "langchain",
    "langchain_classic",
    "langchain_core",
    "langgraph",
    "llama_index",
    "sklearn",
    "typer",
    "rich",
}


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    return set(done.stdout.split())


def sources_in(*folders: str) -> dict[str, str]:
    paths = [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


OF_LANGCHAIN = {"langchain_core", "pydantic"}
OF_LLAMAINDEX = {"llama_index", "pydantic"}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import denoise_core", set()),
        ("import denoise_core.end", set()),
        ("import denoise_core.s2a", set()),
        ("import denoise_core.augmenter", set()),
        ("import langchain_denoise", set()),
        ("from langchain_denoise import *", OF_LANGCHAIN),
        ("import llamaindex_denoise", set()),
        ("import llamaindex_denoise.postprocessor", OF_LLAMAINDEX),
        ("import llamaindex_denoise.agents.checked", OF_LLAMAINDEX),
    ],
)
def test_an_import_loads_nothing_heavy(statement, allowed):
    baseline = set()
    for framework in sorted(allowed & {"langchain_core", "llama_index"}):
        baseline |= modules_after(
            f"import {framework}.core"
            if framework == "llama_index"
            else f"import {framework}.runnables"
        )
    assert not modules_after(statement) & HEAVY - allowed - baseline


@pytest.mark.parametrize(
    "statement",
    [
        "from langchain_denoise import DenoiseCompressor",
        "from llamaindex_denoise import DenoisePostprocessor",
    ],
)
def test_a_first_part_loads_no_method_before_it_is_used(statement):
    methods = {
        f"denoise_core.{m}" for m in ("augmenter", "embedded", "end", "s2a", "support")
    }
    loaded_modules = modules_after(statement)
    assert statement.split()[1] in loaded_modules
    assert not loaded_modules & methods


def test_a_missing_framework_is_said_with_the_command():
    code = "import sys; sys.modules['langchain_core'] = None; from langchain_denoise import DenoiseCompressor"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'rag-denoise[langchain]'" in done.stderr


def test_the_names_met_first_load_at_their_first_use():
    assert "denoise_core.end" not in modules_after("import denoise_core")
    assert "denoise_core.s2a.denoiser" in modules_after(
        "from denoise_core import S2ADenoiser"
    )


@pytest.mark.parametrize(
    "name", ["denoise_core", "langchain_denoise", "llamaindex_denoise"]
)
def test_all_is_what_is_there(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    for public in module.__all__:
        assert getattr(module, public) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_the_folder_shared_is_no_package():
    assert not (ROOT / "shared" / "__init__.py").exists()


UNSAFE = (
    r"trust_remote_code\s*=\s*True|\bjoblib\.|torch\.load\(|allow_pickle\s*=\s*True"
    r"|\bpickle\.loads?\(|ForkingPickler"
)


def test_nothing_unsafe_is_written():
    found = {p for p, text in sources_in(*PACKAGES).items() if re.search(UNSAFE, text)}
    assert not found


def loads_a_model(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name in ("from_pretrained", "pipeline", "model_class")


def test_every_loader_refuses_a_models_own_code():
    """Unset, transformers asks on the terminal, and `yes |` answers."""
    calls = []
    for path, text in sources_in(*PACKAGES).items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and loads_a_model(node):
                settings = {k.arg: ast.unparse(k.value) for k in node.keywords}
                calls.append((path, node.lineno, settings.get("trust_remote_code")))
    assert len(calls) > 5
    assert [call for call in calls if call[2] != "False"] == []


def test_each_promise_of_the_security_page_names_its_tests():
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promised = page.split("## What is promised")[1].split("## What is not")[0]
    promises = promised.split("\n- **")[1:]
    assert len(promises) > 10
    for promise in promises:
        paths = re.findall(r"`(tests/[\w/.]+)`", promise)
        assert paths, promise
        assert all((ROOT / path).is_file() for path in paths), promise


@pytest.mark.parametrize(
    "command", [["demo", "--questions", "1"], ["evaluate", "-n", "1"]]
)
def test_the_readmes_commands_need_no_more_than_their_extras(command, tmp_path):
    """`make demo` installs ``embedded``, ``knowledge`` and ``cli``: what others bring is hidden here."""
    hidden = [
        "scipy",
        "sklearn",
        "torch",
        "transformers",
        "matplotlib",
        "nltk",
        "bs4",
        "pypdf",
        "httpx",
        "pandas",
    ]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden})); sys.argv = {['rag-denoise', *command]}\n"
        "from denoise_core.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
