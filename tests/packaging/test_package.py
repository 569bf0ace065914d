"""What importing costs, what is exported, and that the folder `shared` is never a package."""

import ast
import importlib
import re

import pytest
from code_measures import ROOT, parse_file, python_files
from command_line import python_output, run_python

FOLDERS = ("shared", "langchain_denoise", "llamaindex_denoise")
FILES = python_files(*(ROOT / folder for folder in FOLDERS))
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


def modules_after(statement):
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(python_output("-c", code, cwd="/").split())


NOTHING = ""
LANGCHAIN = "import langchain_core.runnables"
LLAMAINDEX = "import llama_index.core"


@pytest.mark.parametrize(
    ("statement", "framework"),
    [
        ("import denoise_core", NOTHING),
        ("import denoise_core.end", NOTHING),
        ("import denoise_core.s2a", NOTHING),
        ("import denoise_core.augmenter", NOTHING),
        ("import langchain_denoise", NOTHING),
        ("from langchain_denoise import *", LANGCHAIN),
        ("import llamaindex_denoise", NOTHING),
        ("import llamaindex_denoise.postprocessor", LLAMAINDEX),
        ("import llamaindex_denoise.agents.checked", LLAMAINDEX),
    ],
)
def test_an_import_loads_nothing_heavy(statement, framework):
    """Beside what the framework's own import loads."""
    assert not modules_after(statement) & HEAVY - modules_after(framework)


@pytest.mark.parametrize(
    "statement",
    [
        "import denoise_core",
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
    assert "pip install 'rag-denoise[langchain]'" in run_python("-c", code).stderr


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
    assert not [p for p in FILES if re.search(UNSAFE, p.read_text(encoding="utf-8"))]


def loads_a_model(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name in ("from_pretrained", "pipeline", "model_class")


def test_every_loader_refuses_a_models_own_code():
    """Unset, transformers asks on the terminal, and `yes |` answers."""
    calls = []
    for path in FILES:
        for node in ast.walk(parse_file(path)):
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
    python_output("-c", program, cwd=tmp_path)
