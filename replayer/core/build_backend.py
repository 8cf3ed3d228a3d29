"""Build backend for the package and its compiled core.

If the machine has no C compiler, pip installs one for the build (Zig's, as a wheel).
"""

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
    """Name a C compiler for setuptools."""
    if _lacks_compiler():
        zig = f"{sys.executable} -m ziglang cc"
        os.environ |= {"CC": zig, "LDSHARED": f"{zig} -shared"}
    yield


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """Return the packages that pip installs for the build of a wheel."""
    requires: list[str] = build_meta.get_requires_for_build_wheel(settings)
    return [*requires, *([ZIG] if _lacks_compiler() else [])]


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(*args: Any, **kwargs: Any) -> str:
    """Build the wheel."""
    with _compiler():
        return str(build_meta.build_wheel(*args, **kwargs))


def build_editable(*args: Any, **kwargs: Any) -> str:
    """Build an editable install: the compiled core goes into the source tree's packages."""
    with _compiler():
        return str(build_meta.build_editable(*args, **kwargs))
