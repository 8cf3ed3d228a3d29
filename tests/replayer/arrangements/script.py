"""Cases worked by hand, as text: `w a 2` writes a of two tokens; moves read as the pages write them."""

import tomllib
from collections.abc import Sequence

from tests.replayer.arrangements.oracle import Row, moves
from tests.replayer.arrangements.tiers import NAMES, Op, Usable

KINDS = {"w": ("write", "prefill"), "r": ("read", "prefill"), "d": ("read", "decode"), "x": ("delete", "prefill")}
KINDS |= {"wd": ("write", "decode")}


def ops_of(script: str) -> list[Op]:
    """Ops, each a line: kind, key, tokens of a new key; then q request, u user, @ second, or a source."""
    ops, keys, tokens = list[Op](), dict[str, int](), dict[int, int]()
    for line in filter(None, map(str.strip, script.splitlines())):
        kind, name, *more = line.split()
        key = keys.setdefault(name, len(keys))
        request, user, second, source = 100 + len(ops), 0, 0, "user"
        for word in more:
            if word.isdigit():
                tokens[key] = int(word)
            elif word[0] == "q" and word[1:].isdigit():
                request = int(word[1:])
            elif word[0] == "u" and word[1:].isdigit():
                user = int(word[1:])
            elif word[0] == "@":
                second = int(word[1:])
            else:
                source = word
        op, phase = KINDS[kind]
        ops.append(Op(len(ops), op, key, tokens[key], phase, request, user, source, second * 10**9))
    return ops


def names_of(script: str) -> list[str]:
    """The names of keys."""
    return list(dict.fromkeys(line.split()[1] for line in script.splitlines() if line.strip()))


def as_text(row: Row, names: Sequence[str]) -> str:
    """A move as the page writes it: `demote a gpu → cpu`."""
    _, _, move, key, source, target, _ = row
    places = [NAMES[tier] for tier in (source, target) if tier >= 0]
    if move == "store":
        places = ["→", *places]
    return " ".join(
        [move, names[key], " → ".join(places) if len(places) == 2 and move != "store" else " ".join(places)]
    ).strip()


def play(script: str, table: str, usable: Usable, **more: bool) -> list[str]:
    """The moves of each op, as text."""
    ops, names = ops_of(script), names_of(script)
    told: list[list[str]] = [[] for _ in ops]
    for row in moves(ops, tomllib.loads(table), usable, **more):
        told[row[0]].append(as_text(row, names))
    return [", ".join(each) for each in told]
