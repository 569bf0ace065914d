"""``rag-denoise serve``: a local model behind the protocol that every chat client speaks."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from denoise_core.cli.plain import plain
from denoise_core.local.generation.llm import LocalLLM
from denoise_core.serve import LLMServer, ServerLimits


def serve_own(model: str, name: str | None, *, host: str, port: int, max_tokens: int) -> None:
    """Serve until Ctrl-C. Raises `InputError` for a model or an address that cannot be had."""
    aside = Console(stderr=True, highlight=False)

    def say(line: str, style: str = "") -> None:
        aside.print(Text(plain(line), style=style), soft_wrap=True)

    llm = LocalLLM(model, max_new_tokens=max_tokens)
    name = name or Path(model).name or model
    limits = ServerLimits(tokens=max(max_tokens, ServerLimits().tokens))
    server = LLMServer(llm, name=name, host=host, port=port, limits=limits, report=lambda line: say(line, "dim"))
    if not server.local:
        say(f"{host} can be reached from other machines, and there is no password and no encryption", "yellow")
    with aside.status("loading the model ..."):
        server.start()
    say(f"serving {name!r} at {server.url} (Ctrl-C ends it); try, in another terminal:\n")
    say(
        f"  curl {server.url}/chat/completions -H 'Content-Type: application/json' \\\n"
        f"""    -d '{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'\n"""
    )
    try:
        server.wait()
    except KeyboardInterrupt:
        say("closed")
    finally:
        server.close()
