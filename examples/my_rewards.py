"""Rewards of one project: the library's, with this run's settings. TRL finds them by their import path."""

from scripts.rewards import correctness_reward, with_length_penalty

# Answers here need few tokens; TRL counts them in completion_ids.
concise_correctness = with_length_penalty(correctness_reward, target_len=8, penalty_per_token=0.05, name="concise")
