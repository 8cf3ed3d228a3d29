"""Builds the package and its compiled core; where a machine has no C compiler, pip brings one (Zig's, as a wheel)."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 (hooks that pip calls)
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ZIG = "ziglang==0.17.1"


def _lacks_compiler() -> bool:
    return "CC" not in os.environ and not any(map(shutil.which, ("cc", "gcc", "clang")))


@contextmanager
def _compiler() -> Iterator[None]:
    if _lacks_compiler():
        zig = f"{sys.executable} -m ziglang cc"
        os.environ |= {"CC": zig, "LDSHARED": f"{zig} -shared"}
    yield


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """What pip installs for the build."""
    return [*build_meta.get_requires_for_build_wheel(settings), *([ZIG] if _lacks_compiler() else [])]


def get_requires_for_build_editable(settings: Any = None) -> list[str]:
    """The same, for an editable install."""
    return [*build_meta.get_requires_for_build_editable(settings), *([ZIG] if _lacks_compiler() else [])]


def build_wheel(*args: Any, **kwargs: Any) -> str:
    """Build the wheel."""
    with _compiler():
        return str(build_meta.build_wheel(*args, **kwargs))


def build_editable(*args: Any, **kwargs: Any) -> str:
    """Build for an editable install: the core lies beside its sources' package."""
    with _compiler():
        return str(build_meta.build_editable(*args, **kwargs))
