"""A server's counters beside a plan; the scrapes in tests/data are vLLM 0.32's own, without buckets of histograms."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.assessment import server_metrics
from analysis.assessment.server_metrics import count_server
from tests.support.command_line import here, sentence
from tests.support.pages import words
from tests.support.paths import ROOT
from tracegen.errors import InputError

SCRAPES = ROOT / "tests" / "data" / "server_metrics"
AFTER = (SCRAPES / "after.prom").read_text()
PER_TOKEN = 131_072
GIB = 2**30
# The blocks of 64 tokens that vLLM's scheduler counted itself in the run of these scrapes
SERVED = {
    "prompt tokens": 7_673_487, "hit in gpu": 83_516 * 64, "hit in cpu": 26_079 * 64, "hit in nvme": 0,
    "hit below gpu": 26_079 * 64, "stored in cpu": 10_480 * 64, "room of gpu": 4_000 * 64, "room of cpu": 8_000 * 64,
    "preemptions": 1, "held of gpu": 0, "asked below gpu": 7_673_487 - 83_516 * 64,
}  # fmt: skip
PLAN = {
    "title": "Plan of agents.parquet", "prompt_tokens": 7_673_487, "spared_tokens_gpu": 83_516 * 64,
    "spared_tokens_cpu": 26_079 * 64, "spared_tokens_nvme": 0, "write_bytes_cpu": 10_480 * 64 * PER_TOKEN,
    "read_bytes_nvme": 0, "bytes_per_token": PER_TOKEN, "gpu_usable_bytes": 4_000 * 64 * PER_TOKEN,
    "cpu_usable_bytes": 8_000 * 64 * PER_TOKEN, "order": {"kind": "reference"},
}  # fmt: skip
OTHER_HITS = {"spared_tokens_gpu": 90_000 * 64, "spared_tokens_cpu": 20_000 * 64}


def compare(place: Path, *texts: str, **changes: Any) -> dict[str, Any]:
    """What the command prints as JSON, of these scrapes and the plan with changes."""
    (place / "plan.json").write_text(json.dumps(PLAN | changes))
    names = [place / f"{number}.prom" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        name.write_text(text)
    done = here("analysis", "engine", place / "plan.json", *names, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def causes(answer: dict[str, Any]) -> dict[str, str]:
    tables = {table["name"]: table["rows"] for table in answer["tables"]}
    return {row["cause"]: row["why"] for row in tables["causes"]}


def run_page(commands: list[str], place: Path) -> str:
    """The output of the last command."""
    for command in commands:
        tool, *arguments = words(command, place)
        done = here(tool, *arguments, cwd=place)
        assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    for name in ("before", "during", "after"):
        (tmp_path / f"{name}.prom").write_text((SCRAPES / f"{name}.prom").read_text())
    section = (ROOT / "docs" / "engines.md").read_text().partition("## What a server hit")[2]
    commands = re.findall(r"^    ((?:tracegen|replayer|analysis) .*)$", section, re.M)
    assert len(commands) == 3
    printed = run_page(commands, tmp_path).splitlines()
    shown = section.partition(f"{commands[-1]}\n\n")[2].partition("\n\n**")[0]
    assert {line for line in map(str.strip, shown.splitlines()) if line not in map(str.strip, printed)} == {"…"}
    in_engine_order = [re.sub("reference (.*)", r"engine \1 --force", commands[1]), f"{commands[2]} --json"]
    rows = json.loads(run_page(in_engine_order, tmp_path))["tables"][0]["rows"]
    assert [row["plan"] for row in rows] == [row["server"] for row in rows], "as the page says"


def test_counts_are_those_of_the_engine_itself() -> None:
    engine, counts = count_server([SCRAPES / "after.prom"], PER_TOKEN)
    assert (engine, counts) == ("vLLM", SERVED)
    _, grown = count_server([SCRAPES / f"{name}.prom" for name in ("before", "during", "after")], PER_TOKEN)
    assert grown == SERVED | {"held of gpu": 0.86925}


def test_a_server_that_does_what_it_should(tmp_path: Path) -> None:
    answer = compare(tmp_path, AFTER)
    assert (
        answer["sentence"]
        == "91.4% of the server's prompt tokens hit in all, and 91.4% should: no tier differs by 1% of them."
    )
    assert (causes(answer), answer["doubts"]) == ({}, [])


@pytest.mark.parametrize(
    ("changes", "was", "instead", "cause", "why"),
    [
        ({"prompt_tokens": 7_752_000}, "", "", "lost ids", "7,673,487 tokens on the server, 7,752,000 in the plan"),
        ({"gpu_usable_bytes": 30 * GIB}, "", "", "wrong capacity", "plan with --gpu-mem-gb 31.25 and --set headroom=1."),
        ({}, 'offloading_size="62.5"', 'offloading_size="50"', "wrong capacity", "plan with --cpu-mem-gb 50 and"),
        ({}, "cache_queries_total{E} 2.328463e+06", "cache_queries_total{E} 0", "wrong capacity", "no tier below gpu"),
        (OTHER_HITS, "", "", "held blocks", "(at a scrape: 0.0%, preemptions: 1), and none in a plan of order reference"),
        (OTHER_HITS, "preemptions_total{E} 1.0", "preemptions_total{E} 0", "", "held blocks not seen"),
        (OTHER_HITS, "cache_usage_perc{E} 0.0", "cache_usage_perc{E} 0.4", "held blocks", "(at a scrape: 40.0%, preemptions: 1)"),
        (OTHER_HITS | {"order": {"kind": "engine"}}, "", "", "", "not explained"),
        ({}, "# TYPE vllm:kv_offload_allocation_failure_total counter",
         "vllm:kv_offload_allocation_failure_total{E} 7", "dropped stores", "stores dropped: 7; give the tiers"),
        (OTHER_HITS | {"order": {"kind": "engine"}, "write_bytes_cpu": 11_000 * 64 * PER_TOKEN}, "", "",
         "dropped stores", "stored in cpu: 670,720 tokens on the server, 704,000 in the plan; compare the rules"),
    ],
)  # fmt: skip
def test_causes_follow_from_counts(
    tmp_path: Path, changes: dict[str, Any], was: str, instead: str, cause: str, why: str
) -> None:
    labels = 'engine="0",model_name="llama3.1-8b"'
    was, instead = was.replace("E", labels) if "{E}" in was else was, instead.replace("{E}", f"{{{labels}}}")
    assert was in AFTER
    answer = compare(tmp_path, AFTER.replace(was, instead) if was else AFTER, **changes)
    found = causes(answer)
    assert [*found] == [cause] * bool(cause), found
    assert why in found.get(cause, why)
    assert [doubt["headline"] for doubt in answer["doubts"]] == [why] * (not cause)


def test_what_was_not_scraped_is_not_measured(tmp_path: Path) -> None:
    """An early release with little more than hits: no zeros, and tiers below the GPU together."""
    lines = ("prompt tokens", "vllm:prefix_cache_queries 1000", "vllm:prefix_cache_hits 250", "")
    answer = compare(tmp_path, "\n".join(("# " + lines[0], *lines[1:])), spared_tokens_nvme=64)
    rows = {row["count"]: row["server"] for row in answer["tables"][0]["rows"]}
    assert rows == {"hit in gpu": 250, "hit below gpu": None, "hit in all": None, "prompt tokens": 1000,
                    "room of gpu": None, "room of cpu": None, "stored in cpu": None}  # fmt: skip
    assert answer["doubts"][0]["text"].endswith("stored in cpu, held of gpu, preemptions")
    assert "was not measured" not in answer["sentence"]
    assert "not measured" in compare(tmp_path, "vllm:prefix_cache_queries 9\n")["sentence"]


OTHERS: dict[str, tuple[str, str, dict[str, float]]] = {
    "SGLang": (
        'sglang:prompt_tokens_total{m="x"} 1e3\nsglang:cached_tokens_total{cache_source="device"} 200\n'
        'sglang:cached_tokens_total{cache_source="storage_file"} 50\nsglang:max_total_num_tokens{tp_rank="0"} 4096\n',
        "SGLang",
        {"prompt tokens": 1000, "hit in gpu": 200, "hit in cpu": 0, "hit in nvme": 50, "hit anywhere": 0,
         "room of gpu": 4096},
    ),
    "SGLang without details": (
        'sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total{cache_source="total"} 300\n',
        "SGLang",
        {"prompt tokens": 1000, "hit in gpu": 0, "hit in cpu": 0, "hit in nvme": 0, "hit anywhere": 300},
    ),
    "vLLM with LMCache, by an exporter without colons": (
        "vllm_prefix_cache_queries_total 900 1700000000\nvllm_prefix_cache_hits_total 300\n"
        'vllm_external_prefix_cache_hits_total 100 # {trace_id="a"} 3\nlmcache_num_stored_tokens_total 64\n'
        "lmcache_num_prompt_tokens_total 400\nlmcache_num_hit_tokens_total 128\n",
        "vLLM",
        {"prompt tokens": 900, "hit in gpu": 300, "hit below gpu": 100, "stored in cpu": 64},
    ),
    "two engines of vLLM": (
        "".join(f'vllm:prefix_cache_queries_total{{engine="{n}"}} {n + 1}00\nvllm:kv_cache_usage_perc{{engine="{n}"}}'
                f' 0.{n + 1}\nvllm:cache_config_info{{block_size="16",num_gpu_blocks="11",engine="{n}"}} 1.0\n'
                for n in (0, 1)),
        "vLLM",
        {"prompt tokens": 300, "held of gpu": 0.2, "room of gpu": 320},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_servers_are_read(tmp_path: Path, name: str) -> None:
    text, engine, counts = OTHERS[name]
    (tmp_path / "scrape").write_text(text)
    assert count_server([tmp_path / "scrape"], PER_TOKEN) == (engine, counts)


def test_requests_without_details_count_in_all_tiers_alone(tmp_path: Path) -> None:
    answer = compare(tmp_path, OTHERS["SGLang without details"][0], prompt_tokens=1000, spared_tokens_gpu=200)
    assert [figure["value"] for figure in answer["figures"]] == [0.3]


def test_a_query_of_prometheus_says_the_same(tmp_path: Path) -> None:
    series = re.findall(r"^([\w:]+)(?:\{(.*)\})? (\S+)$", AFTER, re.M)
    result = [
        {"metric": {"__name__": name} | dict(re.findall(r'(\w+)="(.*?)"', labels)), "value": [1763800000.5, value]}
        for name, labels, value in series
    ]
    path = tmp_path / "query.json"
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}))
    assert count_server([path], PER_TOKEN) == ("vLLM", SERVED)


REFUSED = {
    "cut off": ("vllm:prefix_cache_queries 10", "it is cut off: its last line has no end"),
    "a page": ("<html>\nNot Found\n", "line 1 is '<html>'"),
    "empty": ("", "it is cut off"),
    "another server": ("http_requests_total 3\n", "counts no prompt tokens of vLLM or SGLang"),
    "LMCache alone": ("lmcache:num_stored_tokens 64\n", "counts no prompt tokens"),
    "no load": ("vllm:prefix_cache_queries 0\n", "counts no prompt tokens"),
    "no number": ("vllm:prefix_cache_queries many\n", "could not convert string to float"),
    "not a number": ("vllm:prefix_cache_queries NaN\n", "vllm:prefix_cache_queries goes from 0 to nan"),
    "below 0": ("vllm:prefix_cache_queries -1\n", "vllm:prefix_cache_queries goes from 0 to -1"),
    "an error of Prometheus": ('{"status": "error"}', "Object missing required field `data`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_scrape_is_refused(tmp_path: Path, name: str) -> None:
    text, reason = REFUSED[name]
    (tmp_path / "scrape").write_text(text)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    sentence(here("analysis", "engine", tmp_path / "plan.json", tmp_path / "scrape"), str(tmp_path / "scrape"), reason)


def test_folders_and_binary_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_metrics, "MOST_BYTES", 1 << 20)
    (tmp_path / "binary").write_bytes(b"vllm\xff")
    reasons = {"": "Is a directory", "none": "No such file", "binary": "it is not text", "/dev/zero": "larger"}
    for name, reason in reasons.items():
        with pytest.raises(InputError, match=reason):
            count_server([tmp_path / name], PER_TOKEN)


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    for content, reason in (("{}", "missing required field"), ("[1", "is no plan as JSON"), (None, "No such file")):
        path = tmp_path / "plan.json"
        path.unlink(missing_ok=True) if content is None else path.write_text(content)
        sentence(here("analysis", "engine", path, SCRAPES / "after.prom"), str(path), reason, "write it with")


def test_a_server_that_was_started_again_is_refused(tmp_path: Path) -> None:
    fewer = tmp_path / "fewer"
    fewer.write_text("vllm:prefix_cache_queries 10\n")
    for scrapes, reason in (
        ([SCRAPES / "after.prom", fewer], "vllm:prefix_cache_queries goes from 7,673,487 to 10"),
        ([SCRAPES / "after.prom", SCRAPES / "during.prom"], "goes from"),
    ):
        with pytest.raises(InputError, match=f"{reason}.*take all scrapes from one run of the server"):
            count_server(scrapes, PER_TOKEN)
    fewer.write_text(AFTER.replace("process_start_time_seconds 1.7", "process_start_time_seconds 1.8"))
    with pytest.raises(InputError, match="started again"):
        count_server([SCRAPES / "during.prom", fewer], PER_TOKEN)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(AFTER)), noise=st.binary(max_size=4))
def test_a_damaged_scrape_is_refused_or_counts_no_more(
    tmp_path_factory: pytest.TempPathFactory, cut: int, noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "scrape"
    path.write_bytes(AFTER[:cut].encode() + noise)
    with contextlib.suppress(InputError):
        _, counts = count_server([path], PER_TOKEN)
        assert noise or counts.items() <= SERVED.items()
