"""Additions of two digits: the dataset of the trainer tests."""

ANSWERS = list("0123456789")
QUESTIONS = [f"{a} + {b} =" for a in range(3) for b in range(3)]


def rows(conversational: bool, **columns) -> list[dict]:
    """Nine prompts with an integer gold, as a dataset with an int64 column gives it."""
    prompts = [[{"role": "user", "content": text}] if conversational else text for text in QUESTIONS]
    return [
        {"prompt": prompt, "answer": index // 3 + index % 3, **{name: value[index] for name, value in columns.items()}}
        for index, prompt in enumerate(prompts)
    ]
