"""Loader of the packages' compiled code.

The compiled files are plain shared libraries. ctypes calls them and releases Python's global lock
during the call.
"""

import ctypes
import importlib.util


def library(name: str) -> ctypes.CDLL:
    """Load the compiled library of a package, for example `tracegen._core`."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        problem = f"the compiled library {name} is missing"
        raise ImportError(f"{problem}; reinstall the package with `make setup`")
    return ctypes.CDLL(spec.origin)
