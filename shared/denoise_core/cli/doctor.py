"""``rag-denoise doctor``: what is installed here, and what to type for the rest."""

from __future__ import annotations

import platform
from importlib import metadata

from packaging.requirements import Requirement
from rich.console import Console

from denoise_core import __version__
from denoise_core.cli.options import app
from denoise_core.cli.terminal import print_line

DISTRIBUTION = "rag-denoise"
# What each extra is for, in the order in which a new user needs them.
EXTRA_PURPOSES = {
    "embedded": "the default denoiser, without network",
    "cli": "this command",
    "langchain": "LangChain: compressor, retriever, verification",
    "agents": "LangChain agents: middleware",
    "llamaindex": "LlamaIndex: postprocessor, engines, tools",
    "end": "END and local language models",
    "dense": "other encoders and cross-encoders",
    "multilingual": "a calibrated encoder for other languages",
    "documents": "PDF and docx files",
    "openai": "models behind http://host:port/v1#name",
    "remote": "remote rerankers",
    "serve": "the HTTP service",
    "mcp": "the MCP server",
    "evaluate": "fits on your questions, the laboratory's plots",
}


@app.command()
def doctor() -> None:
    """Say what is installed here, and what to type for what is missing.

    One line for each extra of the package. Nothing is imported, loaded or downloaded.
    """
    console = Console(highlight=False)
    python_version = platform.python_version()
    print_line(console, f"rag-denoise {__version__}, Python {python_version}", "bold")
    for extra, purpose in EXTRA_PURPOSES.items():
        missing = missing_requirements(extra)
        if not missing:
            print_line(console, f"{extra}: ready ({purpose})", "green")
            continue
        names = ", ".join(missing)
        advice = f"pip install 'rag-denoise[{extra}]'"
        print_line(console, f"{extra}: {names} missing ({purpose}): {advice}", "yellow")


def missing_requirements(extra: str) -> list[str]:
    """Return the requirements of an extra that are not met, with what is installed."""
    missing = []
    for line in metadata.requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or not marker.evaluate({"extra": extra}):
            continue
        try:
            installed_version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            missing.append(requirement.name)
            continue
        if not requirement.specifier.contains(installed_version, prereleases=True):
            missing.append(f"{requirement.name}{requirement.specifier}")
    return missing
