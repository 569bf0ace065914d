"""Probes on a Hugging Face hub: the probe folder as a model repository, through ``huggingface_hub``.

Only the three files of a probe folder are ever taken from a repository, whatever else it holds; none of
them is code.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from denoise_core._optional import require
from denoise_core.end.probe import Probe
from denoise_core.end.probe_folder import OURS
from denoise_core.errors import InputError


def push_to_hub(
    probe: Probe, repo: str, *, private: bool = True, message: str = "Probe", endpoint: str | None = None
) -> str:
    """Upload ``probe`` as the model repository ``repo`` ("owner/name"), made when missing; returns its address.

    Private unless said otherwise. ``endpoint`` is another hub than huggingface_hub's own default; the
    token is the one that ``huggingface_hub`` is logged in with. Errors of the hub come through as they are.
    """
    hub = require("huggingface_hub", extra="end")
    api = hub.HfApi(endpoint=endpoint)
    with tempfile.TemporaryDirectory() as scratch:
        folder = probe.save(Path(scratch) / "probe")
        made = str(api.create_repo(repo, repo_type="model", private=private, exist_ok=True))
        api.upload_folder(repo_id=repo, repo_type="model", folder_path=folder, commit_message=message)
    return made


def from_hub(
    repo: str, *, revision: str | None = None, endpoint: str | None = None, cache: str | Path | None = None
) -> Probe:
    """The probe in the model repository ``repo``. Give a commit as ``revision`` to pin it.

    ``cache`` is where files are kept, by default huggingface_hub's own cache.

    Raises `InputError` when the repository holds no probe, and what `Probe.load` raises.
    """
    hub = require("huggingface_hub", extra="end")
    patterns = sorted(OURS)
    folder = Path(
        hub.snapshot_download(repo, revision=revision, endpoint=endpoint, cache_dir=cache, allow_patterns=patterns)
    )
    if not (folder / "probe.json").is_file():
        raise InputError(f"{repo} holds no probe: expected {', '.join(patterns)}, as push_to_hub writes them")
    return Probe.load(folder)
