"""Several judges of the same items: score and information of the joint model from each judge's.

    P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

Judges share the qualities theta and nothing else. For judge g this is the model of one judge with
parameters (s_g theta, c_g, kappa_g), which are linear in those of the panel; so its score is the
sum of the judges' scores, and its information the sum of their informations, each taken through
that linear map. The judge is an axis after those of one problem, and `jbt.kernel.model` works on
all judges at once.

In the panel's flat parameters theta comes first, then each of (c, kappa) for all sets.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt.types import Design, Panel, Parameters


def each_judge(parameters: Parameters, panel: Panel) -> Parameters:
    """The parameters of each judge's own model: theta [M, J ...], c [D, J ...], kappa [J ...]."""
    theta, c, kappa = parameters.theta, parameters.c, parameters.kappa
    return Parameters(
        theta[:, None] * panel.discrimination,
        (c[:, None] * panel.sharing).sum(2),
        (kappa * panel.sharing).sum(1),
    )


def for_judges(design: Design) -> Design:
    """The design with an axis of length 1 for the judges, who share it."""
    content = design.content
    return dataclasses.replace(
        design,
        covariates=design.covariates[:, :, None],
        content=None if content is None else content[:, None],
        item_mask=design.item_mask[:, None],
    )


def joint_score(
    score: Float[Array, "own_P J ..."], panel: Panel, n_contents: int
) -> Float[Array, "P ..."]:
    """The panel's score from that of each judge's own model."""
    theta = (score[:n_contents] * panel.discrimination).sum(1)
    biases = (score[n_contents:, :, None] * panel.sharing).sum(1)
    return jnp.concatenate([theta, biases.reshape(-1, *biases.shape[2:])])


def joint_information(
    information: Float[Array, "own_P own_P J ..."], panel: Panel, n_contents: int
) -> Float[Array, "P P ..."]:
    """The panel's information from that of each judge's own model."""
    m, s, sharing = n_contents, panel.discrimination, panel.sharing
    axes = information.shape[3:]
    theta = (information[:m, :m] * s**2).sum(2)
    border = (information[:m, m:, :, None] * (s[:, None] * sharing)).sum(2)
    border = border.reshape(m, -1, *axes)
    by_set = jnp.swapaxes(sharing, 0, 1)
    both = by_set[:, None] * by_set  # sets, sets, judges
    corner = (information[m:, None, m:, None] * both[:, None]).sum(4)
    n_biases = border.shape[1]
    corner = corner.reshape(n_biases, n_biases, *axes)
    return jnp.concatenate(
        [
            jnp.concatenate([theta, border], 1),
            jnp.concatenate([jnp.swapaxes(border, 0, 1), corner], 1),
        ]
    )


def of_one_judge(
    values: Float[Array, "... P"],
    discrimination: Float[Array, ""],
    shares: Float[Array, " J"],
    n_contents: int,
) -> Float[Array, "... own_P"]:
    """Apply the linear map of `each_judge` to the last axis: from the panel's flat parameters to
    those of the judge with this discrimination and row of `sharing`."""
    sets = values[..., n_contents:]
    sets = sets.reshape(*values.shape[:-1], -1, len(shares))
    return jnp.concatenate([values[..., :n_contents] * discrimination, (sets * shares).sum(-1)], -1)
