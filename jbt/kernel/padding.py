"""Rows, contents and pools padded to a few sizes, so that problems of similar size share compiled
programs."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from jbt.types import Design, Parameters, Rows

FEWEST_ROWS, FEWEST = 256, 8
"""Smallest sizes, of rows and of all else."""

DOUBLED = 2**14
"""Rows up to which sizes are powers of two: fits of so few take milliseconds, whereas compiling
takes seconds. Beyond it, and for all else, there are four sizes between powers of two."""


def rows_size(n: int) -> int:
    """The size to which n rows are padded."""
    if n <= DOUBLED:
        return max(FEWEST_ROWS, 1 << max(0, n - 1).bit_length())
    return size(n)


def size(n: int) -> int:
    """The size to which n contents or pools are padded."""
    step = max(FEWEST, 2 ** max(0, n.bit_length() - 3))
    return -(-n // step) * step


def pad_rows(rows: Rows, n_rows: int) -> Rows:
    """The rows followed by rows without verdicts, `n_rows` in all."""

    def padded(leaf: object) -> jnp.ndarray:
        values = np.asarray(leaf)
        fill = n_rows - len(values)
        return jnp.asarray(np.pad(values, [(0, fill)] + [(0, 0)] * (values.ndim - 1)))

    leaves = {field.name: padded(getattr(rows, field.name)) for field in dataclasses.fields(rows)}
    return Rows(**leaves)


def pad_contents(design: Design) -> Design:
    """A design for rows (`Design.of_contents`) with masked contents after its own; any other design
    as it is."""
    m = design.n_contents
    fill = size(m) - m
    if design.content is not None or np.asarray(design.covariates).any() or not fill:
        return design
    covariates = np.pad(np.asarray(design.covariates), ((0, fill), (0, 0)))
    mask = np.pad(np.asarray(design.item_mask), (0, fill))
    return Design(jnp.asarray(covariates), None, jnp.asarray(mask), m + fill)


def pad_parameters(parameters: Parameters, n_contents: int) -> Parameters:
    """The parameters with zeros for the contents that are added, `n_contents` in all."""
    theta = np.asarray(parameters.theta)
    theta = jnp.asarray(np.pad(theta, (0, n_contents - len(theta))))
    return dataclasses.replace(parameters, theta=theta)


def cut_parameters(parameters: Parameters, n_contents: int) -> Parameters:
    """The parameters of the first contents."""
    theta = jnp.asarray(np.asarray(parameters.theta)[:n_contents])
    return dataclasses.replace(parameters, theta=theta)


def kept(n_contents: int, n_parameters: int, padded_contents: int) -> np.ndarray:
    """[n_parameters] places of (theta, c, kappa) among the parameters of a padded design.

    Args:
      n_contents, n_parameters: M and P of the design as it was.
      padded_contents: M of the padded one.
    """
    places = np.arange(n_parameters)
    return np.where(places < n_contents, places, places + padded_contents - n_contents)
