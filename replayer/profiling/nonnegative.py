"""Least squares without negative values (Lawson and Hanson, 1974)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_TOLERANCE: Final = 1e-9


def solve_nonnegative(matrix: Matrix, target: Matrix) -> Matrix:
    """Return the x ≥ 0 for which |matrix · x − target| is least.

    Args:
        matrix: shape (rows, columns).
        target: shape (rows,).

    Returns:
        x, shape (columns,).
    """
    norms = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(norms > 0, norms, 1)
    columns = matrix.shape[1]
    solution = np.zeros(columns)
    is_free = np.zeros(columns, np.bool_)
    for _ in range(3 * columns):
        gradient = scaled.T @ (target - scaled @ solution)
        gradient[is_free] = -np.inf
        best = int(gradient.argmax())
        if gradient[best] <= _TOLERANCE * max(1.0, float(np.linalg.norm(target))):
            break
        is_free[best] = True
        solution = _settle(scaled, target, solution, is_free)
    unscaled: Matrix = solution / np.where(norms > 0, norms, 1)
    return unscaled


def _settle(matrix: Matrix, target: Matrix, solution: Matrix, is_free: NDArray[np.bool_]) -> Matrix:
    """Solve for the free columns; hold those at 0 that would become negative."""
    while is_free.any():
        wanted = np.zeros(len(solution))
        wanted[is_free] = np.linalg.lstsq(matrix[:, is_free], target, rcond=None)[0]
        falling = is_free & (wanted <= 0)
        if not falling.any():
            return wanted
        steps = solution[falling] / np.maximum(solution[falling] - wanted[falling], 1e-300)
        solution = solution + steps.min() * (wanted - solution)
        is_free &= solution > _TOLERANCE * max(1.0, float(np.abs(solution).max()))
        solution[~is_free] = 0
    return np.zeros(len(solution))
