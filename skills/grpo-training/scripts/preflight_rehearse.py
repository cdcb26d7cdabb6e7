#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "trl==1.16.0", "transformers", "datasets", "peft", "pyarrow", "pyyaml", "psutil"]
# ///
"""Rehearse a run on a CPU: your config, rows, chat template and rewards through the real GRPOTrainer.

The model is a tiny random one of your model's kind (its `config.json`, every dimension shrunk), so nothing is said of
what yours would learn. What is found is what would end a run, or leave it without a gradient, after the GPU is paid
for: settings that TRL refuses, rewards that raise, hang or end the process, columns that are not there, groups whose
completions all score the same. Half of each group is forced to completions that you sampled before (--completions), so
that rewards read real text. What was switched to run here is listed from -> to as not rehearsed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import io
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import preflight_config
import score_completions as sc
from preflight_config import ConfigError, NotKnown
from score_completions import UserError

__all__ = ["batches", "replaced", "tiny_values"]

SCHEMA_VERSION = 1
BUDGET_S = 90
COMPLETIONS = 32  # of one generation at most; judgement: enough for several groups, seconds on two cores
GENERATED_TOKENS = 24  # of what the random model writes: noise, and each token costs a pass
FORCED_TOKENS = 8192  # of a completion that you sampled, as rewards read it; the rest is cut
TRAINED_TOKENS = 512  # of a completion that the loss reads, fewer with a large vocabulary:
LOGITS = 2e8  # tokens times vocabulary of one generation; more takes minutes on a CPU
MOST_STEPS = 8  # taken on its own account to reach a second generation
EPILOG = """
example:
  preflight_rehearse.py --config grpo.yaml --dataset prompts.jsonl --completions inspection/completions.jsonl

A script (train.py) is parsed and never run: its rewards are named with --rewards, and settings known only when it runs
are left at TRL's default and listed. The config's own reward_funcs are taken where --rewards is not given.

kinds of fault: exception, reward_raised, reward_only_none, reward_not_finite, all_groups_dead, no_signal (only a random
model wrote), grad_norm, no_step, steps_missing, too_few_rows, vocabulary, process_died, over_budget

exit codes: 0 = the steps ran and nothing dead was seen, 1 = an exception, no step, a reward that raised or gave only
None, all groups dead, a gradient of 0 or NaN, or over the budget, 2 = bad usage or input, 130 = interrupted
"""


# ---- what is switched, without any heavy import


def batches(per_device: int, accumulation: int, steps: int | None, whole: int | None, iterations: int, group: int,
            world: int = 1, limit: int = COMPLETIONS) -> dict | None:  # fmt: skip
    """The batch settings made small; groups stay whole, and so do the ratios of micro-steps, steps and generations.

    Args:
        per_device, accumulation, steps, whole, iterations, group: `per_device_train_batch_size`,
            `gradient_accumulation_steps`, `steps_per_generation`, `generation_batch_size`, `num_iterations` and
            `num_generations` of the run.
        world: its processes. limit: completions of one generation here, if that leaves two micro-steps whole.

    Returns:
        `dict`: the settings, with `groups` (of one generation), `steps_per_rollout` (optimizer steps that one
        generation serves), `real_batch` and `real_groups` (completions and prompts of one generation of the run).
        None if TRL refuses the settings: then they are left as they are, so that it says so itself.

    Example:
        >>> small = batches(8, 16, None, None, 1, 8, world=4)
        >>> [small[name] for name in ("per_device", "accumulation", "steps", "groups", "real_batch", "real_groups")]
        [16, 2, 2, 4, 512, 64]
        >>> batches(8, 4, 16, None, 1, 8)["steps_per_rollout"]  # four optimizer steps on each generation
        4.0
        >>> batches(6, 1, None, None, 1, 8) is None
        True
    """
    numbers = [n for n in (per_device, accumulation, steps, whole, iterations, group, world) if n is not None]
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in numbers) or (steps and whole) or group < 2:
        return None
    if whole and whole % (per_device * world):
        return None
    span = steps or (whole // (per_device * world) if whole else accumulation)
    real = per_device * world * span
    if real % group:
        return None
    shared = math.gcd(accumulation, span)
    keep = 2 if shared > 1 else 1  # where micro-steps are added up, two are
    small_accumulation, small_span = accumulation // shared * keep, span // shared * keep
    small_group = min(group, limit // 2)
    unit = small_span // math.gcd(small_span, small_group)  # groups that fill the micro-steps without a rest
    groups = max(unit, min(real // group, limit // small_group) // unit * unit)
    return {
        "per_device": groups * small_group // small_span, "accumulation": small_accumulation, "steps": small_span,
        "group": small_group, "groups": groups, "steps_per_rollout": small_span * iterations / small_accumulation,
        "real_batch": real, "real_groups": real // group,
    }  # fmt: skip


CPU_OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop", "adafactor")


def replaced(settings: preflight_config.Settings, world: int = 1, steps: int | None = None) -> dict:
    """What the rehearsal sets in place of the run's settings.

    Returns:
        `dict`: `values` (new values by name), `switched` (those that take something away from the rehearsal, each with
        setting, from, to, why), `batches` (see `batches`), `steps`, and `unknown` (settings that only a run of the
        script would give, left at TRL's default).

    Example:
        >>> run = preflight_config.Settings(Path("grpo.yaml"), "yaml", {"use_vllm": True})
        >>> replaced(run)["switched"][0]
        {'setting': 'use_vllm', 'from': True, 'to': False, 'why': 'vLLM needs a GPU: generated by transformers'}
    """
    unknown = [{"setting": name, "text": text, "left_at": preflight_config.arguments().get(name, {}).get("default")}
               for name, text in settings.unread.items()]  # fmt: skip
    if settings.anything:
        unknown.append({"setting": settings.anything, "text": settings.anything, "left_at": "TRL's defaults"})

    def get(name):
        try:
            return settings.get(name)
        except NotKnown:
            return preflight_config.arguments().get(name, {}).get("default")

    values, switched = {}, []

    def put(name, value, why=None):
        was = get(name)
        values[name] = value
        if why and was != value:
            switched.append({"setting": name, "from": was, "to": value, "why": why})

    if get("use_vllm"):
        put("use_vllm", False, "vLLM needs a GPU: generated by transformers")
        for name in settings.values:
            if name.startswith("vllm_"):
                switched.append({"setting": name, "from": get(name), "to": "not used", "why": "without vLLM"})
    for name, value, why in (
        ("use_transformers_continuous_batching", False, "needs a GPU"),
        ("use_transformers_paged", False, "needs a GPU"),
        ("use_liger_kernel", False, "needs Triton"), ("torch_compile", False, "takes minutes"),
        ("torch_compile_backend", None, "without torch_compile"), ("torch_compile_mode", None, "without torch_compile"),
        ("deepspeed", None, "one process"), ("fsdp", None, "one process"), ("fsdp_config", None, "one process"),
        ("parallelism_config", None, "one process"), ("fp16", False, "float32 on a CPU"),
        ("fp16_full_eval", False, "float32 on a CPU"), ("bf16_full_eval", False, "float32 on a CPU"),
        ("tf32", None, "float32 on a CPU"), ("load_in_4bit", False, "quantisation needs a GPU"),
        ("load_in_8bit", False, "quantisation needs a GPU"), ("push_to_hub", False, "stays here"),
        ("log_completions_hub_repo", None, "stays here"), ("resume_from_checkpoint", None, "the model is another"),
        ("load_best_model_at_end", False, "two steps have no best"), ("eval_on_start", False, "evaluated once"),
        ("dataloader_num_workers", 0, "one process"), ("dataloader_persistent_workers", False, "one process"),
        ("dataloader_prefetch_factor", None, "one process"), ("cache_implementation", None, "some need a GPU"),
        ("reward_model_name_or_path", None, "a reward model is not loaded: stands in with 0"),
    ):  # fmt: skip
        if get(name) not in (value, None, "", []):
            put(name, value, why)
    if get("optim") not in CPU_OPTIMIZERS:
        put("optim", "adamw_torch", "its kernels need a GPU")
    if get("attn_implementation") not in (None, "eager", "sdpa"):
        put("attn_implementation", None, "needs a GPU")
    if get("model_init_kwargs"):
        put("model_init_kwargs", None, "the model is another")
    put("bf16", False, "float32 on a CPU" if get("bf16") is not False and not get("fp16") else None)
    put("use_cpu", True)
    put("report_to", "none", "stays here" if get("report_to") not in (None, "none", [], ["none"]) else None)
    if get("dtype") not in (None, "float32"):
        put("dtype", "float32", "float32 on a CPU")
    if world > 1:
        switched.append({"setting": "world size", "from": world, "to": 1, "why": "one process"})

    names = {"per_device": "per_device_train_batch_size", "accumulation": "gradient_accumulation_steps",
             "group": "num_generations"}  # fmt: skip
    sizes = ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation",
             "generation_batch_size", "num_iterations", "num_generations")  # fmt: skip
    small = batches(*map(get, sizes), world)
    if small:
        for short, name in names.items():
            if small[short] != get(name):
                put(name, small[short], "fewer completions")
        if get("generation_batch_size") is not None:
            put("generation_batch_size", None, "said as steps_per_generation")
        if get("steps_per_generation") is not None or get("generation_batch_size") is not None:
            put("steps_per_generation", small["steps"], "fewer completions")
        if steps is None:  # a second generation meets a model that has changed, and rewards that were called before
            steps = max(2, min(MOST_STEPS, math.floor(small["steps_per_rollout"]) + 1))
    elif world > 1 and isinstance(get("per_device_train_batch_size"), int):
        put("per_device_train_batch_size", get("per_device_train_batch_size") * world)  # so that TRL judges the same
    steps = steps or 2
    put("max_steps", steps)
    for name, value in (("logging_strategy", "steps"), ("logging_steps", 1), ("log_completions", True),
                        ("num_completions_to_print", 0), ("disable_tqdm", True)):  # fmt: skip
        put(name, value)
    if get("save_strategy") != "no":
        put("save_strategy", "steps", "saved once" if get("save_strategy") != "steps" else None)
        put("save_steps", steps)
    if get("eval_strategy") not in (None, "no"):
        put("eval_strategy", "steps", "evaluated once, on rows of the training set")
        put("eval_steps", steps)
        put("eval_delay", 0)
        size, group = get("per_device_eval_batch_size"), get("num_generations_eval") or get("num_generations")
        if isinstance(size, int) and isinstance(group, int) and group > 0 and size * world % group == 0 and small:
            group = min(group, small["group"])
            if get("num_generations_eval") is not None:
                put("num_generations_eval", group)
            put("per_device_eval_batch_size", group, "fewer completions")
    return {"values": values, "switched": switched, "batches": small, "steps": steps, "unknown": unknown}


# ---- a tiny model of the same kind

# The most that a stand-in has of each dimension, under the names that model configs use.
SMALL = {
    "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16, "intermediate_size": 128, "ffn_hidden_size": 128,
    "ffn_dim": 128, "decoder_ffn_dim": 128, "n_inner": 128, "word_embed_proj_dim": 64, "embedding_size": 64,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "top_k_experts": 2, "moe_topk": 2, "n_group": 2, "topk_group": 1,
    "first_k_dense_replace": 1, "kv_lora_rank": 16, "q_lora_rank": 16, "o_lora_rank": 16, "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16, "qk_head_dim": 32, "v_head_dim": 16, "global_head_dim": 16, "rotary_dim": 16,
    "num_nextn_predict_layers": 0, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "mamba_n_heads": 8, "mamba_num_heads": 8, "mamba_d_head": 16, "mamba_head_dim": 16, "mamba_d_ssm": 128,
    "mamba_d_state": 16, "ssm_state_size": 16, "time_step_rank": 8, "lru_width": 64, "hidden_size_per_layer_input": 16,
}  # fmt: skip
MOST_PARAMETERS = 20_000_000  # beside the embeddings
PLAIN = {"model_type": "llama", "num_attention_heads": 32, "num_key_value_heads": 8}  # where no config.json is at hand


def tiny_values(given: dict, vocabulary: int, layers: int = 2) -> tuple[str, dict]:
    """A model's `config.json` made small: its kind, and the values to make it with.

    One layer of every kind that the model has is kept (attention, linear, dense, experts), `layers` at least. Dropout,
    activation, tied embeddings, biases and norms stay. Of a model with vision the text part is taken.

    Example:
        >>> kind, values = tiny_values({"model_type": "llama", "num_key_value_heads": 8, "attention_dropout": 0.1}, 300)
        >>> kind, values["num_attention_heads"], values["num_key_value_heads"], values["attention_dropout"]
        ('llama', 4, 2, 0.1)
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    own_words = ("model_type", "quantization_config", "auto_map", "architectures", "transformers_version")
    full = CONFIG_MAPPING[given["model_type"]](**{k: v for k, v in given.items() if k not in own_words})
    full = full.get_text_config()
    others, fields = full.attribute_map or {}, getattr(type(full), "__dataclass_fields__", {})
    derived = {*own_words, "dtype", "per_layer_config"}
    values = {k: v for k, v in full.to_dict().items() if k not in derived and (v is not None or k in given)}
    if "head_dim" in fields:
        values["head_dim"] = SMALL["head_dim"]

    def name(known):
        return others.get(known, known)

    deep = values.get(name("num_hidden_layers")) or layers
    lists = [k for k, v in values.items() if isinstance(v, list) and len(v) == deep and deep > 2]
    firsts = {repr([values[k][i] for k in lists]): i for i in reversed(range(deep))}
    kept = sorted({*sorted(firsts.values())[:6], *range(min(layers, deep))})[: max(6, layers)]
    for k in lists:
        values[k] = [values[k][i] for i in kept]
    values[name("num_hidden_layers")] = len(kept)
    heads, shared = values.get(name("num_attention_heads")), values.get(name("num_key_value_heads"))
    if isinstance(shared, int) and name("num_key_value_heads") != name("num_attention_heads"):
        values[name("num_key_value_heads")] = 4 if shared == heads else min(shared, 2)
    for known, most in SMALL.items():
        value = values.get(name(known))
        if isinstance(value, int) and value is not True and value > most:
            values[name(known)] = most
        elif isinstance(value, list) and all(isinstance(one, int) for one in value):
            values[name(known)] = [min(one, most) for one in value]
    _shorten_rope(values.get("rope_parameters"))
    for known in ("vocab_size", "vocab_size_per_layer_input"):
        if known == "vocab_size" or known in values:
            values[name(known)] = vocabulary
    return full.model_type, values


def _shorten_rope(rope: dict | None) -> None:
    """One factor for each pair of dimensions of a head, which has fewer now; for each kind of layer, or for all."""
    for name, value in (rope or {}).items():
        pairs = int(SMALL["head_dim"] * rope.get("partial_rotary_factor", 1)) // 2
        if isinstance(value, dict):
            _shorten_rope(value)
        elif name in ("short_factor", "long_factor"):
            rope[name] = value[:pairs]
        elif name == "mrope_section":
            rope[name] = [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]


def tiny_model(given: dict, tokenizer, seed: int):
    """A random model of this kind that has run forwards and backwards once.

    Raises:
        ValueError: if it cannot be made small; the message says why.
    """
    import torch
    from transformers import AutoModelForCausalLM, set_seed
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if given.get("model_type") not in CONFIG_MAPPING:
        raise ValueError("transformers has no such type of its own")
    for layers in (2, 6, 9):  # some kinds of layers come later in the stack
        try:
            kind, values = tiny_values(given, len(tokenizer), layers)
            eos = tokenizer.eos_token_id or 0
            ids = {"eos_token_id": eos, "pad_token_id": tokenizer.pad_token_id or eos}
            ids["bos_token_id"] = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
            config = CONFIG_MAPPING[kind](**{**values, **ids})
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
            ends = [part.weight for part in (model.get_input_embeddings(), model.get_output_embeddings()) if part]
            own = sum(p.numel() for p in model.parameters() if not any(p is end for end in ends))
            if own > MOST_PARAMETERS:
                raise ValueError(f"{own:,} parameters are left")
            set_seed(seed)
            model = AutoModelForCausalLM.from_config(config)
            sample = torch.arange(8).remainder(len(tokenizer)).repeat(2, 1)
            model(input_ids=sample, attention_mask=torch.ones_like(sample)).logits.logsumexp(-1).sum().backward()
            model.zero_grad(set_to_none=True)
            return model
        except Exception as error:  # model classes fail in any way
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    raise ValueError(reason)


SPECIAL = ["<pad>", "<eos>", "<unk>"]
PIECE = r"[A-Za-z]+|\d|\s|[^\sA-Za-z\d]"
STAND_IN_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def stand_in_tokenizer(texts: list[str]):
    """Words, digits, spaces and marks of `texts`, so that decoding gives back what was encoded."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = sorted({piece for text in texts for piece in re.findall(PIECE, text)})
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys([*SPECIAL, *pieces]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIAL)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    wrapped.chat_template = STAND_IN_TEMPLATE
    return wrapped


# ---- the child: everything that imports torch or runs code of the user


class Record:
    """One JSON line for each thing that happened, written at once: whoever kills this process still has them.

    Time is given to the innermost phase, so that the phases add up to the whole.
    """

    def __init__(self, path: str):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.me, self.lock = os.getpid(), threading.Lock()
        self.stack, self.since, self.seconds = ["other"], time.perf_counter(), {}
        self.failed_in = None  # the innermost phase that an exception came through
        self.last_reward = None

    def say(self, event: str, **values) -> None:
        if os.getpid() != self.me:  # a reward forked, and its copy came back
            os._exit(0)
        line = json.dumps({"event": event, **values}, default=str).encode() + b"\n"
        with self.lock:
            os.write(self.file, line)

    def _turn(self) -> None:
        now = time.perf_counter()
        self.seconds[self.stack[-1]] = self.seconds.get(self.stack[-1], 0) + now - self.since
        self.since = now

    def enter(self, name: str) -> None:
        self._turn()
        self.stack.append(name)
        self.say("doing", what=name, seconds=self.seconds)

    def leave(self) -> None:
        self._turn()
        self.stack.pop()
        self.say("doing", what=self.stack[-1], seconds=self.seconds)

    @contextlib.contextmanager
    def phase(self, name: str):
        self.enter(name)
        try:
            yield
        except BaseException:
            self.failed_in = self.failed_in or name
            raise
        finally:
            self.leave()


def user_frame(error: BaseException) -> str | None:
    """`file:line` of the last frame that belongs to nobody's package, nor to this file."""
    inside = (os.path.dirname(os.__file__), "site-packages", "dist-packages", "<frozen", os.path.abspath(__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not any(one in f.filename for one in inside)]
    if not frames and error.__cause__ is not None:
        return user_frame(error.__cause__)
    return f"{os.path.relpath(frames[-1].filename)}:{frames[-1].lineno}" if frames else None


def watched(reward, name: str, record: Record):
    """The reward as TRL calls it, with what it received, gave and cost written down."""
    from trl.trainer.utils import is_async_callable

    calls = 0
    try:
        parameters = inspect.signature(reward).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    named = {p.name: p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}

    def before(kwargs):
        nonlocal calls
        calls += 1
        record.last_reward = name
        if calls == 1:
            columns = sorted(set(kwargs) - sc.NOT_COLUMNS - {"prompts", "completions"})
            missing = {one: needed for one, needed in named.items() if one not in kwargs}
            record.say("columns", reward=name, received=columns, missing=missing)
        return time.perf_counter()

    def after(started, given, count):
        seconds = time.perf_counter() - started
        try:
            values = [None if one is None else float(one) for one in given]
        except (TypeError, ValueError):  # TRL raises on it, and says so better
            values = None
        record.say("called", reward=name, seconds=seconds, completions=count, values=values)
        return given

    def failed(error):
        record.failed_in = record.failed_in or f"reward {name}"
        record.say("raised", reward=name, call=calls)

    if is_async_callable(reward):

        async def call(prompts, completions, **kwargs):
            started = before({"prompts": 0, "completions": 0, **kwargs})
            record.say("doing", what=f"reward {name}, call {calls}")
            try:
                given = await reward(prompts=prompts, completions=completions, **kwargs)
            except BaseException as error:
                failed(error)
                raise
            return after(started, given, len(completions))
    else:

        def call(prompts, completions, **kwargs):
            started = before({"prompts": 0, "completions": 0, **kwargs})
            with record.phase(f"reward {name}"):
                try:
                    given = reward(prompts=prompts, completions=completions, **kwargs)
                except BaseException as error:
                    failed(error)
                    raise
            return after(started, given, len(completions))

    call.__name__ = name
    return call


def stand_in_reward_model(prompts, completions, **kwargs):
    return [0.0] * len(completions)


# What `trl grpo` takes without an import path, and how it makes it (trl 1.16.0, scripts/grpo.py).
OF_TRL = ("accuracy_reward", "reasoning_accuracy_reward", "think_format_reward", "get_soft_overlong_punishment")


def load_functions(job: dict, settings, record: Record) -> list:
    """Rewards in the order of the run, each under the name that TRL logs."""
    functions = []
    for path in job["rewards"] or settings.rewards or []:
        with record.phase(f"reward {path.rpartition('.')[2]}"):
            if path in OF_TRL:
                import trl.rewards

                reward = getattr(trl.rewards, path)
                if path == "get_soft_overlong_punishment":
                    reward = reward(max_completion_len=1280, soft_punish_cache=256)
            elif "." in path:
                try:
                    reward = sc.load_reward(path)
                except UserError as error:  # what the run would die of; a wrong name alone is bad usage
                    raise ImportError(str(error)) from error.__context__
            else:
                reward = sc.load_reward(path)
            named = reward
            while isinstance(named, functools.partial):
                named = named.func
            functions.append((getattr(named, "__name__", type(named).__name__), reward))
    names = [name for name, _ in functions]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two rewards are called {name!r}: TRL logs both in one column; name one of them")
    return functions


def rows_of(source: str, count: int) -> tuple[list[dict], int | None]:
    """The first rows of a dataset, read by `datasets` as the run reads them, and how many it has if that is cheap."""
    from datasets import load_dataset

    path, kinds = Path(source), {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
    if path.is_dir() or (path.suffix and path.exists() and path.suffix not in kinds):
        raise UserError(f"--dataset {source}: not a file of a kind known here; give one of {', '.join(kinds)}")
    if not path.exists() and path.suffix in kinds:
        raise UserError(f"--dataset {source}: no such file")
    try:
        if path.exists():
            whole = load_dataset(kinds[path.suffix], data_files=str(path), split="train", streaming=True)
        else:
            whole = load_dataset(source, split="train", streaming=True)
        rows = list(whole.take(count))
    except Exception as error:  # datasets fails in many ways
        reason = " ".join(str(error.__cause__ or error).split())[:160]
        raise UserError(f"--dataset {source}: cannot be read ({type(error).__name__}: {reason})") from None
    if not rows:
        raise UserError(f"--dataset {source}: no rows")
    if pictures := {"image", "images"} & set(rows[0]):
        raise UserError(f"--dataset {source}: has {pictures.pop()}, and prompts with images are not rehearsed")
    if "prompt" not in rows[0]:
        raise UserError(f'--dataset {source}: no column "prompt"; it has {", ".join(sorted(rows[0]))}')
    if len(rows) < count:
        return rows, len(rows)
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            return rows, sum(1 for line in lines if line.strip())
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return rows, pyarrow.parquet.ParquetFile(path).metadata.num_rows
    return rows, None


def samples_of(source: str | None) -> list[dict]:
    if source is None:
        return []
    path = Path(source)
    return sc.read_completions([path / "completions.jsonl" if path.is_dir() else path])


def text_of(node) -> str:
    """All texts of a prompt or completion."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return "\n".join(map(text_of, node))
    return text_of(list(node.values())) if isinstance(node, dict) else "" if node is None else str(node)


def said(completion) -> str:
    """What a model wrote: a text, or what its messages hold."""
    if isinstance(completion, list):
        return "".join(text_of(message.get("content")) for message in completion if isinstance(message, dict))
    return text_of(completion)


def model_folder(named: str | None) -> tuple[dict | None, str | None, str]:
    """A model's config.json, what its tokenizer can be loaded from, and where both were looked for."""
    if not named:
        return None, None, "no model is named"
    path = Path(named)
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8")), None, named
    if path.is_dir():
        file = path / "config.json"
        has_words = any((path / name).exists() for name in ("tokenizer.json", "tokenizer_config.json"))
        config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        return config, named if has_words else None, named
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", named):
        return None, None, f"{named}: no such folder here"
    from huggingface_hub import hf_hub_download

    for offline in (True, False):
        try:
            file = hf_hub_download(named, "config.json", local_files_only=offline, etag_timeout=5)
            return json.loads(Path(file).read_text(encoding="utf-8")), named, named
        except Exception:  # the hub fails in many ways, and a missing model is said
            continue
    return None, None, f"{named}: no such folder here, and the hub did not give it"


def given_to_trainer(settings) -> list[str]:
    """Arguments of a script's GRPOTrainer that have no setting and so are left out here."""
    if settings.kind != "python":
        return []
    left_out = ("tools", "environment_factory", "rollout_func", "callbacks", "optimizers", "reward_processing_classes",
                "processing_class", "eval_dataset")  # fmt: skip
    call = preflight_config.trainer_of(settings)
    return [keyword.arg for keyword in call.keywords if keyword.arg in left_out] if call else []


def build_config(settings, change: dict, work: Path):
    """GRPOConfig and LoRA settings of the run: a YAML through TRL's own parser, a script by its known values."""
    from trl import DatasetMixtureConfig, GRPOConfig, ModelConfig, TrlParser, get_peft_config
    from trl.scripts.grpo import GRPOScriptArguments

    values = {**change["values"], "output_dir": str(work / "out")}
    if settings.kind == "yaml":
        import yaml

        path = work / "config.yaml"
        table = preflight_config.arguments()
        said = {
            name: value for name, value in {**yaml.safe_load(settings.text), **values}.items()
            if table.get(name, {}).get("class") != "launch"  # `trl grpo` hands these on to accelerate
        }  # fmt: skip
        path.write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")
        parser = TrlParser((GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig))
        complaint = io.StringIO()
        try:
            with contextlib.redirect_stderr(complaint):
                _, training, model, _ = parser.parse_args_and_config(args=["--config", str(path)])
        except SystemExit:
            raise ValueError(complaint.getvalue().strip().rpartition("\n")[2] or "TRL's parser ended") from None
        attention, adapter = model.attn_implementation, get_peft_config(model)
    else:
        known = {**settings.values, **values}
        table = preflight_config.arguments()
        of_model = {name for name, entry in table.items() if entry["class"] != "GRPOConfig"}
        training = GRPOConfig(**{name: value for name, value in known.items() if name not in of_model})
        attention, adapter = known.get("attn_implementation"), None
        if known.get("use_peft"):
            from peft import LoraConfig

            parts = {"lora_r": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout",
                     "lora_target_modules": "target_modules", "lora_modules_to_save": "modules_to_save"}  # fmt: skip
            given = {to: known[name] for name, to in parts.items() if name in known}
            adapter = LoraConfig(task_type="CAUSAL_LM", **given)
    training.model_init_kwargs = {"dtype": "float32"} | ({"attn_implementation": attention} if attention else {})
    return training, adapter


def trainer_class(record: Record, samples: list[dict], tokenizer):
    """GRPOTrainer that says what it does and takes half of each group from the samples."""
    import torch
    import trl.trainer.utils
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    by_prompt: dict[str, list[dict]] = {}
    for sample in samples:
        by_prompt.setdefault(sc.prompt_key(sample.get("prompt")), []).append(sample)
    turn: dict[str, int] = {}
    altered: set[str] = set()  # texts that the tokenizer does not give back

    def take(prompt) -> tuple[list[int], bool]:
        """Tokens of the next sample for this prompt, or of any, and whether it was this prompt's."""
        key = sc.prompt_key(prompt)
        own = by_prompt.get(key)
        if own is None:
            key, own = "", samples
        sample = own[turn.get(key, 0) % len(own)]
        turn[key] = turn.get(key, 0) + 1
        text = said(sample["completion"])
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) <= FORCED_TOKENS and tokenizer.decode(ids, skip_special_tokens=True).split() != text.split():
            altered.add(text)
        if len(ids) < FORCED_TOKENS and sample.get("finish") != "length" and tokenizer.eos_token_id is not None:
            return [*ids, tokenizer.eos_token_id], bool(key)
        return ids[:FORCED_TOKENS] or [tokenizer.pad_token_id], bool(key)

    # Off a GPU, TRL scores every position, prompts too (trl 1.16.0, trainer/utils.py, add_fused_lm_head): minutes with
    # a real vocabulary. As on a GPU, only completions are scored here; the kernels keep to torch.
    if hasattr(trl.trainer.utils, "_use_triton"):
        trl.trainer.utils._use_triton = lambda device: True

    class Rehearsal(GRPOTrainer):
        def _generate(self, prompts):
            self.rehearsed = {"prompts": prompts, "forced": set(), "others": 0, "long": 0, "altered": 0}
            with record.phase("generate"):
                prompt_ids, completion_ids, *rest = super()._generate(prompts)
            self.rehearsed["ids"] = completion_ids
            most = int(max(8, min(TRAINED_TOKENS, LOGITS / len(tokenizer) / len(prompts))))
            if any(len(ids) > most for ids in completion_ids):
                record.say("trained", tokens=most)
            # The last token stays: it says whether a completion was truncated.
            return (
                prompt_ids,
                [ids if len(ids) <= most else [*ids[: most - 1], ids[-1]] for ids in completion_ids],
                *rest,
            )

        def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, **more):
            prompts, taken = self.rehearsed["prompts"], {}
            if samples:
                taken = {i: take(prompts[i]) for i in range(len(prompt_ids)) if i % num_generations % 2 == 0}
            todo = [i for i in range(len(prompt_ids)) if i not in taken or multimodal_fields]
            made, _ = super()._generate_single_turn(
                [prompt_ids[i] for i in todo], images, multimodal_fields, num_generations, **more
            )
            ids = dict(zip(todo, made)) | {i: tokens for i, (tokens, _) in taken.items()}
            self.rehearsed |= {
                "forced": set(taken), "others": sum(not own for _, own in taken.values()),
                "long": sum(len(tokens) > self.max_completion_length for tokens, _ in taken.values()),
                "altered": len(altered),
            }  # fmt: skip
            return [ids[i] for i in range(len(prompt_ids))], None

        def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
            training = self.model.training
            with record.phase("rewards"):
                found = super()._calculate_rewards(inputs, prompts, completions, self.rehearsed["ids"])
            totals = (found * self.reward_weights.to(found.device)).nansum(dim=1)
            totals[found.isnan().all(dim=1)] = torch.nan
            size = self.num_generations if training else self.num_generations_eval
            record.say(
                "rewards", eval=not training, step=self.state.global_step, size=size, names=self.reward_func_names,
                rewards=found.tolist(), totals=totals.tolist(), forced=sorted(self.rehearsed["forced"]),
                **{name: self.rehearsed[name] for name in ("others", "long", "altered")},
                starts=[said(p[-1:] if isinstance(p, list) else p)[:80] for p in prompts[::size]],
            )  # fmt: skip
            return found

        def training_step(self, *args, **kwargs):
            with record.phase("forward and backward"):
                return super().training_step(*args, **kwargs)

        def log(self, logs, *args, **kwargs):
            super().log(logs, *args, **kwargs)
            record.say("logged", step=self.state.global_step, metrics=logs)

        def evaluate(self, *args, **kwargs):
            with record.phase("evaluation"):
                return super().evaluate(*args, **kwargs)

        def _save_checkpoint(self, *args, **kwargs):
            with record.phase("save"):
                return super()._save_checkpoint(*args, **kwargs)

    class Steps(TrainerCallback):
        def on_pre_optimizer_step(self, *args, **kwargs):
            record.enter("optimizer")

        def on_optimizer_step(self, *args, **kwargs):
            record.leave()

        def on_step_end(self, args, state, control, **kwargs):
            record.say("step", step=state.global_step)

    return Rehearsal, Steps


def rehearse(job: dict, record: Record) -> None:
    """All phases of the rehearsal; what is wrong is raised."""
    work = Path(job["work"])
    settings = preflight_config.read(Path(job["config"]))
    change = replaced(settings, job["world"], job["steps"])
    record.say("plan", steps=change["steps"], switched=change["switched"], unknown=change["unknown"],
               batches=change["batches"])  # fmt: skip
    not_rehearsed = []

    def also(text):
        not_rehearsed.append(text)
        record.say("not rehearsed", what=text)

    if not job["rewards"] and not settings.rewards:
        local = f" ({', '.join(settings.local_rewards)} of the script are reached only by running it)"
        raise UserError(
            f"{job['config']}: no rewards with an import path{local if settings.local_rewards else ''}; give --rewards"
        )
    samples = samples_of(job["completions"])
    for name in given_to_trainer(settings):
        also(f"{name}=... of GRPOTrainer in {settings.path.name}: an object that only running the script would make")
    if settings.kind == "python":
        sys.path.insert(0, os.path.abspath(settings.path.parent))  # as `python train.py` does
    functions = load_functions(job, settings, record)  # before anything that takes long
    with record.phase("load"):
        from datasets import Dataset
        from transformers import AutoTokenizer

        small = change["batches"]
        rollouts = max(2, math.ceil(change["steps"] / small["steps_per_rollout"])) if small else 2
        rows, total = rows_of(job["dataset"], (small["groups"] if small else 8) * rollouts)
        record.say("rows", taken=len(rows), total=total, needed=small["real_groups"] if small else None)
        sc.check_prompts(rows, job["dataset"])
    named = job["model"] or settings.values.get("model_name_or_path")
    with record.phase("load"):
        config, words, where = model_folder(named)
        tokenizer = None
        if words:
            try:
                tokenizer = AutoTokenizer.from_pretrained(
                    words, padding_side="left", truncation_side="left",  # as GRPOTrainer loads it
                    trust_remote_code=settings.values.get("trust_remote_code") is True,
                )  # fmt: skip
            except Exception as error:  # tokenizers fail in many ways
                if Path(words).is_dir():
                    raise
                also(f"the tokenizer of {words} could not be loaded ({type(error).__name__}: {str(error)[:80]})")
        stands_in = tokenizer is None
        if stands_in:
            tokenizer = stand_in_tokenizer([*map(text_of, rows), *map(text_of, (s["completion"] for s in samples)),
                                            *SPECIAL, "<system><user><assistant><tool>"])  # fmt: skip
            also(f"tokenizer: stand-in, template not rehearsed ({where if not config else f'{where} has none'})")
        elif isinstance(config, dict):
            vocabulary = (config.get("text_config") or config).get("vocab_size")
            if isinstance(vocabulary, int) and len(tokenizer) > vocabulary:
                record.say("vocabulary", tokenizer=len(tokenizer), model=vocabulary)
        kind, plain = (config or {}).get("model_type"), False
        try:
            if not config:
                raise ValueError("no config.json is at hand")
            model = tiny_model(config, tokenizer, seed=0)
        except ValueError as error:
            plain = True
            also(f"model: a plain decoder stands in for {kind or named or 'yours'} ({error})")
            model = tiny_model(PLAIN, tokenizer, seed=0)
        if not plain and config.get("text_config"):
            also("the parts of the model beside its text decoder")
        size = sum(p.numel() for p in model.parameters())
        also(f"your weights: {size:,} random parameters stand in, so lengths, rewards of what is generated, losses and"
             " clipping say nothing about your model")  # fmt: skip
        record.say(
            "model", model_type=model.config.model_type, of=kind, stand_in=plain, parameters=size,
            layers=model.config.num_hidden_layers, vocabulary=len(tokenizer),
            tokenizer="stand-in" if stands_in else str(words), template=not stands_in and bool(tokenizer.chat_template),
        )  # fmt: skip
        model.save_pretrained(work / "model")
        tokenizer.save_pretrained(work / "model")
        if words and (Path(words) / "generation_config.json").is_file():  # more tokens may end a completion there
            shutil.copy(Path(words) / "generation_config.json", work / "model")
    if "use_peft" in settings.unread:
        also(f"LoRA: `{settings.unread['use_peft']}` is known only when the script runs, so the whole model is trained")
    with record.phase("construct"):
        training, adapter = build_config(settings, change, work)
        if adapter is not None and plain and adapter.target_modules != "all-linear":
            also(f"LoRA's target_modules {sorted(adapter.target_modules or [])}: all-linear on the plain decoder")
            adapter.target_modules = "all-linear"
    if settings.values.get("reward_model_name_or_path") and not job["rewards"]:
        functions.insert(0, ("stand_in_reward_model", stand_in_reward_model))
    if not samples:
        also("realistic text: all completions came from the random model (--completions forces yours)")
    else:
        also(f"max_completion_length on completions of yours: they stay whole, up to {FORCED_TOKENS} tokens")
    with record.phase("build trainer"):
        class_, steps = trainer_class(record, samples, tokenizer)
        data = Dataset.from_list(rows)
        evaluated = training.eval_strategy != "no"
        group = training.num_generations_eval or training.num_generations
        prompts = range(max(1, training.per_device_eval_batch_size // group))
        trainer = class_(
            model=str(work / "model"), processing_class=tokenizer, args=training, peft_config=adapter,
            train_dataset=data, eval_dataset=data.select(prompts) if evaluated else None, callbacks=[steps],
            reward_funcs=[watched(reward, name, record) for name, reward in functions],
        )  # fmt: skip
        longest = trainer.generation_config.max_new_tokens
        if longest > GENERATED_TOKENS:
            also(f"completions of {longest} tokens: generated ones end at {GENERATED_TOKENS}")
            trainer.generation_config.max_new_tokens = GENERATED_TOKENS
    with record.phase("step"):
        trainer.train()
    with record.phase("save"):
        trainer.save_model(training.output_dir)
    found = sorted((work / "out" / "completions").glob("*.parquet"))
    if found:
        import pyarrow.parquet

        record.say("parquet", file=str(found[-1]), columns=pyarrow.parquet.read_schema(found[-1]).names,
                   rows=pyarrow.parquet.ParquetFile(found[-1]).metadata.num_rows, files=len(found))  # fmt: skip


def work() -> None:
    """The child: a job on stdin, one line for each event in the job's file; what is printed goes to the log."""
    with contextlib.suppress(Exception):  # Linux: end with the parent, whatever ends that
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    job = json.loads(sys.stdin.read())
    preflight_config.offline_without_hub()
    attempt(job)
    sys.stdout.flush()
    sys.stderr.flush()
    end_children(os.getpid())  # while they can still be found; those of a reward may outlive it
    os._exit(0)  # threads that a reward left behind do not hold it


def attempt(job: dict) -> None:
    record = Record(job["events"])
    try:
        rehearse(job, record)
        record.say("end")
    except (UserError, ConfigError) as error:
        record.say("usage", message=str(error))
    except BaseException as error:  # sys.exit of a reward too
        where = record.failed_in or record.stack[-1]
        if where == "rewards":
            where = f"reward {record.last_reward}"
        if where in ("forward and backward", "optimizer", "other"):
            where = "step"
        traceback.print_exc()
        record.say("exception", type=type(error).__name__, message=" ".join(str(error).split())[:500], where=where,
                   frame=user_frame(error))  # fmt: skip
    record._turn()
    record.say("seconds", seconds=record.seconds)
    os.close(record.file)


# ---- the parent: a budget, and the report from what the child wrote


def end_children(pid: int) -> None:
    """Kill whatever a process started, also what left its group."""
    with contextlib.suppress(Exception):  # psutil comes with accelerate; a process may end meanwhile
        import psutil

        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


def end_with_children(process: subprocess.Popen) -> None:
    if process.poll() is None:
        end_children(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def watch(job: dict, budget_s: float) -> tuple[list[dict], str, float]:
    """Run the child; its events, how it ended ("end", "budget" or "status N"), and the seconds that it took."""
    drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    environment = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith("ACCELERATE_")}
    quiet = {
        "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        # glibc would hand the memory of each block of logits back, and ask for it again
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 33), "MALLOC_TOP_PAD_": str(1 << 26),
    }  # fmt: skip
    environment = {**quiet, **environment}
    log = Path(job["work"]) / "rehearsal.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "_work"], stdin=subprocess.PIPE, stdout=output, stderr=output,
            env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            with contextlib.suppress(OSError):
                process.stdin.write(json.dumps(job).encode())
                process.stdin.close()
            process.wait(timeout=budget_s)
            ended = f"status {process.returncode}"
        except subprocess.TimeoutExpired:
            ended = "budget"
        finally:
            end_with_children(process)
    seconds = time.monotonic() - started
    events = []
    with contextlib.suppress(OSError):
        for line in Path(job["events"]).read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):  # a line that a kill cut
                events.append(json.loads(line))
    if ended == "status 0" and any(one["event"] in ("end", "exception", "usage") for one in events):
        ended = "end"
    return events, ended, seconds


def plain_numbers(node):
    """NaN and infinities as text, because JSON has none."""
    if isinstance(node, float) and not math.isfinite(node):
        return str(node)
    if isinstance(node, dict):
        return {key: plain_numbers(value) for key, value in node.items()}
    return [plain_numbers(value) for value in node] if isinstance(node, list) else node


def groups_of(events: list[dict]) -> list[dict]:
    found = []
    for number, one in enumerate(event for event in events if event["event"] == "rewards"):
        size = one["size"]
        for start in range(0, len(one["totals"]), size):
            totals, rows = one["totals"][start : start + size], one["rewards"][start : start + size]
            paid = [total for total in totals if not math.isnan(total)]
            found.append({
                "generation": number, "step": one["step"], "eval": one["eval"], "prompt": one["starts"][start // size],
                "rewards": {name: [row[i] for row in rows] for i, name in enumerate(one["names"])}, "totals": totals,
                "dead": len(set(paid)) < 2, "forced": sum(start <= i < start + size for i in one["forced"]),
            })  # fmt: skip
    return found


def rewards_of(events: list[dict], share: int | None) -> dict[str, dict]:
    """Per reward what it received, gave and cost; `share` is the completions that one process scores in the run."""
    found = {}
    for one in events:
        if one["event"] == "columns":
            found[one["reward"]] = {
                "received": one["received"],
                "not_received": [name for name, needed in one["missing"].items() if needed],
                "optional_not_received": [name for name, needed in one["missing"].items() if not needed],
            }  # fmt: skip
    for name, about in found.items():
        calls = [one for one in events if one["event"] == "called" and one["reward"] == name]
        values = [value for one in calls for value in one["values"] or []]
        numbers = [value for value in values if value is not None and not math.isnan(value)]
        each = [one["seconds"] / max(1, one["completions"]) for one in calls]
        rate = statistics.mean(each[1:] or each) if each else None  # the first call may load things
        about |= {
            "calls": len(calls), "scored": len(values), "none": len(values) - len(numbers),
            "not_finite": sum(math.isinf(value) for value in numbers),
            "constant": numbers[0] if numbers and len(set(numbers)) == 1 else None,
            "mean": statistics.mean(numbers) if numbers and all(map(math.isfinite, numbers)) else None,
            "raised": any(one["event"] == "raised" and one["reward"] == name for one in events),
            "seconds": sum(one["seconds"] for one in calls), "seconds_per_completion": rate,
            "projected_seconds": rate * share if rate is not None and share else None,
        }  # fmt: skip
    return found


PHASES = ("load", "generate", "rewards", "forward_backward", "optimizer", "save", "evaluation")
PHASE_OF = {"forward and backward": "forward_backward", "construct": "load", "build trainer": "load"}


def report_of(events: list[dict], ended: str, job: dict, seconds: float, budget_s: float) -> dict:
    """The report, from whatever the child wrote before its end."""
    first = {one["event"]: one for one in reversed(events)}
    plan = first.get("plan", {"steps": job["steps"], "switched": [], "unknown": [], "batches": None})
    small = plan["batches"]
    share = small["real_batch"] // job["world"] if small else None
    groups, rewards = groups_of(events), rewards_of(events, share)
    trained = [group for group in groups if not group["eval"]]
    by_event: dict[str, list[dict]] = {}
    for one in events:
        by_event.setdefault(one["event"], []).append({key: value for key, value in one.items() if key != "event"})
    logged = by_event.get("logged", [])
    steps = [{"step": one["step"], **one["metrics"]} for one in logged if "grad_norm" in one["metrics"]]
    evaluations = [one["metrics"] for one in logged if "eval_reward" in one["metrics"]]
    done = max((one["step"] for one in by_event.get("step", [])), default=0)
    doing = by_event["doing"][-1]["what"] if "doing" in by_event else "starting Python"
    exceptions = by_event.get("exception", [])
    clocks = [one["seconds"] for one in events if one["event"] in ("doing", "seconds") and "seconds" in one]
    phases, faults = clocks[-1] if clocks else {}, []

    def fault(kind, evidence, fix):
        faults.append({"kind": kind, "evidence": evidence, "fix": fix})

    for one in exceptions:
        place = f" at {one['frame']}" if one["frame"] else ""
        kind = "reward_raised" if one["where"].startswith("reward ") else "exception"
        fault(kind, f"{one['where']}: {one['type']}: {one['message']}{place}", "mend it; the run would end there too")
    if ended == "budget":
        fault("over_budget", f"not done after {budget_s:g} s; killed while doing: {doing}",
              "mend what hangs, or allow more with --budget-s")  # fmt: skip
    elif ended != "end":
        fault("process_died", f"the process ended ({ended}) while doing: {doing}", "it would end the trainer as well")
    for name, about in rewards.items():
        if about["scored"] and about["none"] == about["scored"]:
            fault("reward_only_none", f"{name} gave None (or NaN) for all {about['scored']} completions",
                  "TRL leaves it out in silence; make it score, or drop it")  # fmt: skip
        if about["not_finite"]:
            fault("reward_not_finite", f"{name} gave infinity {about['not_finite']} times", "bound it")
    forced = sum(group["forced"] for group in trained)
    if trained and all(group["dead"] for group in trained):
        if forced:
            fault("all_groups_dead", f"in all {len(trained)} groups every completion has the same total reward",
                  "no advantage, so no gradient: rewards must tell these completions apart")  # fmt: skip
        else:
            fault("no_signal", f"all {len(trained)} groups are dead, but only a random model wrote in them",
                  "give --completions sampled from your own model")  # fmt: skip
    living = {group["generation"] for group in trained if not group["dead"]}
    when = {group["generation"]: group["step"] for group in trained}
    for one in steps:
        norm = one["grad_norm"]
        if norm is None or not math.isfinite(norm):
            fault("grad_norm", f"step {one['step']}: grad_norm is {norm}", "a reward or a loss setting gives no number")
        elif norm == 0:
            begun = [number for number, step in when.items() if step < one["step"]]
            if begun and max(begun) in living:
                fault("grad_norm", f"step {one['step']}: grad_norm is 0 though groups differ in reward",
                      "look for what removes every token: masks, clipping, weights of 0")  # fmt: skip
    if done < plan["steps"] and not faults and "usage" not in first:
        fault("steps_missing" if done else "no_step", f"{done} of {plan['steps']} steps were done",
              "the dataset gives too few prompts for one generation, or training stopped early")  # fmt: skip
    rows = first.get("rows")
    if rows and rows["total"] is not None and rows["needed"] and rows["total"] < rows["needed"]:
        fault("too_few_rows", f"one generation takes {rows['needed']} prompts, the dataset has {rows['total']}",
              "the run would end without a step: smaller batches, or more rows")  # fmt: skip
    if "vocabulary" in first:
        one = first["vocabulary"]
        fault("vocabulary", f"the tokenizer has {one['tokenizer']} tokens, the model's config.json {one['model']}",
              "resize the embeddings, or take the model's own tokenizer")  # fmt: skip
    spent = dict.fromkeys(PHASES, 0.0)
    for name, part in phases.items():
        known = "rewards" if name.startswith("reward") else PHASE_OF.get(name, name)
        if known in spent:
            spent[known] += part
    rest = max(0.0, seconds - sum(spent.values()))
    at = "rewards" if doing.startswith("reward") else PHASE_OF.get(doing, doing)
    if ended == "end" or at not in spent:
        spent["other"] = rest
    else:  # what was cut short had no chance to be counted
        spent[at] += rest
        spent["other"] = 0.0
    parquet = by_event.get("parquet", [None])[0]
    parquet = {**parquet, "kept": job["keep"], "file": parquet["file"] if job["keep"] else None} if parquet else None
    rollouts = by_event.get("rewards", [])
    not_rehearsed = [one["what"] for one in by_event.get("not rehearsed", [])]
    if altered := max((one["altered"] for one in rollouts), default=0):
        not_rehearsed.append(f"{altered} completions of yours as they are: encoded and decoded they are other texts")
    if "trained" in by_event:
        tokens = min(one["tokens"] for one in by_event["trained"])
        not_rehearsed.append(f"the loss beyond the first {tokens} tokens of a completion; rewards read all of them")
    return {
        "schema_version": SCHEMA_VERSION, "verdict": "fail" if faults or ended != "end" else "pass", "faults": faults,
        "steps": {"asked": plan["steps"], "done": done, "generations": len({g["generation"] for g in trained}),
                  "optimizer_steps_per_generation": small["steps_per_rollout"] if small else None},
        "exceptions": exceptions, "metrics": steps, "eval_metrics": evaluations, "groups": groups,
        "dead_share": sum(g["dead"] for g in trained) / len(trained) if trained else None,
        "forced": {"completions": forced, "of": sum(len(g["totals"]) for g in trained),
                   "of_other_prompts": sum(one["others"] for one in rollouts if not one["eval"]),
                   "altered_by_the_tokenizer": max((one["altered"] for one in rollouts), default=0),
                   "longer_than_the_run_allows": sum(one["long"] for one in rollouts if not one["eval"])},
        "rewards": rewards, "real_completions_per_process": share,
        "projected_reward_seconds": sum(r["projected_seconds"] or 0 for r in rewards.values()) if share else None,
        "seconds": {"total": seconds, **spent, "rewards_by_function": {n: r["seconds"] for n, r in rewards.items()}},
        "parquet": parquet, "model": by_event.get("model", [None])[0], "rows": by_event.get("rows", [None])[0],
        "switched": plan["switched"], "unknown": plan["unknown"],
        "not_rehearsed": not_rehearsed,
        "kept": job["work"] if job["keep"] else None,
    }  # fmt: skip


def show(report: dict) -> None:
    steps = report["steps"]
    print(f"{report['verdict']}: {steps['done']} of {steps['asked']} steps, {steps['generations']} generations, "
          f"{report['seconds']['total']:.0f} s")  # fmt: skip
    for one in report["faults"]:
        print(f"  {one['kind']}: {one['evidence']}\n    -> {one['fix']}")
    for one in report["metrics"]:
        shown = {name: one.get(name) for name in ("reward", "reward_std", "frac_reward_zero_std", "grad_norm", "loss")}
        print(f"  step {one['step']}: " + ", ".join(f"{k} {v:.4g}" for k, v in shown.items() if isinstance(v, float)))
    if report["groups"]:
        forced = report["forced"]
        trained = sum(not group["eval"] for group in report["groups"])
        print(f"  groups: {trained}, dead {report['dead_share'] or 0:.0%}; {forced['completions']} of {forced['of']}"
              f" completions are yours, {forced['of_other_prompts']} of them of other prompts,"
              f" {forced['longer_than_the_run_allows']} longer than max_completion_length")  # fmt: skip
    for name, one in report["rewards"].items():
        notes = [f"mean {one['mean']:.3g}"] if one["mean"] is not None else []
        notes += [f"constant {one['constant']:g}"] if one["constant"] is not None else []
        notes += [f"None {one['none']} of {one['scored']}"] if one["none"] else []
        notes += [f"needs {', '.join(one['not_received'])}, no such column"] if one["not_received"] else []
        if one["optional_not_received"]:
            notes.append(f"would take {', '.join(one['optional_not_received'])}, no such column")
        if one["seconds_per_completion"] is not None:
            notes.append(f"{1000 * one['seconds_per_completion']:.2g} ms each")
        print(f"  {name}: {'; '.join(notes) or 'never returned'}; columns {', '.join(one['received']) or 'none'}")
    if report["projected_reward_seconds"] is not None:
        print(f"  rewards of one real generation ({report['real_completions_per_process']} completions a process, one"
              f" process, this machine): {report['projected_reward_seconds']:.2g} s")  # fmt: skip
    parts = {k: v for k, v in report["seconds"].items() if k != "total" and isinstance(v, float)}
    print("  seconds: " + ", ".join(f"{name} {part:.1f}" for name, part in parts.items()))
    if parquet := report["parquet"]:
        place = parquet["file"] if parquet["kept"] else "written and removed (--keep keeps it)"
        print(f"  parquet: {place}: {', '.join(parquet['columns'])}")
    print("not rehearsed:")
    for one in report["switched"]:
        print(f"  {one['setting']}: {json.dumps(one['from'], default=str)} -> {json.dumps(one['to'])} ({one['why']})")
    for one in report["unknown"]:
        print(f"  {one['setting']}: `{one['text']}` is known only when the script runs; left at {one['left_at']}")
    for one in report["not_rehearsed"]:
        print(f"  {one}")
    if report["kept"]:
        print(f"kept in {report['kept']} (rehearsal.log holds what was printed)")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="the run's YAML, or its script (never run)")
    parser.add_argument("--dataset", required=True, metavar="FILE", help=".jsonl, .json, .parquet, .csv, or a hub id")
    parser.add_argument(
        "--rewards", nargs="+", default=[], metavar="PATH", help="import paths, or names of rewards.py (the config's)"
    )
    parser.add_argument("--model", metavar="FOLDER", help="folder, config.json or hub id (the config's)")
    parser.add_argument("--completions", metavar="FILE", help="sampled from your model: .jsonl or inspection folder")
    parser.add_argument("--steps", type=int, metavar="N", help=f"optimizer steps (2, up to {MOST_STEPS} off-policy)")
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, metavar="S", help=f"for everything ({BUDGET_S})")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="of the run, each with its own batch (1)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep log, checkpoint and parquet in this new folder")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    return parser


def run(args) -> int:
    if args.steps is not None and args.steps < 1:
        raise UserError("--steps must be 1 or more")
    if not 0 < args.budget_s < math.inf:
        raise UserError("--budget-s must be above 0")
    if args.gpus < 1:
        raise UserError("--gpus must be 1 or more")
    preflight_config.read(Path(args.config))
    if args.model and args.model.endswith(".json") and not Path(args.model).is_file():
        raise UserError(f"--model {args.model}: no such file")
    if args.keep and args.keep.exists() and (not args.keep.is_dir() or any(args.keep.iterdir())):
        raise UserError(f"--keep {args.keep}: is there already; name a new folder")
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="rehearsal-"))
    job = {
        "config": args.config, "dataset": args.dataset, "rewards": args.rewards, "model": args.model,
        "completions": args.completions, "steps": args.steps, "world": args.gpus, "keep": bool(args.keep),
        "work": str(folder), "events": str(folder / "events.jsonl"),
    }  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child is ended
    try:
        events, ended, seconds = watch(job, args.budget_s)
        usage = next((one["message"] for one in events if one["event"] == "usage"), None)
        if usage:
            raise UserError(usage)
        report = report_of(events, ended, job, seconds, args.budget_s)
        if any(one["kind"] == "process_died" for one in report["faults"]):
            tail = (folder / "rehearsal.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            print("the end of the log:", *tail, sep="\n  ", file=sys.stderr)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps(plain_numbers(report), indent=1, default=str))
    else:
        show(report)
    return 0 if report["verdict"] == "pass" else 1


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        return run(args)
    except (UserError, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    if sys.argv[1:] == ["_work"]:
        work()
    sys.exit(main())
