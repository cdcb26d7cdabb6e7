#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6", "transformers>=5", "tokenizers"]
# ///
"""Build a model of about 90,000 parameters, with tokenizer and chat template, that GRPO trains on a CPU in seconds.

It rehearses a run: the trainer, the config, the dataset and the rewards are the real ones, only the policy is a toy.
Every word of the prompts is one token, every digit and sign too. A short supervised warm-up teaches it the shape
`<reasoning>so</reasoning><answer>...</answer>` with answers drawn at random, because GRPO needs what a model fresh from
its initialisation does not have: a success rate above 0. So it can rehearse tasks whose answer stands in `<answer>`
tags; set `max_completion_length` above 7 plus the pieces of the longest answer.
"""

import argparse
import json
import os
import random
import re
import sys
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for a model this small, threads cost more than they bring

SPECIAL = ["<pad>", "<eos>", "<unk>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
TAGS = ["<reasoning>", "</reasoning>", "<answer>", "</answer>", "so"]
PIECE = r"</?[a-z]+>|[A-Za-z]+|\d|\s|[^\sA-Za-z\d]"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tokenizer(texts: list[str]):
    """A tokenizer whose vocabulary is the pieces of `texts`; whitespace is a piece too, so decoding loses nothing."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = sorted({piece for text in texts for piece in re.findall(PIECE, text)} - set(TAGS))
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *TAGS, *pieces])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIAL)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def build_model(tokenizer, seed: int = 0, hidden_size: int = 64, layers: int = 2):
    # Not every kind: transformers 5 ignores a saved pre-tokenizer where it has a tokenizer class for the kind of model.
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        attention_bias=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def render(tokenizer, prompt) -> str:
    """A prompt as the trainer will show it: text as it is, chat messages through the template."""
    if isinstance(prompt, str):
        return prompt
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def warm_up(model, tokenizer, prompts: list, answers: list[str], steps: int, seed: int = 0) -> float:
    """Teach the shape, not the answers: each step pairs prompts with answers drawn at random. Returns the last loss."""
    import torch

    choose = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    loss = torch.tensor(float("nan"))
    for _ in range(steps):
        rows, labels = [], []
        for prompt in choose.choices(prompts, k=16):
            answer = choose.choice(answers)
            text = f"<reasoning>so</reasoning><answer>{answer}</answer><eos>"
            start = tokenizer(render(tokenizer, prompt))["input_ids"]
            target = tokenizer(text)["input_ids"]
            rows.append(start + target)
            labels.append([-100] * len(start) + target)
        width = max(map(len, rows))
        pad = tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
        targets = torch.tensor([[-100] * (width - len(row)) + row for row in labels])
        loss = model(input_ids=ids, attention_mask=(ids != pad).long(), labels=targets).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return loss.item()


def read_prompts(path: Path) -> tuple[list, list[str]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        prompts, answers = [row["prompt"] for row in rows], [str(row["answer"]) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{path}: needs one {{"prompt", "answer"}} object per line ({error!r:.100})') from None
    if not rows:
        raise ValueError(f"{path}: holds no prompts")
    return prompts, answers


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python examples/tiny_model.py --prompts examples/prompts.jsonl --out runs/tiny-model\n"
        "exit codes: 0 = written, 2 = bad usage or input",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--prompts", type=Path, required=True, help="JSONL with prompt and answer: the words it must know"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder to write model and tokenizer to; must be new or empty"
    )
    parser.add_argument("--warm-up-steps", type=int, default=40, help="supervised steps of 16 rows (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and warm-up (default 0)")
    args = parser.parse_args()
    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        print(f"error: {args.out}: is there already; name a new folder or remove it", file=sys.stderr)
        return 2
    try:
        prompts, answers = read_prompts(args.prompts)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    contents = [prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt) for prompt in prompts]
    tokenizer = build_tokenizer([*contents, *answers])
    model = build_model(tokenizer, args.seed)
    loss = warm_up(model, tokenizer, prompts, answers, args.warm_up_steps, args.seed)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    note = f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens, warm-up loss {loss:.2f}"
    print(f"{args.out}: {note}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
