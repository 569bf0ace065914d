"""Training the reader: one seeded run, resumable after a kill, from nothing to a folder that transformers loads.

`denoise_lab.make` is the command. Every batch is drawn from the seed and its number alone, so that a
resumed run goes on as if it had not been stopped.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from denoise_core._files import write_whole
from denoise_core.errors import InputError
from denoise_lab import tasks
from denoise_lab.training.curriculum import STAGES, Lesson, Stage
from denoise_lab.training.network import Network, Shape, hugging_face
from denoise_lab.training.rows import Rows, packed
from denoise_lab.worlds.world import World


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """``tokens`` is the length of the run, padding included; ``seed`` decides weights and data."""

    tokens: int = 55_000_000
    seed: int = 0
    rate: float = 1.5e-3
    warm_up: int = 100
    decay_from: float = 0.6  # of the part before ``anew``; from here on the rate falls in a line to a twentieth
    anew: float = 36 / 55  # of the run; here the rate begins again with ``rate_anew``, and falls in the same way
    rate_anew: float = 8e-4
    shape: Shape = field(default_factory=Shape)


@dataclass(slots=True)
class Progress:
    """Where a run stands. ``right`` is a running mean: replies whose first token is right."""

    step: int = 0
    tokens: int = 0
    stage: int = 0
    stage_tokens: int = 0
    right: float = 0.0


class Run:
    """A training run with its folder: ``state.safetensors`` and ``progress.json`` are enough to go on."""

    def __init__(
        self,
        out: Path,
        tokenizer: Any,
        settings: TrainingSettings,
        *,
        stages: tuple[Stage, ...] = STAGES,
        device: str = "cpu",
        compile: bool = False,
    ) -> None:
        self.out, self.tokenizer, self.settings, self.stages, self.device = (
            out,
            tokenizer,
            settings,
            stages,
            device,
        )
        torch.manual_seed(settings.seed)
        # The optimizer works on a full-precision copy: steps of 1e-4 would be lost in bfloat16.
        self.network = Network(settings.shape).to(device)
        self.master = {n: p.detach().clone().float() for n, p in self.network.named_parameters()}
        self.network.bfloat16()
        self.forward: Callable[..., torch.Tensor] = (
            torch.compile(self.network, dynamic=False) if compile else self.network
        )
        self.optimizers = _optimizers(self.master, settings.rate)
        self.progress = Progress()
        if (out / "progress.json").exists():
            self._resume()
        self._enter()
        self._publish()

    def train(
        self, *, save_every: float = 120.0, report: Callable[[dict[str, Any]], None] = lambda row: None
    ) -> None:
        """Trains to the end, saving every ``save_every`` seconds.

        ``report`` gets a row every 50 steps and at the end.
        """
        saved, began, sums = time.monotonic(), time.monotonic(), [0.0, 0.0, 0.0]
        tokens_before = self.progress.tokens
        while self.progress.tokens < self.settings.tokens:
            loss, right = self.step()
            sums = [sums[0] + loss, sums[1] + right, sums[2] + 1]
            p = self.progress
            if p.step % 50 == 0 or p.tokens >= self.settings.tokens:
                row = {
                    "step": p.step,
                    "tokens": p.tokens,
                    "stage": self.stages[p.stage].name,
                    "loss": round(sums[0] / sums[2], 4),
                    "first_token": round(sums[1] / sums[2], 4),
                    "tokens_per_second": round((p.tokens - tokens_before) / (time.monotonic() - began)),
                }
                with (self.out / "log.jsonl").open("a", encoding="utf-8") as log:
                    log.write(json.dumps(row) + "\n")
                report(row)
                sums = [0.0, 0.0, 0.0]
            if time.monotonic() - saved > save_every:
                self.save()
                saved = time.monotonic()
        self.save()

    def step(self) -> tuple[float, float]:
        """One batch; the loss and the share of replies whose first token is right."""
        self._enter()
        p = self.progress
        stage = self.stages[p.stage]
        rows = self.batch(stage, p.step)
        ids, segments = rows.ids.to(self.device), rows.segments.to(self.device)
        hidden = self.forward(ids, segments, self.settings.shape.first if stage.shallow else None)[:, :-1]
        weights = rows.weights[:, 1:].to(self.device)
        learned = weights > 0
        logits = (hidden[learned] @ self.network.embedding.weight.T).float()
        targets, weights = ids[:, 1:][learned], weights[learned]
        loss = (F.cross_entropy(logits, targets, reduction="none") * weights).sum() / weights.sum()
        torch.autograd.backward(loss)
        right = (logits.argmax(-1) == targets)[rows.firsts[:, 1:].to(self.device)[learned]].float().mean().item()
        for name, parameter in self.network.named_parameters():
            self.master[name].grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.master.values(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate()
            optimizer.step()
        self._publish()
        p.step += 1
        p.tokens += ids.numel()
        p.stage_tokens += ids.numel()
        p.right = 0.97 * p.right + 0.03 * right
        return loss.item(), right

    def _enter(self) -> None:
        """The stage that the next step belongs to, and its RoPE base."""
        p, now = self.progress, self.stages[self.progress.stage]
        over = now.most is not None and p.stage_tokens >= now.most
        over |= now.most is None and now.passes is None and p.tokens >= self.settings.anew * self.settings.tokens
        passed = now.passes is not None and p.right >= now.passes
        if (over or passed) and p.stage + 1 < len(self.stages):
            p.stage, p.stage_tokens, p.right = p.stage + 1, 0, 0.5 * p.right
        shape, shallow = self.settings.shape, self.stages[p.stage].shallow
        self.network.rope = shape.rope if shallow else shape.far

    def batch(self, stage: Stage, step: int) -> Rows:
        rng = random.Random(f"{self.settings.seed}/{step}")
        lesson = stage.lessons[step % len(stage.lessons)]
        return packed(self.tokenizer, self._conversations(lesson, rng), lesson.rows, lesson.length, lesson.echo)

    def _conversations(self, lesson: Lesson, rng: random.Random) -> Iterator[tasks.Conversation]:
        makers = [(w, tasks.MAKERS[n]) for n, w in lesson.tasks.items()]
        world = World(rng, plain=lesson.plain, coin=lesson.coin)
        while True:
            make = rng.choices([m for _, m in makers], [w for w, _ in makers])[0]
            yield make(world, lesson.difficulty)

    def _rate(self) -> float:
        s, p = self.settings, self.progress
        done = min(1.0, p.tokens / s.tokens)
        if done >= s.anew:
            return s.rate_anew * (1 - 0.95 * (done - s.anew) / (1 - s.anew))
        late = max(0.0, done / s.anew - s.decay_from)
        return s.rate * min(1.0, (p.step + 1) / s.warm_up) * (1 - 0.95 * late / (1 - s.decay_from))

    @torch.no_grad()
    def _publish(self) -> None:
        for name, parameter in self.network.named_parameters():
            parameter.copy_(self.master[name])

    def save(self) -> None:
        """Weights and optimizer as safetensors, whole or not at all; then the model as transformers loads it."""
        from safetensors.torch import save_file

        self.out.mkdir(parents=True, exist_ok=True)
        tensors = {f"master.{n}": t for n, t in self.master.items()}
        names = {t: n for n, t in self.master.items()}
        for optimizer in self.optimizers:
            for t, kept in optimizer.state.items():  # blocks that no stage has used yet have none
                tensors |= {f"optimizer.{key}.{names[t]}": value for key, value in kept.items()}
        part = self.out / "state.part"
        save_file({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, part)
        part.replace(self.out / "state.safetensors")
        write_whole(
            self.out / "progress.json", json.dumps({**asdict(self.progress), "settings": asdict(self.settings)})
        )
        model = hugging_face(self.network.cpu(), self.tokenizer)
        model.save_pretrained(self.out / "model")
        self.tokenizer.save_pretrained(self.out / "model")
        self.network.to(self.device)

    def _resume(self) -> None:
        from safetensors.torch import load_file

        record = json.loads((self.out / "progress.json").read_text("utf-8"))
        settings = record.pop("settings")
        if settings != asdict(self.settings):
            raise InputError(f"{self.out} holds a run with other settings: {settings}; give another folder")
        tensors = load_file(self.out / "state.safetensors", device=self.device)
        owner = {t: o for o in self.optimizers for group in o.param_groups for t in group["params"]}
        for name, tensor in tensors.items():
            kind, rest = name.split(".", 1)
            if kind == "master":
                self.master[rest].copy_(tensor)
            else:
                key, n = rest.split(".", 1)
                owner[self.master[n]].state[self.master[n]][key] = tensor
        self.progress = Progress(**record)


def _optimizers(master: dict[str, torch.Tensor], rate: float) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the blocks' matrices, AdamW for the rest.

    Muon (orthogonal steps, of AdamW's size) takes a third of the tokens to learn to find a fact: a matrix moves
    in all directions at once, also in those that few examples ask for.
    """
    if not hasattr(torch.optim, "Muon"):
        raise InputError(f"training needs torch 2.9 or newer; this is {torch.__version__}: pip install -U torch")
    matrices = {n: t for n, t in master.items() if t.dim() == 2 and n.startswith("blocks.")}
    rest = [t for n, t in master.items() if n not in matrices]
    return (
        torch.optim.Muon(list(matrices.values()), lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True),
    )
