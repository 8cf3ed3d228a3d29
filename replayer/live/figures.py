"""The figures of a task that goes on, and the line in which a process tells them to another."""

from typing import Final

import msgspec

_PREFIX: Final = '{"progress":'


class TierRate(msgspec.Struct, frozen=True):
    """The rates at which a tier is read and written now, in GiB/s."""

    read_gib_s: float
    write_gib_s: float


class Figures(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a task: how far it is; of an execution, also what it reached so far.

    Attributes:
        stage: the task, as a participle.
        unit: of `done` and `total`: op, s or B.
        total: 0: unknown.
        left_s: time left, estimated; None: unknown.
        ops_left: of a drain, the most ops that are still to be executed.
        tiers: rates of now by tier.
        hit_rate: of prompt tokens so far, after the warm-up; None: there were none.
        nvme_read_p95_ms: of objects read so far, after the warm-up, within 2%; None: none was.
        first_byte_p95_ms: of the storage part of TTFT, in the same way; None: it is not timed.
        in_flight: moves that workers make.
        queued: moves that wait for a worker.
        failures: moves that failed.
        ranks: processes; the figures are those of the first.
    """

    stage: str
    unit: str
    done: float
    total: float
    left_s: float | None = None
    ops_left: int | None = None
    tiers: dict[str, TierRate] = {}
    hit_rate: float | None = None
    nvme_read_p95_ms: float | None = None
    first_byte_p95_ms: float | None = None
    in_flight: int = 0
    queued: int = 0
    failures: int = 0
    ranks: int = 1


def format_line(figures: Figures) -> str:
    """Return figures as a line of JSON: an object with one key, `progress`."""
    return f"{_PREFIX}{msgspec.json.encode(figures).decode()}}}"


def parse_line(line: str) -> Figures | None:
    """Return the figures in a line; None: it is another line."""
    text = line.strip()
    if not text.startswith(_PREFIX):
        return None
    try:
        return msgspec.json.decode(text[len(_PREFIX) : -1], type=Figures)
    except msgspec.MsgspecError:
        return None
