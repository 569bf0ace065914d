"""The pages of the reference: one for each public module, with an entry for each name in its ``__all__``.

A name stands on one page, that of the innermost public module that offers it; on others is a link to it.
"""

import ast
import importlib
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {"denoise_core": ROOT / "shared", "langchain_denoise": ROOT, "llamaindex_denoise": ROOT}
ALSO = ("denoise_core.testing",)


def says_all(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    return any(
        isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets)
        for node in tree.body
    )


def public_modules() -> dict[str, tuple[str, ...]]:
    """Each public module and the names it offers: its ``__all__``, or what it defines if it is one of `ALSO`."""
    found = {}
    for package, base in PACKAGES.items():
        for path in sorted((base / package).rglob("*.py")):
            name = ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
            if name in ALSO:
                module = importlib.import_module(name)
                found[name] = tuple(
                    sorted(
                        n
                        for n, value in vars(module).items()
                        if n.isidentifier()
                        and not n.startswith("_")
                        and getattr(value, "__module__", "") == name
                        and callable(value)
                    )
                )
            elif says_all(path):
                found[name] = tuple(sorted(importlib.import_module(name).__all__))
    return found


def home_of(module: str, name: str) -> str:
    """The dotted place where ``name`` of ``module`` is written: found through the imports that bring it there."""
    seen = set()
    while (module, name) not in seen:
        seen.add((module, name))
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        for node in ast.walk(ast.parse(Path(spec.origin).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name and node.module.split(".")[0] in PACKAGES:
                        module, name = node.module, alias.name
                        break
    return f"{module}.{name}"


def pages() -> dict[str, str]:
    """Markdown by module: opening docstring, then its names, or links to where they stand."""
    modules = public_modules()
    homes: dict[str, str] = {}  # dotted place of an object: the page it stands on
    for module in sorted(modules, key=lambda m: -m.count(".")):
        for name in modules[module]:
            homes.setdefault(home_of(module, name), module)
    written = {}
    for module, names in modules.items():
        elsewhere = [n for n in names if homes[home_of(module, n)] != module]
        options = ["    options:", "      members: []", "      show_root_heading: false"]
        lines = [f"# {module}", "", f"::: {module}", *options, ""]
        if elsewhere:
            lines += ["| name | its entry |", "|---|---|"]
            for name in elsewhere:
                home = homes[home_of(module, name)]
                lines.append(f"| `{name}` | [{home}]({home}.md#{home_of(module, name)}) |")
            lines.append("")
        for name in names:
            if name not in elsewhere:
                lines += [f"::: {home_of(module, name)}", "    options:", "      heading_level: 2", ""]
        written[module] = "\n".join(lines)
    return written
