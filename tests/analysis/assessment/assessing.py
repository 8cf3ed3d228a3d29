"""Metrics that meet all criteria, and the assess command."""

from click.testing import CliRunner, Result

from analysis.cli import main

GOOD = {
    "nvme_write_p95_ms": 499.9, "nvme_read_p95_ms": 199.9, "cpu_write_p95_ms": 149.9, "cpu_read_p95_ms": 149.9,
    "hit_rate": 0.31,
}  # fmt: skip


def call(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["assess", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def refusal(*arguments: object) -> str:
    done = call(*arguments, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line.removeprefix("Error: ")
