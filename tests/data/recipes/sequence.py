"""A snippet of the family that shows sequence-level ratios on one small card, rebuilt by its faults: arguments that are
gone, a level that does nothing on-policy, a token's clip, a truncated sampler under vLLM, a quantised policy."""

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer
from unsloth import FastLanguageModel

max_seq_length = 1024
max_prompt_length = 256
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="org/small-instruct", max_seq_length=max_seq_length, load_in_4bit=True, fast_inference=True
)
model = FastLanguageModel.get_peft_model(model, r=32, target_modules=["q_proj", "v_proj"], lora_alpha=64, lora_dropout=0)
training_args = GRPOConfig(output_dir="out/sequence", learning_rate=5e-6, weight_decay=0.1, warmup_ratio=0.1,
                           optim="adamw_8bit", logging_steps=1, per_device_train_batch_size=1,
                           gradient_accumulation_steps=1, num_generations=4, max_prompt_length=max_prompt_length,
                           max_completion_length=max_seq_length - max_prompt_length, max_steps=250, save_steps=250,
                           importance_sampling_level="sequence", loss_type="dr_grpo", use_vllm=True, top_p=0.95,
                           report_to="none")  # fmt: skip
trainer = GRPOTrainer(
    model=model, processing_class=tokenizer, reward_funcs=[lambda completions, **kwargs: [len(c) for c in completions]],
    args=training_args, train_dataset=load_dataset("org/maths", split="train"),
)  # fmt: skip
trainer.train()
