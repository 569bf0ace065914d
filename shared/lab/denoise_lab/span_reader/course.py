"""Training that goes on where it was stopped: weights, moments and step lie in one safetensors file."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from denoise_core._files import write_whole
from denoise_lab.span_reader.network import Network

EVERY = 25  # steps between two savings
WARM = 40  # steps over which the rate rises


def train(
    network: Network,
    loss: Callable[[random.Random, float], Tensor],
    folder: Path,
    name: str,
    *,
    steps: int,
    seconds: float,
    rate: float,
    seed: int = 0,
    look: Callable[[], Mapping[str, float]] = dict,
    looks: int = 8,
    say: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Train ``network`` in place up to ``steps``, ``seconds`` of them now; returns the curve so far.

    ``loss`` is given a generator and the share of the run that is done. ``name``.checkpoint in ``folder`` is gone
    on from when it is there, and each step draws from a generator of its own, so a run in parts is the run in one.
    The file holds numbers alone.
    """
    from safetensors import safe_open
    from safetensors.torch import save

    path, curve_path = folder / f"{name}.checkpoint", folder / f"{name}.curve.json"
    trained = {n: p for n, p in network.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(list(trained.values()), lr=rate, weight_decay=0.01)
    step, spent, curve = 0, 0.0, []
    if path.exists():
        with safe_open(str(path), "pt") as file:
            said = file.metadata()
            step, spent = int(said["step"]), float(said["seconds"])
            with torch.no_grad():
                for n, p in trained.items():
                    p.copy_(file.get_tensor(f"weight {n}"))
                    if f"exp_avg {n}" not in file.keys():  # noqa: SIM118
                        continue
                    moments = {k: file.get_tensor(f"{k} {n}") for k in ("exp_avg", "exp_avg_sq")}
                    optimizer.state[p] = {"step": torch.tensor(float(step)), **moments}
        curve = json.loads(curve_path.read_text("utf-8"))
    running, began = 0.0, time.monotonic()

    def keep() -> None:
        held = {f"weight {n}": p.detach().contiguous() for n, p in trained.items()}
        for n, p in ((n, p) for n, p in trained.items() if p in optimizer.state):
            held |= {f"{k} {n}": optimizer.state[p][k].contiguous() for k in ("exp_avg", "exp_avg_sq")}
        now = spent + time.monotonic() - began
        write_whole(path, save(held, {"step": str(step), "seconds": f"{now:.1f}"}))
        write_whole(curve_path, json.dumps(curve, indent=1) + "\n")

    while step < steps and time.monotonic() - began < seconds:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / WARM) * (1 - step / steps)
        torch.manual_seed(seed * 1_000_003 + step)
        found = loss(random.Random(f"{seed}:{step}"), step / steps)
        optimizer.zero_grad()
        found.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
        optimizer.step()
        step += 1
        running = found.item() if not running else 0.95 * running + 0.05 * found.item()
        if step % max(1, steps // looks) == 0 or step == steps:
            now = round(spent + time.monotonic() - began)
            curve.append({"step": step, "seconds": now, "loss": round(running, 4), **look()})
            say(json.dumps(curve[-1]))
            keep()
        elif step % EVERY == 0:
            keep()
    keep()
    return curve
