"""The run directory: `run.json`, and the log in `moves/part-*.parquet`, one row per move. replayer owns this format.

`docs/run-directory.md` specifies it in prose. This module is all that other packages may import of replayer; what it
names is in `replayer.record`.
"""

from replayer.record.columns import (
    ARRANGED_PLAN_VERSION,
    CHECKPOINT_OPS,
    DEVICE_SCHEMA,
    LOG_COLUMNS,
    LOG_ENUMS,
    LOG_SCHEMA,
    MOVES,
    OPTIONAL,
    ORDERED_PLAN_VERSION,
    PLAN_VERSION,
    PLANNED_COLUMNS,
    PREDICTED_RUN_VERSION,
    RUN_VERSION,
    STATUSES,
    WAITS,
)
from replayer.record.conditions import CONDITION_GROUPS, Conditions
from replayer.record.options import FUTURE, TIERS
from replayer.record.reading import check_file, counters, parts, read_info, read_run
from replayer.record.run_info import (
    Clock,
    PlanInfo,
    PredictionInfo,
    RanksInfo,
    RunInfo,
    Status,
    Totals,
    TraceInfo,
    Window,
    to_plain,
)
from replayer.record.run_parts import Machine, Storage, Unfinished
from replayer.record.simulation import PREDICTED_COLUMNS, SIMULATION_COLUMNS, SimulationInfo, read_simulation
from replayer.record.wording import causes_of, commonest, describe_cut, drive

__all__ = [
    "ARRANGED_PLAN_VERSION",
    "CHECKPOINT_OPS",
    "CONDITION_GROUPS",
    "DEVICE_SCHEMA",
    "FUTURE",
    "LOG_COLUMNS",
    "LOG_ENUMS",
    "LOG_SCHEMA",
    "MOVES",
    "OPTIONAL",
    "ORDERED_PLAN_VERSION",
    "PLANNED_COLUMNS",
    "PLAN_VERSION",
    "PREDICTED_COLUMNS",
    "PREDICTED_RUN_VERSION",
    "RUN_VERSION",
    "SIMULATION_COLUMNS",
    "STATUSES",
    "TIERS",
    "WAITS",
    "Clock",
    "Conditions",
    "Machine",
    "PlanInfo",
    "PredictionInfo",
    "RanksInfo",
    "RunInfo",
    "SimulationInfo",
    "Status",
    "Storage",
    "Totals",
    "TraceInfo",
    "Unfinished",
    "Window",
    "causes_of",
    "check_file",
    "commonest",
    "counters",
    "describe_cut",
    "drive",
    "parts",
    "read_info",
    "read_run",
    "read_simulation",
    "to_plain",
]
