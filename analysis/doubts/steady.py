"""Whether a run was steady over its window."""

from analysis.doubts.doubt import Doubt, Evidence, Found


def check_steadiness(run: Evidence) -> Found:
    """Doubt a run whose throughput or P95 still changed inside its window."""
    steadiness = run.steadiness
    if run.conditions.begins_steady:
        if not run.is_steady_window:
            why = "is too short to tell" if steadiness is None else "never was steady"
            text = f"it {why}: all of it is measured"
            advice = "replay longer, or name a warm-up in seconds"
            yield Doubt("not steady", text, advice, invalidates=True)
        return
    if steadiness is None or steadiness.is_from_start:
        return
    rounds = f"(rounds of {steadiness.round_s:.3g} s)"
    if steadiness.begin_s is None:
        text = f"throughput or the P95 of reads varied in every five rounds of the window {rounds}"
        yield Doubt("not steady", text, "replay longer, or with more users")
    else:
        since = f"only from {steadiness.begin_s:,.0f} s on {rounds}"
        text = f"throughput and the P95 of reads are steady {since}"
        yield Doubt("not steady", text, "leave out what came before as a warm-up")
