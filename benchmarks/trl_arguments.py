#!/usr/bin/env python3
"""Write scripts/trl_arguments.json: what `trl grpo --config` takes in the installed TRL, by class."""

import dataclasses
import json
from importlib.metadata import version
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "scripts/trl_arguments.json"


def arguments() -> dict:
    from trl import DatasetMixtureConfig, GRPOConfig, ModelConfig
    from trl.scripts.grpo import GRPOScriptArguments

    owners = (GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig)  # as trl/scripts/grpo.py parses them
    names = {owner.__name__: sorted(field.name for field in dataclasses.fields(owner)) for owner in owners}
    return {"trl": version("trl"), "arguments": {**names, "TrlParser": ["config", "env"]}}


if __name__ == "__main__":
    TABLE.write_text(json.dumps(arguments(), indent=0) + "\n", encoding="utf-8")
