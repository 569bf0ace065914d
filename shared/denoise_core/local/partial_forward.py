"""The first L blocks of a transformer, and nothing above them.

A dormant hook before every block watches a context variable. A reading sets it to the layer it wants; when
the pass arrives there, the hook takes the state and leaves the model through an exception. So only L of N
blocks run, the model object stays as it is, can generate in between, and other threads do not notice.

``h_L`` is the residual after L blocks, before any final norm; L counts like Hugging Face ``hidden_states``:
0 is the embeddings. For L = N this is the state *before* the model's final norm, where ``hidden_states[N]``
is the one after it.

Early Noise Dropping, section 2.3: only the early layers are run to find the noise.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from denoise_core.cancellation import stop_if_abandoned
from denoise_core.errors import InputError, PromptTooLong
from denoise_core.local.batching import batch_by_length, position_limit
from denoise_core.local.blocks import Norm, find_blocks, find_final_norm, remove_gain
from denoise_core.local.layout import TokenPrompt, part_span, pooling_parts

# Why a trial of a model said nothing; it is made again at the next use.
TRIAL_TOO_LARGE = "its trial on random tokens does not fit into memory"
PoolingFunction = Callable[[torch.Tensor], torch.Tensor]
T = TypeVar("T")


class StopForward(BaseException):
    """Leaves a forward pass. Not an `Exception`, so that no ``except Exception`` in a model eats it."""


@dataclass(slots=True)
class LayerRequest:
    """One pass: pool the state at each layer of ``pools``, leave at ``stop``; ``entered`` counts blocks run."""

    owner: PartialForward
    pools: Mapping[int, PoolingFunction]
    stop: int
    entered: int = 0
    states: dict[int, torch.Tensor] = field(default_factory=dict)

    def arrive(self, layer: int, state: Any, entering: bool) -> None:
        """Pool the state at ``layer`` if it was asked for; raise `StopForward` at the last layer."""
        if layer in self.pools and layer not in self.states:
            width = self.owner.hidden_size
            shape = tuple(getattr(state, "shape", ()))
            if len(shape) != 3 or shape[-1] != width:
                raise InputError(
                    f"between its blocks this model carries {shape or type(state).__name__}, not one vector of "
                    f"width {width} for each token, so a probe cannot read it"
                )
            self.states[layer] = self.pools[layer](state)
        if layer >= self.stop:
            raise StopForward
        self.entered += entering


current_request: contextvars.ContextVar[LayerRequest | None] = contextvars.ContextVar(
    "end_request", default=None
)


class LayerHook:
    """The hook before block ``layer_index``: its input is ``h_n``. It knows its owner weakly, or models would
    live on.
    """

    def __init__(self, layer_index: int, owner: PartialForward | None) -> None:
        self.n = layer_index
        self.owner: Callable[[], PartialForward | None] = lambda: None
        if owner is not None:
            self.owner = weakref.ref(owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return LayerHook, (self.n, None)  # in a copy of the model it watches nothing

    def before(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Forward pre-hook: reports the block's input."""
        request = self._active_request()
        if request is not None:
            state = args[0] if args else kwargs.get("hidden_states")
            request.arrive(self.n, state, entering=True)

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Forward hook of the last block: reports its output."""
        request = self._active_request()
        if request is not None:
            state = output[0] if isinstance(output, tuple) else output
            request.arrive(self.n, state, entering=False)

    def _active_request(self) -> LayerRequest | None:
        """The pass that is under way in this thread, if it is one of the model watched."""
        request = current_request.get()
        if request is not None and self.owner() is request.owner:
            return request
        return None


class PartialForward:
    """One loaded model, read at any layer. Get it from `get_partial_forward`, which keeps one for each model.

    Hold ``lock`` while running a batch: one batch at a time bounds memory. ``unit_norm`` is the final norm with
    its gain at one, found by trying at the first check.
    """

    def __init__(self, config: Any, decoder: nn.Module, blocks: nn.ModuleList) -> None:
        self.config = config
        self.decoder = decoder  # takes input_ids and runs the blocks
        self.blocks = blocks
        self.block_count = len(blocks)
        self.hidden_size = int(config.hidden_size)
        self.lock = threading.RLock()
        self.unit_norm = Norm()
        self.final_norm: nn.Module | None = None
        self._parameters = frozenset(inspect.signature(decoder.forward).parameters)
        self._checked: set[int] = set()
        self._refusal: str | None = None
        self._learned = False
        for layer_index, block in enumerate(blocks):
            block.register_forward_pre_hook(
                LayerHook(layer_index, self).before, with_kwargs=True
            )
        blocks[-1].register_forward_hook(LayerHook(self.block_count, self).after)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied or pickled model does not take this along (a lock cannot be copied); it gets its own.
        return type(None), ()

    @property
    def device(self) -> torch.device:
        """Device of the model's first parameter."""
        return next(self.decoder.parameters()).device

    @property
    def dtype(self) -> str:
        """Name of the blocks' floating-point type, such as "bfloat16"."""
        for parameter in self.blocks.parameters():
            if parameter.is_floating_point():
                return str(parameter.dtype).removeprefix("torch.")
        raise InputError("the model's blocks have no floating-point weights")

    @property
    def max_positions(self) -> int | None:
        """Positions the model has, or None when its configuration sets no limit."""
        return position_limit(self.config)

    def accepts_argument(self, name: str) -> bool:
        """Whether the model's forward pass has a parameter of this name."""
        return name in self._parameters

    def check_layer(self, layer: int) -> None:
        """Check ``layer`` once: 8 random tokens, the hook against ``output_hidden_states``, blocks counted.

        Raises `InputError` for a layer outside the model, and when the state there cannot be read exactly.
        """
        if not 0 <= layer <= self.block_count:
            raise InputError(
                f"layer={layer} is outside the model: it has {self.block_count} blocks, so 0 to {self.block_count}"
            )
        self.check_readable()
        if layer not in self._checked:
            with self.lock:
                self._compare_layer(layer)
                self._checked.add(layer)

    def check_readable(self) -> None:
        """Raises `InputError` when the model cannot be read at all, or is in training mode now."""
        if self.decoder.training:
            raise InputError(
                "the model is in training mode, so dropout would change its states: call model.eval()"
            )
        if not self._learned:
            with self.lock:
                self._detect_properties()
        if self._refusal:
            raise InputError(self._refusal)

    def read_layers(
        self, inputs: Mapping[str, Any], layers: Sequence[int], pooling: PoolingFunction
    ) -> dict[int, torch.Tensor]:
        """``pooling`` of the state at each of ``layers``, from one pass that ends at the highest.

        ``inputs`` are those of the model's forward pass; ``pooling`` gets ``(batch, tokens, width)``. Raises
        `InputError` when a layer was never reached (a fused, compiled or patched forward pass).
        """
        return self.run_pass(inputs, max(layers), dict.fromkeys(layers, pooling))

    @torch.inference_mode()
    def run_pass(
        self, inputs: Mapping[str, Any], stop: int, pools: Mapping[int, PoolingFunction]
    ) -> dict[int, torch.Tensor]:
        """By layer of ``pools`` the pooled states, from one pass of ``stop`` blocks.

        The last block may end the pass itself by raising `StopForward`. Raises what `read_layers` raises.
        """
        request = LayerRequest(self, pools, stop)
        token = current_request.set(request)
        try:
            self.decoder(**inputs)
        except StopForward:
            pass
        finally:
            current_request.reset(token)
        missing_layers = sorted(request.pools.keys() - request.states.keys())
        if missing_layers or request.entered != request.stop:
            raise InputError(
                f"the model's forward pass went around its blocks: expected {request.stop} of {self.block_count} to "  # noqa: E501
                f"run, saw {request.entered}; a fused, compiled or patched forward cannot be read, load the "
                "model plainly"
            )
        return request.states

    def parameters_below(self, layer: int) -> list[tuple[str, torch.Tensor]]:
        """Named tensors that decide ``h_layer``: the first blocks, and what runs outside them before."""
        block_modules = {id(module) for module in self.blocks.modules()}
        outside = {}
        for path, module in self.decoder.named_modules():
            if id(module) not in block_modules:
                outside[path] = module
        tensors = []
        for path in self._run_paths(outside, layer):
            for name, tensor in outside[path].named_parameters(recurse=False):
                tensors.append((f"{path}.{name}", tensor))
        for block_index, block in enumerate(self.blocks[:layer]):
            for name, tensor in block.named_parameters():
                tensors.append((f"blocks.{block_index}.{name}", tensor))
        return tensors

    def _run_paths(self, modules: Mapping[str, nn.Module], layer: int) -> set[str]:
        """Which of the modules a pass to ``layer`` runs, and the whole model itself."""
        run_paths = {""}

        def watch(path: str) -> Callable[..., None]:
            def record_run(*_: Any) -> None:
                # Other threads may run the whole model meanwhile; only our own pass counts.
                if current_request.get() is not None:
                    run_paths.add(path)

            return record_run

        handles = []
        for path, module in modules.items():
            handles.append(module.register_forward_pre_hook(watch(path)))
        try:
            self.read_layers(self._sample_inputs(), [layer], lambda hidden: hidden)
        finally:
            for handle in handles:
                handle.remove()
        return run_paths

    # -- what is found out by trying, once -------------------------------------------------------------

    def _sample_ids(self) -> tuple[int, ...]:
        # A generator of our own: the global one belongs to the user.
        generator = torch.Generator().manual_seed(0)
        vocabulary_size = int(self.config.vocab_size)
        ids = torch.randint(vocabulary_size, (8,), generator=generator)
        return tuple(ids.tolist())

    def _sample_inputs(self) -> dict[str, Any]:
        return model_inputs(self, [TokenPrompt(self._sample_ids())], 0)

    def _detect_properties(self) -> None:
        """What makes the model unreadable, and which module is the final norm."""
        self._learned = True
        if any(
            "quantized.dynamic" in type(module).__module__
            for module in self.blocks.modules()
        ):
            # Not left to the trial below: eight tokens do not always move the scale.
            self._refusal = (
                "this model is quantised dynamically: its int8 arithmetic takes one scale over a whole batch, so "
                "the state of a token depends on later tokens and on the other rows; load it in "
                "float32 or bfloat16, or with weights alone in 4 or 8 bits"
            )
            return
        try:
            if not self._is_causal():
                raise InputError(
                    f"{type(self.decoder).__name__} is an encoder, in which every token sees the "
                    "question; END reads decoders: score with an encoder by default_denoiser(encoder=...)"
                )
            inputs = self._sample_inputs()
            last = self.block_count
            last_hidden = self.read_layers(inputs, [last], lambda hidden: hidden)[last]
            with torch.inference_mode():
                model_output = self.decoder(**inputs).last_hidden_state
                self.final_norm = find_final_norm(
                    self.decoder, self.blocks, last_hidden, model_output
                )
                if self.final_norm is not None:
                    self.unit_norm = remove_gain(self.final_norm)
        except InputError as error:
            self._refusal = str(error)

    def _is_causal(self) -> bool:
        """Whether the first token's state does not depend on the last token."""
        *first_ids, last_id = self._sample_ids()
        first_states = []
        for trial_id in (last_id, (last_id + 1) % int(self.config.vocab_size)):
            prompt = TokenPrompt((*first_ids, trial_id))
            inputs = model_inputs(self, [prompt], 0)
            by_layer = self.read_layers(inputs, [1], lambda hidden: hidden[:, 0])
            first_states.append(by_layer[1])
        return torch.equal(*first_states)

    @torch.inference_mode()
    def _compare_layer(self, layer: int) -> None:
        inputs = self._sample_inputs()
        state = self.read_layers(inputs, [layer], lambda hidden: hidden)[layer]
        full_output = self.decoder(**inputs, output_hidden_states=True)
        if layer == self.block_count:
            if self.final_norm is not None:
                state = self.final_norm(state)
            expected_states = [full_output.last_hidden_state]
        else:
            # Mamba-2 lists its states one place earlier; the blocks that ran were counted, so both are h_L.
            expected_states = [
                full_output.hidden_states[layer],
                full_output.hidden_states[max(0, layer - 1)],
            ]
        if not any(_is_close(state, expected) for expected in expected_states):
            raise InputError(
                f"the state after {layer} blocks is not the model's own hidden_states[{layer}]; this model "
                "carries more between its blocks than their input, so it cannot be read early"
            )


def _is_close(
    state: torch.Tensor, expected_states: torch.Tensor, tolerance: float = 1e-3
) -> bool:
    """Equal but for a kernel that adds in another order the second time."""
    if state.shape != expected_states.shape:
        return False
    scale = float(expected_states.abs().max()) or 1.0
    return float((state - expected_states).abs().max()) <= tolerance * scale


def nearly_equal(states: torch.Tensor, expected_states: torch.Tensor) -> bool:
    """As near, row by row, as half precision is to itself in another batch."""
    cosines = torch.cosine_similarity(states.float(), expected_states.float(), dim=-1)
    return bool((cosines > 0.999).all())


_PARTIAL_FORWARD_ATTRIBUTE = "_denoise_early_layers"
_creation_lock = threading.Lock()


def get_partial_forward(model: nn.Module) -> PartialForward:
    """The `PartialForward` of a model, made once and shared, so that all its readers share one lock.

    Raises `InputError` when the model has no list of blocks to stop between.
    """
    model = getattr(
        model, "_orig_mod", model
    )  # under torch.compile the hooks belong to the original
    config, decoder, blocks = find_blocks(model)
    with _creation_lock:
        states = decoder.__dict__.get(_PARTIAL_FORWARD_ATTRIBUTE)
        if states is None:
            states = PartialForward(config, decoder, blocks)
            object.__setattr__(
                decoder, _PARTIAL_FORWARD_ATTRIBUTE, states
            )  # past torch's own, which is for parameters and modules
        return states


def model_inputs(
    partial_forward: PartialForward,
    prompts: Sequence[TokenPrompt],
    pad: int,
    past_lengths: Sequence[int] = (),
) -> dict[str, Any]:
    """Inputs of the model's forward pass, padded on the left.

    With position ids, because models with learned positions would count the padding in (GPT-2 does).

    Args:
        partial_forward: The model.
        prompts: Whole prompts.
        pad: The padding's token id.
        past_lengths: Of each prompt how many first tokens a cache holds. Only the others are inputs; mask and
            positions count all.
    """
    past_lengths = past_lengths or [0] * len(prompts)
    width = max(len(prompt.ids) for prompt in prompts)
    new_ids = []
    for prompt, past_length in zip(prompts, past_lengths, strict=True):
        new_ids.append(torch.tensor(prompt.ids[past_length:]))
    new_width = max(map(len, new_ids))
    ids = torch.full((len(prompts), new_width), pad)
    mask = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        mask[row, width - len(prompt.ids) :] = 1
        ids[row, new_width - len(new_ids[row]) :] = new_ids[row]
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if partial_forward.accepts_argument("position_ids"):
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        inputs["position_ids"] = positions[:, width - new_width :]
    for name, tensor in inputs.items():
        inputs[name] = tensor.to(partial_forward.device)
    if partial_forward.accepts_argument("use_cache"):
        inputs["use_cache"] = False
    return inputs


def pooling_function(pooling: str, prompts: Sequence[TokenPrompt]) -> PoolingFunction:
    """Pools the states of a batch's rows by `POOLINGS`, float32 ``(batch, parts * width)``.

    Rows end together: they are padded on the left, and may lack the tokens that a cache holds.
    """
    parts = pooling_parts(pooling)

    def pool_rows(hidden: torch.Tensor) -> torch.Tensor:
        pooled_rows = []
        for row, prompt in enumerate(prompts):
            row_start = hidden.shape[1] - len(prompt.ids)
            pooled_parts = []
            for part in parts:
                start, end = part_span(part, prompt)
                states = hidden[row, row_start + start : row_start + end].float()
                # A mean, but 0 of no tokens.
                pooled_parts.append(states.sum(0) / max(1, len(states)))
            pooled_rows.append(torch.cat(pooled_parts))
        return torch.stack(pooled_rows)

    return pool_rows


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether the batch was too large for the device or the machine; torch reports it in several ways."""
    if isinstance(error, PromptTooLong):  # of `run_halving`
        error = error.__cause__
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def run_halving(
    batch_rows: list[int], run_rows: Callable[[list[int]], T]
) -> list[tuple[list[int], T]]:
    """``run(batch)``; a batch that does not fit into memory is halved and tried again, down to one row.

    Raises `PromptTooLong` when a single row does not fit.
    """
    try:
        return [(batch_rows, run_rows(batch_rows))]
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        if len(batch_rows) == 1:
            raise PromptTooLong(
                "a single prompt does not fit into memory; cut the passages into smaller chunks, load the model "
                "in bfloat16, or use another device"
            ) from error
    middle_row = len(batch_rows) // 2
    return run_halving(batch_rows[:middle_row], run_rows) + run_halving(
        batch_rows[middle_row:], run_rows
    )


def run_in_batches(
    lengths: Sequence[int], max_tokens: int, run_rows: Callable[[list[int]], T]
) -> list[tuple[list[int], T]]:
    """``run_rows`` of positions of prompts of these lengths, a batch at a time (`batches`, `run_halving`)."""
    batch_results = []
    for batch_rows in batch_by_length(lengths, max_tokens):
        stop_if_abandoned()
        batch_results += run_halving(batch_rows, run_rows)
    return batch_results
