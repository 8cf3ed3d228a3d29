"""`replayer model`, and a replay of a model whose layers keep a state."""

import json
from pathlib import Path
from typing import Any

import pytest

from replayer.models.known import MODELS
from tests.support import traces
from tests.support.command_line import here, sentence

HYBRID = {
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_size": 64,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_value_head_dim": 16, "mamba_ssm_dtype": "float32",
}  # fmt: skip
TOKEN, STATE = 128, 3 * (3 * (2 * 2 * 16 + 4 * 16) * 2 + 4 * 16 * 16 * 4)


def shown(*arguments: object) -> str:
    done = here("replayer", "model", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(*arguments: object) -> Any:
    return json.loads(shown(*arguments, "--json"))


def test_the_geometry_is_printed_in_integers() -> None:
    rows = [line.split() for line in shown("openai/gpt-oss-120b", "--tensor-parallel", 2).splitlines()]
    assert "window 18 128 1,024 18,432 –".split() in rows
    assert "object of 131,072 tokens, in bytes 4,831,838,208".split() in rows


def test_all_names_are_listed_without_one() -> None:
    rows = [line.split() for line in shown().splitlines() if line.startswith("  ")][1:]
    assert [row[0] for row in rows] == list(MODELS)
    assert ["qwen3-8b", "36", "147,456", "–"] in rows
    assert ["qwen3.5-27b", "64", "65,536", "153,944,064"] in rows
    assert [one["bytes_per_token"] for one in read("--kv-dtype", "fp8")][:2] == [12_288, 65_536]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gpt9"], "--model gpt9"),
        (["qwen3-8b", "--tensor-parallel", 3], "--tensor-parallel 3"),
        (["qwen3-8b", "--pipeline-parallel", 37], "does not fit the 36 layers"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[object], words: str) -> None:
    sentence(here("replayer", "model", *arguments), words)


def test_an_object_is_charged_one_state(tmp_path: Path) -> None:
    """From the config to the run's conditions, a plan like the run's, and the verdict on its log."""
    config = tmp_path / "mine" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps(HYBRID))
    assert "\n  state, once per object, in bytes    " in shown(config)
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 1), ("w", 1, 50), ("r", 0, 1), ("r", 1, 50)]))
    flags = ["--model", config, "--order", "trace"]
    planned = json.loads(here("replayer", "plan", trace.path, *flags, "--json").stdout)
    assert planned["write_bytes"]["nvme"] == 51 * TOKEN + 2 * STATE
    done = here("replayer", "run", trace.path, *flags, "--layout", "null", "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    conditions = json.loads((tmp_path / "run" / "run.json").read_text())["conditions"]
    assert (conditions["bytes_per_token"], conditions["state_bytes_per_object"]) == (TOKEN, STATE)
    like = json.loads(here("replayer", "plan", trace.path, "--like", tmp_path / "run", "--json").stdout)
    assert like["plan_fingerprint"] == planned["plan_fingerprint"]
    told = here("analysis", "summary", tmp_path / "run")
    assert "rows moved more bytes" not in told.stdout
    assert "INVALID" not in told.stdout
