#!/usr/bin/env python3
"""Count the bytes of a real GRPO training step without a GPU, and without a byte of tensor data.

`trl.GRPOTrainer` is built and its own `train()` runs: accelerate's autocast, PEFT's or bitsandbytes' layers, gradient
checkpointing, TRL's chunked language-model head, the backward pass, clipping and the optimizer are the installed code.
Only the tensors hold no data (torch's FakeTensorMode), the rollout is replaced by a batch of the asked shape, and a few
things that a CPU does otherwise than a GPU are put right (`as_on_a_gpu`). A dispatch mode adds up every storage that is
alive, rounded up to 512 bytes as the caching allocator does: what `torch.cuda.max_memory_allocated()` would say. Not
counted: scratch memory inside kernels, what the allocator reserves on top, the CUDA context, vLLM, other processes.

The word for such a figure is "traced". Nobody measured it.
"""

import argparse
import contextlib
import gc
import io
import itertools
import json
import logging
import math
import os
import random
import re
import sys
import tempfile
import time
import warnings
import weakref
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from difflib import SequenceMatcher
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "scripts")]

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

ALLOCATION_BYTES = 512  # c10/cuda/CUDACachingAllocator.h: kMinBlockSize
VERSIONS = ("trl", "transformers", "peft", "torch", "accelerate", "bitsandbytes")
aten = torch.ops.aten


class LiveBytes(TorchDispatchMode):
    """Adds up the storages that operators return, for as long as they live; keeps the highest sum of each phase."""

    def __init__(self, completion_tokens: int):
        super().__init__()
        self.completion_tokens = completion_tokens
        self.phase, self.in_backward = "build", False
        self.live, self.peaks, self.events = 0, defaultdict(int), None
        self.storages = {}  # id of the storage: bytes, number of elements, bytes per element, reference

    def add(self, tensor: torch.Tensor) -> None:
        if isinstance(tensor, DTensor):  # a wrapper; its local shard has been added
            return
        storage = tensor.untyped_storage()
        key, size = id(storage), -(-storage.nbytes() // ALLOCATION_BYTES) * ALLOCATION_BYTES
        if not size or key in self.storages:
            return

        def gone(_, key=key):
            self.live -= self.storages.pop(key)[0]

        elements = storage.nbytes() // tensor.element_size()
        self.storages[key] = (size, elements, tensor.element_size(), weakref.ref(storage, gone))
        self.live += size

    def composition(self) -> Counter:
        return Counter((elements, width) for _, elements, width, _ in self.storages.values())

    def resize(self, storage: torch.UntypedStorage) -> None:
        """FSDP2 frees and fills its gathered weights by resizing their storage."""
        if id(storage) in self.storages:
            size, _, width, reference = self.storages[id(storage)]
            new = -(-storage.nbytes() // ALLOCATION_BYTES) * ALLOCATION_BYTES
            self.storages[id(storage)] = (new, storage.nbytes() // width, width, reference)
            self.live += new - size
            self.peaks[self.phase] = max(self.peaks[self.phase], self.live)
            if self.events is not None and new > size:
                self.events.append((self.phase, "resize_", self.composition()))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor takes it apart, and its parts come here again
        kwargs, before = kwargs or {}, self.live
        out = self.run(func, args, kwargs)
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        self.peaks[self.phase] = max(self.peaks[self.phase], self.live)
        if self.events is not None and self.live > before:
            self.events.append((self.phase, func.__name__, self.composition()))
        return out

    def run(self, func, args, kwargs):
        if func is aten.index.Tensor and any(index is not None and index.dtype is torch.bool for index in args[1]):
            # The result's size depends on data: every completion token is scored, as when none is padding.
            places = [
                [index] if index is None or index.dtype is not torch.bool
                else [torch.zeros(self.completion_tokens, dtype=torch.long)] * index.dim()
                for index in args[1]
            ]  # fmt: skip
            return func(args[0], list(itertools.chain(*places)))
        if func is aten.masked_select.default:
            return aten.new_empty.default(args[0], [self.completion_tokens])
        if func is aten._grouped_mm.default:  # its shape function refuses float32, which the kernels take
            left, right = args[0], args[1]
            experts = [kwargs.get("offs", args[2] if len(args) > 2 else None).numel()] if right.dim() == 2 else []
            return left.new_empty([*experts, left.shape[0], right.shape[-1]])
        if func.__name__ == "gemm_4bit.default":
            # bitsandbytes on CUDA: above 1,536 rows the weight is dequantised, then multiplied (backends/cuda/ops.py).
            activations, shape = args[0], args[2]
            if kwargs.get("absmax_8bit") is not None:
                scales = torch.empty(math.prod(shape) // 64)
                self.add(scales)
            weight = torch.empty(shape, dtype=activations.dtype)
            self.add(weight)
            return activations @ weight.t()
        if not torch.is_grad_enabled():
            # Autograd accumulates in place unless a dispatch mode is active, and one is, only here.
            if func is aten.scatter_add.default:
                func = aten.scatter_add_.default
            elif (
                func is aten.add.Tensor and self.in_backward and not kwargs and isinstance(args[1], torch.Tensor)
                and args[0].shape == args[1].shape and args[0].dtype == args[1].dtype and args[0].is_contiguous()
            ):  # fmt: skip
                func = aten.add_.Tensor
        return func(*args, **kwargs)


def apply_without_swapping(module, fn, recurse=True):
    """`torch.nn.Module._apply` for tensors without data, whose parameters cannot be swapped in place."""
    for child in module.children():
        child._apply(fn)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            with torch.no_grad():
                new = fn(parameter)
            if (new.dtype, new.shape) != (parameter.dtype, parameter.shape):
                module._parameters[name] = torch.nn.Parameter(new, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


@contextlib.contextmanager
def as_on_a_gpu(padded: bool, build_reference):
    """What differs between a CPU and a GPU, and what asks a tensor for data it does not have."""
    import transformers.masking_utils
    import trl.kernels.chunked_logprob
    import trl.trainer.grpo_trainer
    import trl.trainer.utils

    kernels, trainer = trl.kernels.chunked_logprob, trl.trainer.grpo_trainer
    autocast_enabled = torch.is_autocast_enabled
    changes = [
        # The Triton kernels fold a tile of logits in place; the fallback for CPUs copies it to float32.
        (kernels, "_forward_tile", lambda *args, **kwargs: None),
        (kernels, "_backward_tile", lambda *args, **kwargs: None),
        (kernels, "_addmm_fp32", lambda *args: None),  # cuBLAS adds into the float32 sum
        (trl.trainer.utils, "_use_triton", lambda device: True),  # only completion tokens reach the head
        (torch, "is_autocast_enabled", lambda device="cpu": autocast_enabled(device)),  # without a device: CUDA
        (torch.nn.Module, "_apply", apply_without_swapping),
        (torch.Tensor, "item", lambda self: 1.0),
        (torch.Tensor, "tolist", lambda self: [1.0] * self.numel()),
        (FakeTensor, "__bool__", lambda self: False),
        (trainer, "nanmin", lambda tensor: torch.zeros(())),
        (trainer, "nanmax", lambda tensor: torch.zeros(())),
        (trainer, "create_model_from_path", lambda *args, **kwargs: build_reference()),  # beta > 0 would ask the hub
    ]
    if not padded:
        changes.append((transformers.masking_utils, "_ignore_causal_mask_sdpa", lambda *args, **kwargs: True))
    with contextlib.ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


def quantise(model, double_quant: bool, compute: torch.dtype) -> None:
    """Replace the linear layers by bitsandbytes' own, with packed weights of the right size; the head stays."""
    import bitsandbytes
    from bitsandbytes.functional import QuantState

    def quantised(linear):
        elements = linear.in_features * linear.out_features
        blocks = -(-elements // 64)
        state = {"shape": torch.Size((linear.out_features, linear.in_features)), "code": torch.empty(16)}
        state |= {"blocksize": 64, "quant_type": "nf4", "dtype": compute}
        if double_quant:
            inner = QuantState(
                torch.empty(-(-blocks // 256)), code=torch.empty(256), blocksize=256, dtype=torch.float32
            )
            state |= {"absmax": torch.empty(blocks, dtype=torch.uint8), "offset": torch.empty(()), "state2": inner}
        else:
            state["absmax"] = torch.empty(blocks)
        with _disable_current_modes():  # its weight class cannot wrap a tensor without data
            new = bitsandbytes.nn.Linear4bit(
                1, 1, bias=False, compute_dtype=compute, compress_statistics=double_quant, quant_type="nf4"
            )
        new.in_features, new.out_features, new.bias = linear.in_features, linear.out_features, linear.bias
        new.weight = torch.nn.Parameter(torch.empty((elements + 1) // 2, 1, dtype=torch.uint8), requires_grad=False)
        new.quant_state = new.weight.quant_state = QuantState(**state)
        new.weight.compress_statistics, new.weight.quant_type = double_quant, "nf4"
        return new

    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and name != "lm_head":
                setattr(module, name, quantised(child))
    model.requires_grad_(False)
    model.is_loaded_in_4bit = True


def ranks(shards: int):
    """A mesh of the first of `shards` ranks in a process group that sends nothing."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=shards)
    return init_device_mesh("cpu", (shards,), mesh_dim_names=("shard",))


def shard(model, mesh, autocast: bool) -> None:
    """accelerate's own FSDP2 wrapping of the model."""
    from accelerate import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model

    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    if autocast:
        plugin.set_mixed_precision("bf16")
    accelerator = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin), mixed_precision="bf16" if autocast else "no",
        parallelism_config=SimpleNamespace(fsdp_dim_names=["shard"]), torch_device_mesh=mesh,
        is_main_process=False, device=torch.device("cpu"),
    )  # fmt: skip
    fsdp2_prepare_model(accelerator, model)


def trace(
    config,
    *,
    mode: str = "full",
    dtype: str = "float32",
    autocast: bool = True,
    checkpointing: bool = True,
    batch: int = 8,
    prompt: int = 512,
    completion: int = 512,
    accumulation: int = 1,
    optimizer: str = "adamw_torch_fused",
    beta: float = 0.0,
    lora_r: int = 16,
    lora_targets="all-linear",
    double_quant: bool = False,
    padded: bool = True,
    shards: int = 1,
    events: bool = False,
) -> dict:
    """Bytes of one training step in its steady state (the second), by phase.

    `config` is a transformers config. The result holds `weights`, `optimizer`, `resident` (between steps), `peaks` by
    phase (score, forward, backward, clip, step), `peak`, and with `events` the tensors alive after each allocation.
    """
    import tiny_model
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    logging.disable(logging.WARNING)
    steps, started = 2, time.perf_counter()
    tokenizer = tiny_model.build_tokenizer(["1 + 2 ="])
    arguments = {
        "per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation, "num_generations": 2,
        "generation_batch_size": batch * accumulation * (1 if batch * accumulation % 2 == 0 else 2),
        "max_completion_length": completion, "gradient_checkpointing": checkpointing, "optim": optimizer, "beta": beta,
        "bf16": autocast, "use_cpu": True, "max_steps": steps, "report_to": "none", "save_strategy": "no",
        "logging_strategy": "no", "logging_nan_inf_filter": False, "disable_tqdm": True,
        "output_dir": tempfile.gettempdir(),
    }  # fmt: skip
    adapter = None
    if mode != "full":
        from peft import LoraConfig

        adapter = LoraConfig(r=lora_r, lora_alpha=2 * lora_r, lora_dropout=0.0, target_modules=lora_targets)
    dataset = Dataset.from_list([{"prompt": "1 + 2 ="}] * (4 * batch * accumulation))
    weight_dtype, counter, found = getattr(torch, dtype), LiveBytes(batch * completion), {}

    def build():
        return AutoModelForCausalLM.from_config(config, dtype=weight_dtype, attn_implementation="sdpa")

    quiet = contextlib.redirect_stdout(io.StringIO())  # the trainer prints its summary
    mesh = ranks(shards) if shards > 1 else None
    resize = torch.UntypedStorage.resize_

    def counted_resize(storage, size):
        result = resize(storage, size)
        counter.resize(storage)
        return result

    counted = patch.object(torch.UntypedStorage, "resize_", counted_resize)
    with quiet, counted, as_on_a_gpu(padded, build), FakeTensorMode(allow_non_fake_inputs=True), counter:
        model = build()
        if mode == "qlora":
            quantise(model, double_quant, weight_dtype)
        trainer = GRPOTrainer(
            model=model,
            args=GRPOConfig(**arguments),
            processing_class=tokenizer,
            reward_funcs=lambda completions, **kwargs: [0.0] * len(completions),
            train_dataset=dataset,
            peft_config=adapter,
        )
        del model
        if shards > 1:
            shard(trainer.model, mesh, autocast)
        gc.collect()
        found["weights"] = counter.live

        rollouts = itertools.count()

        def rollout(_):
            rows = {
                "prompt_ids": torch.zeros(batch, prompt, dtype=torch.long),
                "prompt_mask": torch.ones(batch, prompt, dtype=torch.long),
                "completion_ids": torch.zeros(batch, completion, dtype=torch.long),
                "completion_mask": torch.ones(batch, completion, dtype=torch.long),
                "advantages": torch.zeros(batch), "num_items_in_batch": torch.ones(()), "old_per_token_logps": None,
            }  # fmt: skip
            if beta:
                rows["ref_per_token_logps"] = torch.zeros(batch, completion)
            if next(rollouts) % accumulation:  # a later micro-step: the rollout has been scored
                if counter.events is not None:  # and what the steps before this one did was less
                    counter.events[:] = [event for event in counter.events if event[0] == "score"]
            else:
                counter.phase = "score"
                with torch.no_grad():
                    ids = torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1)
                    mask = torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1)
                    trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, completion, batch_size=batch)
                    del ids, mask
            counter.phase = "forward"
            return rows

        backward, step = trainer.accelerator.backward, trainer.create_optimizer().step

        def counted_backward(loss, **kwargs):
            counter.phase, counter.in_backward = "backward", True
            backward(loss, **kwargs)
            counter.phase, counter.in_backward = "clip", False

        done = []

        def counted_step(*args, **kwargs):
            counter.phase = "step"
            result = step(*args, **kwargs)
            done.append(True)
            counter.phase = "resident"
            if len(done) == steps - 1:  # from here on it is the steady state: the optimizer has its state
                counter.peaks.clear()
                counter.events = [] if events else None
            return result

        @contextlib.contextmanager
        def no_sync(model):  # accelerate's own for FSDP2: a micro-step that does not reduce keeps whole gradients
            model.set_requires_gradient_sync(False)
            yield
            model.set_requires_gradient_sync(True)

        if mesh:
            trainer.accelerator.no_sync = no_sync
        trainer._prepare_inputs, trainer.accelerator.backward = rollout, counted_backward
        trainer.optimizer.step = counted_step
        trainer.train()
        trainer.optimizer.zero_grad()
        gc.collect()
        found["resident"], found["resident_tensors"] = counter.live, counter.composition()
        state = [value for values in trainer.optimizer.state.values() for value in values.values()]
        state = [value.to_local() if isinstance(value, DTensor) else value for value in state]
        tensors = {value.untyped_storage()._cdata: value for value in state if torch.is_tensor(value)}
        sizes = [tensor.untyped_storage().nbytes() for tensor in tensors.values()]
        found["optimizer"] = sum(-(-size // ALLOCATION_BYTES) * ALLOCATION_BYTES for size in sizes)
        found["trainable"] = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
        found["events"] = counter.events
    found["peaks"] = {name: counter.peaks[name] for name in ("score", "forward", "backward", "clip", "step")}
    found["peak"], found["seconds"] = max(found["peaks"].values()), time.perf_counter() - started
    return found


# ---- what is alive at each peak, as a formula in the shape


PHASES = ("score", "forward", "backward", "clip", "step")
MOMENTS = ROOT / "scripts/memory_moments.json"
TARGETS = {
    "all-linear": "all-linear",
    "attention": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "qv": ["q_proj", "v_proj"],
}


GROUPS = ("dense", "no autocast", "experts", "fsdp2")


def recipes() -> dict[str, dict]:
    """Every combination that is traced; the name is what `estimate_memory.Plan.recipe` builds."""
    found = {}
    for group, mode, dtype, checkpointing, norm in itertools.product(
        GROUPS, ("full", "lora", "qlora"), ("float32", "bfloat16"), (True, False), (False, True)
    ):
        if mode == "qlora" and group in ("experts", "fsdp2"):
            continue  # bitsandbytes packs no stacked experts; accelerate does not shard its weights
        if group == "fsdp2" and (mode, dtype) == ("full", "bfloat16"):
            continue  # accelerate makes it float32
        common = {"mode": mode, "dtype": dtype, "checkpointing": checkpointing}
        if group == "no autocast":
            common["autocast"] = False
        if group == "fsdp2":
            common["shards"] = 2
        start = f"{mode} {dtype} {'checkpointing' if checkpointing else 'stored'} {'qk-norm' if norm else 'plain'}"
        end = "" if group == "dense" else f" {group}"
        recipe = {"group": group, "norm": norm, "tied": False}
        if mode == "full":
            for tied, accumulation in itertools.product((False, True), (1, 2)):
                name = f"{start} {'tied' if tied else 'untied'} {'accumulated' if accumulation > 1 else 'single'}{end}"
                found[name] = {**recipe, "tied": tied, "trace": {**common, "accumulation": accumulation}}
        else:
            for targets in TARGETS:
                found[f"{start} {targets}{end}"] = {**recipe, "trace": {**common, "lora_targets": TARGETS[targets]}}
    return found


def negligible(d: dict) -> set[int]:
    """Element counts of what grows with one dimension only: token ids, norms, biases, statistics per token."""
    length = d["prompt"] + d["completion"]
    tokens, scored = d["batch"] * length, d["batch"] * d["completion"]
    query, key = d["heads"] * d["head_dim"], d["kv_heads"] * d["head_dim"]
    found = {
        d["hidden"], d["mlp"], query, key, d["vocabulary"], d["lora_r"], d["head_dim"], d["head_dim"] // 2, tokens,
        scored, length, tokens - d["batch"], d["batch"] * d["prompt"], d["batch"] * (d["completion"] + 1),
        length * d["head_dim"] // 2, length * length, 16, 256,
    }  # fmt: skip
    if experts := d.get("experts"):  # routing: indices and sums of each token
        routed = tokens * d["per_token"]
        found |= {routed, experts, experts * d["hidden"], experts * d["lora_r"]}
    return found


def telling_dimensions(group: str) -> dict:
    """A tiny shape in which every kind of tensor has its own number of elements, so that a size tells the kind."""
    from estimate_memory import elements

    rng = random.Random(5)
    while True:
        d = {
            "batch": rng.randint(2, 5), "prompt": rng.randint(11, 29), "completion": rng.randint(11, 29),
            "hidden": rng.randrange(61, 160, 2), "mlp": rng.randrange(161, 400, 2), "heads": rng.choice([6, 9, 12]),
            "kv_heads": 3, "head_dim": rng.choice([10, 14, 18, 22, 26]), "vocabulary": rng.randint(1000, 2000),
            "lora_r": rng.randint(3, 7),
        }  # fmt: skip
        if group == "experts":
            d |= {"experts": rng.choice([5, 7, 11]), "per_token": rng.choice([2, 3])}
        if group == "fsdp2":  # two ranks: even rows, so that no shard is padded
            d |= {"hidden": d["hidden"] + 1, "mlp": d["mlp"] + 1, "vocabulary": d["vocabulary"] // 2 * 2}
            d |= {"lora_r": 2 * d["lora_r"], "shards": 2}
        kinds = list(elements(**d).values())
        if len(set(kinds)) == len(kinds) and not set(kinds) & negligible(d):
            return d


def model_config(d: dict, layers: int, norm: bool, tied: bool):
    from transformers import MistralConfig, MixtralConfig, Qwen3Config, Qwen3MoeConfig  # like Llama, any size of head

    common = dict(
        vocab_size=d["vocabulary"], hidden_size=d["hidden"], intermediate_size=d["mlp"], num_hidden_layers=layers,
        num_attention_heads=d["heads"], num_key_value_heads=d["kv_heads"], head_dim=d["head_dim"],
        tie_word_embeddings=tied, use_cache=False, max_position_embeddings=131_072, sliding_window=None,
    )  # fmt: skip
    if not d.get("experts"):
        return (Qwen3Config if norm else MistralConfig)(**common)
    if norm:
        return Qwen3MoeConfig(
            **common, moe_intermediate_size=d["mlp"], num_experts=d["experts"], num_experts_per_tok=d["per_token"]
        )
    return MixtralConfig(**common, num_local_experts=d["experts"], num_experts_per_tok=d["per_token"])


def named(tensors: Counter, d: dict) -> Counter:
    from estimate_memory import elements

    kinds, small, found = {n: name for name, n in elements(**d).items()}, negligible(d), Counter()
    for (count, width), copies in tensors.items():
        if count in kinds:
            found[kinds[count], width] += copies
        elif copies > 0 and count not in small and count > d["batch"] * (d["prompt"] + d["completion"]):
            raise ValueError(f"an unknown kind of tensor: {count} elements of {width} bytes in {d}")
    return found


def gathered(recipe: dict, d: dict) -> dict[str, int]:
    """Parameters that FSDP2 gathers at once, a layer and its adapters, as the planner counts them."""
    from estimate_memory import TARGETS, Shape

    sizes = {name: d[name] for name in ("hidden", "mlp", "heads", "kv_heads", "head_dim", "vocabulary")}
    shape = Shape(layers=1, **sizes, qk_norm=recipe["norm"])
    targets = recipe["trace"].get("lora_targets")
    names = {str(value): name for name, value in globals()["TARGETS"].items()}
    adapters = shape.adapter_parameters(d["lora_r"], names[str(targets)]) if targets else 0
    assert set(names.values()) == set(TARGETS)
    return {"layer": shape.layer_parameters + adapters, "adapters": adapters}


def aligned(fewer: list[tuple], more: list[tuple]) -> list[tuple[int, int]]:
    """Places in the events of two traces, one layer apart, that may be the same moment: the operators agree.

    Loops over layers align from their first layer, from their last, or as the longest common run; all are offered.
    """
    first, second = [name for name, _ in fewer], [name for name, _ in more]
    shorter = min(len(first), len(second))
    same = itertools.takewhile(lambda place: first[place] == second[place], range(shorter))
    found = {(place, place) for place in same}
    same = itertools.takewhile(lambda place: first[-1 - place] == second[-1 - place], range(shorter))
    found |= {(len(first) - 1 - place, len(second) - 1 - place) for place in same}
    for run in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        found |= {(run.a + place, run.b + place) for place in range(run.size)}
    return sorted(found)


def moments(recipe: dict, d: dict) -> dict[str, list]:
    """By phase, what is alive beyond weights and optimizer: (kind, bytes): [at 0 layers, for each layer].

    Traced with 3 and with 4 layers: the same operator, one layer apart, gives what each layer adds. A trace with 5
    layers is the judge: a pair that does not go on there to the tensor was no moment, only the same operator by chance.
    """
    if d.get("shards"):
        d = d | gathered(recipe, d)
    runs = []
    for layers in (3, 4, 5):
        config = model_config(d, layers, recipe["norm"], recipe["tied"])
        shape = {name: d[name] for name in ("batch", "prompt", "completion", "lora_r")}
        run, phases = trace(config, **shape, **recipe["trace"], events=True), defaultdict(list)
        for phase, operator, tensors in run["events"]:
            beyond = Counter(tensors)
            beyond.subtract(run["resident_tensors"])
            held = {key: count for key, count in named(beyond, d).items() if count}
            phases[phase].append((operator, held))
        runs.append(phases)
    found = {}
    for phase in PHASES:
        three, four, five = (run[phase] for run in runs)
        vectors, later = set(), defaultdict(list)
        for place, other in aligned(four, five):
            later[place].append(five[other][1])
        for place, other in aligned(three, four):
            at_three, at_four = three[place][1], four[other][1]
            terms, at_five = {}, {}
            for key in {*at_three, *at_four}:
                each = at_four.get(key, 0) - at_three.get(key, 0)
                terms[f"{key[0]}:{key[1]}"] = (at_three.get(key, 0) - 3 * each, each)
                if at_four.get(key, 0) + each:
                    at_five[key] = at_four.get(key, 0) + each
            if at_five in later[other]:
                vectors.add(tuple(sorted(terms.items())))
        if len(five) and not vectors:
            raise ValueError(f"{phase}: no moment of 3 and 4 layers repeats with 5")
        found[phase] = sorted(vectors)
    return found


def random_shape(rng: random.Random, group: str) -> dict:
    """A model and a batch such as people train: 64 or 128 per head, 4 to 80 layers, up to 64k tokens."""
    head_dim, batch = rng.choice([64, 128]), rng.choice([1, 2, 4, 8, 16])
    heads = rng.randint(8, 64)
    hidden = rng.choice([heads * head_dim, rng.randrange(512, 8193, 128)])
    tokens = rng.randint(256, 65_536) // batch
    completion = max(32, int(tokens * rng.uniform(0.2, 0.95)))
    shape = {
        "batch": batch, "prompt": max(32, tokens - completion), "completion": completion, "hidden": hidden,
        "mlp": int(hidden * rng.uniform(2.2, 6)) // 64 * 64, "heads": heads,
        "kv_heads": rng.choice([n for n in range(1, heads + 1) if heads % n == 0]), "head_dim": head_dim,
        "vocabulary": rng.randrange(32_000, 262_145, 64), "lora_r": rng.choice([4, 8, 16, 32, 64]),
    }  # fmt: skip
    if group == "experts":
        wide = rng.randrange(256, 8193, 128)
        shape |= {"mlp": wide, "experts": rng.choice([8, 16, 32, 64, 128]), "per_token": rng.choice([1, 2, 4, 8])}
    if group == "fsdp2":
        shape["shards"] = rng.choice([2, 4, 8, 16])
    return shape


def prune(found: dict[str, dict], recipe: dict, draws: int = 3000) -> dict[str, list[str]]:
    """Keep the moments that are the peak of their phase for one of the drawn shapes, as text."""
    import numpy
    from estimate_memory import elements

    rng = random.Random(1)
    shapes = [random_shape(rng, recipe["group"]) for _ in range(draws)]
    if recipe["group"] == "fsdp2":
        shapes = [shape | gathered(recipe, shape) for shape in shapes]
    layers = numpy.array([rng.randint(4, 80) for _ in range(draws)])
    sizes = [elements(**shape) for shape in shapes]
    column = {name: numpy.array([size[name] for size in sizes], dtype=float) for name in sizes[0]}
    kept = {}
    for phase, vectors in found.items():
        totals = []
        for terms in vectors:
            total = numpy.zeros(draws)
            for key, (fixed, each) in terms:
                name, width = key.split(":")
                total += (fixed + each * layers) * column[name] * int(width)
            totals.append(total)
        wins = Counter(numpy.argmax(totals, axis=0).tolist()) if totals else {}
        order = sorted(wins, key=lambda index: (-wins[index], index))
        listed = [vectors[index] for index in order]
        kept[phase] = [
            " ".join(f"{key}={fixed}" + (f"{each:+d}L" if each else "") for key, (fixed, each) in terms)
            for terms in listed
        ]
    return kept


def extract(item: tuple[str, dict]) -> tuple[str, dict]:
    name, recipe = item
    return name, prune(moments(recipe, telling_dimensions(recipe["group"])), recipe)


def write_moments(processes: int, only: str) -> None:
    wanted = {name: recipe for name, recipe in recipes().items() if re.search(only, name)}
    old = json.loads(MOMENTS.read_text())["recipes"] if MOMENTS.exists() and only else {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:  # torch and fork do not mix
        for done, (name, kept) in enumerate(pool.map(extract, wanted.items()), 1):
            old[name] = kept
            print(f"{done} of {len(wanted)}: {name}", file=sys.stderr, flush=True)
    content = {"traced_with": {name: version(name) for name in VERSIONS}, "recipes": dict(sorted(old.items()))}
    MOMENTS.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")


# ---- whole traces of shapes that the moments were not made from


HOLDOUT = ROOT / "benchmarks/memory_holdout.json"


# How many cases of each group; the dense ones are the goal's.
HELD_OUT = {"dense": 60, "no autocast": 24, "experts": 32, "fsdp2": 32}


def random_case(rng: random.Random, group: str) -> dict:
    """A shape, a batch and settings, from one seeded generator; nothing about it is chosen."""
    known = recipes()
    recipe = known[rng.choice(sorted(name for name, recipe in known.items() if recipe["group"] == group))]
    shape = random_shape(rng, group)
    settings = {"norm": recipe["norm"], "tied": recipe["tied"], "layers": rng.randint(4, 48), **recipe["trace"]}
    if group == "fsdp2":
        settings["shards"] = shape["shards"]
    optimizer = rng.choice(["adamw_torch_fused", "adamw_torch_fused", "adamw_8bit"])
    if group != "fsdp2":  # bitsandbytes' optimizer takes no sharded weights
        settings["optimizer"] = optimizer
    return {"group": group, "shape": shape, "settings": {**settings, "double_quant": rng.random() < 0.5}}


def whole(case: dict) -> dict:
    """The case with its traced bytes."""
    settings = dict(case["settings"])
    norm, tied, layers = (settings.pop(name) for name in ("norm", "tied", "layers"))
    shape = case["shape"]
    batch = {name: shape[name] for name in ("batch", "prompt", "completion", "lora_r")}
    run = trace(model_config(shape, layers, norm, tied), **batch, **settings)
    kept = {name: run[name] for name in ("weights", "optimizer", "resident", "peaks", "peak")}
    return {**case, "traced": kept, "seconds": round(run["seconds"], 1)}


def write_holdout(processes: int, seed: int) -> None:
    cases = []
    for group, count in HELD_OUT.items():
        rng = random.Random(seed if group == "dense" else f"{seed} {group}")
        cases += [random_case(rng, group) for _ in range(count)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        done = []
        for result in pool.map(whole, cases):
            done.append(result)
            print(f"{len(done)} of {len(cases)}: {result['seconds']} s", file=sys.stderr, flush=True)
    content = {"seed": seed, "traced_with": {name: version(name) for name in VERSIONS}, "cases": done}
    HOLDOUT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("moments", help=f"write {MOMENTS.relative_to(ROOT)}: about 10 minutes on two cores")
    command.add_argument("--processes", type=int, default=os.cpu_count())
    command.add_argument("--only", default="", help="regular expression of recipe names; the others stay as they are")
    command = commands.add_parser("holdout", help=f"write {HOLDOUT.relative_to(ROOT)}: about 10 minutes on two cores")
    command.add_argument("--processes", type=int, default=os.cpu_count())
    command.add_argument("--seed", type=int, default=20261130)
    arguments = parser.parse_args()
    if arguments.command == "moments":
        write_moments(arguments.processes, arguments.only)
    else:
        write_holdout(arguments.processes, arguments.seed)
