"""Settings of runs that tests make without a command line."""

from typing import Any

from replayer.options.groups import make_options
from replayer.options.settings import Settings
from replayer.planning.pace import Demand, Pace


def settings(
    workers: int = 4, pace: Pace | None = None, allocs: int | None = None, throttles: Any = None, **values: Any
) -> Settings:
    """Settings of options by name, and of what they resolve to: the load, `span`, `window`, `io`, `throttles`."""
    resolved = {name: values.pop(name) for name in ("span", "window", "io") if name in values}
    options = make_options({**values, "throttle": tuple((throttles or {}).items())})
    demand = Demand(pace or Pace(), workers, allocs)
    return Settings(demand, options.devices, control=options.control, **resolved)
