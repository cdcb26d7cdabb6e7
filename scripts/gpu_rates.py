"""What GPUs can do at best, and so how fast rollouts and GRPO steps can be at best. Standard library only.

`GPUS` is a table with dates and sources: usable memory, memory bandwidth, matrix FLOPS. `decode_bound` and
`step_bound` turn it into bounds (a roofline): the time that reading the weights and the cache takes at the bandwidth
that was measured, or the time that the multiplications take at the vendor's peak, whichever is longer. A bound is no
forecast: `python benchmarks/rate_points.py` prints published rates beside the bounds, and says for which GPUs there are
none.

Left out, because no reading of their usable memory has an address or because rates were not looked for: A10, H100 PCIe,
B300, MI300X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "RETRIEVED",
    "DEFAULT_SUSTAINED_SHARE",
    "TRAINING_UTILISATION",
    "TRAINING_UTILISATION_SOURCE",
    "VALIDATED",
    "Gpu",
    "GPUS",
    "gpu",
    "DecodeWork",
    "decode_bound",
    "step_bound",
]

RETRIEVED = "2026-11-30"
GIB = 2**30

# Judgement, for a GPU whose bandwidth nobody measured in the sources: the measured shares are 0.75 to 0.95, and the two
# tuned read kernels on data centre GPUs give 0.95.
DEFAULT_SUSTAINED_SHARE = 0.9

# Share of the peak FLOPS that training reaches, recomputation counted as work (as `step_bound` counts it).
TRAINING_UTILISATION = (0.3, 0.5)
TRAINING_UTILISATION_SOURCE = (
    "judgement from published runs (retrieved 2026-11-30, tests/data/rate_points.json; attention not counted): 0.34 to "
    "0.55 in pretraining on H100, 0.59 to 0.63 on A100, 0.51 to 0.57 in fine-tuning on one A100, 0.08 to 0.09 in an RL "
    "trainer and in fine-tuning at 3B with 16,384 tokens and more: small models may be far slower than the range"
)

# GPUs with at least one published decode rate in tests/data/rate_points.json. The other bounds are arithmetic alone.
VALIDATED = frozenset(
    {
        "rtx-3090",
        "rtx-4090",
        "rtx-5090",
        "a100-40gb",
        "a100-80gb",
        "h100-80gb",
        "h20-96gb",
        "h200",
        "b200",
        "dgx-spark",
    }
)


@dataclass(frozen=True)
class Gpu:
    """One GPU: what a process can allocate and how fast it can read and multiply.

    usable_bytes is the lowest total that a CUDA program reported (bytes; before the CUDA context of about 0.5 GiB).
    bandwidth_bytes_s is the vendor's peak (bytes/s), sustained_share the part of it that a measurement reached
    (`share_kind` says which). dense_flops is without sparsity, in bfloat16 with float32 accumulation (T4: float16).
    unified: CPU and GPU share the memory. source: address for the memory; rate_source: for bandwidth and FLOPS.
    """

    key: str
    name: str
    usable_bytes: int
    bandwidth_bytes_s: float
    dense_flops: float
    source: str
    rate_source: str
    sustained_share: float = DEFAULT_SUSTAINED_SHARE
    share_kind: str = "judgement: no measurement found"
    unified: bool = False
    note: str = ""

    @property
    def sustained_bytes_s(self) -> float:
        """Bandwidth that a bound uses, bytes/s."""
        return self.bandwidth_bytes_s * self.sustained_share


ACCELERATORS = "https://github.com/stas00/ml-engineering/blob/007447327a0cb851796ebf896f975566f8d97f38/compute/accelerator/README.md"
CATALOGUE = "https://huggingface.co/RajBhope/gpu-runtime-predictor/blob/main/gpu_catalog.json"
SPECS = "https://github.com/winston-zhang-orz/gpu-specs"
HARDWARE = "https://github.com/citsjtu2020/LLM-Prof"
SECONDARY = "a secondary table repeats the vendor's sheet"
NO_ADDRESS = "FLOPS from a file without an address"

_ROWS = (
    Gpu(
        "t4",
        "T4 16GB",
        usable_bytes=int(14.56 * GIB),
        bandwidth_bytes_s=320e9,
        dense_flops=65e12,
        source="https://github.com/Zheng-Chong/CatVTON/issues/133",
        rate_source=CATALOGUE,
        sustained_share=0.749,
        share_kind="measured, a 32 MB copy: reads may be faster",
        note=f"no bfloat16: the FLOPS are float16; {SECONDARY}; other hosts report up to 14.75 GiB",
    ),
    Gpu(
        "l4",
        "L4 24GB",
        usable_bytes=int(22.03 * GIB),
        bandwidth_bytes_s=300e9,
        dense_flops=121e12,
        source="https://github.com/hongbo-miao/hongbomiao.com/pull/28949",
        rate_source=SPECS,
        note="the source reports 22.045 GiB; a log without an address 22.03 GiB",
    ),
    Gpu(
        "a10g",
        "A10G 24GB",
        usable_bytes=int(22.06 * GIB),
        bandwidth_bytes_s=600e9,
        dense_flops=125e12,
        source="https://github.com/signalnine/q27/issues/1",
        rate_source=CATALOGUE,
        note="the source says about 22 GB, a log without an address 22.06 GiB; the FLOPS are the A10's: tables give "
        "62.5 to 70 for the A10G, unconfirmed, so what is bound by compute may take twice as long",
    ),
    Gpu(
        "rtx-3090",
        "RTX 3090 24GB",
        usable_bytes=int(23.56 * GIB),
        bandwidth_bytes_s=936e9,
        dense_flops=76.34e12,
        source="https://github.com/noonghunna/club-3090/issues/58",
        rate_source="https://github.com/xiaozheyao/triteia",
        note="76.34 TFLOPS were measured (https://github.com/zzc0721/torch-performance-test-data), more than the 71 of "
        "the data sheet, because boost clocks exceed the rated one; older drivers report 23.70 GiB",
    ),
    Gpu(
        "rtx-4090",
        "RTX 4090 24GB",
        usable_bytes=int(23.68 * GIB),
        bandwidth_bytes_s=1008e9,
        dense_flops=165.2e12,
        source="https://github.com/zai-org/CogVideo/issues/36",
        rate_source="https://gigagpu.com/?p=34220",
        sustained_share=0.914,
        share_kind="measured, a read kernel",
        note="a 2023 driver; a newer one may report less (RTX 3090: 23.70, then 23.56 GiB)",
    ),
    Gpu(
        "rtx-5090",
        "RTX 5090 32GB",
        usable_bytes=33_677_180_928,
        bandwidth_bytes_s=1792e9,
        dense_flops=209.5e12,
        source="https://github.com/aikitoria/open-gpu-kernel-modules/issues/1",
        rate_source="https://www.libertify.com/interactive-library/nvidia-rtx-blackwell-gpu-architecture-neural-rendering/",
        note=NO_ADDRESS,
    ),
    Gpu(
        "l40s",
        "L40S 48GB",
        usable_bytes=int(44.53 * GIB),
        bandwidth_bytes_s=864e9,
        dense_flops=362e12,
        source="https://github.com/Wan-Video/Wan2.1/issues/205",
        rate_source=ACCELERATORS,
        note="ECC on",
    ),
    Gpu(
        "rtx-6000-ada",
        "RTX 6000 Ada 48GB",
        usable_bytes=int(44.43 * GIB),
        bandwidth_bytes_s=960e9,
        dense_flops=364e12,
        source="https://github.com/DINGYANB/MTVCrafter/issues/21",
        rate_source="https://cputronic.com/de/gpu/nvidia-rtx-6000-ada-generation",
        note="ECC on; rate_source gives 91.06 float32 TFLOPS, of which the tensor cores do four times as many; the "
        "bandwidth is from a file without an address",
    ),
    Gpu(
        "rtx-pro-6000",
        "RTX PRO 6000 Blackwell 96GB",
        usable_bytes=int(94.97 * GIB),
        bandwidth_bytes_s=1792e9,
        dense_flops=503.8e12,
        source="https://github.com/antirez/ds4/issues/431",
        rate_source="https://github.com/lijun99/GPU-Resources",
        note=f"{NO_ADDRESS}; 368.43 TFLOPS were measured (https://github.com/zzc0721/torch-performance-test-data/issues/160)",
    ),
    Gpu(
        "a100-40gb",
        "A100 40GB SXM",
        usable_bytes=int(39.50 * GIB),
        bandwidth_bytes_s=1555e9,
        dense_flops=312e12,
        source="https://github.com/TianheWu/CoSeR/issues/10",
        rate_source=CATALOGUE,
        sustained_share=0.886,
        share_kind="measured, BabelStream triad",
    ),
    Gpu(
        "a100-80gb",
        "A100 80GB SXM",
        usable_bytes=int(79.25 * GIB),
        bandwidth_bytes_s=2039e9,
        dense_flops=312e12,
        source="https://github.com/levihsu/OOTDiffusion/issues/235",
        rate_source=HARDWARE,
        sustained_share=0.858,
        share_kind="measured, BabelStream dot (reads only)",
        note="the PCIe card has 1935 GB/s",
    ),
    Gpu(
        "h100-80gb",
        "H100 80GB SXM",
        usable_bytes=int(79.11 * GIB),
        bandwidth_bytes_s=3350e9,
        dense_flops=989e12,
        source="https://github.com/vllm-project/vllm/issues/27508",
        rate_source=ACCELERATORS,
        sustained_share=0.949,
        share_kind="measured, BabelStream dot (reads only)",
        note="the PCIe card has 2000 GB/s and 756 TFLOPS; other drivers report up to 79.22 GiB",
    ),
    Gpu(
        "h20-96gb",
        "H20 96GB",
        usable_bytes=int(95.1 * GIB),
        bandwidth_bytes_s=4000e9,
        dense_flops=148e12,
        source="https://github.com/RightNow-AI/AutoMegaKernel/pull/3",
        rate_source="https://willitrunai.com/es/gpus/h20-96gb",
        sustained_share=0.928,
        share_kind="measured, kind not stated",
        note="the memory is rounded to 0.1 GiB in the source",
    ),
    Gpu(
        "h200",
        "H200 141GB",
        usable_bytes=int(139.80 * GIB),
        bandwidth_bytes_s=4800e9,
        dense_flops=989e12,
        source="https://github.com/NVIDIA/cuda-samples/issues/311",
        rate_source=ACCELERATORS,
        sustained_share=0.952,
        share_kind="measured, BabelStream dot (reads only)",
        note="the source gives nvidia-smi's 143,771 MiB, logs without an address 139.80 GiB for programs",
    ),
    Gpu(
        "b200",
        "B200 180GB",
        usable_bytes=int(178.35 * GIB),
        bandwidth_bytes_s=8000e9,
        dense_flops=2250e12,
        source="https://github.com/pytorch/ao/pull/4002",
        rate_source=ACCELERATORS,
        sustained_share=0.919,
        share_kind="measured on a GB200",
        note="the source's bus width gives 7.67 TB/s",
    ),
    Gpu(
        "dgx-spark",
        "DGX Spark 128GB",
        usable_bytes=128_501_256_192,
        bandwidth_bytes_s=273e9,
        dense_flops=125e12,
        source="https://github.com/leptonai/gpud/pull/1170",
        rate_source="https://ai-infrastructure.net/dgx-spark/",
        sustained_share=0.852,
        share_kind="measured, a read kernel (231 to 234 GB/s); another measurement gives 218",
        unified=True,
        note="119.7 to 121.7 GiB, by firmware; the system and the page cache take from the same memory, about 20 GiB "
        "at boot on one box; 190 GB/s (0.70 of the peak) is a cautious plan, measured reads are 218 to 234 GB/s; the "
        "vendor gives no bfloat16 FLOPS: 125 T is derived from 1 PFLOPS of sparse FP4, 92.3 T were measured "
        "(https://github.com/huggingface/kernels/pull/283)",
    ),
)
GPUS: dict[str, Gpu] = {row.key: row for row in _ROWS}


def gpu(name: str) -> Gpu:
    """The GPU of that key, upper case and spaces forgiven. ValueError with the choices, in one line, for any other.

    >>> gpu("H100 80GB").name
    'H100 80GB SXM'
    """
    key = str(name).strip().lower().replace(" ", "-").replace("_", "-")
    if key not in GPUS:
        raise ValueError(f"unknown GPU {name!r}: choose from {', '.join(GPUS)}")
    return GPUS[key]


@dataclass(frozen=True)
class DecodeWork:
    """What one decode step of a model reads and multiplies.

    weight_bytes_read: bytes per step, the whole model without an untied input embedding (of that, one row is read).
    cache_bytes_per_token: keys and values of one token in all layers, bytes.
    flops_per_token: 2 x the parameters that are multiplied. Attention itself is not counted, which leaves the bound a
    bound: at 7B and 10,000 tokens of context it adds about a quarter to the FLOPs, not to the bytes.
    """

    weight_bytes_read: float
    cache_bytes_per_token: float
    flops_per_token: float


def _at_least(name: str, value: float, least: float) -> None:
    if not (isinstance(value, int | float) and math.isfinite(value) and value >= least):
        raise ValueError(f"{name} is {value!r}: it must be a number, {least} or more")


def decode_bound(gpu: Gpu, work: DecodeWork, sequences: float, context_tokens: float, gpus: int = 1) -> dict:
    """The fastest that `sequences` at once can each gain one token at `context_tokens` of context (a mean will do).

    Keys: seconds_per_token (s, one step), tokens_s_per_sequence, tokens_s (all sequences), bound_by ("memory: weights",
    "memory: cache" or "compute"). `gpus` share the work perfectly: no time is counted for what they send each other,
    and none for replicas that each read all weights.

    >>> spark = gpu("dgx-spark")
    >>> bound = decode_bound(spark, DecodeWork(15.2e9, 57344, 15.2e9), sequences=1, context_tokens=1000)
    >>> round(bound["tokens_s"], 1), bound["bound_by"]
    (15.2, 'memory: weights')
    """
    _at_least("sequences", sequences, 1)
    _at_least("context_tokens", context_tokens, 0)
    _at_least("gpus", gpus, 1)
    cache_bytes = sequences * context_tokens * work.cache_bytes_per_token
    memory = (work.weight_bytes_read + cache_bytes) / (gpu.sustained_bytes_s * gpus)
    compute = sequences * work.flops_per_token / (gpu.dense_flops * gpus)
    seconds = max(memory, compute)
    if compute > memory:
        bound_by = "compute"
    else:
        bound_by = "memory: cache" if cache_bytes > work.weight_bytes_read else "memory: weights"
    return {
        "seconds_per_token": seconds,
        "tokens_s_per_sequence": 1 / seconds,
        "tokens_s": sequences / seconds,
        "bound_by": bound_by,
    }


def step_bound(
    gpu: Gpu,
    work: DecodeWork,
    *,
    sequences: int,
    prompt_tokens: int,
    completion_tokens: int,
    concurrent: int | None = None,
    generations: int = 1,
    trained_parameters_share: float = 1.0,
    checkpointing: bool = False,
    scored: bool = False,
    reference: bool = False,
    gpus: int = 1,
    training_utilisation: tuple[float, float] = TRAINING_UTILISATION,
) -> dict:
    """The least time that one GRPO step can take: rollouts, then scoring and training on them.

    `sequences` completions of `completion_tokens` each after `prompt_tokens`, `concurrent` of them at once (None: all
    that there are), in waves of equal length. `generations` completions share a prompt, which is then prefilled once
    (prefix caching); 1 counts every prompt. Training multiplies per token, in units of `work.flops_per_token`: 1
    forward, 1 for the gradients of the activations, `trained_parameters_share` for those of the weights (1.0 full,
    about 0.01 LoRA: 4 instead of 6 FLOPs a parameter), 1 more each for checkpointing (the forward again), `scored` (old
    log-probabilities) and `reference`. The output head is counted for every token, of the prompt too.

    Keys, in seconds: prefill_seconds, decode_seconds and their sum rollout_seconds (bounds); train_seconds_low and
    train_seconds_high, at the high and at the low end of `training_utilisation`, which is measured, not a peak: the
    best published runs are faster than the low one, small models slower than the high one, see
    TRAINING_UTILISATION_SOURCE; step_seconds_low and step_seconds_high, their sums with the rollouts.
    Shares: generation_share_low and generation_share_high (rollouts / step). And decode_bound_by: what bounds the
    middle of a completion. Not counted: rewards, weight sync, the optimizer, loading, communication, uneven lengths.
    """
    for name, value, least in (
        ("sequences", sequences, 1),
        ("prompt_tokens", prompt_tokens, 0),
        ("completion_tokens", completion_tokens, 1),
        ("concurrent", sequences if concurrent is None else concurrent, 1),
        ("generations", generations, 1),
        ("trained_parameters_share", trained_parameters_share, 0),
        ("gpus", gpus, 1),
    ):
        _at_least(name, value, least)
    low, high = training_utilisation
    if not 0 < low <= high <= 1:
        raise ValueError(
            f"training_utilisation is {training_utilisation!r}: it must be two shares, low and high, up to 1"
        )

    peak_flops = gpu.dense_flops * gpus
    prefill = math.ceil(sequences / generations) * prompt_tokens * work.flops_per_token / peak_flops

    at_once = min(sequences, concurrent or sequences)
    waves, rest = divmod(sequences, at_once)
    decode = waves * _decode_seconds(gpu, work, at_once, prompt_tokens, completion_tokens, gpus)
    if rest:
        decode += _decode_seconds(gpu, work, rest, prompt_tokens, completion_tokens, gpus)
    rollout = prefill + decode

    passes = 2 + min(trained_parameters_share, 1.0) + checkpointing + scored + reference
    flops = sequences * (prompt_tokens + completion_tokens) * work.flops_per_token * passes
    train_low, train_high = flops / (peak_flops * high), flops / (peak_flops * low)
    middle = decode_bound(gpu, work, at_once, prompt_tokens + completion_tokens / 2, gpus)
    return {
        "prefill_seconds": prefill,
        "decode_seconds": decode,
        "rollout_seconds": rollout,
        "train_seconds_low": train_low,
        "train_seconds_high": train_high,
        "step_seconds_low": rollout + train_low,
        "step_seconds_high": rollout + train_high,
        "generation_share_low": rollout / (rollout + train_high),
        "generation_share_high": rollout / (rollout + train_low),
        "decode_bound_by": middle["bound_by"],
    }


def _decode_seconds(
    gpu: Gpu, work: DecodeWork, sequences: int, prompt_tokens: int, completion_tokens: int, gpus: int
) -> float:
    """Seconds for one wave: the sum of `decode_bound` over the contexts prompt_tokens .. + completion_tokens - 1."""
    bandwidth = gpu.sustained_bytes_s * gpus
    first = (work.weight_bytes_read + sequences * prompt_tokens * work.cache_bytes_per_token) / bandwidth
    growth = sequences * work.cache_bytes_per_token / bandwidth
    compute = sequences * work.flops_per_token / (gpu.dense_flops * gpus)
    # Memory time grows by the same amount with every token: it is below the time to compute for the first few only.
    if first >= compute:
        computed = 0
    elif growth == 0:
        computed = completion_tokens
    else:
        computed = min(completion_tokens, math.ceil((compute - first) / growth))
    read = completion_tokens - computed
    return computed * compute + read * first + growth * (computed + completion_tokens - 1) * read / 2
