"""A template of the family that agent skills print for GRPO, rebuilt by its faults: arguments that are gone, a group
that does not fit the batch, a rate for full fine-tuning with LoRA."""

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

MODEL = "org/small-instruct"


def right(completions, answer, **kwargs):
    return [2.0 if gold in text else 0.0 for text, gold in zip(completions, answer)]


training_args = GRPOConfig(
    output_dir="out/template",
    # learning
    learning_rate=5e-7,
    warmup_ratio=0.1,  # a tenth
    lr_scheduler_type="cosine",
    optim="adamw_8bit",
    max_grad_norm=0.1,
    # batch
    per_device_train_batch_size=1,
    gradient_accumulation_steps=4,  # 4 in all
    num_generations=8,
    num_train_epochs=1,
    # lengths
    max_prompt_length=256,
    max_completion_length=512,
    # the rest
    bf16=True,
    use_vllm=False,
    logging_steps=1,
    save_steps=100,
    report_to="none",
)
model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16, attn_implementation="sdpa")
tokenizer = AutoTokenizer.from_pretrained(MODEL)
peft_config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM", target_modules="all-linear")
trainer = GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=[right],
    args=training_args,
    train_dataset=load_dataset("org/maths", split="train"),
    peft_config=peft_config,
)
trainer.train()
