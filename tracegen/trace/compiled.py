"""Loads compiled code: plain shared libraries, called through ctypes, which releases the interpreter's lock."""

import ctypes
import importlib.util


def library(name: str) -> ctypes.CDLL:
    """The compiled library of a package, e.g. `tracegen._core`.

    Raises:
        ImportError: it has not been built.
    """
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ImportError(f"the compiled library {name} is missing: install the package anew (make setup)")
    return ctypes.CDLL(found.origin)
