"""The first screen of a search: how many users, how sure, and what was measured around them."""

from collections.abc import Iterator
from typing import Final

from analysis.doubts.predictions import describe_errors
from analysis.report.first_screen.form import Card, DoubtLine, FirstScreen, Tone
from analysis.report.text import format_number
from analysis.searches.search import SearchReading, SearchStep
from tracegen.errors import format_count

_NOT_SURE: Final = "Not sure: "


def make_search_screen(search: SearchReading, title: str = "") -> FirstScreen:
    """Return the first screen of a search; its title is `title`, or one from the trace."""
    result = search.content.result
    state = "Sure." if result.sure else "Not sure."
    tone: Tone = "good" if result.sure else "plain"
    if search.is_predicted:
        state, tone = "Predicted, not measured.", "plain"
    steps = format_count(len(search.steps), "step")
    return FirstScreen(
        kicker=f"kv-tier-bench report of a search in {steps}",
        title=title or f"{search.content.trace.path.rsplit('/', 1)[-1]}: how many users?",
        tested=list(_list_tested(search)),
        state=state,
        answer=compose_search_answer(search),
        tone=tone,
        cards=list(_list_cards(search)),
        doubts=list(_list_doubts(search)),
    )


def compose_search_answer(search: SearchReading) -> str:
    """Return how many users, and why not more, in one or two sentences."""
    is_qos = search.content.mode == "qos"
    return " ".join(_answer_target(search) if is_qos else _answer_peak(search))


def _answer_target(search: SearchReading) -> Iterator[str]:
    users = search.content.result.users
    good, bad = search.find_step(users), search.find_miss()
    limit = "at least" if search.content.target_is == "at_least" else "at most"
    target = f"{limit} {search.format_value(search.content.target)}"
    if good is not None:
        verb = "stays" if good.users == 1 else "stay"
        count = format_count(good.users, "user")
        yield f"{count} {verb} within the target of {target}: {_format_mean(search, good)}."
    elif users == 0:
        yield f"Not even 1 user stays within the target of {target}."
    else:
        yield f"Too little was measured to say how many users stay within the target of {target}."
    if bad is not None:
        verb = "misses" if bad.users == 1 else "miss"
        yield f"{format_count(bad.users, 'user')} {verb} it: {_format_mean(search, bad)}."
    elif good is not None:
        yield "No larger number of users that was tried misses it."
    yield f"Judged by: {search.label}."


def _answer_peak(search: SearchReading) -> Iterator[str]:
    result, peak = search.content.result, find_peak_step(search)
    if peak is None or result.users is None:
        yield f"Too little was measured to say where the peak is. Judged by: {search.label}."
        return
    count = format_count(peak.users, "user")
    yield f"The peak is {_format_mean(search, peak)}, with {count}."
    share = f"{search.content.target_saturation or 1:.0%} of that"
    if result.users < peak.users:
        reach = "reaches" if result.users == 1 else "reach"
        yield f"{format_count(result.users, 'user')} {reach} {share}."
    else:
        yield f"No smaller number of users that was tried reaches {share}."
    yield f"Judged by: {search.label}."


def find_peak_step(search: SearchReading) -> SearchStep | None:
    """Return the step with the highest value of those that are evidence."""
    measured = [step for step in search.steps if step.evidence and step.value is not None]
    return max(measured, key=lambda step: step.value or 0.0, default=None)


def _format_mean(search: SearchReading, step: SearchStep) -> str:
    """Return the mean of a step with its interval."""
    value = search.format_value(step.value)
    if step.interval is None:
        return f"{value} ({'predicted' if search.is_predicted else '1 trial'})"
    low, high = (search.format_value(end, with_unit=False) for end in step.interval)
    return f"{value} ({low} to {high})"


def _list_tested(search: SearchReading) -> Iterator[str]:
    content = search.content
    if content.prediction is not None:
        yield f"predicted from the profile {content.prediction.profile}"
    elif machine := search.describe_machine():
        yield machine
    users = [step.users for step in search.steps]
    tried = f"{users[0]:,} to {users[-1]:,} users" if len(users) > 1 else format_count(sum(users), "user")
    yield f"{content.trace.path}; {tried} in a closed loop, {content.duration_s:g} s each"
    yield f"flags: {' '.join(content.flags)}"


def _list_cards(search: SearchReading) -> Iterator[Card]:
    content = search.content
    result, is_qos = content.result, content.mode == "qos"
    label = "Users within the target" if is_qos else "Users near the peak"
    users = None if result.users is None else f"{result.users:,}"
    sure = "sure: no interval includes the target" if is_qos else "sure: both intervals are tight"
    yield Card(label, users, range=sure if result.sure else "not sure: see below")
    answer = search.find_step(result.users) if is_qos else find_peak_step(search)
    if is_qos:
        limit = "at least" if content.target_is == "at_least" else "at most"
        target = search.format_value(content.target, with_unit=False)
        yield Card("Target", target, search.unit, limit)
    if answer is not None:
        yield _make_value_card(search, answer)
    if is_qos and (bad := search.find_miss()) is not None:
        yield _make_value_card(search, bad)
    shown = search.find_step(result.users) or answer
    if shown is None:
        return
    count = f"with {format_count(shown.users, 'user')}"
    if "nvme" not in content.metric and shown.throughput_gib_s is not None:
        rate = format_number(shown.throughput_gib_s)
        yield Card("NVMe, read and written", rate, "GiB/s", count, "higher is better")
    if content.metric != "nvme_read_p95_ms" and shown.p95_ms is not None:
        samples = f"{count}, {shown.p95_n:,} reads"
        yield Card("NVMe reads, P95", format_number(shown.p95_ms), "ms", samples, "lower is better")


def _make_value_card(search: SearchReading, step: SearchStep) -> Card:
    """Return the card of a step's value, with its interval."""
    head = f"{search.label}, {format_count(step.users, 'user')}"
    value = None if step.value is None else search.format_value(step.value, with_unit=False)
    basis = "predicted" if search.is_predicted else format_count(step.trials, "trial")
    if step.interval is not None:
        low, high = (search.format_value(end, with_unit=False) for end in step.interval)
        basis = f"95% interval {low} to {high}, {basis}"
    samples = "" if step.n is None else f"{step.n:,} samples in the smallest trial"
    return Card(head, value, search.unit, basis, samples)


def _list_doubts(search: SearchReading) -> Iterator[DoubtLine]:
    result = search.content.result
    why = result.text.partition(_NOT_SURE)[2].rstrip(".") or result.text.rstrip(".")
    if not (result.sure or search.is_predicted):
        advice = "repeat the search with more trials or users, or a longer duration or trace"
        yield DoubtLine("The answer is not sure", _begin(why), advice)
    if search.content.prediction is not None:
        text = f"Nothing was replayed: {why}. {describe_errors(search.content.prediction.kind)}"
        advice = "measure the users found with `replayer autoscale` on the machine itself"
        yield DoubtLine("Predicted, not measured", text, advice)
    for warning in search.content.warnings:
        kind, _, rest = warning.partition(": ")
        text, _, advice = rest.rstrip(".").rpartition("; ")
        if text:
            yield DoubtLine(_begin(kind), _begin(text), advice)
        else:
            yield DoubtLine("Doubtful replays", _begin(warning.rstrip(".")), "look at these runs")


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]
