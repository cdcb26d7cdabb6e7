"""preflight_checks.py and the writer of preflight_config.py, against the installed TRL.

Each check has inputs that must fail and inputs that must pass, in one table; `holes` finds a check without both, one
that passes everything, and one that fails everything. Where TRL itself refuses or takes something, TRL is asked.
"""

import ast
import contextlib
import dataclasses
import math
import random
import re
import warnings
from pathlib import Path

import numpy as np
import preflight_checks as checks
import preflight_config as config
import pytest
import tiny_model
import trl
import yaml

DATA = Path(__file__).parent / "data/recipes"
GROUPS = ("arguments", "batch", "generation", "learning")
CPU = {"output_dir": "out", "use_cpu": True, "bf16": False, "report_to": "none"}
VLLM = {"use_vllm": True, "vllm_max_model_length": 4096}
LORA = {"use_peft": True, "lora_dropout": 0.0, "lora_target_modules": "all-linear", "learning_rate": 2e-5}
OFF_POLICY = {"gradient_accumulation_steps": 2, "steps_per_generation": 8}
SCRIPT = "from trl import GRPOConfig, GRPOTrainer\n"
TRAINER = "t = GRPOTrainer('m', [f], args, peft_config=c)\n"
ROWS = {"datasets": [{"path": "json"}]}
LLAMA = {"cache": {"model_config": {"model_type": "llama"}}}
GPT, MOE = {"resid_pdrop": 0.1, "n_layer": 2}, {"output_router_logits": False, "attention_dropout": 0.0}


def run_of(given, **more) -> checks.Run:
    """A run from a YAML's settings (a dict), a YAML's text, or a script's text."""
    if isinstance(given, dict):
        given = yaml.safe_dump(given or {"seed": 1}) if given else "seed: 1\n"
    path = Path("run.py" if "GRPOConfig" in given else "run.yaml")
    settings = (config.read_script if path.suffix == ".py" else config.read_yaml)(path, given)
    settings.text = given
    return checks.Run(settings, **more)


@contextlib.contextmanager
def world_of(size: int):
    """GRPOConfig as it is built by one of so many processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trl.GRPOConfig, "world_size", property(lambda self: size))
        yield


def built(values: dict, world: int = 1) -> trl.GRPOConfig:
    with warnings.catch_warnings(), world_of(world):
        warnings.simplefilter("ignore")
        return trl.GRPOConfig(**{**CPU, **values})


def refusal(values: dict, world: int = 1) -> str | None:
    try:
        built(values, world)
    except Exception as error:  # whatever TRL raises, the run is dead
        return f"{type(error).__name__}: {error}"
    return None


# ---- the table: id -> (severity, inputs that fail, inputs that pass)
# An input is a dict (as a YAML), a text, or a pair of one of these and more of Run.


def script(arguments: str, rest: str = "") -> str:
    return f"{SCRIPT}args = GRPOConfig({arguments})\n{rest}"


CASES = {
    "unknown-argument": ("dead", [{"max_prompt_length": 512}, {"warmup_ratio": 0.1}, {"learning_rat": 1e-6},
                                  {"vllm_device": "auto"}, script("lora_r=8"), script("model_name_or_path='x'"),
                                  script("torch_dtype='bfloat16'"), script("**{'max_prompt_length': 1}"),
                                  {"system_prompt": "think"}, {"lr": 1e-6}, script("num_processes=2"), {"multi_gpu": True}],
                         [{"lora_r": 8, "learning_rate": 1e-6}, script("beta=0.1", "c = LoraConfig(r=8)"), {"env": {"A": "b"}}, {"num_processes": 4, "accelerate_config": "zero2"}]),
    "old-argument": ("tell", [{"vllm_importance_sampling_cap": 2.0}, {"use_transformers_paged": True},
                              {"scale_rewards": True}, {"gradient_checkpointing": True}, {"use_liger_kernel": True}],
                     [{}, {"scale_rewards": "group"}, {"activation_checkpointing": True}]),
    "wrong-type": ("dead", [{"num_generations": "eight"}, {"eval_strategy": False}, {"beta": [1]}, {"seed": None},
                            script("num_generations='8'"), script("report_to=3"), script("learning_rate='1e-6'"), {"generation_kwargs": "top_k"},
                            {"model_init_kwargs": "{oops"}, {"learning_rate": math.nan}, {"seed": 1.0}, {"save_total_limit": 1.0}],
                   [{"learning_rate": "1e-6", "num_generations": "8"}, {"scale_rewards": False}, script("learning_rate=1"),
                    script("scale_rewards=True"), script("beta=b()"), script("", "c = LoraConfig(target_modules='all-linear')")]),
    "unknown-choice": ("dead", [{"loss_type": "gpo"}, {"lr_scheduler_type": "cosin"}, {"optim": "adam"}, {"dtype": "bf16"},
                                {"scale_rewards": "std"}, {"save_strategy": "never"}, {**VLLM, "vllm_mode": "colocated"}, {"train_sampling_strategy": "length"},
                                {"vllm_mode": "colocated"}],
                       [{}, {"loss_type": "grpo", "optim": "adamw_8bit"}, {"scale_rewards": True}]),
    "positive-counts": ("dead", [{"num_iterations": 0}, {"steps_per_generation": 0}, {"max_completion_length": 0},
                                 {"per_device_train_batch_size": 0}, script("num_generations=None"), {"logging_steps": 0},
                                 {"save_steps": 2.5}, {"gradient_accumulation_steps": -1}, {"generation_batch_size": 0}],
                        [{}, {"logging_steps": 0.1}, {"logging_steps": 0, "logging_strategy": "no"}]),
    "group-of-one": ("dead", [{"num_generations": 1}], [{"num_generations": 2}]),
    "batch-given-twice": ("dead", [{"generation_batch_size": 8, "steps_per_generation": 1}],
                          [{"generation_batch_size": 8}, {"steps_per_generation": 1}]),
    "auto-batch-size": ("dead", [{"auto_find_batch_size": True}], [{"auto_find_batch_size": False}]),
    "two-precisions": ("dead", [{"fp16": True, "bf16": True}, {"fp16_full_eval": True, "bf16_full_eval": True}],
                       [{"fp16": True}, {"bf16": True}]),
    "weight-bounds": ("dead", [{**VLLM, "vllm_importance_sampling_clip_max": 0.5}, {**VLLM, "vllm_importance_sampling_clip_min": 1.1}, {"vllm_importance_sampling_clip_min": 3.0}, {"vllm_importance_sampling_clip_min": 2.5, "vllm_importance_sampling_cap": 2.0},
                               {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None}],
                      [{"vllm_importance_sampling_clip_min": 0.5}, {"vllm_importance_sampling_clip_max": None},
                       {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None, "vllm_importance_sampling_correction": False}]),
    "completions-repo": ("dead", [{"log_completions_hub_repo": "me/x"}], [{"log_completions_hub_repo": "me/x", "log_completions": True}]),
    "step-settings": ("dead", [{"eval_strategy": "steps", "eval_steps": 1.5}, {"lr_scheduler_type": "greedy"}, {"warmup_steps": -1},
                               {"lr_scheduler_type": "reduce_lr_on_plateau"}, {"dataloader_prefetch_factor": 2}, {"torch_empty_cache_steps": 0}],
                      [{}, {"eval_strategy": "steps", "eval_steps": 0.5}, {"lr_scheduler_type": "greedy", "eval_strategy": "epoch"},
                       {"dataloader_prefetch_factor": 2, "dataloader_num_workers": 1}, {"warmup_steps": 0.1}]),
    "best-checkpoint": ("dead", [{"load_best_model_at_end": True}, {"save_strategy": "best"}, {"save_strategy": "best", "metric_for_best_model": "reward"}, {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 3, "save_steps": 5},
                                 {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 5},
                                 {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.2, "save_steps": 0.3}],
                        [{"load_best_model_at_end": True, "save_strategy": "best", "eval_strategy": "steps"}, {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 5, "save_steps": 10},
                         {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 0.3}, {}]),
    "parallelism": ("dead", [{"parallelism_config": {"cp_size": 2}}, script("parallelism_config=ParallelismConfig(cp_size=2)")], [{}]),
    "training-length": ("dead", [{"max_steps": 0}, {"num_train_epochs": 0}, {"dataset_streaming": True}],
                        [{}, {"max_steps": 5, "num_train_epochs": 0}, {"dataset_streaming": True, "max_steps": 5}]),
    "quantised-alone": ("dead", [{"load_in_4bit": True}, {"load_in_4bit": True, "load_in_8bit": True, **LORA}], [{"load_in_4bit": True, **LORA}, {}]),
    "eval-data": ("dead", [script("eval_strategy='steps'", "t = GRPOTrainer('m', [f], args)"), script("eval_on_start=True", "t = GRPOTrainer('m', [f], args, eval_dataset=None)"),
                           {"eval_strategy": "steps", **ROWS}, {"eval_on_start": True, **ROWS}, {"eval_strategy": "steps", "test_split_size": 4, "dataset_test_split": "dev", **ROWS}],
                  [script("eval_strategy='steps'", "t = GRPOTrainer('m', [f], args, eval_dataset=d)"), script("", "t = GRPOTrainer('m', [f], args)"),
                   script("eval_strategy='steps'", "t = GRPOTrainer('m', [f], args, d, d)"), {"eval_strategy": "steps", "test_split_size": 4, **ROWS}, {}]),
    "test-split": ("dead", [{"test_split_size": 1.5, **ROWS}, {"test_split_size": 0, **ROWS}, ({"test_split_size": 12, **ROWS}, {"total_rows": 12}),
                            ({"test_split_size": 0.97, **ROWS}, {"total_rows": 12}), {"test_split_size": 0.1, "streaming": True, **ROWS},
                            {"dataset_train_split": "training", **ROWS}, {"test_split_size": 0.1}],
                   [{}, {"test_split_size": 0.1, **ROWS}, ({"test_split_size": 11, **ROWS}, {"total_rows": 12}), {"dataset_train_split": "training"}]),
    "value-range": ("dead", [{"adam_beta1": 1.0}, {"adam_beta2": -0.1}, {"adam_epsilon": 1e6}, {"adam_epsilon": 0.01}, {"adam_epsilon": -1e-8}, {"weight_decay": -0.1},
                             {"loss_type": "sapo", "sapo_temperature_pos": 0.0}, {"beta": -0.04}, {"epsilon": -0.2}, {"epsilon_high": -5.0}, {"entropy_coef": -1.0},
                             {"lr_scheduler_type": "cosine_with_min_lr"}, {"lr_scheduler_type": "warmup_stable_decay"}, {"max_steps": 50, "warmup_steps": 50},
                             {"max_steps": 2, "warmup_steps": 100000}, {"accelerator_config": {"foo": True}}],
                    [{}, {"adam_beta1": 0.0}, {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.1}}, {"max_steps": 50, "warmup_steps": 0.1},
                     {"max_steps": 50, "warmup_steps": 60, "lr_scheduler_type": "constant"}, {"accelerator_config": {"split_batches": True}}, {"sapo_temperature_pos": 0.0}]),
    "packages": ("tell", [], []),  # its own test
    "sharding": ("dead", [({"fsdp": "full_shard", "deepspeed": "z.json"}, {"world": 2}), {"fsdp": "full_shard"}], [({"fsdp": "full_shard"}, {"world": 2}), {}]),
    "use-cpu": ("waste", [{"use_cpu": True}], [{}]),
    "cispo-clip": ("waste", [{"loss_type": "cispo"}, {"loss_type": "cispo", "epsilon_high": 0.28}, {"loss_type": "cispo", "epsilon_high": 0.0}], [{"loss_type": "cispo", "epsilon_high": 5.0}, {}]),
    "dr-grpo-scaling": ("waste", [{"loss_type": "dr_grpo"}], [{"loss_type": "dr_grpo", "scale_rewards": "none"}, {"loss_type": "dr_grpo", "scale_rewards": False}]),
    "two-sided-clip": ("dead", [{"delta": 0.5}, {"delta": 1.2}, {"delta": 1.25, "epsilon_high": 0.28}], [{"delta": 4.0}, {}, {"delta": 0.5, "loss_type": "sapo"}]),
    "entropy-tokens": ("waste", [{"top_entropy_quantile": 20}, {"top_entropy_quantile": -0.5}, {"top_entropy_quantile": 0.0}], [{"top_entropy_quantile": 0.2}, {}]),
    "entropy-target": ("tell", [{"entropy_target": 0.5}, {"use_adaptive_entropy": True, "entropy_target": 5.0}], [{}, {"use_adaptive_entropy": True, "entropy_target": 0.2}]),
    "moving-reference": ("dead", [{"sync_ref_model": True}, {"sync_ref_model": True, "beta": 0.1, **LORA}], [{"sync_ref_model": True, "beta": 0.1}, {}]),
    "vespo-weights": ("dead", [{"loss_type": "vespo", **VLLM}], [{"loss_type": "vespo"}, {"loss_type": "vespo", **VLLM, "vllm_importance_sampling_mode": "token_mask"},
                                                               {"loss_type": "vespo", **VLLM, "vllm_importance_sampling_correction": False}]),
    "ratio-level": ("waste", [{"importance_sampling_level": "sequence"}, {"loss_type": "luspo"}, {"loss_type": "vespo", "importance_sampling_level": "sequence"}],
                    [{"importance_sampling_level": "sequence", "loss_type": "grpo"}, {}]),
    "sequence-clip": ("waste", [{"importance_sampling_level": "sequence", "loss_type": "grpo", **OFF_POLICY}],
                      [{"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, **OFF_POLICY}, {"importance_sampling_level": "sequence"}, OFF_POLICY]),
    "completion-limit": ("waste", [{"max_completion_length": None, "loss_type": "dr_grpo"}, {"max_completion_length": None}, {"max_completion_length": None, **VLLM}], [{}]),
    "router-loss": ("dead", [({"router_aux_loss_coef": 0.001}, {"cache": {"model_config": GPT}})], [({"router_aux_loss_coef": 0.001}, {"cache": {"model_config": MOE}}), {}]),
    "gold-column-kept": ("dead", [{"remove_unused_columns": True}, {"remove_unused_columns": True, "reward_funcs": ["think_format_reward"]}], [{}]),
    "zero3-gather": ("waste", [{"ds3_gather_for_generation": False}], [{"ds3_gather_for_generation": False, **VLLM}, {}]),
    "dropout": ("tell", [({}, {"cache": {"model_config": GPT}})], [({}, {"cache": {"model_config": MOE}}), {"disable_dropout": True}]),
    "truncated-masked": ("tell", [{"mask_truncated_completions": True}, ({"mask_truncated_completions": True}, {"cache": {"clipped_share": 0.7}}),
                                  ({"mask_truncated_completions": True}, {"cache": {"clipped_share": 1.0}})],
                         [({"mask_truncated_completions": True}, {"cache": {"clipped_share": 0.1}}), {}]),
    "best-metric": ("waste", [{"load_best_model_at_end": True}], [{"load_best_model_at_end": True, "metric_for_best_model": "reward"}, {}]),
    "resume-ignored": ("waste", [script("resume_from_checkpoint='c'", "trainer.train()")],
                       [script("resume_from_checkpoint='c'", "trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)"),
                        {"resume_from_checkpoint": "c"}, script("")]),
    "log-rows": ("tell", [{"logging_steps": 1}, {"log_completions": True}], [{"logging_steps": 1, "log_completions": True}]),
    "scaling-ignored": ("tell", [{"multi_objective_aggregation": "normalize_then_sum", "scale_rewards": "batch"}], [{"multi_objective_aggregation": "normalize_then_sum"}, {}]),
    "batch-divides": ("dead", [{"num_generations": 6}, {"generation_batch_size": 12}, {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
                               {"steps_per_generation": 3, "num_generations": 16}, ({"num_generations": 32}, {"world": 3})],
                      [{}, ({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}, {"world": 2}), {"generation_batch_size": 24}]),
    "eval-batch-divides": ("dead", [{"eval_strategy": "steps", "num_generations_eval": 3}, {"eval_strategy": "epoch", "per_device_eval_batch_size": 1}],
                           [{"num_generations_eval": 3}, {"eval_strategy": "steps"}, ({"eval_strategy": "epoch", "per_device_eval_batch_size": 1}, {"world": 8})]),
    "steps-unit": ("waste", [{"gradient_accumulation_steps": 8, "steps_per_generation": 3}, {"gradient_accumulation_steps": 8, "steps_per_generation": 2}],
                   [{"gradient_accumulation_steps": 8}, OFF_POLICY]),
    "inert-on-policy": ("tell", [{"epsilon_high": 0.28}, {"importance_sampling_level": "sequence"}, {"off_policy_mask_threshold": 0.5}, {"loss_type": "sapo", "sapo_temperature_neg": 1.1}],
                        [{}, {"epsilon_high": 0.28, **OFF_POLICY}, {"epsilon_high": 0.28, "num_iterations": 2}, {"loss_type": "cispo", "epsilon_high": 5.0}, {"off_policy_mask_threshold": 0.5, **VLLM}]),
    "other-loss": ("tell", [{"sapo_temperature_neg": 1.1}, {"loss_type": "sapo", "epsilon_high": 0.28}], [{"loss_type": "sapo", "sapo_temperature_neg": 1.1}, {"loss_type": "cispo", "epsilon_high": 5.0}]),
    "too-few-prompts": ("dead", [({"gradient_accumulation_steps": 8}, {"total_rows": 7}), ({"gradient_accumulation_steps": 8}, {"total_rows": 15}),
                               ({"gradient_accumulation_steps": 8, "test_split_size": 10, **ROWS}, {"total_rows": 12}), ({"gradient_accumulation_steps": 8, "test_split_size": 0.41, **ROWS}, {"total_rows": 12})],
                        [({"gradient_accumulation_steps": 8}, {"total_rows": 8}), ({"gradient_accumulation_steps": 8}, {"total_rows": 1001}),
                         ({"gradient_accumulation_steps": 8, "test_split_size": 4, **ROWS}, {"total_rows": 12}), ({"gradient_accumulation_steps": 8, "test_split_size": 10}, {"total_rows": 8})]),
    "few-completions": ("tell", [{}], [{"gradient_accumulation_steps": 8}, ({}, {"world": 8})]),
    "small-group": ("tell", [{"num_generations": 2}], [{"num_generations": 8}]),
    "truncated-sampling": ("dead", [{**VLLM, "top_p": 0.95}, {**VLLM, "top_k": 50}, {**VLLM, "min_p": 0.05}, {**VLLM, "repetition_penalty": 1.1},
                                    {**VLLM, "generation_kwargs": {"top_p": 0.9, "seed": 1}}, {**VLLM, "generation_kwargs": {"frequency_penalty": 0.5}},
                                    {**VLLM, "top_p": 0.9, "vllm_importance_sampling_mode": "token_truncate"}],
                           [{"top_p": 0.95}, VLLM, {**VLLM, "top_k": -1, "top_p": 1}, {**VLLM, "generation_kwargs": {"seed": 1}}]),
    "long-weights": ("waste", [{**VLLM, "max_completion_length": 8192}, {**VLLM, "max_completion_length": 4096, "vllm_importance_sampling_mode": "sequence_truncate"}],
                     [VLLM, {"max_completion_length": 8192}, {**VLLM, "max_completion_length": 8192, "vllm_importance_sampling_mode": "token_truncate"}]),
    "broken-sampling": ("dead", [{"generation_kwargs": {"do_sample": False}}, {"top_p": 0.0}, {**VLLM, "top_p": 1.5}, {"top_k": -1}, {"top_k": 1}, {"min_p": 1.5}, {"min_p": 1.0}, {"repetition_penalty": 0.0},
                                 {"generation_kwargs": {"num_return_sequences": 2}}, {"generation_kwargs": {"stop_strings": ["x"]}}, {"generation_kwargs": {"num_beams": 2}},
                                 {"generation_kwargs": '{"max_new_tokens": 3}'}, {**VLLM, "top_k": -2}, {"top_p": 1.5}],
                        [{}, {**VLLM, "top_k": -1}, {"top_p": 0.9, "top_k": 50, "min_p": 0.1}, {"max_completion_length": 64, "generation_kwargs": {"max_new_tokens": 64, "num_beams": 1, "do_sample": True}}]),
    "temperature": ("waste", [{"temperature": 0.0}, {"temperature": 0.1}, {"generation_kwargs": {"temperature": 0.001}}, {"temperature": 1e6}, {"temperature": 3.0}, {"generation_kwargs": {"temperature": 0.0, "do_sample": False}}],
                    [{}, {"temperature": 0.7}, {"temperature": 0.0, "generation_kwargs": {"temperature": 1.0}}]),
    "two-temperatures": ("waste", [{"generation_kwargs": {"temperature": 0.7}}], [{"generation_kwargs": {"temperature": 1.0}}, {}]),
    "vllm-version": ("waste", [], []),  # its own test: no vLLM is installed
    "quantised-vllm": ("dead", [{**VLLM, **LORA, "load_in_4bit": True}, {**VLLM, **LORA, "load_in_8bit": True}], [{**LORA, "load_in_4bit": True}, VLLM]),
    "tensor-parallel": ("dead", [{**VLLM, "vllm_tensor_parallel_size": 2}, ({**VLLM, "vllm_tensor_parallel_size": 2}, {"world": 4})],
                        [VLLM, {**VLLM, "vllm_mode": "server", "vllm_tensor_parallel_size": 2}]),
    "vllm-share": ("waste", [{**VLLM, "vllm_gpu_memory_utilization": 0.9}, {**VLLM, "vllm_gpu_memory_utilization": 90.0}], [VLLM, {"vllm_gpu_memory_utilization": 0.9}]),
    "vllm-context": ("tell", [{"use_vllm": True}, {**VLLM, "max_completion_length": 4096}], [VLLM, {}]),
    "vllm-sleep": ("tell", [VLLM], [{**VLLM, "vllm_enable_sleep_mode": True}, {}]),
    "vllm-server": ("tell", [{**VLLM, "vllm_mode": "server"}], [VLLM, {"vllm_mode": "server"}]),
    "vllm-inert": ("tell", [{"vllm_gpu_memory_utilization": 0.3}, {**VLLM, "vllm_server_port": 8001}, {**VLLM, "vllm_mode": "server", "vllm_tensor_parallel_size": 2}],
                   [VLLM, {}, {"use_vllm": True, "vllm_mode": "server", "vllm_server_port": 8001}]),
    "batched-generation": ("waste", [{"use_transformers_continuous_batching": True}, {**LORA, "use_transformers_continuous_batching": True}], [{}, {"use_transformers_continuous_batching": True, "bf16": False}]),
    "learning-rate": ("waste", [{"learning_rate": 1e-4}, {"learning_rate": 5e-8}, {**LORA, "learning_rate": 5e-7}, {**LORA, "learning_rate": 1e-3}, {"learning_rate": 0.0}, {"learning_rate": 2e-7}, {"learning_rate": 1e-5}, {"learning_rate": math.inf}],
                      [{}, LORA, {**LORA, "learning_rate": 1e-5}, {"learning_rate": 5e-7}]),
    "weights-dtype": ("waste", [{"dtype": "bfloat16"}, {"model_init_kwargs": {"dtype": "bfloat16"}}], [{}, {"dtype": "bfloat16", "learning_rate": 1e-5}, {"dtype": "bfloat16", **LORA}]),
    "lora-dropout": ("tell", [{"use_peft": True}, script("", "c = LoraConfig(lora_dropout=0.05)\n" + TRAINER)], [LORA, {}, {"use_peft": True, "disable_dropout": True}, script("", "c = LoraConfig(r=8)\n" + TRAINER),
                                                                                                     script("", "c = LoraConfig(lora_dropout=0.05)\nt = GRPOTrainer('m', [f], args)")]),
    "lora-targets": ("tell", [{"use_peft": True}, {"use_peft": True, "lora_target_modules": ["q_proj", "lm_head"]}, {"use_peft": True, "lora_target_modules": ["q_proj"]},
                              {"use_peft": True, "lora_target_modules": "q_proj"}, script("", "c = LoraConfig(target_modules='q_proj')\n" + TRAINER)],
                     [LORA, {}, {"use_peft": True, "lora_target_modules": ["all-linear"]}, {"use_peft": True, "lora_target_modules": [".*q_proj"]},
                      {"use_peft": True, "lora_target_modules": ["q_proj", "v_proj"]}, script("", "c = LoraConfig(target_modules=['q_proj'])\n" + TRAINER)]),
    "lora-size": ("dead", [{"use_peft": True, "lora_r": 0}, {"use_peft": True, "lora_alpha": 0}, {"use_peft": True, "lora_alpha": -16}], [LORA, {"lora_r": 0}]),
    "lora-modules": ("dead", [({"use_peft": True, "lora_target_modules": ["c_attn", "c_fc"]}, LLAMA), ({"use_peft": True, "lora_target_modules": ["q_proj", "c_fc"]}, LLAMA)],
                     [({"use_peft": True, "lora_target_modules": ["q_proj", "v_proj"]}, LLAMA), LORA, {"lora_target_modules": ["c_attn"]}]),
    "reference-model": ("tell", [{"beta": 0.01}], [{"beta": 0.01, **LORA}, {}]),
    "scheduler": ("tell", [{}, {"lr_scheduler_type": "cosine"}], [{"lr_scheduler_type": "constant_with_warmup"}, {"lr_scheduler_type": "cosine_with_min_lr"}]),
    "optimizer": ("waste", [{"optim": "sgd"}], [{}, {"optim": "adamw_8bit"}]),
}  # fmt: skip
APART = {"vllm-version", "packages"}


def split(case) -> tuple:
    return case if isinstance(case, tuple) else (case, {})


def verdicts(id: str, case) -> set[str]:
    given, more = split(case)
    group = next(known.group for known in checks.CHECKS if known.id == id)
    return {row["verdict"] for row in checks.results(run_of(given, **more), (group,)) if row["id"] == id}


def holes(only: set[str] | None = None) -> list[str]:
    """What the table or the checks lack."""
    found = []
    registered = {known.id: known for known in checks.CHECKS if known.group in GROUPS}
    for id in only or registered.keys() | CASES.keys():
        severity, bad, good = CASES.get(id, ("", [], []))
        if id not in registered:
            found.append(f"{id}: not registered")
        elif registered[id].severity != severity:
            found.append(f"{id}: severity {registered[id].severity}, the table says {severity}")
        if id not in APART and not (bad and good):
            found.append(f"{id}: no input that must fail, or none that must pass")
        if id in registered:
            found += [f"{id} lets {case} pass" for case in bad if "fail" not in verdicts(id, case)]
            found += [f"{id} refuses {case}" for case in good if verdicts(id, case) != {"pass"}]
    return found


def test_each_check_fails_what_it_must_and_passes_what_it_must():
    assert not holes()


@pytest.mark.parametrize("id", sorted(CASES.keys() - APART))
def test_a_check_that_is_gone_or_blind_is_found(monkeypatch, id):
    (broken,) = [known for known in checks.CHECKS if known.id == id]
    others = [known for known in checks.CHECKS if known.id != id]
    for outcome in (checks.passed("all is fine"), checks.failed("never", "nothing"), []):
        blind = dataclasses.replace(broken, run=lambda run, outcome=outcome: outcome)
        monkeypatch.setattr(checks, "CHECKS", [*others, blind])
        assert holes({id})
    monkeypatch.setattr(checks, "CHECKS", others)
    assert f"{id}: not registered" in holes({id})


def test_a_check_that_breaks_is_not_measured(monkeypatch):
    broken = dataclasses.replace(checks.CHECKS[0], run=lambda run: 1 / 0)
    monkeypatch.setattr(checks, "CHECKS", [broken])
    (row,) = checks.results(run_of({}))
    assert row["verdict"] == "not measured" and "ZeroDivisionError" in row["evidence"]
    with pytest.raises(ValueError, match="taken before"):
        checks.check(broken.id, "batch", "dead", "", "")


def test_every_row_says_what_and_how_to_mend_it():
    """Over all inputs of the table: a verdict that exists, evidence with the line, a fix, no check that broke."""
    for id, (_, bad, good) in CASES.items():
        for case in [*bad, *good]:
            given, more = split(case)
            for row in checks.results(run_of(given, **more), GROUPS):
                assert row["verdict"] in ("pass", "fail", "not measured") and row["severity"] in checks.SEVERITIES, row
                assert "failed itself" not in row["evidence"], (id, case, row)
                assert row["evidence"] and (row["fix"] or row["verdict"] == "pass"), row
                if row["id"] == id and case in bad and row["verdict"] == "fail" and given:
                    told = row["evidence"] + row["fix"]
                    assert id in DEFAULTS or any(f"run.{end}:" in told for end in ("yaml", "py")), row


# Checks that fail on a value that nobody wrote.
DEFAULTS = {"log-rows", "few-completions", "scheduler", "vllm-context", "vllm-sleep", "lora-dropout", "lora-targets",
            "unknown-choice", "wrong-type", "too-few-prompts", "dropout", "router-loss"}  # fmt: skip


def test_what_only_running_tells_is_not_measured():
    text = script(
        "learning_rate=rate(), loss_type=pick(), top_p=p(), use_vllm=True", "trainer = GRPOTrainer(model=load())"
    )
    rows = {row["id"]: row["verdict"] for row in checks.results(run_of(text), GROUPS)}
    for id in ("learning-rate", "cispo-clip", "truncated-sampling", "unknown-choice", "inert-on-policy"):
        assert rows[id] == "not measured", id
    assert rows["group-of-one"] == "pass"
    for spread in ("**settings", "*settings", "'out', True"):
        rows = checks.results(run_of(script(spread)), GROUPS)
        said = {row["id"] for row in rows if row["verdict"] != "not measured"}
        of_lora = {"lora-targets", "lora-size", "lora-modules"}
        assert said == {"quantised-alone", "test-split"} | of_lora, (
            said
        )  # read from the rest of the script, which is known


@pytest.mark.parametrize(
    "later", ["args.beta = b", "setattr(args, 'beta', 0.2)", "if debug:\n    args.beta = 0.2", "args.beta += 0.1"]
)
def test_what_is_set_after_the_call_counts(later):
    for head in ("args = GRPOConfig(beta=0.1)", "args: GRPOConfig = GRPOConfig(beta=0.1)"):
        run = run_of(f"{SCRIPT}{head}\n{later}\n")
        with pytest.raises(config.NotKnown):
            run.get("beta")
    assert run_of(f"{SCRIPT}self.args = GRPOConfig(beta=0.1)\nself.args.beta = 0.3\n").get("beta") == 0.3


PEFT = "c = LoraConfig(r=4, target_modules=['q_proj', 'v_proj'])\n"


@pytest.mark.parametrize(("rest", "lora"), [
    (PEFT + "t = GRPOTrainer('m', [f], args)", False),
    (PEFT + TRAINER, True),
    (PEFT + "class Mine(GRPOTrainer):\n    pass\nt = Mine('m', [f], args, peft_config=c)", True),
    (PEFT + "from trl import GRPOTrainer as T\nt = T('m', [f], args)", False),
    (PEFT + "m = prepare_model_for_kbit_training(A.from_pretrained('m'))\nt = GRPOTrainer(m, [f], args)", False),
    ("t = GRPOTrainer('m', [f], args, peft_config=LoraConfig(r=4, target_modules=['q_proj', 'v_proj']))", True),
    ("t = GRPOTrainer('m', [f], args, peft_config=None)", False),
    (PEFT + "t = GRPOTrainer('m', [f], args, peft_config=c if big else None)", None),
    ("c = LoraConfig(r=4) if big else None\n" + TRAINER, None),
    ("if big:\n    c = LoraConfig(r=4)\nelse:\n    c = None\n" + TRAINER, None),
    (PEFT + "m = A.from_pretrained('m')\nn = get_peft_model(m, c)\nt = GRPOTrainer(n, [f], args)", True),
    (PEFT + "m = A.from_pretrained('m')\nn = get_peft_model(m, c)\nt = GRPOTrainer(m, [f], args)", False),
    (PEFT + "m = A.from_pretrained('m')\nm = get_peft_model(m, c)\nt = GRPOTrainer(m, [f], args)", True),
    (PEFT + "m = A.from_pretrained('m')\nif big:\n    m = get_peft_model(m, c)\nt = GRPOTrainer(m, [f], args)", None),
    (PEFT + "m = A.from_pretrained('m')\nm.add_adapter(c)\nt = GRPOTrainer(m, [f], args)", None),
    ("t = GRPOTrainer(load(), [f], args)", None),
    ("t = GRPOTrainer('m', [f], args, **more)", None),
    (PEFT, None),  # whoever trains is not seen
    ("", False),
    (PEFT + "t = GRPOTrainer('m', [f], args)\nu = GRPOTrainer('n', [f], other, peft_config=c)", False),
    (PEFT + "t = GRPOTrainer('m', [f], args, peft_config=c)\nu = GRPOTrainer('n', [f], args)", None),
])  # fmt: skip
def test_an_adapter_counts_where_the_trainer_gets_it(rest, lora):
    run = run_of(script("", rest))
    if lora is None:
        with pytest.raises(config.NotKnown):
            run.get("use_peft")
    else:
        assert bool(run.get("use_peft")) is lora and (not lora or run.get("lora_r") == 4)


def test_of_several_trainers_the_configs_own_is_read():
    text = SCRIPT + (
        "from r import exact, length\na = GRPOConfig(beta=0.1)\nb = GRPOConfig(beta=0.2)\n"
        "GRPOTrainer('one', [exact], a, peft_config=LoraConfig(r=4))\nGRPOTrainer('two', [length], args=b)\n"
    )
    first, second = (config.read_script(Path("run.py"), text, line) for line in (3, 4))
    assert first.get("model_name_or_path") == "one" and first.get("use_peft") and first.rewards == ["r.exact"]
    assert second.get("model_name_or_path") == "two" and not second.get("use_peft") and second.rewards == ["r.length"]
    unknown = config.read_script(
        Path("run.py"), text.replace(" a, peft", " pick(a, b), peft").replace("=b)", "=pick(b))"), 3
    )
    for name in ("model_name_or_path", "use_peft", "reward_funcs", "load_in_4bit"):
        with pytest.raises(config.NotKnown):
            unknown.get(name)
    assert unknown.rewards is None


def test_only_the_trained_model_says_what_is_loaded():
    judged = "j = AutoModelForSequenceClassification.from_pretrained('judge', dtype='float32', quantization_config=q)\n"
    head = (
        "q = BitsAndBytesConfig(load_in_4bit=True)\nm = AutoModelForCausalLM.from_pretrained('big', dtype='bfloat16')\n"
    )
    run = run_of(script("", head + judged + "t = GRPOTrainer(m, [f], args)"))
    assert (run.get("model_name_or_path"), run.get("dtype"), run.get("load_in_4bit")) == ("big", "bfloat16", False)
    run = run_of(script("", head + judged + "t = GRPOTrainer(j, [f], args)"))
    assert (run.get("model_name_or_path"), run.get("dtype"), run.get("load_in_4bit")) == ("judge", "float32", True)


@pytest.mark.parametrize("use", [
    "w.append(0.5)", "w[0] = 2", "del w[0]", "w += [1]", "v = w\nv.append(1)", "mend(w)", "self.w = w", "w.sort()",
    "def f():\n    return w", "pairs = {'w': w}\npairs['w'].append(1)", "del w",
])  # fmt: skip
def test_a_list_that_may_change_is_unread(use):
    with pytest.raises(config.NotKnown):
        run_of(script("reward_weights=w", f"w = [1.0]\n{use}\n")).get("reward_weights")
    held = use.replace("w", "k").replace("0.5", "''") if "w" in use else use
    if "+=" not in use and "(w)" not in use:
        assert run_of(script("**k", f"k = {{'beta': 0.1}}\n{held}\n")).settings.anything


@pytest.mark.parametrize("use", ["print(w)", "n = len(w)", "for one in w:\n    print(one)", "log.info(w[0])", "v = w", "s = f'{w}'", "x = w.index(1.0)",
                                 "c = dict(w=w)", "if w == [1.0]:\n    pass"])  # fmt: skip
def test_a_list_that_is_only_read_is_known(use):
    assert run_of(script("reward_weights=w", f"w = [1.0]\n{use}\n")).get("reward_weights") == [1.0]


@pytest.mark.parametrize("use", [
    "args.__dict__.update(beta=1)", "vars(args)['beta'] = 1", "mend(args)", "b = [args]", "args.set_training(batch_size=1)",
    "a2 = args\na2.beta = 0.5", "a2 = args\nmend(a2)", "t = GRPOTrainer('m', [f], args)\nt.args.beta = 0.5", "del args.beta",
    "setattr(args, key, 1)", "lambda: args", "b, c = args, 1",
])  # fmt: skip
def test_a_config_that_goes_out_of_sight_is_unread(use):
    run = run_of(script("beta=0.1", f"{use}\n"))
    if ".beta = 0.5" in use:  # another name for it, which is followed
        assert run.get("beta") == 0.5
        return
    with pytest.raises(config.NotKnown):
        run.get("beta")
    if "del" not in use:
        with pytest.raises(config.NotKnown):
            run.get("epsilon")  # what is not written either
        assert run_of(script("beta=0.1", f"{use}\nargs.beta = 0.3\n")).get("beta") == 0.3


def test_a_config_that_is_returned_is_followed():
    text = f"{SCRIPT}def make():\n    return GRPOConfig(beta=0.1, epsilon=0.3)\na = make()\na.beta = 0.2\n"
    run = run_of(text + "t = GRPOTrainer('m', [f], args=a)\n")
    assert (run.get("beta"), run.get("epsilon"), run.get("model_name_or_path")) == (0.2, 0.3, "m")
    with pytest.raises(config.NotKnown):
        run_of(text + "mend(a)\n").get("epsilon")


@pytest.mark.parametrize("use", ["print(args)", "n = len(str(args))", "log.info('%s', args.beta)", "t = GRPOTrainer('m', [f], args=args)", "d = args.to_dict()",
                                 "x = args.generation_kwargs['top_k']", "s = f'{args}'", "set_seed(args.seed)"])  # fmt: skip
def test_a_config_that_is_only_read_is_known(use):
    run = run_of(script("beta=0.1, generation_kwargs={'top_k': 1}", f"{use}\n"))
    assert run.get("beta") == 0.1 and run.get("generation_kwargs") == {"top_k": 1}
    for change in (
        "args.generation_kwargs['top_k'] = 5",
        "args.generation_kwargs.clear()",
        "g = args.generation_kwargs\ng['a'] = 1",
        "mend(args.generation_kwargs)",
    ):
        changed = run_of(script("beta=0.1, generation_kwargs={'top_k': 1}", f"{use}\n{change}"))
        assert changed.get("beta") == 0.1 and "generation_kwargs" in changed.settings.unread


def test_published_presets_are_not_complained_of():
    """Every combination of settings that variants.md prints: nothing in it is called dead or a waste."""
    text = (Path(__file__).parents[1] / "references/variants.md").read_text()
    marks = [mark for mark in re.findall(r"`([a-z_]+=[^`]+)`", text) if config_of(mark)]
    assert len(marks) > 30
    for mark in marks:
        rows = checks.results(
            run_of(config_of(mark) | {"per_device_train_batch_size": 64, "per_device_eval_batch_size": 64}), GROUPS
        )
        assert not [row for row in rows if row["verdict"] == "fail" and row["severity"] != "tell"], mark


def config_of(mark: str) -> dict:
    try:
        return {
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in ast.parse(f"_({mark})", mode="eval").body.keywords
        }
    except SyntaxError:
        return {}


# ---- TRL is asked

REFUSED = ("unknown-argument", "wrong-type", "unknown-choice", "group-of-one", "batch-given-twice", "auto-batch-size",
           "two-precisions", "weight-bounds", "completions-repo", "step-settings", "best-checkpoint", "batch-divides",
           "eval-batch-divides", "parallelism")  # fmt: skip


# Wrong values of these pass GRPOConfig: they raise in the trainer, or in the first step, or are read by nobody.
UNCHECKED = {"scale_rewards", "loss_type", "vllm_mode", "dtype", "beta", "seed", "use_vllm", "train_sampling_strategy",
             "generation_kwargs", "learning_rate", "save_total_limit"}  # fmt: skip


def cases_of(ids, bad: bool) -> list:
    found = []
    for id in ids:
        for case in CASES[id][1 if bad else 2]:
            given, more = split(case)
            if isinstance(given, dict) and not more.keys() - {"world"}:
                found.append(pytest.param(given, more.get("world", 1), id=f"{id}: {given}"[:90]))
    return found


def fields(values: dict) -> dict:
    """Without the keys of `trl grpo`'s other classes."""
    table = config.arguments()
    return {
        name: value for name, value in values.items() if table.get(name, {}).get("class", "GRPOConfig") == "GRPOConfig"
    }


@pytest.mark.parametrize(("given", "world"), cases_of(REFUSED, bad=True))
def test_what_is_called_refused_trl_refuses(given, world):
    silent = UNCHECKED & given.keys()
    silent |= {"save_strategy"} & given.keys() if given.get("save_strategy") == "best" else set()
    assert bool(refusal(fields(given), world)) != bool(silent), refusal(fields(given), world)


@pytest.mark.parametrize(("given", "world"), cases_of(REFUSED, bad=False))
def test_what_passes_trl_takes(given, world):
    values = fields({name: as_trl(name, value) for name, value in given.items() if name != "env"})
    assert refusal(values, world) is None


def as_trl(name, value):
    return config.as_parsed(value, config.arguments()[name]["types"], name)


SILENT = ("cispo-clip", "dr-grpo-scaling", "two-sided-clip", "entropy-tokens", "entropy-target", "moving-reference",
          "vespo-weights", "ratio-level", "sequence-clip", "completion-limit", "gold-column-kept", "training-length",
          "temperature", "truncated-sampling", "learning-rate", "inert-on-policy", "other-loss", "broken-sampling")  # fmt: skip


@pytest.mark.parametrize(("given", "world"), cases_of(SILENT, bad=True))
def test_what_is_called_silent_trl_takes(given, world):
    assert refusal(fields(given), world) is None


POOL = {
    "num_generations": [1, 2, 3, 4, 8, 16], "per_device_train_batch_size": [1, 2, 3, 4, 8], "num_iterations": [1, 2],
    "gradient_accumulation_steps": [1, 2, 4, 6], "steps_per_generation": [None, None, 1, 2, 3, 4, 8],
    "generation_batch_size": [None, None, None, 8, 16, 24, 32], "eval_strategy": ["no", "no", "steps", "epoch"],
    "per_device_eval_batch_size": [1, 2, 8, 12], "num_generations_eval": [None, None, 2, 3],
}  # fmt: skip


def test_the_batch_arithmetic_is_trls():
    """Random settings for 1 to 8 processes: refused together, and otherwise the same numbers."""
    draw, refused = random.Random(1), 0
    batch = {"batch-divides", "eval-batch-divides", "group-of-one", "batch-given-twice"}
    for _ in range(400):
        values, world = {name: draw.choice(options) for name, options in POOL.items()}, draw.choice((1, 2, 3, 8))
        run = run_of(values, world=world)
        rows = [row for row in checks.results(run, ("arguments", "batch")) if row["id"] in batch]
        said, why = [row for row in rows if row["verdict"] == "fail"], refusal(values, world)
        assert bool(said) == bool(why), (values, world, said, why)
        if why:
            refused += 1
            changed = {name: value for row in said for name, value in row["change"].items()}
            if {row["id"] for row in said} <= {"batch-divides", "eval-batch-divides"}:
                assert changed and refusal(values | changed, world) is None, (values, world, changed)
            continue
        real = built(values, world)
        assert run.generation_batch() == real.generation_batch_size
        assert run.steps_per_generation() == real.steps_per_generation
        assert run.global_batch() == real.per_device_train_batch_size * world
        aligned = real.gradient_accumulation_steps % (real.steps_per_generation * real.num_iterations) == 0
        assert run.on_policy() == aligned  # the condition of GRPOTrainer for leaving out the old probabilities
    assert 100 < refused < 380


OPTIONS = {
    "fp16": [False, True], "bf16": [None, False], "load_best_model_at_end": [False, True], "save_strategy": ["steps", "epoch", "no", "best"],
    "eval_strategy": ["no", "steps", "epoch"], "eval_steps": [None, 5, 10, 0.1, 0.05, 2.5, 0], "save_steps": [10, 500, 0.1, 0.15, 7], "logging_steps": [10, 1, 0.5, 1.5],
    "lr_scheduler_type": ["linear", "cosine", "greedy", "reduce_lr_on_plateau"], "warmup_steps": [0, 0.1, 10, -1],
    "log_completions": [True, False], "log_completions_hub_repo": [None, "me/x"], "vllm_importance_sampling_clip_min": [None, 0.5, 3.0],
    "vllm_importance_sampling_clip_max": [None, 3.0, 2.0], "vllm_importance_sampling_mode": ["sequence_mask", "token_truncate", "sequence_truncate"],
    "vllm_importance_sampling_correction": [True, False], "dataloader_prefetch_factor": [None, 2], "dataloader_num_workers": [0, 2],
    "torch_empty_cache_steps": [None, 5, 0], "auto_find_batch_size": [False, False, False, True], "optim": ["adamw_8bit", "adam"],
}  # fmt: skip


def test_whatever_trl_refuses_is_found_and_nothing_else():
    draw, refused = random.Random(2), 0
    for _ in range(700):
        values = {name: draw.choice(OPTIONS[name]) for name in draw.sample(sorted(OPTIONS), draw.randint(2, 7))}
        rows = checks.results(run_of(values), ("arguments",))
        ids = (*REFUSED, "positive-counts")
        said = [row for row in rows if row["id"] in ids and row["severity"] == "dead" and row["verdict"] != "pass"]
        said = [
            row for row in said if not row["evidence"].startswith('save_strategy="best"')
        ]  # the trainer's, not the config's
        why = refusal(values)
        assert bool(said) == bool(why), (values, said, why)
        refused += bool(why)
    assert 150 < refused < 550


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """A tiny GRPOTrainer for one or two steps; gives the log's first row, and the trainer."""
    from datasets import Dataset

    texts = ["say one", "say two", "yes no maybe"]
    tokenizer = tiny_model.build_tokenizer(texts)
    weights = tiny_model.build_model(tokenizer, seed=0).state_dict()
    folder = tmp_path_factory.mktemp("run")

    def reward(completions, gold, **kwargs):
        return [float(len(text) % 3) for text in completions]

    def go(rows=8, peft=None, **settings):
        model = tiny_model.build_model(tokenizer)
        model.load_state_dict(weights)
        basic = {"output_dir": str(folder), "save_strategy": "no", "per_device_train_batch_size": 8, "num_generations": 4, "max_steps": 2,
                 "max_completion_length": 8, "logging_steps": 1, "disable_tqdm": True, "learning_rate": 1e-3}  # fmt: skip
        data = Dataset.from_list([{"prompt": "say one", "gold": "x"}] * rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = trl.GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=[reward], train_dataset=data,
                                      args=trl.GRPOConfig(**{**CPU, **basic, **settings}), peft_config=peft)  # fmt: skip
            trainer.train()
        return trainer.state.log_history[0], trainer

    return go


def test_dead_in_silence_is_dead_in_the_trainer(train):
    from peft import LoraConfig

    for settings in (
        {"loss_type": "gpo"}, {"scale_rewards": "std"}, {"save_strategy": "best"}, {"eval_strategy": "steps"}, {"fsdp": "full_shard"}, {"temperature": 0.0}, {"top_entropy_quantile": -0.5}, {"steps_per_generation": 0},
        {"max_completion_length": 0}, {"sync_ref_model": True}, {"remove_unused_columns": True}, {"loss_type": "vespo", "use_vllm": True},
        {"loss_type": "dr_grpo", "max_completion_length": None}, {"router_aux_loss_coef": 0.001}, {"importance_sampling_level": "seq"}, {"learning_rate": "1e-6"},
        {"top_k": -1}, {"min_p": 1.5}, {"repetition_penalty": 0.0}, {"generation_kwargs": {"num_return_sequences": 2}}, {"generation_kwargs": {"stop_strings": ["x"]}},
        {"generation_kwargs": {"temperature": 0.0}}, {"lr_scheduler_type": "cosine_with_min_lr"}, {"lr_scheduler_type": "warmup_stable_decay"}, {"adam_beta1": 1.0}, {"adam_epsilon": -1e-8},
        {"eval_on_start": True}, {"accelerator_config": {"foo": True}}, {"learning_rate": math.inf}, {"loss_type": "sapo", "sapo_temperature_pos": 0.0}, {"num_generations": 4.0},
        {"peft": dict(target_modules="q_proj")}, {"peft": dict(target_modules=["c_attn"])}, {"peft": dict(r=0)}, {"peft": LoraConfig(target_modules=["lm_head"])}, {"peft": LoraConfig(target_modules="all-linear"), "sync_ref_model": True, "beta": 0.1},
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, RuntimeError, NotImplementedError)):
            if isinstance(settings.get("peft"), dict):
                settings["peft"] = LoraConfig(**settings["peft"])
            train(**settings)
            raise AssertionError(settings)


def test_what_trains_in_silence_does_what_the_checks_say(train):
    assert train(rows=1)[1].state.global_step == 0  # too-few-prompts: rows, not unique prompts, are counted
    assert train(num_iterations=0)[1].state.global_step == 0
    assert train(max_steps=-1, num_train_epochs=0)[1].state.global_step == 0
    row, trainer = train(max_steps=0)
    assert trainer.state.global_step == 1 and row["learning_rate"] == 0
    plain = train()[0]
    assert train(top_entropy_quantile=20)[0]["grad_norm"] == plain["grad_norm"]
    assert train(epsilon_high=0.28, importance_sampling_level="token")[0]["grad_norm"] == plain["grad_norm"]
    whole = train(loss_type="cispo", epsilon_high=5.0)[0]["grad_norm"]
    assert train(loss_type="cispo")[0]["grad_norm"] == pytest.approx(0.2 * whole, rel=1e-3)
    assert (
        train(delta=0.5)[0]["grad_norm"] < 0.9 * plain["grad_norm"]
        and train(delta=1.0)[0]["grad_norm"] == plain["grad_norm"]
    )
    assert train(max_completion_length=None)[0]["completions/max_length"] <= 20
    assert train(generation_kwargs={"max_new_tokens": 3})[0]["completions/max_length"] == 3
    assert train(top_p=1.5)[0]["grad_norm"] == plain["grad_norm"] > 0


def test_what_teaches_nothing_in_silence_has_no_gradient(train):
    from peft import LoraConfig

    for settings in (
        {"generation_kwargs": {"do_sample": False}}, {"top_p": 0.0}, {"top_k": 1}, {"min_p": 1.0}, {"generation_kwargs": {"temperature": 0.001}},
        {"loss_type": "cispo", "epsilon_high": 0.0}, {"peft": LoraConfig(target_modules=["q_proj", "v_proj"], lora_alpha=0)},
    ):  # fmt: skip
        assert train(max_steps=1, **settings)[0]["grad_norm"] == 0, settings
    patterns = [LoraConfig(target_modules=checks.pattern("q_proj")), LoraConfig(target_modules=["q_proj", "c_fc"])]
    assert all(train(max_steps=1, peft=one)[0]["grad_norm"] > 0 for one in patterns)  # lora-targets, lora-modules


@pytest.mark.parametrize("size", [4, 11, 12, 0, 0.05, 0.41, 0.97, 1.5, -1])
def test_a_test_split_is_trls(size, tmp_path):
    from trl import DatasetMixtureConfig, get_dataset

    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "x"}\n' * 12)
    given = {"datasets": [{"path": "json", "data_files": str(path)}], "test_split_size": size}
    run = run_of(given, total_rows=12)
    (row,) = [one for one in checks.results(run, ("arguments",)) if one["id"] == "test-split"]
    try:
        rows = len(get_dataset(DatasetMixtureConfig(**given))["train"])
    except ValueError:
        assert row["verdict"] == "fail"
    else:
        assert row["verdict"] == "pass" and 12 - checks.tested(run) == rows


def test_layers_are_those_of_transformers():
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.pytorch_utils import Conv1D

    for kind, names in checks.MODULES.items():
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, num_hidden_layers=1))
        layers = (torch.nn.Linear, torch.nn.Embedding, Conv1D)
        found = {name.split(".")[-1] for name, part in model.named_modules() if isinstance(part, layers)}
        assert found - {"lm_head"} == names, kind


def test_ranges_are_those_of_transformers():
    from transformers.optimization import get_scheduler
    from transformers.trainer_pt_utils import AcceleratorConfig
    from transformers.trainer_utils import SchedulerType

    assert set(checks.ACCELERATOR) == {field.name for field in dataclasses.fields(AcceleratorConfig)}
    import torch

    for kind in SchedulerType:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        try:
            get_scheduler(kind, optimizer, 1, 10)
        except (ValueError, TypeError):
            assert kind.value in checks.NEEDS
        else:
            assert kind.value not in checks.NEEDS


def test_packages_that_are_not_here_are_not_measured(monkeypatch):
    needs = {
        "report_to": ["wandb"],
        "use_liger_kernel": True,
        "attn_implementation": "flash_attention_2",
        "optim": "adamw_8bit",
    }
    for there, verdict in ((None, "not measured"), ("1.0", "pass")):
        monkeypatch.setattr(config, "installed", lambda name, there=there: "1.16.0" if name == "trl" else there)
        found = [row for row in checks.results(run_of(needs), ("arguments",)) if row["id"] == "packages"]
        assert {row["verdict"] for row in found} == {verdict} and all(row["severity"] == "tell" for row in found)
        names = {row["waive"] for row in found}
        assert there or names == {
            f"packages:{name}" for name in ("wandb", "liger-kernel", "flash-attn", "bitsandbytes")
        }
    assert verdicts("packages", {}) == {"pass"}


def test_each_finding_of_a_check_has_its_own_waiver():
    """Over all inputs of the table: no two failures of one file share a name."""
    together = {"lr": 1, "foo": 2, "num_iterations": 0, "max_completion_length": 0, "beta": "x", "seed": "y", "loss_type": "q", "optim": "q",
                "warmup_steps": -1, "torch_empty_cache_steps": 0, "adam_beta1": 2, "adam_beta2": 2, "vllm_importance_sampling_cap": 2.0,
                "use_transformers_paged": True, "logging_steps": 5, "generation_kwargs": {"do_sample": False, "num_beams": 2}}  # fmt: skip
    for given in [together, *(split(case)[0] for _, bad, _ in CASES.values() for case in bad)]:
        names = [row["waive"] for row in checks.results(run_of(given), GROUPS) if row["verdict"] != "pass"]
        assert len(names) == len(set(names)), (given, names)
    assert {"unknown-argument:lr", "wrong-type:beta", "unknown-choice:optim", "positive-counts:num_iterations", "step-settings:warmup_steps",
            "old-argument:use_transformers_paged", "value-range:adam_beta2"} <= {row["waive"] for row in checks.results(run_of(together), GROUPS)}  # fmt: skip


def test_more_completions_keep_the_groups_whole():
    for values, world in (({"per_device_train_batch_size": 3, "num_generations": 6}, 1), ({"per_device_train_batch_size": 1, "num_generations": 16, "gradient_accumulation_steps": 16}, 1),
                          ({"steps_per_generation": 12, "gradient_accumulation_steps": 3, "per_device_train_batch_size": 2}, 2), ({"generation_batch_size": 24}, 1),
                          ({"per_device_train_batch_size": 5, "num_generations": 10, "gradient_accumulation_steps": 2}, 1)):  # fmt: skip
        (row,) = [
            row for row in checks.results(run_of(values, world=world), ("batch",)) if row["id"] == "few-completions"
        ]
        steps = int(re.search(r"gradient_accumulation_steps: (\d+)", row["fix"])[1])
        rows = checks.results(run_of(values | {"gradient_accumulation_steps": steps}, world=world), ("batch",))
        wrong = {
            row["id"]
            for row in rows
            if row["verdict"] == "fail" and (row["severity"] != "tell" or row["id"] == "few-completions")
        }
        assert not wrong, (values, steps, wrong)
        assert refusal(values | {"gradient_accumulation_steps": steps}, world) is None


def test_what_trl_hands_on_to_accelerate_is_known(tmp_path):
    from accelerate.commands.launch import launch_command_parser
    from trl import ModelConfig, TrlParser
    from trl.cli.accelerate_config import resolve_accelerate_config_argument

    def launched(settings):
        path = tmp_path / "grpo.yaml"
        path.write_text(yaml.safe_dump(settings | CPU))
        left = TrlParser((trl.GRPOConfig, ModelConfig)).parse_args_and_config(
            ["--config", str(path)], return_remaining_strings=True
        )[-1]
        return launch_command_parser().parse_args([*resolve_accelerate_config_argument(left), "grpo.py"])

    said = launched({"num_processes": 4, "accelerate_config": "zero2"})
    assert said.num_processes == 4 and said.config_file.endswith("zero2.yaml") and said.training_script == "grpo.py"
    assert run_of({"num_processes": "4"}).settings.values["num_processes"] == 4
    mine = tmp_path / "mine.yaml"
    mine.write_text("num_processes: 3\n")
    for given, count in (({}, None), ({"num_processes": "4", "accelerate_config": "zero2"}, 4), ({"accelerate_config": "single_gpu"}, 1),
                         ({"accelerate_config": str(mine)}, 3), ({"accelerate_config": "nowhere"}, None)):  # fmt: skip
        assert config.processes(run_of(given).settings) == count
    bundled = (Path(trl.__file__).parent / "accelerate_configs/zero2.yaml").read_text()
    assert config.processes(run_of({"accelerate_config": "zero2"}).settings) == yaml.safe_load(bundled)["num_processes"]
    assert launched({"multi_gpu": True}).training_script == "True"  # so a flag is an unknown argument
    names = {name for name, entry in config.arguments().items() if entry["class"] == "launch"} - {"accelerate_config"}
    import preflight_rehearse

    path = tmp_path / "grpo.yaml"
    path.write_text(yaml.safe_dump({"num_processes": 4, "accelerate_config": "zero2"} | CPU))
    assert preflight_rehearse.build_config(config.read(path), {"values": {}}, tmp_path)[1] is None  # as without them
    assert (
        names <= {action.dest for action in launch_command_parser()._actions if action.nargs != 0} and len(names) > 50
    )


def test_an_old_name_is_told_with_its_new_one():
    (row,) = [
        row
        for row in checks.results(run_of({"gradient_checkpointing": True}), ("arguments",))
        if row["id"] == "old-argument"
    ]
    assert row["evidence"].endswith("the old name of activation_checkpointing") and row["fix"].startswith(
        "`activation_checkpointing`"
    )


# ---- numbers


def test_weights_of_a_truncated_sampler_and_of_noise_are_what_a_simulation_gives():
    draw = np.random.default_rng(0)
    vocabulary = draw.dirichlet(np.full(200, 0.05))
    top = np.sort(vocabulary)[::-1]
    kept = top[: np.searchsorted(np.cumsum(top), 0.95) + 1]
    picks = draw.choice(len(kept), size=(100, 512), p=kept / kept.sum())
    ratios = (np.log(kept[picks]) - np.log(kept[picks] / kept.sum())).sum(axis=1)
    np.testing.assert_allclose(np.exp(ratios), checks.kept_weight(kept.sum(), 512), rtol=1e-6)
    assert kept.sum() >= 0.95  # so top_p**length is the lower end, where little more than top_p is kept
    for tokens, noise, cut in ((256, 0.03, 3.0), (1024, 0.02, 3.0), (4096, 0.02, 3.0), (2048, 0.03, 2.0)):
        spread = noise / math.sqrt(2 / math.pi)
        assert np.abs(draw.normal(-(spread**2) / 2, spread, 10**6)).mean() == pytest.approx(noise, rel=0.01)
        sums = draw.normal(-tokens * spread**2 / 2, spread * math.sqrt(tokens), 10**6)
        weights = np.exp(sums)
        for masks in (True, False):
            seen = np.where(weights > cut, 0.0 if masks else cut, weights)
            mean, left = checks.noisy_weight(tokens, noise, cut, masks)
            assert mean == pytest.approx(seen.mean(), abs=0.005)
            assert left == pytest.approx(seen.mean() ** 2 / (seen**2).mean(), abs=0.01)


def test_the_numbers_are_in_the_evidence():
    def told(id, given, **more):
        return next(row for row in checks.results(run_of(given, **more), GROUPS) if row["id"] == id)

    row = told("truncated-sampling", {**VLLM, "top_p": 0.95, "max_completion_length": 256})
    assert "0.95^256 = 2e-06" in row["evidence"] and row["severity"] == "dead" and row["change"] == {"top_p": 1.0}
    row = told("truncated-sampling", {**VLLM, "top_p": 0.9999, "max_completion_length": 256})
    assert row["severity"] == "tell" and "0.97" in row["evidence"]
    row = told("truncated-sampling", {**VLLM, "generation_kwargs": {"top_k": 20, "seed": 1}})
    assert row["change"] == {"generation_kwargs": {"seed": 1}} and "top_k]=20" in row["evidence"]
    row = told(
        "vllm-server", {**VLLM, "vllm_mode": "server", "model_name_or_path": "org/my model", "vllm_server_port": 9000}
    )
    assert "vllm serve 'org/my model' --weight-transfer-config" in row["fix"] and "--port 9000" in row["fix"]
    row = told("batch-divides", {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 3}, world=3)
    assert (
        "3 process(es) x per_device_train_batch_size=2 (run.yaml:2)" in row["evidence"]
        and "= 18, no multiple of" in row["evidence"]
    )
    assert row["change"] == {"gradient_accumulation_steps": 4}
    row = told("eval-batch-divides", {"eval_strategy": "steps", "per_device_eval_batch_size": 3}, world=2)
    assert "= 6, no multiple of num_generations=8" in row["evidence"] and row["change"] == {
        "per_device_eval_batch_size": 4
    }
    assert "serves 4 optimizer step(s)" in told("steps-unit", OFF_POLICY)["evidence"]
    row = told("steps-unit", {"gradient_accumulation_steps": 8, "steps_per_generation": 2})
    assert "4 generations for each optimizer step" in row["evidence"]
    row = told("few-completions", {"gradient_accumulation_steps": 3}, world=2)
    assert (
        row["evidence"].startswith("48 completions for each optimizer step, 6 prompts (2 process(es)")
        and "gradient_accumulation_steps: 8 " in row["fix"]
    )
    row = told("too-few-prompts", {"gradient_accumulation_steps": 8}, total_rows=15)
    assert (
        row["evidence"].startswith("15 rows; one generation takes 8 prompts (64 completions")
        and "7 rows (47%)" in row["evidence"]
    )
    row = told("long-weights", {**VLLM, "max_completion_length": 8192})
    assert "weigh 0.26 on average and count as 22%" in row["evidence"]
    row = told("small-group", {"num_generations": 2})
    assert "50% at a pass rate of 0.5, 68% at a pass rate of 0.2" in row["evidence"]


@pytest.mark.parametrize(("version", "verdict"), [(None, "not measured"), ("0.21.9", "fail"), ("0.22.0", "pass"), ("0.24.0+cu129", "pass"),
                                                  ("0.31.0", "pass"), ("0.31.1", "fail"), ("1.0.0", "fail")])  # fmt: skip
def test_vllm_versions_are_those_of_trls_source(monkeypatch, version, verdict):
    installed = config.installed
    monkeypatch.setattr(config, "installed", lambda name: version if name == "vllm" else installed(name))
    assert verdicts("vllm-version", VLLM) == {verdict} and verdicts("vllm-version", {}) == {"pass"}
    source = (Path(trl.__file__).parent / "import_utils.py").read_text()
    assert 'Version("0.22.0") <= _vllm_base_version <= Version("0.31.0")' in source


def test_the_servers_command_is_trls():
    source = (Path(trl.__file__).parent / "generation/vllm_client.py").read_text()
    for part in (
        "VLLM_SERVER_DEV_MODE=1 vllm serve",
        '--weight-transfer-config \'{"backend": "nccl"}\'',
        "--logprobs-mode processed_logprobs",
        "--max-logprobs -1",
    ):
        assert part in source
        fix = next(
            r["fix"]
            for r in checks.results(run_of({**VLLM, "vllm_mode": "server"}), GROUPS)
            if r["id"] == "vllm-server"
        )
        assert part in fix


# ---- corrected copies


def proposals(run: checks.Run) -> tuple[dict, dict, list[dict]]:
    rows = checks.results(run, GROUPS)
    changes = {name: value for row in rows for name, value in row["change"].items()}
    return changes, {old: new for row in rows for old, new in row["rename"].items()}, rows


# What fails with another severity than the check's own, by the table's order of inputs that must fail.
SEVERITIES = {
    "best-checkpoint": "dead dead waste dead dead dead", "two-sided-clip": "dead waste waste", "entropy-tokens": "waste dead dead",
    "entropy-target": "tell waste", "ratio-level": "waste tell tell", "completion-limit": "dead waste waste", "gold-column-kept": "dead tell",
    "truncated-masked": "tell waste dead", "steps-unit": "waste tell", "too-few-prompts": "dead tell dead dead", "long-weights": "waste tell",
    "truncated-sampling": "dead dead dead dead dead dead waste", "temperature": "dead waste dead dead waste dead", "tensor-parallel": "dead tell",
    "vllm-share": "waste dead", "vllm-context": "tell dead", "learning-rate": "waste waste waste waste dead tell tell dead", "lora-targets": "tell dead dead dead dead", "lora-size": "dead dead tell", "lora-modules": "dead tell",
    "batched-generation": "waste tell", "unknown-choice": "dead dead dead dead dead dead dead tell tell", "cispo-clip": "waste waste dead", "test-split": "dead dead dead dead dead dead tell",
    "wrong-type": " ".join(["dead"] * 11 + ["tell"]), "value-range": "dead dead dead waste dead waste dead waste waste waste waste dead dead waste dead dead",
    "broken-sampling": "dead dead dead dead dead dead dead dead dead dead waste waste dead tell",
}  # fmt: skip
# Which of them a corrected copy mends (M); by hand: -; refused, with the line: X.
MENDED = {
    "unknown-argument": "MM-MMMMX--M-", "old-argument": "MMM--", "wrong-type": "-M--------MM", "unknown-choice": "-M-M--M-M", "auto-batch-size": "M",
    "two-precisions": "MM", "weight-bounds": "----M", "completions-repo": "M", "step-settings": "----M-", "best-checkpoint": "-M----", "parallelism": "M-",
    "training-length": "M--", "quantised-alone": "M-", "sharding": "-M", "use-cpu": "M", "cispo-clip": "MMM", "eval-data": "----M", "test-split": "-----M-", "broken-sampling": "MMMMMMMMMMMMMM", "dr-grpo-scaling": "M", "two-sided-clip": "MMM",
    "entropy-tokens": "M--", "moving-reference": "MM", "vespo-weights": "M", "ratio-level": "MMM", "sequence-clip": "M", "router-loss": "M",
    "gold-column-kept": "MM", "zero3-gather": "M", "dropout": "M", "truncated-masked": "-MM", "best-metric": "M", "log-rows": "MM", "scaling-ignored": "M",
    "batch-divides": "MMMMM", "eval-batch-divides": "MM", "other-loss": "MM", "truncated-sampling": "MMMMMMM", "long-weights": "M-", "temperature": "MMMMMM",
    "two-temperatures": "M", "tensor-parallel": "M-", "vllm-share": "-M", "vllm-sleep": "M", "weights-dtype": "M-", "lora-dropout": "MM", "lora-targets": "MMMMM",
}  # fmt: skip


@pytest.mark.parametrize("id", sorted(CASES.keys() - APART))
def test_severities_and_what_a_corrected_copy_mends(id):
    severity, bad, _ = CASES[id]
    found, mended = [], ""
    for case in bad:
        given, more = split(case)
        run = run_of({"seed": 1} | given if isinstance(given, dict) else given, **more)
        rows = [row for row in checks.results(run, GROUPS) if row["id"] == id and row["verdict"] == "fail"]
        found.append(min((row["severity"] for row in rows), key=list(checks.SEVERITIES).index))
        changes = {name: value for row in rows for name, value in row["change"].items()}
        renames = {old: new for row in rows for old, new in row["rename"].items()}
        if not changes and not renames:
            mended += "-"
            continue
        try:
            again = run_of(config.corrected(run.settings, changes, renames), **more)
        except config.ConfigError:
            mended += "X"
            continue
        left = {
            row["severity"] for row in checks.results(again, GROUPS) if row["id"] == id and row["verdict"] == "fail"
        }
        mended += "M" if not left or (id == "best-checkpoint" and left == {"waste"}) else "?"
    assert " ".join(found) == SEVERITIES.get(id, " ".join([severity] * len(bad)))
    assert mended == MENDED.get(id, "-" * len(bad))


RECIPES = {
    "reasoning.yaml": {
        "unknown-argument": 7, "old-argument": 2, "long-weights": 1, "vllm-share": 1, "vllm-context": 1, "vllm-sleep": 1,
        "learning-rate": 1,
    },
    "template.py": {
        "unknown-argument": 2, "log-rows": 1, "batch-divides": 1, "few-completions": 1, "learning-rate": 1, "lora-dropout": 1,
        "scheduler": 1,
    },
    "sequence.py": {
        "unknown-argument": 2, "dr-grpo-scaling": 1, "ratio-level": 1, "log-rows": 1, "batch-divides": 1, "inert-on-policy": 1,
        "few-completions": 1, "truncated-sampling": 1, "quantised-vllm": 1, "vllm-context": 1, "vllm-sleep": 1, "scheduler": 1,
    },
}  # fmt: skip


def call_in(text: str) -> trl.GRPOConfig:
    """The GRPOConfig of a script, built here; names of the script that are plain values are known."""
    tree, names = ast.parse(text), {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names[node.targets[0].id] = node.value.value
    (call,) = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and config.called(n) == "GRPOConfig"]
    source = ast.unparse(call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(source, {"GRPOConfig": lambda **values: trl.GRPOConfig(**{**values, **CPU})}, names)


def parsed_by_trl(path: Path):
    from trl import DatasetMixtureConfig, ModelConfig, TrlParser
    from trl.scripts.grpo import GRPOScriptArguments

    parser = TrlParser((GRPOScriptArguments, trl.GRPOConfig, ModelConfig, DatasetMixtureConfig))
    arguments = ["--config", str(path), "--use_cpu", "true", "--bf16", "false"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.parse_args_and_config(args=arguments, fail_with_unknown_args=True)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_that_no_longer_construct_are_diagnosed_and_mended(name, tmp_path, capsys):
    path = DATA / name
    run = checks.Run(config.read(path))
    changes, renames, rows = proposals(run)
    failed = [row["id"] for row in rows if row["verdict"] == "fail"]
    assert {id: failed.count(id) for id in failed} == RECIPES[name]
    copy = tmp_path / name
    text = config.corrected(run.settings, changes, renames)
    by_hand = {"dataset_prompt_column", "system_prompt"} & run.settings.values.keys()  # nobody knows what they meant
    assert all(f"\n{key}: " in text for key in by_hand)
    copy.write_text("".join(line for line in text.splitlines(True) if line.partition(":")[0] not in by_hand))
    if path.suffix == ".yaml":
        with pytest.raises((ValueError, SystemExit)):
            parsed_by_trl(path)
        training = parsed_by_trl(copy)[1]
        assert training.warmup_steps == 0.1 and training.activation_checkpointing_kwargs == {"use_reentrant": False}
    else:
        with pytest.raises(TypeError, match="unexpected keyword"):
            call_in(path.read_text())
        training = call_in(copy.read_text())
        assert training.warmup_steps == 0.1 and training.generation_batch_size % training.num_generations == 0
        assert name != "template.py" or "lora_dropout=0.0" in copy.read_text()
    capsys.readouterr()
    again = proposals(checks.Run(config.read(copy)))[2]
    assert not [row for row in again if row["verdict"] == "fail" and row["severity"] == "dead"]
    kept = set(path.read_text().splitlines())
    changed = [line for line in copy.read_text().splitlines() if line not in kept]
    assert len(changed) <= len(changes) + len(renames) + 2
    assert all("#" in line for line in (changed if path.suffix == ".yaml" else ()))


VALUES = {
    "beta": [0.0, 1e-06, 0.04], "num_generations": [2, 16], "loss_type": ["dr_grpo", "grpo"], "log_completions": [True, False], "epsilon_high": [0.28, None],
    "eval_strategy": ["no", "steps"], "generation_kwargs": [{"top_k": 5, "stop": ["no", "a: b"]}], "run_name": ["no", "1e-6", "ünïcode # no comment", "it's: \"x\""],
    "reward_weights": [[1.0, 0.5]], "scale_rewards": ["none"], "max_steps": [100], "learning_rate": [1e-6, 2e-05], "save_strategy": ["no"],
}  # fmt: skip
LAYOUTS = {
    "plain.yaml": "# head\nbeta: 0.1  # kl\n\n# groups\nnum_generations: 8\nreward_weights:\n- 1.0   # one\n- 2.0\n\n# loss\nloss_type: 'bnpo'\n"
                  "generation_kwargs:\n  top_k: 3\n\n  # of them\n  seed: 1\n# tail of it\neval_strategy: \"steps\"\nmax_prompt_length: 3\nrun_name: >-\n  a long\n  name\nseed: 1\n# end\n",
    "flow.yaml": "{beta: 0.1, num_generations: 8, max_prompt_length: 3, seed: 1}\n",
    "run.json": '{"beta": 0.1, "loss_type": "bnpo", "max_prompt_length": 3, "seed": 1}\n',
    "wide.py": "from trl import GRPOConfig\nargs = GRPOConfig(\n    output_dir='o',  # where\n    # kl\n    beta=0.1,\n    max_prompt_length=3,  # prompt\n"
               "    # after\n    num_generations=8,\n    loss_type='bnpo'  # last\n    # end\n)\nprint(args)  # kept\n",
    "tight.py": "from trl import GRPOConfig\nargs = GRPOConfig(output_dir='o', beta = 0.1, max_prompt_length=3)\n",
    "two.py": "import trl\nargs = trl.GRPOConfig(output_dir='o', seed=1, beta=b(),\n                      max_prompt_length=3, run_name='x',\n                      num_generations=8)\n",
    "nested.py": "from trl import GRPOConfig, GRPOTrainer\nt = GRPOTrainer('m', args=GRPOConfig(\n    max_prompt_length=3,\n    beta=0.1,),\n    reward_funcs=[f])\n",
    "mixed.py": "from trl import GRPOConfig\nargs = GRPOConfig(\n    'o',\n    beta=0.1, num_generations=8,  # both\n\n    # loss\n    max_prompt_length=3,\n"
                "    reward_weights=[\n        1.0,\n    ],\n)  # tail of it\n",
    "indented.yaml": "  beta: 0.1\n  # loss\n  max_prompt_length: 3 # kl\n  run_name: \"a # b\" # end\n  reward_weights: [1.0,\n    2.0] # groups",
    "empty.py": "from trl import GRPOConfig\nargs = GRPOConfig(max_prompt_length=3)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_corrected_copy_reads_back_as_wanted_and_keeps_the_rest(name):
    draw, path, text = random.Random(name), Path(name), LAYOUTS[name]

    def read(source):
        settings = (config.read_script if path.suffix == ".py" else config.read_yaml)(path, source)
        settings.text = source
        return settings

    before = read(text)
    assert config.corrected(before, {}) == text
    for _ in range(12):
        wanted = {key: draw.choice(VALUES[key]) for key in draw.sample(sorted(VALUES), draw.randint(1, 5))}
        own = sorted(
            key for key in before.values if config.arguments().get(key, {}).get("class", "GRPOConfig") == "GRPOConfig"
        )
        own = [key for key in own if (name, key) != ("mixed.py", "output_dir")]  # there it stands without its name
        gone = {key: config.DELETE for key in draw.sample(own, min(draw.randint(0, 2), len(own))) if key not in wanted}
        rename = (
            {"max_prompt_length": "vllm_max_model_length"}
            if draw.random() < 0.5 and "max_prompt_length" not in gone
            else {}
        )
        new = config.corrected(before, wanted | gone, rename)
        after = read(new)
        expected = {rename.get(key, key): value for key, value in before.values.items() if key not in gone} | wanted
        assert after.values == expected, new
        assert after.unread.keys() == before.unread.keys() - wanted.keys()
        for comment in (
            "# head",
            "# groups",
            "# loss",
            "# tail of it",
            "# end",
            "# kl",
            "# after",
            "print(args)  # kept",
        ):
            assert (comment in text) <= (comment in new), (comment, new)
        if path.suffix == ".py":
            ast.parse(new)


@pytest.mark.parametrize(("text", "changes", "line"), [
    (script("**base", "base = dict(beta=0.1)"), {"beta": 0.0}, 2),
    (script("**base()"), {"beta": 0.0}, None),
    (script("beta=0.1", "args.beta = 0.2\n"), {"beta": 0.0}, 3),
    (script("seed=1", "args.beta = 0.2\n"), {"beta": 0.0}, 3),
    (script("'out'"), {"output_dir": "x"}, 2),
    (script("seed=1", "c = LoraConfig(r=1)\nd = LoraConfig(r=2)\nt = GRPOTrainer('m', [f], args)\n"), {"lora_r": 4}, None),
    (script("seed=1", "t = GRPOTrainer('m', [f])\n"), {"model_name_or_path": "n"}, 3),
    ("base: &b\n  beta: 0.1\n<<: *b\n", {"beta": 0.0}, None),
])  # fmt: skip
def test_what_cannot_be_written_is_said_with_its_line(text, changes, line):
    with pytest.raises(config.ConfigError, match="by hand") as error:
        config.corrected(run_of(text).settings, changes)
    assert line is None or f":{line}: " in str(error.value)


def test_adapters_are_mended_where_they_are_made():
    text = script(
        "seed=1",
        "from peft import LoraConfig\nc = LoraConfig(\n    r=8,\n    lora_dropout=0.1,  # much\n)\nd = LoraConfig(r=4)\n"
        + TRAINER,
    )
    new = config.corrected(run_of(text).settings, {"lora_dropout": 0.0, "lora_target_modules": ["q_proj"]})
    assert '    lora_dropout=0.0,  # much\n    target_modules=["q_proj"],\n)' in new
    assert run_of(new).get("lora_target_modules") == ["q_proj"]


def test_a_comment_goes_with_the_last_argument_of_its_line():
    mixed = run_of(LAYOUTS["mixed.py"]).settings
    assert "    beta=0.1,  # both\n" in config.corrected(mixed, {"num_generations": config.DELETE})
    gone = config.corrected(mixed, dict.fromkeys(("beta", "num_generations"), config.DELETE))
    assert "    # removed: beta=0.1\n    # removed: num_generations=8  # both\n" in gone


def test_what_is_removed_from_a_script_leaves_a_line():
    tight = run_of(LAYOUTS["tight.py"]).settings
    gone = config.corrected(tight, dict.fromkeys(("beta", "max_prompt_length"), config.DELETE))
    assert gone.splitlines()[1:] == [
        "# removed: beta = 0.1",
        "# removed: max_prompt_length=3",
        "args = GRPOConfig(output_dir='o')",
    ]
    wide = config.corrected(
        run_of(LAYOUTS["wide.py"]).settings, dict.fromkeys(("max_prompt_length", "loss_type"), config.DELETE)
    )
    assert "    # removed: max_prompt_length=3  # prompt\n    # after\n    num_generations=8" in wide
    assert "    # removed: loss_type='bnpo'  # last\n    # end\n)" in wide


def test_a_missing_libcst_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "libcst", None)
    with pytest.raises(config.ConfigError, match="pip install libcst"):
        config.corrected(run_of(script("beta=0.1")).settings, {"beta": 0.0})


# ---- the table of arguments, the tables for the reference


SAMPLES = {"vllm_importance_sampling_cap": 2.0, "gradient_checkpointing_kwargs": {"use_reentrant": False}}


def test_changes_are_what_trl_says():
    known = config.arguments()
    rows = checks.changes()
    assert len(rows) > 30
    for old, row in rows.items():
        name, _, value = old.partition("=")
        assert row["on"] in ("TypeError", "FutureWarning", "mapped") and row["use"] and row["since"]
        assert row["new"] is None or row["new"] in known
        assert (name in known) == (row["on"] != "TypeError")
        if row["on"] == "TypeError":
            assert "unexpected keyword" in refusal({name: 1})
            assert "fail" in verdicts("unknown-argument", {name: 1})
        else:
            assert "fail" in verdicts(
                "old-argument", {name: {"True": True, "False": False}.get(value, SAMPLES.get(name, True))}
            )


def test_a_share_and_a_count_of_warmup_are_told_apart():
    ((row,), (over,)) = (
        [
            r
            for r in checks.results(run_of({"warmup_ratio": ratio}), ("arguments",))
            if r["verdict"] == "fail" and r["id"] == "unknown-argument"
        ]
        for ratio in (0.1, 1.0)
    )
    assert row["rename"] == {"warmup_ratio": "warmup_steps"} and over["change"] == {"warmup_ratio": config.DELETE}
    both = run_of({"warmup_ratio": 0.1, "warmup_steps": 5})
    changes, renames, _ = proposals(both)
    assert changes["warmup_ratio"] is config.DELETE and not renames


def test_tables_hold_every_row():
    table = checks.changes_table().splitlines()
    assert len(table) == len(checks.changes()) + 2 and all(line.count("|") == 5 for line in table)
    table = checks.checks_table().splitlines()
    assert len(table) == len(checks.CHECKS) + 2 and all(line.count("|") == 6 for line in table)
    assert len({known.id for known in checks.CHECKS}) == len(checks.CHECKS)


def test_the_checks_import_nothing_heavy_and_are_quick(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, time; sys.path.insert(0, 'scripts')\n"
        "import preflight_checks as c; heavy = {'torch', 'trl', 'transformers', 'yaml', 'libcst', 'numpy'} & sys.modules.keys()\n"
        "from pathlib import Path; run = c.Run(c.config.read(Path('tests/data/recipes/reasoning.yaml')))\n"
        f"start = time.process_time(); rows = c.results(run, {GROUPS}); print(heavy or 'light', time.process_time() - start)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=DATA.parents[2])
    light, seconds = said.stdout.split()
    assert light == "light" and float(seconds) < 0.3, said
