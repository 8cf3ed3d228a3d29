"""The command line: one sentence and exit code 2 for bad input, equal traces from equal recipes."""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import traces
from tests.support.command_line import Run, here, sentence
from tests.support.mounts import tmpfs
from tests.support.paths import DEMO, ROOT, SAMPLE
from tracegen.schema import Trace

# Pinned for ever: the demo's recipe on the shipped sample. If this changes, traces made before are not reproducible.
GOLDEN = "76865a5dc115f14193936e194c87917f8ddddbc97ef035a03e14063471e18d87"


def test_golden_fingerprint(demo: Trace) -> None:
    assert demo.metadata.fingerprint == GOLDEN


def test_equal_recipes_give_equal_traces_anywhere(run: Run, tmp_path: Path) -> None:
    prints = set()
    for number, env in enumerate(
        ({"PYTHONHASHSEED": "1", "LC_ALL": "C"}, {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8"})
    ):
        path = tmp_path / f"{number}.parquet"
        run("tracegen", "generate", DEMO, "-o", path, env=env)
        prints.add(Trace(path).metadata.fingerprint)
    assert prints == {GOLDEN}


def test_seeds_zero_and_one_differ(run: Run, tmp_path: Path) -> None:
    for seed in (0, 1):
        run("tracegen", "generate", "--sharegpt", SAMPLE, "--seed", seed, "-o", tmp_path / f"{seed}.parquet")
    zero, one = (Trace(tmp_path / f"{seed}.parquet").metadata for seed in (0, 1))
    assert zero.fingerprint != one.fingerprint
    assert zero.recipe["seed"] == 0


def test_metadata_says_where_a_trace_comes_from(demo: Trace) -> None:
    (source,) = demo.metadata.sources
    assert source["name"] == SAMPLE.name
    assert source["licence"] == "CC0-1.0"
    assert len(source["sha256"]) == len(demo.metadata.tokenizer["digest"]) == 64  # type: ignore[index]
    assert demo.metadata.tokenizer["name"] == "tekken_240911"  # type: ignore[index]
    assert demo.metadata.recipe["sharegpt"]["path"] == SAMPLE.name, "no folder of this machine"
    assert list(demo.problems()) == []


def test_info_and_validate(run: Run, demo_trace: Path) -> None:
    facts = json.loads(run("tracegen", "info", demo_trace, "--json").stdout)
    assert facts["ops"] == facts["reads"] + facts["writes"] == facts["metadata"]["counts"]["ops"]
    assert sum(row["reads"] for row in facts["reuse"]) == facts["reads"]
    shown = run("tracegen", "info", demo_trace).stdout
    assert facts["metadata"]["fingerprint"] in shown
    assert "prefill multi_turn" in shown
    assert "valid, fingerprint" in run("tracegen", "validate", demo_trace).stdout
    assert json.loads(run("tracegen", "validate", demo_trace, "--json").stdout)["problems"] == []


def test_flags_override_the_recipe(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    flags = [
        "--users",
        3,
        "--requests",
        9,
        "--set",
        "prefix.share=1",
        "--set",
        "prefix.tokens=[5]",
        "--max-context-tokens",
        7,
    ]
    run("tracegen", "generate", DEMO, *flags, "-o", path)
    recipe = Trace(path).metadata.recipe
    assert (recipe["users"], recipe["requests"], recipe["prefix"]["tokens"]) == (3, 9, [5])
    assert Trace(path).metadata.counts["requests"] == 9
    (batch,) = Trace(path).batches()
    assert batch["tokens"].max() <= 7


def test_file_names_are_not_taken_for_patterns_or_urls(run: Run, tmp_path: Path) -> None:
    trace, folder, made = tmp_path / "abc:1[x]*?.parquet", tmp_path / "run:[1]*", ["--model", "tiny-1b"]
    run("tracegen", "generate", DEMO, "--requests", 9, "-o", trace.name, cwd=tmp_path)
    assert json.loads(run("tracegen", "info", trace.name, "--json", cwd=tmp_path).stdout)["ops"] > 0
    run("replayer", "run", trace.name, *made, "--cache-dir", "c*", "-o", folder.name, cwd=tmp_path)
    assert "VALID" in run("analysis", "summary", folder.name, cwd=tmp_path).stdout


def test_too_few_conversations_give_a_warning(run: Run, tmp_path: Path) -> None:
    done = run("tracegen", "generate", DEMO, "--requests", 100_000, "-o", tmp_path / "t.parquet")
    assert "Warning: 100,000 requests were asked for" in done.stderr


BAD_GENERATE = {
    "no source": (["-o", "{out}"], ["--sharegpt"]),
    "no file": (["--sharegpt", "{dir}/none.json", "-o", "{out}"], ["none.json"]),
    "a directory": (["--sharegpt", "{dir}", "-o", "{out}"], ["{dir}"]),
    "no recipe": (["{dir}/none.toml", "-o", "{out}"], ["none.toml"]),
    "unknown key": (["{demo}", "--set", "user=3", "-o", "{out}"], ["user", "did you mean users?"]),
    "unknown nested key": (["{demo}", "--set", "prefix.shar=3", "-o", "{out}"], ["did you mean prefix.share?"]),
    "wrong type": (["{demo}", "--set", "users=many", "-o", "{out}"], ["users", "number"]),
    "out of range": (["{demo}", "--set", "prefix.share=2", "-o", "{out}"], ["prefix.share"]),
    "no users": (["{demo}", "--users", "0", "-o", "{out}"], ["users"]),
    "no equals": (["{demo}", "--set", "users", "-o", "{out}"], ["KEY=VALUE"]),
    "negative seed": (["{demo}", "--seed", "-1", "-o", "{out}"], ["seed"]),
    "no such tokenizer": (["{demo}", "--tokenizer", "{dir}/none", "-o", "{out}"], ["--tokenizer", "tekken"]),
    "no output": (["{demo}"], ["-o"]),
    "mistyped flag": (["{demo}", "--userz", "3", "-o", "{out}"], ["--userz"]),
    "no such folder": (["{demo}", "-o", "{dir}/none/t.parquet"], ["none/t.parquet"]),
    "too slow for int64": (["{demo}", "--set", "session_rate=1e-12", "-o", "{out}"], ["session_rate"]),
    "absurd weight": (["{demo}", "--set", "qos.batch=99999999999999999999", "-o", "{out}"], ["qos"]),
    "negative room": (["{demo}", "--set", "replay.cpu_mem_gb=-4", "-o", "{out}"], ["replay.cpu_mem_gb"]),
    "5,000 digits": (["{demo}", "--set", "seed=" + 5000 * "9", "-o", "{out}"], ["seed", "number"]),
    "5,000 hexadecimal digits": (["{demo}", "--set", "seed=0x" + 5000 * "f", "-o", "{out}"], ["seed", "number"]),
    "a shard of 5,000 digits": (["{demo}", "--shard", 5000 * "9" + "/9", "-o", "{out}"], ["--shard", "I/N"]),
    "a name that is none": (["{demo}", "-o", "{dir}/a\udcff.parquet"], ["-o"]),
    "a device as recipe": (["/dev/zero", "-o", "{out}"], ["/dev/zero", "TOML"]),
    "nothing arrives": (["{demo}", "--duration", "1e-9", "-o", "{out}"], ["duration_s = 1e-09"]),
}


@pytest.mark.parametrize("name", BAD_GENERATE)
def test_generate_refuses_bad_input(run: Run, tmp_path: Path, name: str) -> None:
    arguments, words = BAD_GENERATE[name]
    places = {"dir": str(tmp_path), "out": str(tmp_path / "t.parquet"), "demo": str(DEMO)}
    done = run("tracegen", "generate", *(one.format(**places) for one in arguments), ok=False)
    sentence(done, *(word.format(**places) for word in words))
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_recipes_that_are_not_toml_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("users = = 3")
    sentence(run("tracegen", "generate", tmp_path / "r.toml", "-o", tmp_path / "t", ok=False), "r.toml", "line 1")
    (tmp_path / "r.toml").write_text(f"users = {'[' * 10_000}")
    sentence(run("tracegen", "generate", tmp_path / "r.toml", "-o", tmp_path / "t", ok=False), "r.toml", "TOML")
    (tmp_path / "r.toml").write_text("users = 0")
    sentence(run("tracegen", "generate", tmp_path / "r.toml", "-o", tmp_path / "t", ok=False), "r.toml", "users")
    (tmp_path / "r.toml").write_text("[prefix]\nshare = 0.5\ntoken = [1]")
    sentence(run("tracegen", "generate", tmp_path / "r.toml", "-o", tmp_path / "t", ok=False), "prefix.tokens")


def test_an_existing_trace_is_kept_unless_forced(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("precious")
    sentence(run("tracegen", "generate", DEMO, "-o", path, ok=False), "--force")
    assert path.read_text() == "precious"
    run("tracegen", "generate", DEMO, "-o", path, "--force")
    assert Trace(path).ops > 0


BAD_PLAN = {
    "no trace": (["{dir}/none.parquet"], ["none.parquet"]),
    "not a trace": (["{sample}"], ["sample_sharegpt.json", "Parquet"]),
    "unknown model": (["{trace}", "--model", "llama9"], ["--model llama9", "llama3.1-8b"]),
    "no room": (["{trace}", "--cpu-mem-gb", "0", "--storage-capacity-gb", "0"], ["--storage-capacity-gb"]),
    "negative room": (["{trace}", "--cpu-mem-gb", "-1"], ["--cpu-mem-gb"]),
    "not a number": (["{trace}", "--cpu-mem-gb", "four"], ["--cpu-mem-gb", "four"]),
    "nan": (["{trace}", "--cpu-mem-gb", "nan"], ["--cpu-mem-gb"]),
    "a headroom of nan": (["{trace}", "--set", "headroom=nan"], ["--set headroom"]),
    "absurd": (["{trace}", "--cpu-mem-gb", "1e400"], ["--cpu-mem-gb"]),
    "headroom": (["{trace}", "--set", "headroom=1.5"], ["--set headroom"]),
    "tensor parallel": (
        ["{trace}", "--model", "llama3.1-8b", "--set", "tensor_parallel=3"],
        ["--set tensor_parallel=3"],
    ),
    "wrong choice": (["{trace}", "--decode", "twice"], ["--decode", "reread"]),
}


@pytest.mark.parametrize("name", BAD_PLAN)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_plan_and_run_refuse_bad_input(run: Run, demo_trace: Path, tmp_path: Path, name: str, command: str) -> None:
    arguments, words = BAD_PLAN[name]
    places = {"dir": str(tmp_path), "trace": str(demo_trace), "sample": str(SAMPLE)}
    more = ["--cache-dir", tmp_path / "cache", "-o", tmp_path / "run"] if command == "run" else []
    sentence(here("replayer", command, *(one.format(**places) for one in arguments), *more), *words)
    assert not (tmp_path / "run").exists()


BAD_RUN = {
    "no cache dir": (["-o", "{dir}/run"], ["--cache-dir"]),
    "cache dir is a file": (["-o", "{dir}/run", "--cache-dir", "{sample}"], ["--cache-dir", "file"]),
    "no workers": (
        ["-o", "{dir}/run", "--cache-dir", "{dir}/c", "--workers", "0"],
        ["'--workers': 0"],
    ),
    "no window": (
        ["-o", "{dir}/run", "--cache-dir", "{dir}/c", "--set", "window=0"],
        ["'--set window': 0"],
    ),
    "no output": (["--cache-dir", "{dir}/c"], ["-o"]),
    "gpu": (["-o", "{dir}/run", "--cache-dir", "{dir}/c", "--gpu-mem-gb", "1"], ["--gpu-mem-gb"]),
    "too much memory": (
        ["-o", "{dir}/run", "--cache-dir", "{dir}/c", "--cpu-mem-gb", "900000"],
        ["--cpu-mem-gb"],
    ),
}


@pytest.mark.parametrize("name", BAD_RUN)
def test_run_refuses_bad_input(run: Run, demo_trace: Path, tmp_path: Path, name: str) -> None:
    arguments, words = BAD_RUN[name]
    places = {"dir": str(tmp_path), "sample": str(SAMPLE)}
    done = here("replayer", "run", demo_trace, *(one.format(**places) for one in arguments))
    sentence(done, *words)
    assert not (tmp_path / "run").exists()


def test_a_trace_that_breaks_the_format_is_refused(run: Run, tmp_path: Path) -> None:
    batch = traces.columns([("r", 0, 5), ("w", 1, -3)])
    path = traces.write(tmp_path / "bad.parquet", batch).path
    done = run("replayer", "plan", path, "--model", "tiny-1b", ok=False)
    sentence(done, "bad.parquet, row 0: key = 0: used before it was written", "tracegen validate")
    listed = run("tracegen", "validate", path, ok=False)
    assert listed.returncode == 1
    assert "row 0: key = 0: used before it was written" in listed.stdout
    assert "row 1: tokens = -3: must be at least 1" in listed.stdout


@pytest.fixture(scope="module")
def small_trace(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's first 120 requests, whose objects take more than 64 MiB."""
    path = tmp_path_factory.mktemp("small") / "t.parquet"
    run("tracegen", "generate", DEMO, "--requests", 120, "-o", path)
    return path


def test_a_plan_too_large_for_the_disk_is_refused_with_a_size_that_fits(
    run: Run, small_trace: Path, tmp_path: Path
) -> None:
    with tmpfs(tmp_path / "small", "64m") as place:
        common = [small_trace, "--model", "tiny-1b", "--cpu-mem-gb", 0, "--cache-dir", place]
        unlimited = ["--storage-capacity-gb", 1000, "-o", tmp_path / "run"]
        refused = run("replayer", "run", *common, *unlimited, ok=False)
        sentence(refused, str(place))
        advice = refused.stderr.split("pass ")[1].split()[:2]
        run("replayer", "run", *common, *advice, "-o", tmp_path / "run")
        (place / "filler").write_bytes(bytes(60 << 20))
        sentence(run("replayer", "run", *common, *advice, "-o", tmp_path / "run2", ok=False), "are free")


@pytest.mark.parametrize(
    "replay",
    [[1], {"model": 5}, {"cpu_mem_gb": "lots"}, {"cpu_mem_gb": float("nan")}, {"model": "tiny-1b", "decode": "thrice"}],
    ids=["list", "model", "word", "nan", "decode"],
)
def test_a_foreign_recipe_with_bad_replay_defaults_is_refused(run: Run, tmp_path: Path, replay: object) -> None:
    path = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 5)]), recipe={"replay": replay}).path
    done = run("replayer", "plan", path, ok=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_a_flag_lifts_the_capacity_of_a_recipe(run: Run, demo_trace: Path) -> None:
    found = [
        json.loads(run("replayer", "plan", demo_trace, *flags, "--json").stdout)["drops"]
        for flags in ([], ["--storage-capacity-gb", "unlimited"])
    ]
    assert found[0] > 0 == found[1]


def test_plan_counts_add_up(run: Run, demo_trace: Path) -> None:
    flags = ["--model", "tiny-1b", "--gpu-mem-gb", "0.02", "--cpu-mem-gb", "0.05", "--storage-capacity-gb", "0.1"]
    found = json.loads(run("replayer", "plan", demo_trace, *flags, "--json").stdout)
    assert set(found) == {
        "ops", "reads", "decode", "hit_rate_tokens", "hits", "misses", "stores", "demotions", "promotions", "drops", "bypasses", "recomputed_tokens",
        "read_bytes", "write_bytes", "peak_bytes", "trace_fingerprint", "plan_fingerprint", "order", "offered",
        "arrangement", "rules", "findings",
    }  # fmt: skip
    assert set(found["demotions"]) == {"gpu>cpu", "gpu>nvme", "cpu>nvme"}
    assert found["reads"] == sum(found["hits"].values()) + found["misses"]
    assert sum(found["stores"].values()) == found["ops"] - found["reads"] + found["misses"] - found["bypasses"]
    assert found["drops"] > 0
    assert found["peak_bytes"]["nvme"] <= int(0.1 * 2**30)
    assert found["trace_fingerprint"] == GOLDEN
    assert "tier" in run("replayer", "plan", demo_trace, *flags).stdout


def test_a_run_with_the_null_layout_has_a_warning(run: Run, small_trace: Path, tmp_path: Path) -> None:
    done = run("replayer", "run", small_trace, "--model", "tiny-1b", "--layout", "null", "-o", tmp_path / "run")
    assert "null layout" in done.stderr
    assert "null layout" in run("analysis", "summary", tmp_path / "run").stdout


def test_the_readme_names_the_demos_trace() -> None:
    assert f"Its trace is {GOLDEN[:12]}… on every machine" in (ROOT / "README.md").read_text()


def test_the_fingerprint_snippet_of_the_format_works(demo_trace: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "trace-format.md").read_text()
    snippet = textwrap.dedent("    import hashlib" + text.split("    import hashlib")[1].split("\n\n")[0])
    shutil.copy(demo_trace, tmp_path / "trace.parquet")
    done = subprocess.run([sys.executable, "-c", snippet], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == GOLDEN


def test_versions(run: Run) -> None:
    assert {run(tool, "--version").stdout.split()[-1] for tool in ("tracegen", "replayer", "analysis")} == {"0.1.0"}
