#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pyyaml"]
# ///
"""Plan the memory of a GRPO run with TRL 1.16 before a GPU is rented: each phase, what lives there, whether it fits.

The activations are not a rule of thumb. `memory_moments.json` beside this file lists which tensors are alive at each
peak of the real training step, as counted by benchmarks/trace_memory.py in the installed trl, transformers, peft and
bitsandbytes; here those lists are filled in with your shape. Weights, gradients and optimizer state are arithmetic.
What nobody traced (allocator, CUDA context, vLLM's own needs) is a range with its source, shown in the answer.
Under ZeRO the states are a range too: nobody traced DeepSpeed. Offload, vision and other layers are refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import functools
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ALLOWANCES", "Plan", "Shape", "elements", "estimate", "levers", "read_shape"]

SCHEMA_VERSION = 1
GIB = 2**30
WIDTH = {"float32": 4, "bfloat16": 2}  # bytes per element
# Text-only decoders whose attention is that of Llama; True: each head's query and key are normalised.
ARCHITECTURES = {
    "llama": False, "mistral": False, "qwen2": False, "qwen3": True, "mixtral": False, "qwen3_moe": True,
}  # fmt: skip
SHARDINGS = ("ddp", "zero2", "zero3", "fsdp2")
OPTIMIZERS = ("adamw_torch_fused", "adamw_torch", "adamw_8bit", "paged_adamw_8bit")
TARGETS = {
    "all-linear": ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "qv": ("q_proj", "v_proj"),  # what PEFT takes for these models when nothing is said
}
# What no trace shows, as (low, high), with where it comes from. Retrieved 2026-11-30.
ALLOWANCES = {
    "allocator_share": (0.05, 0.17, "reserved over allocated in published runs that give both (CoursIA _measurements)"),
    "cuda_context_bytes": (0.5 * GIB, 1.4 * GIB, "device over reserved in published runs (trl#3456, fms-acceleration)"),
    "vllm_working_bytes": (0.2 * GIB, 1.8 * GIB, "activations and others in start-up lines (vllm#13061, vllm#14452)"),
    "vllm_asleep_bytes": (0.8 * GIB, 4.3 * GIB, "kept while asleep, one GPU (NeMo-RL#223; logs say up to 4.3 GiB)"),
    "vllm_outside_bytes": (0.2 * GIB, 2.4 * GIB, "CUDA graphs, partly outside its share (vllm#7553: up to 2.4 GiB)"),
}


class PlanError(ValueError):
    """Input that cannot be planned with; the message says what, where and how to mend it."""


def _whole(name: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlanError(f"{name} is {value!r}, and must be a whole number, {least} or more")


@dataclass(frozen=True)
class Shape:
    """What of a model's config decides its memory. `head_dim` is elements per head, `mlp` the width inside the MLP."""

    layers: int
    hidden: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = False
    qk_norm: bool = False
    attention_bias: bool = False
    experts: int = 0  # 0: dense; `mlp` is then the width inside one expert
    experts_per_token: int = 0

    def __post_init__(self):
        for name in ("experts", "experts_per_token"):
            _whole(name, getattr(self, name), 0)
        if self.experts_per_token > self.experts or bool(self.experts) != bool(self.experts_per_token):
            raise PlanError(f"{self.experts_per_token} of {self.experts} experts a token: give both, the first smaller")
        for name in ("layers", "hidden", "mlp", "heads", "kv_heads", "head_dim", "vocabulary"):
            _whole(name, getattr(self, name))
        if self.heads % self.kv_heads:
            raise PlanError(f"{self.heads} heads cannot share {self.kv_heads} KV heads: the one must divide the other")

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each linear layer of one block."""
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (query, self.hidden), "k_proj": (key, self.hidden), "v_proj": (key, self.hidden),
            "o_proj": (self.hidden, query),
        } | ({} if self.experts else {
            "gate_proj": (self.mlp, self.hidden), "up_proj": (self.mlp, self.hidden),
            "down_proj": (self.hidden, self.mlp),
        })  # fmt: skip

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert in all layers."""
        return self.layers * 3 * self.hidden * self.mlp

    @property
    def linear_parameters(self) -> int:
        """Parameters in the linear layers of all blocks: what QLoRA packs into 4 bits."""
        return self.layers * sum(rows * columns for rows, columns in self.linears.values())

    @property
    def layer_parameters(self) -> int:
        """Parameters of one decoder layer."""
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim if self.attention_bias else 0
        routed = self.experts * (self.expert_parameters // self.layers + self.hidden)
        return self.linear_parameters // self.layers + norms + biases + routed

    @property
    def embedding(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters.

        >>> Shape(24, 896, 4864, 14, 2, 64, 151_936, tied=True, attention_bias=True).parameters
        494032768
        """
        return self.layers * self.layer_parameters + self.hidden + self.embedding * (1 if self.tied else 2)

    @property
    def cache_bytes_per_token(self) -> int:
        """Key and value of one token in all layers, 2 bytes each."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2

    def adapter_tensors(self, rank: int, targets: str) -> list[tuple[int, int]]:
        """Rows and columns of each adapter matrix of one layer."""
        found = []
        for name in TARGETS[targets]:
            if name in self.linears:
                rows, columns = self.linears[name]
                found += [(rank, columns), (rows, rank)]
        if self.experts and targets == "all-linear":
            # peft/utils/transformers_weight_conversion.py: the router, and stacked experts whose fused gate and up
            # projection takes twice the rank.
            stacked = self.experts * rank
            found += [
                (rank, self.hidden),
                (self.experts, rank),
                (2 * stacked, self.hidden),
                (2 * self.mlp, 2 * stacked),
            ]
            found += [(stacked, self.mlp), (self.hidden, stacked)]
        return found

    def adapter_parameters(self, rank: int, targets: str) -> int:
        return self.layers * sum(rows * columns for rows, columns in self.adapter_tensors(rank, targets))


@dataclass(frozen=True)
class Plan:
    """A run as one of its GPUs sees it. Lengths are in tokens; defaults are TRL 1.16's."""

    shape: Shape
    mode: str = "full"
    dtype: str = "float32"  # a model string loads in float32 (trl/trainer/utils.py: create_model_from_path)
    lora_r: int = 16
    lora_targets: str = "all-linear"
    double_quant: bool = False
    optimizer: str = "adamw_torch_fused"
    checkpointing: bool = True
    autocast: bool = True  # bf16 or fp16 in GRPOConfig
    batch: int = 8
    accumulation: int = 1
    prompt: int = 512
    completion: int = 512
    num_generations: int = 8
    steps_per_generation: int | None = None  # TRL: as many as accumulation
    beta: float = 0.0
    generation: str = "colocate"
    vllm_utilization: float = 0.3
    vllm_max_length: int | None = None
    sleep: bool = False
    tensor_parallel: int = 1
    gpus: int = 1
    sharding: str = "ddp"  # what several GPUs do
    device_bytes: int | None = None

    def __post_init__(self):
        choices = {
            "mode": ("full", "lora", "qlora"), "dtype": tuple(WIDTH), "optimizer": OPTIMIZERS,
            "lora_targets": tuple(TARGETS), "generation": ("transformers", "colocate", "server"),
            "sharding": SHARDINGS,
        }  # fmt: skip
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise PlanError(f"{name} is {getattr(self, name)!r}; choose from {', '.join(allowed)}")
        for name in ("batch", "accumulation", "prompt", "completion", "lora_r", "tensor_parallel", "gpus"):
            _whole(name, getattr(self, name))
        _whole("num_generations", self.num_generations, 2)
        for name in ("steps_per_generation", "vllm_max_length"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name))
        for name in ("double_quant", "checkpointing", "autocast", "sleep"):
            if not isinstance(getattr(self, name), bool):
                raise PlanError(f"{name} is {getattr(self, name)!r}, and must be true or false")
        for name, most in (("vllm_utilization", 1.0), ("beta", float("inf"))):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise PlanError(f"{name} is {value!r}, and must be a number from 0 to {most:g}")
        rollout = self.rollout_sequences * self.gpus
        if rollout % self.num_generations:
            raise PlanError(
                f"a rollout of {rollout} completions (batch x steps_per_generation x GPUs) does not hold whole groups "
                f"of num_generations {self.num_generations}: TRL refuses it; raise batch or accumulation"
            )
        if self.mode == "qlora" and self.shape.experts:
            raise PlanError("QLoRA packs no stacked experts (bitsandbytes takes linear layers): choose lora or full")
        if self.sharded:
            for wrong, reason in (
                (self.mode == "qlora", "4-bit weights under sharding were not traced: choose lora or full"),
                (self.shape.experts, "experts under sharding were not traced: choose ddp, or plan a dense model"),
                ("8bit" in self.optimizer, "its optimizer is planned as AdamW: choose adamw_torch_fused"),
                (not self.autocast, "without mixed precision was not traced: leave bf16 on"),
            ):
                if wrong:
                    raise PlanError(f"{self.sharding} over {self.gpus} GPUs: {reason}")
        if self.gpus % self.tensor_parallel:
            raise PlanError(f"tensor_parallel {self.tensor_parallel} does not divide {self.gpus} GPUs")

    @property
    def rollout_sequences(self) -> int:
        """Completions that one GPU's share of a generation holds at once."""
        return self.batch * (self.steps_per_generation or self.accumulation)

    @property
    def sharded(self) -> bool:
        """Whether weights, gradients or optimizer are split over GPUs."""
        return self.gpus > 1 and self.sharding != "ddp"

    @property
    def fsdp(self) -> bool:
        return self.sharded and self.sharding == "fsdp2"

    @property
    def deepspeed(self) -> bool:
        return self.sharded and self.sharding != "fsdp2"

    @property
    def trainable(self) -> int:
        if self.mode == "full":
            return self.shape.parameters
        return self.shape.adapter_parameters(self.lora_r, self.lora_targets)

    @property
    def trainable_width(self) -> int:
        """Bytes of a trained weight: PEFT keeps adapters in float32, TRL casts those of a 4-bit model to bfloat16."""
        if self.fsdp:
            return 4  # accelerate/utils/fsdp_utils.py makes what is trained float32
        return {"full": WIDTH[self.dtype], "lora": 4, "qlora": 2}[self.mode]

    @property
    def recipe(self) -> str:
        """Name of the traced combination in memory_moments.json."""
        dtype, end = self.dtype, "" if self.autocast else " no autocast"
        if self.shape.experts:
            if end:
                raise PlanError("experts without mixed precision were not traced: leave bf16 on")
            end = " experts"
        if self.fsdp:
            dtype, end = "float32" if self.mode == "full" else dtype, " fsdp2"
        if self.deepspeed:  # DeepSpeed casts the model and has no autocast
            dtype, end = "bfloat16", " no autocast"
        kind = "qk-norm" if self.shape.qk_norm else "plain"
        start = f"{self.mode} {dtype} {'checkpointing' if self.checkpointing else 'stored'} {kind}"
        if self.mode != "full":
            return f"{start} {self.lora_targets}{end}"
        tied = "tied" if self.shape.tied else "untied"
        return f"{start} {tied} {'accumulated' if self.accumulation > 1 else 'single'}{end}"


def elements(
    *, batch, prompt, completion, hidden, mlp, heads, kv_heads, head_dim, vocabulary, lora_r, experts=0, per_token=0,
    shards=1, layer=0, adapters=0,
) -> dict[str, int]:  # fmt: skip
    """Number of elements of every kind of tensor that a training step holds, by the names in memory_moments.json.

    `layer` and `adapters` are the parameters of one decoder layer that FSDP2 gathers and reduces at once.
    """
    length = prompt + completion
    tokens, scored, query, key = batch * length, batch * completion, heads * head_dim, kv_heads * head_dim
    found = {
        "TH": tokens * hidden, "TI": tokens * mlp, "TQ": tokens * query, "TK": tokens * key,
        "TQ/2": tokens * query // 2, "TK/2": tokens * key // 2, "TA": tokens * heads, "TG": tokens * kv_heads,
        "TD": tokens * head_dim, "SD": length * head_dim, "Tr": tokens * lora_r, "T-H": (tokens - batch) * hidden,
        "NH": scored * hidden, "tile": min(scored, 4096) * 32768, "mask": batch * length * length,
        "HI": hidden * mlp, "HQ": hidden * query, "HK": hidden * key, "VH": vocabulary * hidden,
        "rH": lora_r * hidden, "rI": lora_r * mlp, "rQ": lora_r * query, "rK": lora_r * key,
    }  # fmt: skip
    if experts:
        routed = tokens * per_token
        for name in ("TI", "HI", "rI"):  # there is no MLP of one piece; the router's adapter is small
            del found[name]
        found |= {
            "TE": tokens * experts, "RH": routed * hidden, "RI": routed * mlp, "R2I": routed * 2 * mlp,
            "EHI": experts * hidden * mlp, "E2HI": experts * hidden * 2 * mlp, "Er2H": experts * 2 * lora_r * hidden,
            "Er4I": experts * 2 * lora_r * 2 * mlp, "ErH": experts * lora_r * hidden, "ErI": experts * lora_r * mlp,
        }  # fmt: skip
    if shards > 1:
        kept = ("HI", "HQ", "HK", "VH", "rH", "rI", "rQ", "rK")
        found |= {f"{name}/N": -(-found[name] // shards) for name in kept}
        whole = {"layer": layer, "adapters": adapters, "tail": vocabulary * hidden + hidden}
        for name, size in whole.items():
            if size:
                found |= {name: size, f"{name}/N": -(-size // shards)}
    return found


# To which line of the answer a kind of tensor belongs. `VH` and the matrices are gradients in full fine-tuning, and
# copies in another dtype otherwise.
PARTS = {
    "TI": "mlp_activations", "TH": "residual_stream", "T-H": "residual_stream", "TQ": "attention", "TK": "attention",
    "TQ/2": "attention", "TK/2": "attention", "TA": "attention", "TG": "attention", "TD": "attention",
    "SD": "attention", "mask": "attention", "Tr": "adapter_activations", "NH": "head", "tile": "head",
    "VH": "gradients_and_copies", "HI": "gradients_and_copies", "HQ": "gradients_and_copies",
    "HK": "gradients_and_copies", "rH": "gradients_and_copies", "rI": "gradients_and_copies",
    "rQ": "gradients_and_copies", "rK": "gradients_and_copies",
    "TE": "router", "RH": "expert_activations", "RI": "expert_activations", "R2I": "expert_activations",
    "EHI": "gradients_and_copies", "E2HI": "gradients_and_copies", "Er2H": "gradients_and_copies",
    "Er4I": "gradients_and_copies", "ErH": "gradients_and_copies", "ErI": "gradients_and_copies",
    "layer": "gathered", "adapters": "gathered", "tail": "gathered",
}  # fmt: skip


@functools.cache
def _beside(name: str) -> dict:
    """A table that lies beside this file."""
    path = Path(__file__).with_name(name)
    if not path.exists():
        raise PlanError(f"{name} is not beside {Path(__file__).name}: copy it too")
    return json.loads(path.read_text(encoding="utf-8"))


def _split(plan: Plan) -> dict[str, int]:
    """What `elements` needs to know of FSDP2: how many ways, and what a layer gathers at once."""
    if not plan.fsdp:
        return {}
    adapters = 0 if plan.mode == "full" else plan.trainable // plan.shape.layers
    return {"shards": plan.gpus, "layer": plan.shape.layer_parameters + adapters, "adapters": adapters}


def _parts_at_peak(plan: Plan, phase: str) -> dict[str, int]:
    """Bytes beyond weights and optimizer at the highest moment of a phase, by part."""
    listed = _beside("memory_moments.json")["recipes"].get(plan.recipe)
    if listed is None:
        raise PlanError(f"{plan.recipe!r} was not traced; benchmarks/trace_memory.py moments lists what is")
    shape = plan.shape
    sizes = elements(
        batch=plan.batch, prompt=plan.prompt, completion=plan.completion, hidden=shape.hidden, mlp=shape.mlp,
        heads=shape.heads, kv_heads=shape.kv_heads, head_dim=shape.head_dim, vocabulary=shape.vocabulary,
        lora_r=plan.lora_r, experts=shape.experts, per_token=shape.experts_per_token, **_split(plan),
    )  # fmt: skip
    best: dict[str, int] = {}
    for moment in listed[phase]:
        parts: dict[str, int] = {}
        for term in moment.split():
            kind, width, fixed, each = re.fullmatch(r"([^:]+):(\d)=(-?\d+)(?:([+-]\d+)L)?", term).groups()
            size = (int(fixed) + int(each or 0) * shape.layers) * sizes[kind] * int(width)
            part = PARTS[kind.removesuffix("/N")]
            if plan.deepspeed and part == "gradients_and_copies":
                continue  # DeepSpeed's own, in its range
            if plan.fsdp and part == "gradients_and_copies" and not kind.endswith("/N"):
                part = "gathered"  # whole matrices, for the time that a layer works
            parts[part] = parts.get(part, 0) + size
        if sum(parts.values()) > sum(best.values()):
            best = parts
    return best


def _weight_bytes(plan: Plan) -> int:
    shape, width = plan.shape, WIDTH[plan.dtype]
    if plan.mode == "full":
        return shape.parameters * (plan.trainable_width if plan.fsdp else width) // _ways(plan)
    adapters = plan.trainable_width * plan.trainable
    if plan.mode == "lora":
        return (shape.parameters * width + adapters) // _ways(plan)
    packed = shape.linear_parameters
    # bitsandbytes: 4 bits, and a float32 scale for 64 weights; nested, a byte and a float32 for 256 of those.
    scales = packed // 64 * 4 if not plan.double_quant else packed // 64 + packed // 64 // 256 * 4
    return packed // 2 + scales + (shape.parameters - packed) * width + adapters


def _ways(plan: Plan) -> int:
    """Over how many GPUs FSDP2 splits each tensor."""
    return plan.gpus if plan.fsdp else 1


def _rounded(size: int) -> int:
    """Bytes that the caching allocator hands out for `size`: multiples of 512 (CUDACachingAllocator.h)."""
    return -(-size // 512) * 512


def _optimizer_bytes(plan: Plan) -> int:
    """AdamW's two moments. Adapters are many small tensors, so each is rounded; of a whole model that is nothing."""
    shape, width, eight = plan.shape, plan.trainable_width, "8bit" in plan.optimizer
    if plan.mode != "full":
        tensors = shape.adapter_tensors(plan.lora_r, plan.lora_targets)
        sizes = [-(-rows // _ways(plan)) * columns for rows, columns in tensors]
        return shape.layers * sum(
            2 * _rounded(width * size) + 512  # and the count of steps, a tensor of its own
            if not eight
            else 2 * _rounded(4 * size)  # bitsandbytes keeps small tensors in 32 bit (min_8bit_size=4096)
            if size < 4096
            else 2 * _rounded(size) + 2 * _rounded(-(-size // 256) * 4)
            for size in sizes
        )
    if not eight:
        return 2 * width * plan.trainable // _ways(plan)
    # Embeddings keep float32 state (transformers/trainer.py registers nn.Embedding); the others 2 bytes and a scale.
    rest = plan.trainable - shape.embedding
    return 8 * shape.embedding + 2 * rest + rest // 256 * 8


# DeepSpeed 0.19.8, runtime/zero/config.py, in elements; `auto` in a config file makes them smaller.
ZERO_LIVE, ZERO_BUCKET = 1_000_000_000, 500_000_000  # stage3_max_live_parameters; reduce_bucket_size


def _zero(plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """The high end of what ZeRO holds, by part, and how far below it the low end of each part lies.

    High: DeepSpeed's own estimate (runtime/zero: 18 bytes a trained parameter over the GPUs, whole weights besides with
    ZeRO-2) and its default buffers. Low: the paper's 16 bytes (arXiv:1910.02054) and nothing gathered but one layer.
    """
    shape, trained, three = plan.shape, plan.trainable, plan.sharding == "zero3"
    ways = plan.gpus if three else 1
    frozen = 0 if plan.mode == "full" else shape.parameters
    high = {
        "weights": 2 * (trained + frozen) // ways,
        "optimizer": (16 if three else 18) * trained // plan.gpus,  # with gradients in 32 bit
        "reference": 2 * shape.parameters // ways if plan.beta and plan.mode == "full" else 0,
        "gathered": 2 * min(shape.parameters, ZERO_LIVE) if three else 0,
        "buckets": 2 * 2 * min(trained, ZERO_BUCKET),
    }
    less = {
        "optimizer": (2 if three else 4) * trained // plan.gpus,
        "gathered": max(high["gathered"] - 2 * shape.layer_parameters, 0),
        "buckets": high["buckets"],
    }
    return high, less


def estimate(plan: Plan) -> dict:
    """Bytes of each phase, the peak, what vLLM is left with and the verdict; stable keys, bytes as integers.

    `kind` is that of the peak's trainer part: "traced" (it repeats a count of the real training step), "formula"
    (generation, weight sync, DDP's buckets, the foreach optimizer), "upper bound" (one KV head) or "range" (ZeRO:
    `peak_bytes_low` to `peak_bytes`, and the phases show the high end). PlanError if the combination was not traced, or
    if colocate mode has no card to take its share of.
    """
    shape, capacity = plan.shape, plan.device_bytes
    if plan.deepspeed:
        held, less = _zero(plan)
        working = {name: held.pop(name) for name in ("gathered", "buckets")}
        resident = held
    else:
        reference = shape.parameters * WIDTH[plan.dtype] // _ways(plan) if plan.beta and plan.mode == "full" else 0
        resident = {"weights": _weight_bytes(plan), "optimizer": _optimizer_bytes(plan), "reference": reference}
        working, less = {}, {}
    engine = engine_training = 0
    if plan.generation == "colocate":
        if capacity is None:
            raise PlanError("colocate mode takes a share of the card: name it with --gpu or --device-gib")
        engine = int(plan.vllm_utilization * capacity)
        engine_training = 0 if plan.sleep else engine
    length = plan.prompt + plan.completion
    cache = plan.rollout_sequences * length * shape.cache_bytes_per_token
    generating = {"engine": engine}
    if plan.generation == "transformers":
        generating = {
            "kv_cache": cache * (2 if plan.deepspeed else WIDTH[plan.dtype]) // 2,
            "last_logits": plan.rollout_sequences * shape.vocabulary * 4,
        }
        if plan.sharded and plan.sharding != "zero2":  # ds3_gather_for_generation; FSDP2 gathers a layer and the head
            whole = shape.parameters if plan.deepspeed else shape.layer_parameters + shape.embedding
            generating["gathered"] = 2 * whole
    phases = {"generation": {**resident, **generating}}
    for phase in ("score", "forward", "backward"):
        parts = _parts_at_peak(plan, phase)
        if plan.deepspeed:
            parts["gathered"] = working["gathered"]
            parts["buckets"] = working["buckets"] if phase == "backward" else 0
        phases[phase] = {**resident, **parts, "engine": engine_training}
    step = _parts_at_peak(plan, "clip")
    # torch/optim/adamw.py: the foreach implementation makes a square root of every second moment at once.
    step["foreach_temporary"] = sum(step.values()) if plan.optimizer == "adamw_torch" else 0
    phases["optimizer"] = {**resident, **step, "engine": engine_training}
    if plan.gpus > 1 and not plan.sharded:  # DDP's buckets copy the gradients (gradient_as_bucket_view=False)
        for phase in ("score", "forward", "backward", "optimizer"):
            phases[phase]["ddp_buckets"] = plan.trainable_width * plan.trainable
    if plan.generation != "transformers":
        largest = max(shape.embedding, shape.hidden * shape.mlp * max(2 * shape.experts, 1))
        if plan.deepspeed and plan.sharding == "zero3" and plan.mode != "full":
            largest = shape.parameters  # to merge adapters, TRL gathers every weight
        width = 2 if plan.deepspeed else 4 if plan.fsdp and plan.mode == "full" else WIDTH[plan.dtype]
        phases["sync"] = {**resident, "one_parameter": largest * width, "engine": engine}
    totals = {name: sum(parts.values()) for name, parts in phases.items()}
    lowest = {
        name: total - sum(less.get(part, 0) for part, size in phases[name].items() if size) if name != "generation"
        else total - less.get("optimizer", 0)
        for name, total in totals.items()
    }  # fmt: skip
    binding = max(totals, key=totals.get)
    vllm = _vllm(plan) if plan.generation == "colocate" else None
    low, high = _device_range((lowest, totals), engine, engine_training)
    traced = binding in ("score", "forward", "backward", "optimizer") and (plan.gpus == 1 or plan.fsdp)
    if plan.deepspeed:
        kind = "range"
    elif plan.shape.kv_heads == 1:  # its keys are not copied for each head: too high by up to 12 %
        kind = "upper bound"
    else:
        kind = "traced" if traced and not phases[binding].get("foreach_temporary") else "formula"
    answer = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "inputs": {**dataclasses.asdict(plan), "parameters": plan.shape.parameters, "trainable": plan.trainable},
        "phases": {
            name: {k: v for k, v in parts.items() if v} | {"total": totals[name]} for name, parts in phases.items()
        },
        "resident_bytes": sum(resident.values()),
        "binding_phase": binding,
        "peak_bytes": totals[binding],
        "peak_bytes_low": max(lowest.values()),
        "trainer_peak_bytes": max(totals[name] - phases[name].get("engine", 0) for name in phases if name != "sync"),
        "device_bytes_low": low,
        "device_bytes_high": high,
        "vllm": vllm,
        "capacity_bytes": capacity,
        "headroom_bytes": None if capacity is None else capacity - high,
        "verdict": "not judged: no GPU named" if capacity is None else _verdict(low, high, capacity, vllm),
        "allowances": {name: {"low": a, "high": b, "source": why} for name, (a, b, why) in ALLOWANCES.items()},
        "trl": trl_arguments(plan),
    }
    if plan.mode == "qlora" and plan.generation != "transformers":
        answer["warning"] = "QLoRA with vLLM: the weight sync is reported broken (trl#4973); not recommended"
    return answer


def _device_range(ends: tuple[dict, dict], engine: int, engine_training: int) -> tuple[int, int]:
    """What nvidia-smi would show: the trainer's part grows by the allocator's share, then context and vLLM's rest."""
    bounds = []
    for side in (0, 1):
        slack, context = 1 + ALLOWANCES["allocator_share"][side], ALLOWANCES["cuda_context_bytes"][side]
        outside = ALLOWANCES["vllm_outside_bytes"][side] if engine else 0
        asleep = ALLOWANCES["vllm_asleep_bytes"][side] if engine else 0
        sizes = []
        for name, total in ends[side].items():
            share = engine if name in ("generation", "sync") else engine_training
            sizes.append((total - share) * slack + (share + outside if share else asleep))
        bounds.append(int(max(sizes) + context))
    return bounds[0], bounds[1]


def _verdict(low: int, high: int, capacity: int, vllm: dict | None) -> str:
    """fits: even the high end of the range; tight: only the low end; does not fit: not even that, or vLLM refuses."""
    if vllm and not vllm["starts"]:
        return "does not fit"
    return "fits" if high <= capacity else "tight" if low <= capacity else "does not fit"


def _vllm(plan: Plan) -> dict:
    """Whether vLLM starts in its share, and how many sequences of full length its cache holds at once."""
    length = plan.vllm_max_length or plan.prompt + plan.completion
    weights = plan.shape.parameters * 2 // plan.tensor_parallel
    working = int(ALLOWANCES["vllm_working_bytes"][1])
    each = length * plan.shape.cache_bytes_per_token // plan.tensor_parallel
    budget = int(plan.vllm_utilization * plan.device_bytes)
    left = budget - weights - working
    wanted = plan.rollout_sequences * plan.tensor_parallel
    return {
        "budget_bytes": budget, "weights_bytes": weights, "working_bytes": working, "cache_bytes": max(left, 0),
        "sequence_tokens": length, "sequence_bytes": each, "sequences": max(left, 0) // each,
        "sequences_wanted": wanted, "starts": left >= each,
        "utilization_to_start": round((weights + working + each) / plan.device_bytes + 0.005, 2),
        "utilization_for_all": round((weights + working + wanted * each) / plan.device_bytes + 0.005, 2),
    }  # fmt: skip


def trl_arguments(plan: Plan) -> dict:
    """The plan as arguments of GRPOConfig and, for adapters, of `trl grpo`."""
    found = {
        "per_device_train_batch_size": plan.batch, "gradient_accumulation_steps": plan.accumulation,
        "num_generations": plan.num_generations, "max_completion_length": plan.completion,
        "gradient_checkpointing": plan.checkpointing, "optim": plan.optimizer, "beta": plan.beta,
        "bf16": plan.autocast,
        "model_init_kwargs": {"dtype": plan.dtype},
    }  # fmt: skip
    if plan.steps_per_generation:
        found["steps_per_generation"] = plan.steps_per_generation
    found["use_vllm"] = plan.generation != "transformers"
    if found["use_vllm"]:
        found["vllm_mode"] = plan.generation
    if plan.generation == "colocate":
        found |= {
            "vllm_gpu_memory_utilization": plan.vllm_utilization, "vllm_enable_sleep_mode": plan.sleep,
            "vllm_max_model_length": plan.vllm_max_length or plan.prompt + plan.completion,
            "vllm_tensor_parallel_size": plan.tensor_parallel,
        }  # fmt: skip
    return found


def rates(plan: Plan, gpu_name: str) -> dict:
    """Bounds in time for one rollout and the training on it, from gpu_rates.py beside this file."""
    import gpu_rates

    card, shape = gpu_rates.gpu(gpu_name), plan.shape
    read = used = shape.parameters - (0 if shape.tied else shape.embedding)  # the input embedding is looked up
    sequences = plan.rollout_sequences
    if shape.experts:  # used: what one token passes; read: what a step of all sequences touches, routed evenly
        idle = (1 - shape.experts_per_token / shape.experts) ** sequences
        read -= int(shape.expert_parameters * shape.experts * idle)
        used -= shape.expert_parameters * (shape.experts - shape.experts_per_token)
    work = gpu_rates.DecodeWork(2 * read, shape.cache_bytes_per_token, 2 * used)
    decode = gpu_rates.decode_bound(card, work, sequences, plan.prompt + plan.completion // 2)
    step = gpu_rates.step_bound(
        card, work, sequences=sequences, prompt_tokens=plan.prompt, completion_tokens=plan.completion,
        generations=plan.num_generations if sequences % plan.num_generations == 0 else 1,
        trained_parameters_share=1.0 if plan.mode == "full" else plan.trainable / shape.parameters,
        checkpointing=plan.checkpointing, scored=plan.generation != "transformers",
        reference=bool(plan.beta),
    )  # fmt: skip
    advice = ""
    if card.unified:
        each = plan.completion / decode["tokens_s_per_sequence"]
        advice = f"slow memory: a rollout takes at least {each:.0f} s; " + (
            "worth running (judgement)"
            if each <= 20
            else "choose a size class of 3B or less, or another machine (judgement)"
        )
    known = card.key in gpu_rates.VALIDATED and not shape.experts
    return {**decode, **step, "kind": "bound" if known else "bound, unvalidated", "advice": advice}


def levers(plan: Plan) -> list[dict]:
    """Each change with the peak it leads to, the largest saving first; beside single ones the old trio together."""
    changes = [
        ("vLLM sleep mode", {"sleep": True}, "sleeping and waking; does nothing for the generation phase"),
        ("8-bit AdamW", {"optimizer": "adamw_8bit"}, "needs bitsandbytes; embeddings keep 32-bit state"),
        ("load in bfloat16", {"dtype": "bfloat16"}, "without master weights most updates at 1e-6 are lost"),
        ("LoRA", {"mode": "lora", "dtype": "bfloat16"}, "ten to thirty times the learning rate"),
        ("QLoRA", {"mode": "qlora", "dtype": "bfloat16", "double_quant": True, "generation": "transformers"},
         "generation without vLLM: its sync is reported broken (trl#4973)"),
        ("half the micro-batch", {"batch": max(plan.batch // 2, 1), "accumulation": plan.accumulation * 2},
         "more, smaller steps; the first accumulation costs a copy in float32"),
        ("half the completion", {"completion": max(plan.completion // 2, 1)}, "longer answers are cut off"),
        ("vLLM on other GPUs", {"generation": "server"}, "another GPU that waits while this one trains"),
        ("gradient checkpointing", {"checkpointing": True}, "recomputes each layer"),
        ("FSDP2 over 8 GPUs", {"sharding": "fsdp2", "gpus": 8},
         "8 GPUs, each with its own batch; with accumulation every GPU keeps whole gradients"),
        ("ZeRO-3 over 8 GPUs", {"sharding": "zero3", "gpus": 8}, "8 GPUs and DeepSpeed; nobody traced it: a range"),
        ("sleep mode, 8-bit AdamW and checkpointing together",
         {"sleep": True, "optimizer": "adamw_8bit", "checkpointing": True}, "what each of them costs"),
    ]  # fmt: skip
    before, found = estimate(plan), []
    for name, change, cost in changes:
        if "sleep" in change and plan.generation != "colocate":
            continue
        if name == "half the micro-batch" and plan.batch == 1:
            continue
        if name in ("LoRA", "load in bfloat16") and plan.mode != "full":
            continue
        if "sharding" in change and plan.gpus > 1:
            continue
        try:
            changed = dataclasses.replace(plan, **change)
        except PlanError:  # half of an odd batch holds no whole groups; experts and 4 bits are not sharded
            continue
        if changed == plan or (changed.mode == "qlora" and changed.generation != "transformers"):
            continue  # nothing changes, or the weight sync is reported broken
        after = estimate(changed)
        found.append(
            {
                "lever": name,
                "change": change,
                "peak_bytes": after["peak_bytes"],
                "peak_bytes_low": after["peak_bytes_low"],
                "saved_bytes": before["peak_bytes"] - after["peak_bytes"],
                "verdict": after["verdict"],
                "cost": cost,
            }
        )
    return sorted(found, key=lambda row: -row["saved_bytes"])


def read_shape(config: dict, where: str = "the config") -> Shape:
    """The shape in a model's `config.json`. What was not traced is refused with the reason."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        experts = any("expert" in key for key in config)
        reason = "this kind of experts was not traced" if experts else "this architecture was not traced"
        known = ", ".join(sorted(ARCHITECTURES))
        raise PlanError(
            f"{where}: model_type is {kind!r}: {reason}; known: {known}. Shape flags plan a decoder like them"
        )
    mlp, counts = "intermediate_size", ()  # the names under which the config counts its experts
    if kind == "mixtral":
        counts = ("num_local_experts", "num_experts_per_tok")
    if kind == "qwen3_moe":
        named = "num_local_experts" if "num_local_experts" in config else "num_experts"  # transformers 5 renames it
        mlp, counts = "moe_intermediate_size", (named, "num_experts_per_tok")
        if config.get("decoder_sparse_step", 1) != 1 or config.get("mlp_only_layers"):
            raise PlanError(f"{where}: some layers are dense (decoder_sparse_step, mlp_only_layers): not traced")
    try:
        for name in counts:
            _whole(name, config[name])
        routed = dict(zip(("experts", "experts_per_token"), (config[name] for name in counts)))
        heads = config["num_attention_heads"]
        _whole("num_attention_heads", heads)
        _whole("hidden_size", config["hidden_size"])
        # Only in Llama's config does a missing number mean as many as heads.
        kv_heads = config.get("num_key_value_heads", heads) if kind == "llama" else config["num_key_value_heads"]
        head_dim = config.get("head_dim") or (128 if kind == "qwen3" else config["hidden_size"] // heads)
        return Shape(
            layers=config["num_hidden_layers"], hidden=config["hidden_size"], mlp=config[mlp],
            heads=heads, kv_heads=kv_heads,
            head_dim=head_dim, vocabulary=config["vocab_size"],
            tied=bool(config.get("tie_word_embeddings", False)), qk_norm=ARCHITECTURES[kind],
            attention_bias=config.get("attention_bias", False) or kind == "qwen2", **routed,
        )  # fmt: skip
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None
    except KeyError as missing:
        raise PlanError(f"{where}: {missing} is missing; it must be the model's own config.json") from None


# ---- the command


MOST_BYTES = 2**20  # of a config: a parser would be busy for minutes with a dataset given by mistake


def _text(path: Path, what: str) -> str:
    """The text of a small file, or one line that says why not and what should have been given."""
    try:
        if path.is_file() and path.stat().st_size > MOST_BYTES:
            raise PlanError(f"{path}: {path.stat().st_size:,} bytes are too many for a config; give {what}")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}; give {what}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not text in UTF-8; give {what}") from None


def plan_from_trl(path: Path) -> dict:
    """Fields of a Plan from the YAML that `trl grpo --config` takes; what it does not say is TRL's default."""
    import yaml

    text = _text(path, "the YAML that `trl grpo --config` takes")
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise PlanError(f"{path}: not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(config, dict):
        raise PlanError(f"{path}: holds no settings; it must be the YAML that `trl grpo --config` takes")
    for name, mend in {
        "fsdp": "say it with --sharding fsdp2 and --gpus", "fsdp_config": "say it with --sharding fsdp2 and --gpus",
        "deepspeed": "say it with --sharding zero2 or zero3 and --gpus",
        "load_in_8bit": "8-bit weights were not traced", "cast_lm_head_to_fp32": "a float32 head was not traced",
        "use_dora": "DoRA was not traced", "lora_modules_to_save": "trained copies of modules were not traced",
        "lora_target_parameters": "adapters on parameters were not traced",
        "torch_compile": "compiled layers were not traced", "use_liger_kernel": "Liger's layers were not traced",
        "use_liger_loss": "TRL 1.16 has no such argument",
        "max_prompt_length": "TRL 1.16 has no such argument; say it with --prompt",
    }.items():  # fmt: skip
        if config.get(name):
            raise PlanError(f"{path}: {name} is set: {mend}; remove the line to plan without it")
    known = {name for names in _beside("trl_arguments.json")["arguments"].values() for name in names}
    for name in config:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 3)
            mend = f"did you mean {' or '.join(near)}?" if near else "remove the line"
            raise PlanError(f"{path}: {name} is no argument of `trl grpo` in TRL 1.16; {mend}")
    init = config.get("model_init_kwargs") or {}
    found = {"dtype": config.get("dtype") or (init.get("dtype") if isinstance(init, dict) else None) or "float32"}
    attention = config.get("attn_implementation") or (init.get("attn_implementation") if isinstance(init, dict) else 0)
    if attention not in (None, 0, "sdpa"):
        raise PlanError(
            f"{path}: attn_implementation is {attention!r}: only sdpa was traced; remove the line to plan with it"
        )
    for name in ("bf16", "fp16"):
        if config.get(name) not in (None, True, False):
            raise PlanError(f"{path}: {name} is {config[name]!r}, and must be true or false")
    if config.get("bf16") is False and not config.get("fp16"):
        found["autocast"] = False
    if config.get("use_peft"):
        found["mode"] = "qlora" if config.get("load_in_4bit") else "lora"
        targets = config.get("lora_target_modules")
        named = {tuple(sorted(names)): name for name, names in TARGETS.items()}
        if targets in ("all-linear", ["all-linear"]):
            found["lora_targets"] = "all-linear"
        elif targets is None:
            found["lora_targets"] = "qv"  # PEFT's default for these models
        elif isinstance(targets, list) and tuple(sorted(targets)) in named:
            found["lora_targets"] = named[tuple(sorted(targets))]
        else:
            raise PlanError(f"{path}: lora_target_modules {targets}: traced are {', '.join(TARGETS)}")
        found["double_quant"] = bool(config.get("use_bnb_nested_quant", False))
    for new, old in (("activation_checkpointing", "gradient_checkpointing"),
                     ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")):  # fmt: skip
        if config.get(new) is None:  # one setting with two names: the new one counts if it is set
            config[new] = config.get(old)
    extra = config["activation_checkpointing_kwargs"]
    if isinstance(extra, dict) and extra.get("every_n_layers", 1) != 1:
        raise PlanError(f"{path}: every_n_layers is set: it was not traced; remove it to plan without it")
    same = {
        "lora_r": "lora_r", "optim": "optimizer", "activation_checkpointing": "checkpointing",
        "per_device_train_batch_size": "batch", "gradient_accumulation_steps": "accumulation", "beta": "beta",
        "max_completion_length": "completion", "num_generations": "num_generations",
        "steps_per_generation": "steps_per_generation", "vllm_gpu_memory_utilization": "vllm_utilization",
        "vllm_max_model_length": "vllm_max_length", "vllm_enable_sleep_mode": "sleep",
        "vllm_tensor_parallel_size": "tensor_parallel",
    }  # fmt: skip
    found |= {field_name: config[name] for name, field_name in same.items() if config.get(name) is not None}
    if config.get("generation_batch_size") is not None:  # TRL: one of it and steps_per_generation
        rollout, batch = config["generation_batch_size"], config.get("per_device_train_batch_size") or 8
        _whole("generation_batch_size", rollout)
        _whole("per_device_train_batch_size", batch)
        if rollout % batch or "steps_per_generation" in found:
            raise PlanError(
                f"{path}: generation_batch_size must be a multiple of the batch, without steps_per_generation"
            )
        found["steps_per_generation"] = rollout // batch
    found["generation"] = config.get("vllm_mode", "colocate") if config.get("use_vllm") else "transformers"
    return found


def _config_json(text: str) -> tuple[dict, str]:
    """A model's config: a file, a folder that holds one, or a hub id (read with huggingface_hub)."""
    path = Path(text)
    if path.is_dir():
        path = path / "config.json"
    if path.exists():
        text = _text(path, "the model's own config.json")
        try:
            config = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"{path}: not a config.json: {error}") from None
        if not isinstance(config, dict):
            raise PlanError(f"{path}: holds no JSON object; it must be the model's own config.json")
        return config, str(path)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", text) or text.endswith(".json"):
        raise PlanError(
            f"{text}: no such file; give a config.json, its folder, a hub id, or the shape flags (--layers ...)"
        )
    try:
        from huggingface_hub import hf_hub_download

        return json.loads(Path(hf_hub_download(text, "config.json")).read_text(encoding="utf-8")), text
    except ImportError:
        raise PlanError(
            f"{text}: reading from the hub needs `pip install huggingface_hub`; or give its config.json"
        ) from None
    except Exception as error:
        reason = type(error).__name__
        raise PlanError(
            f"{text}: the hub did not give its config.json ({reason}); download it and give the file"
        ) from None


def _device(arguments: argparse.Namespace) -> int | None:
    if arguments.device_gib is not None:
        if not 0 < arguments.device_gib < 2**20:
            raise PlanError(f"--device-gib is {arguments.device_gib}, and must be above 0 and in GiB")
        return int(arguments.device_gib * GIB)
    if arguments.gpu is None:
        return None
    import gpu_rates

    try:
        return gpu_rates.gpu(arguments.gpu).usable_bytes
    except ValueError as error:
        raise PlanError(f"--gpu: {error}") from None


def _gib(size: int | float) -> str:
    return f"{size / GIB:.1f} GiB"


def _peak(answer: dict) -> str:
    if answer["kind"] != "range":
        return _gib(answer["peak_bytes"])
    return f"{answer['peak_bytes_low'] / GIB:.1f} to {_gib(answer['peak_bytes'])}"


def _vllm_line(vllm: dict) -> str:
    return (
        f"vLLM {'starts' if vllm['starts'] else 'does not start'}: share {_gib(vllm['budget_bytes'])}, weights "
        f"{_gib(vllm['weights_bytes'])}, cache for {vllm['sequences']} sequences of {vllm['sequence_tokens']} tokens "
        f"({vllm['sequences_wanted']} wanted); utilization {vllm['utilization_to_start']} to start, "
        f"{vllm['utilization_for_all']} for all"
    )


def as_text(answer: dict) -> str:
    """A table of phases with a bar each, then the verdict, vLLM and the allowances."""
    phases, rows = answer["phases"], []
    widest = max(parts["total"] for parts in phases.values())
    for name, parts in phases.items():
        bar = "#" * max(1, round(24 * parts["total"] / widest))
        mark = "  <- binds" if name == answer["binding_phase"] else ""
        rows.append(f"{name:<11} {_gib(parts['total']):>10}  {bar:<24}{mark}")
        held = sorted(((size, part) for part, size in parts.items() if part != "total"), reverse=True)
        rows.append(
            " " * 12
            + ", ".join(f"{part.replace('_', ' ')} {size / GIB:.1f}" for size, part in held if size >= 0.05 * GIB)
        )
    rows.append("")
    rows.append(f"peak        {_peak(answer):>10}  {answer['kind']}, in {answer['binding_phase']}")
    low, high = answer["device_bytes_low"], answer["device_bytes_high"]
    rows.append(f"on the card {_gib(low):>10}  to {_gib(high)}, with the allowances below")
    if answer["capacity_bytes"]:
        rows.append(f"card        {_gib(answer['capacity_bytes']):>10}  usable")
    rows.append(f"verdict     {answer['verdict']}  (fits: the high end fits; tight: only the low end)")
    if answer["capacity_bytes"]:
        rows.append(f"margin      {_gib(answer['headroom_bytes']):>10}  from the high end to the card's usable memory")
    if answer["vllm"]:
        rows.append("vLLM        " + _vllm_line(answer["vllm"]).removeprefix("vLLM "))
    if "warning" in answer:
        rows.append(f"warning     {answer['warning']}")
    rows.append("not traced:")
    for name, bounds in answer["allowances"].items():
        pair = (f"{bounds['low']:.0%} to {bounds['high']:.0%}" if name.endswith("share")
                else f"{bounds['low'] / GIB:.1f} to {bounds['high'] / GIB:.1f} GiB")  # fmt: skip
        rows.append(f"  {name.removesuffix('_bytes').replace('_', ' ')}: {pair}; {bounds['source']}")
    if found := answer.get("rates"):
        low, high = found["step_seconds_low"], found["step_seconds_high"]
        rows.append(
            f"rollout     at least {found['rollout_seconds']:.1f} s, {found['tokens_s_per_sequence']:.0f} tokens/s "
            f"a sequence, {found['tokens_s']:,.0f} in all ({found['decode_bound_by']}); {found['kind']}"
        )
        rows.append(
            f"step        {low:.1f} to {high:.1f} s without rewards, overheads; published runs took 2 to 5 times that"
        )
        if found["advice"]:
            rows.append(f"advice      {found['advice']}")
    for row in answer.get("levers", []):
        saved = row["saved_bytes"]
        change = f"saves {_gib(saved)}" if saved > 0 else f"costs {_gib(-saved)}" if saved < 0 else "saves nothing"
        rows.append(
            f"lever: {row['lever']}: peak {_gib(row['peak_bytes'])} ({change}), {row['verdict']}; {row['cost']}"
        )
    return "\n".join(rows)


def as_markdown(answer: dict) -> str:
    lines = ["| Phase | GiB | What lives there, GiB |", "|---|---|---|"]
    for name, parts in answer["phases"].items():
        held = sorted(((size, part) for part, size in parts.items() if part != "total"), reverse=True)
        text = ", ".join(f"{part.replace('_', ' ')} {size / GIB:.1f}" for size, part in held if size >= 0.05 * GIB)
        lines.append(f"| {name} | {parts['total'] / GIB:.1f} | {text} |")
    lines += [
        "",
        f"Peak {_peak(answer)} ({answer['kind']}, {answer['binding_phase']}); on the card "
        f"{answer['device_bytes_low'] / GIB:.1f} to {_gib(answer['device_bytes_high'])}"
        + (f" of {_gib(answer['capacity_bytes'])}" if answer["capacity_bytes"] else "")
        + f"; {answer['verdict']}.",
    ]
    if answer["vllm"]:
        lines += ["", _vllm_line(answer["vllm"]) + "."]
    if "warning" in answer:
        lines += ["", f"Warning: {answer['warning']}."]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0] + "\n\n" + __doc__.split("\n\n")[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python scripts/estimate_memory.py --model config.json --config grpo.yaml --gpu h200\n\n"
        "exit codes: 0 = fits (or no GPU named), 1 = tight, does not fit, or QLoRA with vLLM, 2 = bad usage or input",
    )
    model = parser.add_argument_group("model: a config, or its shape")
    model.add_argument("--model", help="config.json, a folder that holds one, or a hub id")
    for name in ("layers", "hidden", "mlp", "heads", "kv-heads", "head-dim", "vocabulary"):
        model.add_argument(f"--{name}", type=int, metavar="N")
    model.add_argument("--experts", type=int, default=0, metavar="N", help="of each layer; --mlp is then one's width")
    model.add_argument("--experts-per-token", type=int, default=0, metavar="N")
    model.add_argument("--tied", action="store_true", help="input and output embeddings are one matrix")
    model.add_argument("--qk-norm", action="store_true", help="each head's query and key are normalised")
    run = parser.add_argument_group("run: TRL's YAML, or flags (flags overrule the YAML)")
    run.add_argument("--config", metavar="YAML", help="what `trl grpo --config` takes; its prompt length is --prompt")
    run.add_argument(
        "--compare", nargs=2, metavar="YAML", help="two such files side by side; the exit code is the second's"
    )
    run.add_argument("--mode", choices=("full", "lora", "qlora"))
    run.add_argument("--dtype", choices=tuple(WIDTH), help="of the weights; TRL loads a model string in float32")
    run.add_argument("--lora-r", type=int, metavar="N")
    run.add_argument("--lora-targets", choices=tuple(TARGETS))
    run.add_argument("--double-quant", action="store_true", default=None, help="nested quantisation (off in TRL)")
    run.add_argument("--optimizer", choices=OPTIMIZERS)
    run.add_argument("--no-checkpointing", dest="checkpointing", action="store_false", default=None)
    run.add_argument("--no-autocast", dest="autocast", action="store_false", default=None, help="bf16: false")
    run.add_argument("--batch", type=int, metavar="N", help="per_device_train_batch_size, completions (8)")
    run.add_argument("--accumulation", type=int, metavar="N", help="gradient_accumulation_steps (1)")
    run.add_argument("--prompt", type=int, metavar="N", help="tokens of the longest prompt (512)")
    run.add_argument("--completion", type=int, metavar="N", help="max_completion_length (512)")
    run.add_argument("--num-generations", type=int, metavar="N", help="of a group; changes no peak (8)")
    run.add_argument("--steps-per-generation", type=int, metavar="N", help="micro-steps per rollout (accumulation)")
    run.add_argument("--beta", type=float, help="above 0 with full fine-tuning: a reference model (0.0)")
    run.add_argument(
        "--generation", choices=("transformers", "colocate", "server"), help="colocate; without a card: server"
    )
    run.add_argument("--vllm-utilization", type=float, metavar="SHARE", help="vllm_gpu_memory_utilization (0.3)")
    run.add_argument("--vllm-max-length", type=int, metavar="N", help="vllm_max_model_length (prompt + completion)")
    run.add_argument("--sleep", action="store_true", default=None, help="vllm_enable_sleep_mode (off)")
    run.add_argument("--tensor-parallel", type=int, metavar="N", help="vllm_tensor_parallel_size (1)")
    run.add_argument("--gpus", type=int, metavar="N", help="each with its own batch (1)")
    run.add_argument("--sharding", choices=SHARDINGS, help="what they share; ddp: nothing (ddp)")
    card = parser.add_argument_group("card")
    card.add_argument("--gpu", metavar="NAME", help="from the dated table in gpu_rates.py, such as h100-80gb")
    card.add_argument("--device-gib", type=float, metavar="GIB", help="usable memory of any other card, in GiB (2^30)")
    form = parser.add_argument_group("answer")
    form.add_argument("--levers", action="store_true", help="each single change with its new peak and its cost")
    shown = form.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="bytes, stable keys")
    shown.add_argument("--markdown", action="store_true")
    return parser


def plan_from_arguments(arguments: argparse.Namespace) -> Plan:
    names = ("layers", "hidden", "mlp", "heads", "kv_heads", "head_dim", "vocabulary")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    more = (arguments.tied, arguments.qk_norm, arguments.experts, arguments.experts_per_token)
    if arguments.model and (given or any(more)):
        raise PlanError("--model and shape flags both name a shape: give one of them")
    if arguments.model:
        config, where = _config_json(arguments.model)
        shape = read_shape(config, where)
    else:
        given.setdefault("kv_heads", given.get("heads"))
        if given.get("heads") and given.get("hidden"):
            given.setdefault("head_dim", given["hidden"] // given["heads"])
        missing = [f"--{name.replace('_', '-')}" for name in names if given.get(name) is None]
        if missing:
            raise PlanError(f"no model: give --model config.json, or also {', '.join(missing)}")
        shape = Shape(
            **given, tied=arguments.tied, qk_norm=arguments.qk_norm, experts=arguments.experts,
            experts_per_token=arguments.experts_per_token,
        )  # fmt: skip
    settings = plan_from_trl(Path(arguments.config)) if arguments.config else {}
    for item in dataclasses.fields(Plan):
        value = getattr(arguments, item.name, None)
        if item.name not in ("shape", "device_bytes") and value is not None:
            settings[item.name] = value
    if settings.get("sharding", "ddp") != "ddp" and settings.get("gpus", 1) == 1:
        raise PlanError(f"--sharding {settings['sharding']} needs --gpus, more than 1: one GPU shares nothing")
    device = _device(arguments)
    if device is None:
        settings.setdefault("generation", "server")  # vLLM's share of a card that nobody named has no size
    try:
        return Plan(shape, **settings, device_bytes=device)
    except PlanError as error:
        raise PlanError(f"{arguments.config}: {error}" if arguments.config else str(error)) from None


def as_comparison(answers: dict[str, dict]) -> str:
    """Two plans side by side as a Markdown table: phases, range on the card, verdict; GiB."""
    first, second = answers.values()
    rows = [(name, *(a["phases"].get(name, {}).get("total") for a in (first, second))) for name in
            dict.fromkeys([*first["phases"], *second["phases"]])]  # fmt: skip
    for label, key in (("peak", "peak_bytes"), ("card, low", "device_bytes_low"), ("card, high", "device_bytes_high")):
        rows.append((label, first[key], second[key]))
    lines = [f"| GiB | {' | '.join(answers)} | difference |", "|---|---|---|---|"]
    for name, *pair in rows:
        cells = ["none" if size is None else f"{size / GIB:.1f}" for size in pair]
        apart = "" if None in pair else f"{(pair[1] - pair[0]) / GIB:+.1f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {apart} |")
    return "\n".join([*lines, f"| verdict | {first['verdict']} | {second['verdict']} | |"])


def main() -> int:
    arguments = _parser().parse_args()
    try:
        if arguments.compare:
            if arguments.config or arguments.levers:
                raise PlanError("--compare takes the two configs and no --config or --levers")
            answers = {}
            for path in arguments.compare:
                arguments.config = path
                answers[path] = answer = estimate(plan_from_arguments(arguments))
            if len(answers) == 1:
                raise PlanError(f"--compare: {path} is given twice")
            print(json.dumps(answers, indent=2) if arguments.json else as_comparison(answers))
            return _exit_code(answer)
        plan = plan_from_arguments(arguments)
        answer = estimate(plan)
        if arguments.gpu:
            answer["rates"] = rates(plan, arguments.gpu)
        if arguments.levers:
            answer["levers"] = levers(plan)
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(answer, indent=2))
    else:
        print(as_markdown(answer) if arguments.markdown else as_text(answer))
    return _exit_code(answer)


def _exit_code(answer: dict) -> int:
    return 0 if answer["verdict"].startswith(("fits", "not judged")) and "warning" not in answer else 1


if __name__ == "__main__":
    sys.exit(main())
