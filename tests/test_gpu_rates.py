"""scripts/gpu_rates.py: bounds by hand, and no published rate above its bound unless it is listed here with the reason."""

import dataclasses
import importlib.util
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import gpu_rates
import pytest
from gpu_rates import GPUS, DecodeWork, Gpu, decode_bound, gpu, step_bound

ROOT = Path(__file__).parents[1]


def load_benchmark():
    spec = importlib.util.spec_from_file_location("rate_points", ROOT / "benchmarks" / "rate_points.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rate_points = load_benchmark()
POINTS = rate_points.load()
DECODE = [point for point in POINTS if point["kind"] == "decode"]

# Published rates above the bound, each with the reason why the bound stays.
ABOVE = {
    "decode-32B-dgx-sparkx1-16bit-b1-c0-vllm": "3.7 is printed to one decimal: 3.65 would be 1.00 of the bound",
}
SPARK = "dgx-spark"
# 7B class: 7.07e9 parameters read in 16 bits, 28 layers x 4 key-value heads x 128 x 2 x 2 bytes a token of cache.
SEVEN = DecodeWork(weight_bytes_read=2 * 7.07e9, cache_bytes_per_token=57_344, flops_per_token=2 * 7.07e9)
# 100 bytes/s and 1,000 FLOPS: everything below can be done in the head.
TOY = Gpu("toy", "toy", 1, bandwidth_bytes_s=200.0, dense_flops=1000.0, source="", rate_source="", sustained_share=0.5)


def misses(gpus: dict[str, Gpu]) -> list[str]:
    """Ids of the published decode rates that are above the bounds of these GPUs."""
    return [p["id"] for p in DECODE if rate_points.decode_ratio(p, gpus[p["gpu"]])[1] > 1]


@pytest.mark.parametrize("key", GPUS)
def test_each_gpu_is_complete(key):
    row = GPUS[key]
    assert key == row.key == key.lower() and gpu(row.key) is row
    assert isinstance(row.usable_bytes, int) and row.usable_bytes > 0
    assert row.bandwidth_bytes_s > 0 and row.dense_flops > 0 and 0.5 < row.sustained_share <= 1
    assert row.source.startswith("https://") and row.rate_source.startswith("https://") and " " not in row.source
    nominal = int(re.search(r"(\d+)GB", row.name)[1])
    assert 0.85 * nominal * 1e9 < row.usable_bytes < nominal * 2**30, "usable memory is out of proportion"


def test_the_table_has_what_people_rent_and_buy():
    wanted = """t4 l4 a10g rtx-3090 rtx-4090 rtx-5090 l40s rtx-6000-ada rtx-pro-6000 a100-40gb a100-80gb h100-80gb
    h20-96gb h200 b200 dgx-spark"""
    assert set(GPUS) >= {*wanted.split()}


def test_an_unknown_gpu_is_refused_in_one_line_with_the_choices():
    with pytest.raises(ValueError) as error:
        gpu("voodoo2")
    assert str(error.value) == f"unknown GPU 'voodoo2': choose from {', '.join(GPUS)}"
    assert "\n" not in str(error.value)
    assert gpu("RTX 4090") is GPUS["rtx-4090"]


def test_points_are_complete_and_name_known_gpus():
    assert len(DECODE) >= 30
    assert len({point["id"] for point in POINTS}) == len(POINTS)
    for point in POINTS:
        assert point["gpu"] in GPUS and point["gpus"] >= 1, point["id"]
        assert point["source"].startswith("https://") and point["quote"] and point["retrieved"], point["id"]
    for point in DECODE:
        assert point["tokens_s"] > 0 and point["batch"] >= 1 and point["parameters_read"] > 1e8, point["id"]


def test_no_published_rate_beats_its_bound_except_those_listed():
    assert misses(GPUS) == list(ABOVE)
    worst = max(rate_points.decode_ratio(p)[1] for p in DECODE)
    assert worst < 1.03, "a listed miss may only be one of rounding"


def test_a_wrong_bandwidth_is_found():
    """Known-bad input: each GPU's bandwidth halved. Where nobody comes near the bound, an error of two stays unseen."""
    found = set()
    for key in gpu_rates.VALIDATED:
        halved = dataclasses.replace(GPUS[key], bandwidth_bytes_s=GPUS[key].bandwidth_bytes_s / 2)
        if misses(GPUS | {key: halved}) != list(ABOVE):
            found.add(key)
    assert gpu_rates.VALIDATED - found == {"h20-96gb", "h200"}


def test_validated_are_the_gpus_with_points():
    assert {point["gpu"] for point in DECODE} == gpu_rates.VALIDATED


def test_sustained_shares_are_the_highest_that_were_measured():
    measured = {}
    for point in POINTS:
        if point["kind"] == "bandwidth":
            assert point["spec_bytes_s"] == GPUS[point["gpu"]].bandwidth_bytes_s, point["id"]
            measured[point["gpu"]] = max(measured.get(point["gpu"], 0), point["bytes_s"] / point["spec_bytes_s"])
    assert len(measured) >= 9
    for key, row in GPUS.items():
        assert row.sustained_share == pytest.approx(measured.get(key, gpu_rates.DEFAULT_SUSTAINED_SHARE), abs=6e-4), key
        assert row.share_kind.startswith("measured" if key in measured else "judgement"), key


def test_decode_by_hand():
    """14.14 GB of weights and 1,000 tokens x 57,344 bytes at 190 GB/s: 74.7 ms a token, 13.4 tokens/s."""
    plan = dataclasses.replace(GPUS[SPARK], bandwidth_bytes_s=190e9, sustained_share=1.0)
    bound = decode_bound(plan, SEVEN, sequences=1, context_tokens=1000)
    assert bound["seconds_per_token"] == pytest.approx(0.074723, abs=1e-6)
    assert bound["tokens_s"] == bound["tokens_s_per_sequence"] == pytest.approx(13.383, abs=1e-3)
    assert bound["bound_by"] == "memory: weights"
    # 64 sequences of 4,096 tokens: 15.03 GB of cache and 14.14 GB of weights are read for 64 tokens.
    many = decode_bound(plan, SEVEN, sequences=64, context_tokens=4096)
    assert many["tokens_s"] == pytest.approx(64 * 190e9 / (14.14e9 + 15_032_385_536), rel=1e-9)
    assert many["bound_by"] == "memory: cache"
    assert decode_bound(plan, SEVEN, 64, 4096, gpus=2)["tokens_s"] == pytest.approx(2 * many["tokens_s"])


def test_the_planned_bandwidth_of_the_spark_was_reached():
    assert GPUS[SPARK].unified and 190e9 < 218e9 < GPUS[SPARK].sustained_bytes_s < 234e9


def test_many_sequences_are_bound_by_compute():
    bound = decode_bound(GPUS["h100-80gb"], SEVEN, sequences=1024, context_tokens=0)
    assert bound["bound_by"] == "compute"
    assert bound["tokens_s"] == pytest.approx(989e12 / (2 * 7.07e9))


def test_step_by_hand():
    """100 bytes/s, 1,000 FLOPS; 200 bytes of weights, 10 bytes a token of cache, 20 FLOPs a token."""
    work = DecodeWork(200, 10, 20)
    bound = step_bound(
        TOY,
        work,
        sequences=3,
        concurrent=2,
        prompt_tokens=5,
        completion_tokens=3,
        scored=True,
        training_utilisation=(0.25, 0.5),
    )
    assert bound["prefill_seconds"] == pytest.approx(3 * 5 * 20 / 1000)
    # Two at once: (200 + 2 x 10 x context) / 100 at 5, 6, 7; then one alone: (200 + 10 x context) / 100.
    assert bound["decode_seconds"] == pytest.approx((3.0 + 3.2 + 3.4) + (2.5 + 2.6 + 2.7))
    assert bound["rollout_seconds"] == pytest.approx(0.3 + 17.4)
    # 3 sequences x 8 tokens x 20 FLOPs x (forward, two backward, scoring).
    assert bound["train_seconds_low"] == pytest.approx(3 * 8 * 20 * 4 / 500)
    assert bound["train_seconds_high"] == pytest.approx(3 * 8 * 20 * 4 / 250)
    assert bound["generation_share_low"] == pytest.approx(17.7 / (17.7 + 7.68))
    assert bound["generation_share_high"] == pytest.approx(17.7 / (17.7 + 3.84))


@pytest.mark.parametrize("sequences, flops", [(1, 1), (50, 60), (50, 64.5), (50, 1000), (7, 0)])
def test_a_wave_is_the_sum_of_its_tokens(sequences, flops):
    work = DecodeWork(200, 10, flops)
    bound = step_bound(TOY, work, sequences=sequences, prompt_tokens=4, completion_tokens=40)
    by_token = sum(decode_bound(TOY, work, sequences, 4 + done)["seconds_per_token"] for done in range(40))
    assert bound["decode_seconds"] == pytest.approx(by_token)


def test_the_compute_to_memory_turn_inside_a_wave_is_summed():
    """A wave that starts bound by compute and ends bound by memory."""
    work = DecodeWork(200, 10, 500)
    assert decode_bound(TOY, work, 10, 0)["bound_by"] == "compute"
    assert decode_bound(TOY, work, 10, 39)["bound_by"] == "memory: cache"
    bound = step_bound(TOY, work, sequences=10, prompt_tokens=0, completion_tokens=40)
    by_token = sum(decode_bound(TOY, work, 10, done)["seconds_per_token"] for done in range(40))
    assert bound["decode_seconds"] == pytest.approx(by_token)


def test_training_passes():
    """FLOPs a parameter: 6 full, 4 LoRA, 2 more each for checkpointing, scoring and a reference."""

    def flops_per_parameter(**options):
        bound = step_bound(
            TOY,
            DecodeWork(1, 0, 2),
            sequences=1,
            prompt_tokens=0,
            completion_tokens=1,
            training_utilisation=(1, 1),
            **options,
        )
        return bound["train_seconds_low"] * TOY.dense_flops

    assert flops_per_parameter() == pytest.approx(6)
    assert flops_per_parameter(trained_parameters_share=0) == pytest.approx(4)
    assert flops_per_parameter(checkpointing=True, scored=True, reference=True) == pytest.approx(12)


def test_a_shared_prompt_is_prefilled_once():
    one = step_bound(TOY, DecodeWork(1, 0, 2), sequences=16, prompt_tokens=9, completion_tokens=1)
    group = step_bound(TOY, DecodeWork(1, 0, 2), sequences=16, prompt_tokens=9, completion_tokens=1, generations=8)
    assert one["prefill_seconds"] == pytest.approx(8 * group["prefill_seconds"])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"sequences": 0}, "sequences"),
        ({"completion_tokens": math.nan}, "completion_tokens"),
        ({"concurrent": 0}, "concurrent"),
        ({"training_utilisation": (0.5, 0.3)}, "training_utilisation"),
        ({"gpus": 0}, "gpus"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"sequences": 8, "prompt_tokens": 10, "completion_tokens": 10} | change
    with pytest.raises(ValueError, match=message):
        step_bound(TOY, SEVEN, **given)


def test_published_steps_and_training_are_slower_than_the_bounds():
    steps = [point for point in POINTS if point["kind"] == "step"]
    assert len(steps) >= 3
    for point in steps:
        times = point["seconds"] / rate_points.step_of(point)["step_seconds_low"]
        assert 2 <= times <= 5.1, point["id"]  # estimate_memory.py prints "2 to 5 times"
    train = [point for point in POINTS if point["kind"] == "train"]
    assert len(train) >= 8
    assert all(rate_points.utilisation(point) < 1 for point in train)


def test_the_training_utilisation_quotes_the_points():
    def span(choose):
        shares = [rate_points.utilisation(p) for p in POINTS if p["kind"] == "train" and choose(p)]
        return f"{min(shares):.2f} to {max(shares):.2f}"

    text = gpu_rates.TRAINING_UTILISATION_SOURCE
    assert span(lambda p: p["gpu"] == "h100-80gb" and p["method"].startswith("pre")) in text
    assert span(lambda p: p["gpu"].startswith("a100") and p["method"].startswith("pre")) in text
    assert span(lambda p: p["gpus"] == 1) in text
    assert span(lambda p: p["size_class"] == "3B") in text


def test_the_command_prints_every_gpu_and_the_miss(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rate_points.py"])
    assert rate_points.main() == 0
    out = capsys.readouterr().out
    assert out.count("**miss**") == len(ABOVE)
    for key, row in GPUS.items():
        assert row.name in out
        assert (f"- {row.name}: bound, unvalidated" in out) == (key not in gpu_rates.VALIDATED)
    assert sum(line.startswith("|") for line in out.split("Training:")[0].splitlines()) <= 27
    assert rate_points.main() == 0 and capsys.readouterr().out == out


def test_nothing_to_compare_fails(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rate_points.py"])
    monkeypatch.setattr(rate_points, "load", list)
    assert rate_points.main() == 1
    assert "nothing was compared" in capsys.readouterr().err


def test_import_needs_only_the_standard_library():
    code = "import sys; before = set(sys.modules); import gpu_rates; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in done.stdout.split()} - {"gpu_rates"}
    assert loaded <= sys.stdlib_module_names


def test_points_file_is_one_object_a_line():
    lines = (ROOT / "tests" / "data" / "rate_points.json").read_text(encoding="utf-8").splitlines()
    assert [lines[0], lines[-1]] == ["[", "]"] and len(lines) == len(POINTS) + 2
    assert all(json.loads(line.rstrip(",")) for line in lines[1:-1])
