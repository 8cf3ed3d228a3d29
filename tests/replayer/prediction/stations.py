"""Stations of the plain second predictor, written from docs/predicting.md alone: costs, progress, factors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

PROBABILITIES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
READ, WRITE = 0, 1
FULL = 2**64


def mix(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) % FULL
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % FULL
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % FULL
    return z ^ (z >> 31)


def draw(op_id: int, seq: int, tier: int, direction: int) -> float:
    """u of a visit, from 0 to below 1."""
    return float(mix((mix(op_id % FULL) + 8 * seq + 2 * tier + direction) % FULL) >> 11) * 2.0**-53


def quantile(nine: Sequence[float], u: float) -> float:
    """The value at u of a distribution that is linear between nine quantiles."""
    at = max(i for i, p in enumerate(PROBABILITIES[:-1]) if p <= u)
    p, q, a, b = PROBABILITIES[at], PROBABILITIES[at + 1], nine[at], nine[at + 1]
    return a + (b - a) * ((u - p) / (q - p))


def factor(spread: Sequence[Sequence[float]], in_flight: Sequence[float], x: float, u: float) -> float:
    """f of a visit that enters at load x."""
    point = max((i for i, load in enumerate(in_flight) if load <= x), default=0)
    if not spread or not spread[point]:
        return 1.0
    return quantile(spread[point], u)


def cost_at(in_flight: Sequence[float], costs: Sequence[float], x: float) -> float:
    """Nanoseconds per unit at load x."""
    if x <= in_flight[0]:
        return costs[0]
    for i in range(len(costs) - 1):
        if x < in_flight[i + 1]:
            share = (x - in_flight[i]) / (in_flight[i + 1] - in_flight[i])
            return costs[i] + (costs[i + 1] - costs[i]) * share
    return costs[-1] * (x / in_flight[-1])


@dataclass(eq=False)
class Visit:
    """A move's stay in a station."""

    station: "Station"
    stages: list[tuple[str, float]]
    """the stages that it still has to enter, and their units, the factor included"""
    worker: int
    move: Any
    what: str
    """read, write, remove, check, ..."""
    stage: "Stage | None" = None
    target: float = 0.0
    entered: int = 0
    opened: int | None = None
    """when it left the stage `open`; None: it has none"""
    turn: float = 1.0
    """bytes that it transfers before the next has its turn"""


@dataclass
class Stage:
    """Visits that progress alike."""

    name: str
    cost: Callable[[], float]
    """nanoseconds per unit at the load of now"""
    visits: list[Visit] = field(default_factory=list)
    progress: float = 0.0

    def least(self) -> float:
        return min(visit.target for visit in self.visits)


@dataclass
class Station:
    """Reads or writes of a tier, or the CPU."""

    tier: "Tier"
    stages: dict[str, Stage] = field(default_factory=dict)
    present: int = 0
    turns: float = 0.0


class Tier:
    """Stations whose loads depend on each other; they are updated together."""

    def __init__(self) -> None:
        self.stations: list[Station] = []
        self.updated = 0

    def stages(self) -> list[Stage]:
        return [stage for station in self.stations for stage in station.stages.values()]

    def update(self, now: int) -> None:
        for stage in self.stages():
            if stage.visits and now > self.updated:
                stage.progress += float(now - self.updated) / stage.cost()
        self.updated = now

    def end_of(self, stage: Stage) -> int | None:
        """When a visit leaves the stage, if nothing changes before; None: it is empty."""
        if not stage.visits:
            return None
        left = stage.least() - stage.progress
        return self.updated if left <= 0 else self.updated + math.ceil(left * stage.cost())

    def ends(self) -> list[int]:
        return [end for stage in self.stages() if (end := self.end_of(stage)) is not None]

    def end_stages(self, now: int) -> list[Visit]:
        """Let the visits whose stages end now leave them, stage by stage."""
        stages = [stage for stage in self.stages() if self.end_of(stage) == now]
        if not stages:
            return []
        self.update(now)
        found: list[Visit] = []
        for stage in stages:
            stage.progress = max(stage.progress, stage.least())
            leaving = [visit for visit in stage.visits if visit.target <= stage.progress]
            found += sorted(leaving, key=lambda visit: (visit.target, visit.worker))
            stage.visits = [visit for visit in stage.visits if visit not in leaving]
            if not stage.visits:
                stage.progress = 0.0
            if stage.name == "open":
                for visit in leaving:
                    visit.opened = now
        return found


def go_on(visit: Visit, now: int) -> None:
    """Enter the next stage; leave the station after the last."""
    visit.station.tier.update(now)
    if not visit.stages:
        visit.stage = None
        visit.station.present -= 1
        visit.station.turns -= visit.turn
        return
    name, units = visit.stages.pop(0)
    visit.stage = visit.station.stages[name]
    visit.target = visit.stage.progress + units
    visit.stage.visits.append(visit)


class Cpu(Tier):
    """The station of what workers do besides I/O."""

    def __init__(self, cores: float) -> None:
        super().__init__()
        self.cores = cores
        station = Station(self)
        station.stages["work"] = Stage("work", lambda: max(1.0, station.present / cores))
        self.stations.append(station)


class Drive(Tier):
    """The read and the write station of a tier; `times` is a TierProfile."""

    def __init__(self, number: int, times: Any) -> None:
        super().__init__()
        self.number = number
        self.times = times
        for direction in (READ, WRITE):
            self.stations.append(self._station(direction))

    def _station(self, direction: int) -> Station:
        own = (self.times.read, self.times.write)[direction]
        of_bytes = [load / speed for load, speed in zip(own.in_flight, own.bandwidth_gb_s, strict=True)]
        costs: dict[str, list[float]] = {
            "open": [1000.0 * us for us in own.open_us],
            "latency": [1000.0 * us for us in own.latency_us],
            **{f"transfer {size}": of_bytes for size in range(41)},
            "remove": [1000.0 * us for us in own.remove_us],
        }
        station = Station(self)
        for name, list_of in costs.items():
            if not any(list_of):  # a stage whose costs are 0 does not take place
                continue
            cost = self._cost(direction, own.in_flight, list_of)
            if name.startswith("transfer"):
                cost = self._turns(direction, own.in_flight, list_of, float(2 ** int(name.split()[1])))
            station.stages[name] = Stage(name, cost)
        return station

    def _turns(
        self, direction: int, in_flight: Sequence[float], costs: Sequence[float], turn: float
    ) -> Callable[[], float]:
        """The cost of a byte: its own, and the wait for the turns of the others."""

        def cost() -> float:
            x = self.load(direction)
            now = cost_at(in_flight, costs, x)
            if x <= 1 or now <= costs[0]:
                return now
            weight = (self.times.writes_on_reads, self.times.reads_on_writes)[direction]
            others = self.stations[direction].turns + weight * self.stations[1 - direction].turns - turn
            return costs[0] + (now - costs[0]) * (others / ((x - 1) * turn))

        return cost

    def _cost(self, direction: int, in_flight: Sequence[float], costs: Sequence[float]) -> Callable[[], float]:
        return lambda: cost_at(in_flight, costs, self.load(direction))

    def load(self, direction: int) -> float:
        reads, writes = self.stations[READ].present, self.stations[WRITE].present
        if direction == READ:
            return reads + self.times.writes_on_reads * writes
        return writes + self.times.reads_on_writes * reads

    def enter(
        self, direction: int, move: Any, worker: int, size: int | None, now: int, piece: int = 1 << 62
    ) -> Visit | None:
        """Let a move read, write, or (no size) remove; None if that has no stage."""
        station = self.stations[direction]
        exponent = 0
        while exponent < 40 and 2.0**exponent < min(float(size or 0), float(self.times.turn_bytes)):
            exponent += 1
        transfer = f"transfer {exponent}"
        names = ["remove"] if size is None else ["open", "latency", transfer]
        names = [name for name in names if name in station.stages]
        if not names:
            return None
        self.update(now)
        station.present += 1
        turn = 2.0**exponent if size is not None else 1.0
        station.turns += turn
        f = 1.0 if size is None else self._factor(direction, move)
        if size is not None:
            f = 1 + (f - 1) / math.sqrt(-(-size // piece))
        units = {transfer: float(size or 0)}
        stages = [(name, f * units.get(name, 1.0)) for name in names]
        visit = Visit(station, stages, worker, move, "remove", entered=now, turn=turn)
        if size is not None:
            visit.what = ("read", "write")[direction]
        go_on(visit, now)
        return visit

    def _factor(self, direction: int, move: Any) -> float:
        own = (self.times.read, self.times.write)[direction]
        u = draw(move.op_id, move.seq, self.number, direction)
        return factor(own.spread, own.in_flight, self.load(direction), u)


def enter_cpu(cpu: Cpu, move: Any, worker: int, work_ns: float, what: str, now: int) -> Visit | None:
    """Let a worker work for so many nanoseconds, rounded up; None if there is nothing to do."""
    work = math.ceil(work_ns)
    if work == 0:
        return None
    (station,) = cpu.stations
    cpu.update(now)
    station.present += 1
    visit = Visit(station, [("work", float(work))], worker, move, what, entered=now)
    go_on(visit, now)
    return visit
