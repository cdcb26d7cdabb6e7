"""A tiny model and tokenizer built on the spot, and the real GRPOTrainer on a CPU."""

import dataclasses
import os

# Before torch is imported. On a busy two-core machine two threads were measured ten times slower than one.
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import pytest
import tiny_model
from tiny_dataset import ANSWERS, QUESTIONS, rows


@pytest.fixture(scope="session")
def warm_weights(tmp_path_factory):
    """Tokenizer and weights after the warm-up, for string and chat prompts: it takes a second, so once per session."""
    made = {}
    for conversational in (False, True):
        tokenizer = tiny_model.build_tokenizer([*QUESTIONS, *ANSWERS])
        model = tiny_model.build_model(tokenizer, seed=0)
        prompts = [row["prompt"] for row in rows(conversational)]
        tiny_model.warm_up(model, tokenizer, prompts, ANSWERS, steps=60)
        folder = tmp_path_factory.mktemp(
            "model"
        )  # with `beta` TRL loads the reference model from where the model is from
        model.save_pretrained(folder)
        made[conversational] = (tokenizer, model.state_dict(), folder)
    return made


@pytest.fixture
def build(warm_weights, tmp_path):
    """Makes a trainer on the tiny model, ready to train; `classes` are another trainer than GRPO's and its config."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def make(reward_funcs, dataset=None, conversational=False, classes=None, peft_config=None, **settings):
        tokenizer, weights, folder = warm_weights[conversational]
        model = tiny_model.build_model(tokenizer)
        model.load_state_dict(weights)
        model.config._name_or_path = str(folder)
        defaults = {
            "output_dir": str(tmp_path / "out"), "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no",
            "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 12, "max_steps": 2,
            "logging_steps": 1, "learning_rate": 1e-3, "disable_tqdm": True, "seed": 0, "log_completions": True,
            "num_completions_to_print": 0,
        }  # fmt: skip
        trainer_class, config_class = classes or (GRPOTrainer, GRPOConfig)
        known = {field.name for field in dataclasses.fields(config_class)}  # A2POConfig lacks some of the defaults
        return trainer_class(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward_funcs,
            args=config_class(**{key: defaults[key] for key in defaults if key in known} | settings),
            train_dataset=Dataset.from_list(dataset or rows(conversational)),
            **({"peft_config": peft_config} if peft_config else {}),
        )

    return make


@pytest.fixture
def train(build):
    """Runs a few real training steps and returns the trainer."""

    def run(*arguments, **settings):
        trainer = build(*arguments, **settings)
        trainer.train()
        return trainer

    return run
