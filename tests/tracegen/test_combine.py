"""Parts, merges, slices and scales are traces again, and parts merged are the trace of a single process."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import traces
from tests.support.command_line import Run, sentence
from tests.support.mounts import tmpfs
from tests.support.paths import DEMO
from tests.support.workloads import recipes
from tracegen.derive import combine
from tracegen.derive.combine import Selection, joined_parts, merge, scale, slice_
from tracegen.describe.diff import difference
from tracegen.errors import InputError
from tracegen.files.trace_writer import TraceWriter
from tracegen.generate import batches, generate, open_sources
from tracegen.recipe.recipe import Mix, Persona, Prefix, Rag, Recipe
from tracegen.schema import Columns, Fingerprint, Metadata, Trace
from tracegen.workload.schedule import Schedule, survey

RECIPE = Recipe(users=9, requests=300, mix=Mix(personas=2, rag=1), rag=Rag(share=0.3, documents=7))


def written(path: Path, made: tuple[Metadata, Any]) -> Trace:
    metadata, parts = made
    with TraceWriter(path, metadata, force=True) as writer:
        for batch in parts:
            writer.write(batch)
    trace = Trace(path)
    assert [str(problem) for problem in trace.problems()] == []
    return trace


def whole(trace: Trace) -> Columns:
    return traces.joined(list(trace.batches()))


def shards(folder: Path, recipe: Recipe, count: int) -> list[Trace]:
    paths = [folder / f"{number}.parquet" for number in range(count)]
    for number, path in enumerate(paths):
        generate(recipe, path, part=(number, count), force=True, quiet=True)
        assert not list(Trace(path).problems())
    return [Trace(path) for path in paths]


@pytest.mark.parametrize("block", [0, 64])
def test_shards_and_jobs_give_the_single_process_trace(tmp_path: Path, block: int) -> None:
    recipe = replace(RECIPE, block_tokens=block, save_decode=bool(block))
    single = generate(recipe, tmp_path / "single.parquet", quiet=True)
    merged = written(tmp_path / "merged.parquet", merge(shards(tmp_path, recipe, 4)[::-1]))
    assert merged.metadata.fingerprint == single.fingerprint
    assert merged.metadata.counts == single.counts
    assert merged.metadata.recipe == json.loads(json.dumps(single.recipe))
    jobs = generate(recipe, tmp_path / "jobs.parquet", jobs=2, quiet=True)
    assert jobs.fingerprint == single.fingerprint
    assert not difference(Trace(tmp_path / "jobs.parquet"), merged).text.count("differ")


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(recipes, st.integers(2, 5))
def test_any_recipes_parts_merge_to_the_whole(recipe: Recipe, count: int) -> None:
    recipe = replace(recipe, mix=replace(recipe.mix, sharegpt=0, personas=recipe.mix.personas or 1))
    sources = open_sources(recipe, Metadata(0, {}, ""), quiet=True)
    cut = survey(recipe, sources)
    parts = [batches(recipe, sources, (number, count), cut) for number in range(count)]
    prints = []
    for ops in (
        batches(recipe, sources, (0, 1), cut),
        joined_parts(parts, Schedule(recipe, sources, cut=cut).users),
    ):
        fingerprint = Fingerprint()
        for batch in ops:
            fingerprint.update(batch)
        prints.append(fingerprint.hexdigest())
    assert prints[0] == prints[1]


def test_parts_without_users_are_not_missed(run: Run, tmp_path: Path) -> None:
    recipe = ["--set", "mix.personas=1", "--users", 1, "--requests", 50]
    run("tracegen", "generate", *recipe, "--shard", "0/3", "-o", tmp_path / "0.parquet")
    sentence(
        run("tracegen", "generate", *recipe, "--shard", "1/3", "-o", tmp_path / "1.parquet", ok=False), "part 1 of 3"
    )
    run("tracegen", "merge", tmp_path / "0.parquet", "-o", tmp_path / "t.parquet")
    run("tracegen", "generate", *recipe, "-o", tmp_path / "whole.parquet")
    assert "are equal" in run("tracegen", "diff", tmp_path / "t.parquet", tmp_path / "whole.parquet").stdout


@pytest.mark.parametrize(("seed", "users"), [(798, 3), (1284, 3), (1334, 3), (1374, 2)])
def test_nobody_is_forgotten_while_another_has_nothing_more_to_ask(seed: int, users: int) -> None:
    """One user's sessions are all over, and no turn waits, before the other's next begins: one in 400 such recipes."""
    person = Persona(generation=(0, 4000), think_s=(0.1, 100), max_turns=1)
    nobody = {name: Persona(weight=0) for name in ("coding", "document")}
    recipe = Recipe(
        seed=seed, users=users, duration_s=60, prefix=Prefix(share=0), mix=Mix(personas=1),
        personas={"chatbot": person, **nobody},
    )  # fmt: skip
    sources = open_sources(recipe, Metadata(0, {}, ""), quiet=True)
    counts = [
        sum(len(batch["user"]) for batch in Schedule(recipe, sources, part).batches())
        for part in [(0, 1), *((user, users) for user in range(users))]
    ]
    assert counts[0] == sum(counts[1:])


def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    parts = shards(tmp_path, RECIPE, 3)
    other = generate(replace(RECIPE, seed=1), tmp_path / "other.parquet", part=(2, 3), quiet=True)
    assert other.part == {"index": 2, "of": 3}
    plain = generate(RECIPE, tmp_path / "plain.parquet", quiet=True)
    assert plain.part is None
    cases = {
        "part 1 of 3 is missing; make it with --shard 1/3": [parts[0], parts[2]],
        "both part 0": [parts[0], parts[0], parts[1], parts[2]],
        "different recipes": [parts[0], parts[1], Trace(tmp_path / "other.parquet")],
        "like with like": [parts[0], Trace(tmp_path / "plain.parquet")],
    }
    for words, chosen in cases.items():
        with pytest.raises(InputError, match=words):
            merge(chosen)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("combine") / "t.parquet"
    generate(replace(RECIPE, seed=3), path, quiet=True)
    return Trace(path)


def test_merged_traces_keep_their_ops_and_share_nothing(example: Trace, tmp_path: Path) -> None:
    generate(replace(RECIPE, seed=4, users=3, requests=50), tmp_path / "b.parquet", quiet=True)
    other = Trace(tmp_path / "b.parquet")
    both = written(tmp_path / "both.parquet", merge([example, other]))
    for name in ("ops", "requests", "sessions", "users", "keys", "tokens_generated"):
        assert both.metadata.counts[name] == sum(trace.metadata.counts[name] for trace in (example, other))
    of = whole(both)
    for first, trace in ((0, example), (example.metadata.counts["users"], other)):
        mine = (of["user_id"] >= first) & (of["user_id"] < first + trace.metadata.counts["users"])
        for name in ("time_ns", "turn", "step", "phase", "op", "source", "tokens", "new_tokens", "think_ns"):
            assert (of[name][mine] == whole(trace)[name]).all(), name


SLICES = {
    "time": Selection(seconds=(20, 60)),
    "users": Selection(users=(8, 12)),
    "sessions": Selection(sessions=(5, 20)),
    "requests": Selection(requests=(0, 40)),
    "all": Selection((10, 90), (2, 14), (3, 50), (0, 200)),
}


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_holds_the_whole_requests_it_selects(name: str, example: Trace, tmp_path: Path) -> None:
    selection, of = SLICES[name], whole(example)
    first = np.unique(of["request_id"], return_index=True)[1]
    keep = np.ones(len(first), np.bool_)
    for column, limits, unit in (
        ("time_ns", selection.seconds, 10**9),
        ("user_id", selection.users, 1),
        ("session_id", selection.sessions, 1),
        ("request_id", selection.requests, 1),
    ):
        if limits:
            keep &= (of[column][first] >= limits[0] * unit) & (of[column][first] < limits[1] * unit)
    rows = keep[of["request_id"]]
    found = whole(written(tmp_path / "s.parquet", slice_(example, selection)))
    assert 0 < rows.sum() < len(rows)
    shift = int(selection.seconds[0] * 10**9) if selection.seconds else 0
    assert (found["time_ns"] == of["time_ns"][rows] - shift).all()
    for column in ("step", "tokens", "new_tokens", "source", "phase", "qos"):
        assert (found[column] == of[column][rows]).all(), column
    # Same objects, first used as writes.
    assert len(np.unique(found["key"])) == len(np.unique(of["key"][rows]))
    assert (found["op"] == 0).sum() == len(np.unique(found["key"]))


def test_an_empty_slice_is_refused(example: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would hold no ops"):
        written(tmp_path / "s.parquet", slice_(example, Selection(users=(10**6, 10**7))))
    assert list(tmp_path.iterdir()) == []


def test_scaled_users_have_objects_of_their_own_but_share_prompts_and_chunks(example: Trace, tmp_path: Path) -> None:
    found = written(tmp_path / "s.parquet", scale(example, 3, Fraction("0.5")))
    before, after = example.metadata.counts, found.metadata.counts
    assert after["requests"] == 3 * before["requests"]
    assert after["users"] == 3 * before["users"]
    of = whole(example)
    shared = np.unique(of["key"][np.isin(of["source"], combine.SHARED_SOURCES)])
    assert 0 < len(shared) < before["keys"]
    assert after["keys"] == 3 * (before["keys"] - len(shared)) + len(shared)
    assert whole(found)["time_ns"].max() == of["time_ns"].max() // 2


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.integers(1, 3), st.sampled_from(["1", "0.5", "1/3", "1.7"]), st.tuples(st.integers(0, 90), st.integers(1, 90))
)
def test_slices_of_scales_are_traces(
    example: Trace, tmp_path: Path, users: int, time: str, seconds: tuple[int, int]
) -> None:
    scaled = written(tmp_path / "scaled.parquet", scale(example, users, Fraction(time)))
    try:
        part = written(
            tmp_path / "part.parquet", slice_(scaled, Selection(seconds=(seconds[0], sum(seconds)), users=(1, 99)))
        )
    except InputError:
        return
    again = written(tmp_path / "again.parquet", merge([part, scaled]))
    assert again.ops == part.ops + scaled.ops


def test_a_slice_that_deletes_what_it_does_not_store_is_refused(tmp_path: Path) -> None:
    steps = [("w", 0, 5), ("w", 1, 7), ("x", 0, 5), ("r", 1, 7), ("x", 1, 7), ("r", 1, 7)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps))
    with pytest.raises(InputError, match="never stored"):
        written(tmp_path / "s.parquet", slice_(trace, Selection(requests=(2, 9))))
    found = whole(written(tmp_path / "s.parquet", slice_(trace, Selection(requests=(1, 9), users=(0, 2)))))
    assert found["key"].tolist() == [0]


def test_a_folder_of_parts_is_the_same_trace(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegen.files.trace_writer.ROW_GROUP", 26_000)  # parts are whole row groups
    recipe = replace(RECIPE, requests=4_400, users=100)
    folder, single = tmp_path / "parts", tmp_path / "single.parquet"
    assert generate(recipe, folder, part_ops=10_000, quiet=True) == generate(recipe, single, quiet=True)
    assert len(list(folder.iterdir())) == 3
    assert "valid" in run("tracegen", "validate", folder).stdout
    assert len({run("replayer", "plan", path, "--cpu-mem-gb", 20, "--json").stdout for path in (folder, single)}) == 1
    sentence(run("tracegen", "slice", folder, "--requests", 5, "-o", folder, ok=False), "--force")
    with pytest.raises(InputError, match="is a folder"):
        generate(recipe, tmp_path, force=True, quiet=True)
    (folder / "part-00001.parquet").unlink()
    assert run("tracegen", "validate", folder, ok=False).returncode == 1


def test_the_commands(run: Run, tmp_path: Path, demo_trace: Path) -> None:
    parts = [tmp_path / f"{number}.parquet" for number in range(2)]
    for number, path in enumerate(parts):
        run("tracegen", "generate", DEMO, "--shard", f"{number}/2", "-o", path)
    run("tracegen", "merge", *parts, "-o", tmp_path / "merged.parquet")
    assert "are equal" in run("tracegen", "diff", tmp_path / "merged.parquet", demo_trace).stdout
    run("tracegen", "generate", DEMO, "--jobs", 2, "-o", tmp_path / "jobs.parquet")
    assert "are equal" in run("tracegen", "diff", tmp_path / "jobs.parquet", demo_trace).stdout
    run("tracegen", "slice", demo_trace, "--users", "3:6", "--time", ":40", "-o", tmp_path / "s.parquet")
    run("tracegen", "scale", tmp_path / "s.parquet", "--users", 2, "--time", "1/2", "-o", tmp_path / "x.parquet")
    assert "valid" in run("tracegen", "validate", tmp_path / "x.parquet").stdout
    unlike = run("tracegen", "diff", tmp_path / "s.parquet", demo_trace, ok=False)
    assert unlike.returncode == 1
    assert "first difference in row" in unlike.stdout


BAD = {
    "range": (["slice", "{t}", "--users", "5"], ["--users 5", "A:B"]),
    "backwards": (["slice", "{t}", "--time", "9:3"], ["--time 9:3"]),
    "nothing": (["slice", "{t}"], ["--time"]),
    "no number": (["scale", "{t}", "--time", "fast"], ["--time fast"]),
    "no time": (["scale", "{t}", "--time", "0"], ["0"]),
    "backwards in time": (["scale", "{t}", "--time", "-1"], ["-1"]),
    "no trace": (["merge", "{d}/none.parquet"], ["none.parquet"]),
    "shard": (["generate", "{demo}", "--shard", "4/4"], ["--shard 4/4", "I/N"]),
    "shard and jobs": (["generate", "{demo}", "--shard", "0/4", "--jobs", "2"], ["--jobs"]),
    "endless": (["generate", "--set", "mix.personas=1"], ["personas", "--duration"]),
    "unused file": (["generate", "{demo}", "--set", "mix.personas=1", "--requests", "5"], ["mix.sharegpt"]),
    "no file": (["generate", "--set", "mix.sharegpt=1"], ["--sharegpt"]),
    "at once": (
        [
            "generate",
            "--set",
            "mix.rag=1",
            "--set",
            "rag.users.think_s=[0,0]",
            "--set",
            "decode_token_ms=0",
            "--requests",
            "5",
        ],
        ["rag.users", "think_s"],
    ),
    "at once by chance": (
        [
            "generate",
            "--set",
            "mix.personas=1",
            "--set",
            "personas.chatbot.think_s=[0,1]",
            "--set",
            "personas.chatbot.generation=[0,5]",
            "--requests",
            "5",
        ],
        ["personas.chatbot", "think_s"],
    ),
    "too many prompts": (
        ["generate", "{demo}", "--set", "prefix.products=1000000", "--set", "prefix.tenants=1000000"],
        ["prefix.tenants", "1e7"],
    ),
    "a number that is none": (["scale", "{t}", "--time", "1e99999999"], ["--time 1e99999999"]),
    "bursts of nothing": (["generate", "{demo}", "--set", "burstiness=0.5"], ["burstiness"]),
    "another shape": (["generate", "{demo}", "--set", "burstiness=0.3"], ["burstiness", "0.25"]),
    "a persona's typo": (
        ["generate", "{demo}", "--set", "personas.chatbot.contxt=[1,2]"],
        ["did you mean personas.chatbot.context?"],
    ),
    "blocks of the last turn": (["generate", "{demo}", "--block-tokens", "16", "--history", "previous"], ["history"]),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused(run: Run, demo_trace: Path, tmp_path: Path, name: str) -> None:
    arguments, words = BAD[name]
    places = {"t": demo_trace, "d": tmp_path, "demo": DEMO}
    done = run("tracegen", *(one.format(**places) for one in arguments), "-o", tmp_path / "o.parquet", ok=False)
    sentence(done, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("jobs", "number", "end"),
    [(1, signal.SIGINT, (130, "Interrupted.")), (2, signal.SIGTERM, (143, "Terminated."))],
)
def test_a_signal_to_all_processes_ends_cleanly(
    jobs: int, number: signal.Signals, end: tuple[int, str], tmp_path: Path
) -> None:
    flags = ["--set", "mix.personas=1", "--users", "1000", "--duration", "1000000", "--jobs", str(jobs)]
    command = [sys.executable, "-m", "tracegen", "generate", *flags, "-o", str(tmp_path / "t.parquet")]
    going = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not any(path.stat().st_size > 10**6 for path in tmp_path.glob("t.parquet.*.partial")):
        time.sleep(0.05)
        assert going.poll() is None
    os.killpg(going.pid, number)
    _, said = going.communicate(timeout=30)
    assert (going.returncode, said.strip()) == end
    assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-g", str(going.pid)], check=False, capture_output=True).stdout:
        assert time.monotonic() < deadline, "nobody of the group is left"
        time.sleep(0.05)


def test_a_full_disk_is_said_and_nothing_half_written_stays(run: Run, demo_trace: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "64k") as place:
        recipe = ["--set", "mix.personas=1", "--requests", 20_000]
        sentence(
            run("tracegen", "generate", *recipe, "-o", place / "t.parquet", ok=False), "t.parquet", "No space left"
        )
        export = ["mlcommons", demo_trace, "--bytes-per-token", 8]
        sentence(run("tracegen", "export", *export, "-o", place / "t.csv", ok=False), "t.csv", "No space left")
        assert list(place.iterdir()) == []


def test_what_is_no_file_is_never_replaced(run: Run, tmp_path: Path) -> None:
    sentence(run("tracegen", "generate", DEMO, "-o", "/dev/null", "--force", ok=False), "/dev/null is no file")
    (tmp_path / "notes.txt").write_text("precious")
    for flags in ([], ["--part-ops", 1000]):
        sentence(run("tracegen", "generate", DEMO, *flags, "-o", tmp_path, "--force", ok=False), "is a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_dangling_link_is_not_replaced_unasked(run: Run, demo_trace: Path, tmp_path: Path) -> None:
    for name in ("t.parquet", "t.csv", "t.svg"):
        (tmp_path / name).symlink_to("nowhere")
    export = ["export", "mlcommons", demo_trace, "--bytes-per-token", 8, "-o", tmp_path / "t.csv"]
    for command in (
        ["generate", DEMO, "-o", tmp_path / "t.parquet"],
        export,
        ["info", demo_trace, "--plot", tmp_path / "t.svg"],
    ):
        sentence(run("tracegen", *command, ok=False), "--force")
    sentence(run("tracegen", *export[:-1], f"{tmp_path}/\udcff.csv", ok=False), "no name", "-o")
    assert all(path.is_symlink() for path in tmp_path.iterdir())


def test_a_file_that_is_named_like_a_partial_one_is_kept(run: Run, demo_trace: Path, tmp_path: Path) -> None:
    for name in ("t.parquet", "t.csv", "t.svg"):
        (tmp_path / f"{name}.partial").write_text("precious")
    run("tracegen", "generate", DEMO, "-o", tmp_path / "t.parquet")
    run("tracegen", "export", "mlcommons", demo_trace, "--bytes-per-token", 8, "-o", tmp_path / "t.csv")
    run("tracegen", "info", demo_trace, "--plot", tmp_path / "t.svg")
    assert {path.read_text() for path in tmp_path.glob("*.partial")} == {"precious"}
    assert len(list(tmp_path.iterdir())) == 6


def test_a_broken_trace_is_not_exported(run: Run, tmp_path: Path) -> None:
    bad = traces.write(tmp_path / "bad.parquet", traces.columns([("w", 0, 5), ("w", 1, -3)])).path
    done = run("tracegen", "export", "mlcommons", bad, "--bytes-per-token", 8, "-o", tmp_path / "t.csv", ok=False)
    sentence(done, "bad.parquet, row 1: tokens = -3")
