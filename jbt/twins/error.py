"""The error of a calibration, carried into the predictions of a twin.

A twin's parameters eta solve m(eta) = t, where t are printed means over the n pools of a study. So
eta has an error, and so has a number q that the twin predicts. If the real judge were of the twin's
kind, a study's mean of q would differ from the prediction to first order by

    mean over its n pools of  q_i - D (t_i - t),    D = dq/deta (dt/deta)^-1,

as q_i and t_i come from the same pools: where both are high by chance, part of the error cancels,
and where q depends strongly on eta, it adds. `carried` computes these numbers for each simulated
pool; means of n of them are distributed like a study's q, given that the twin was calibrated to
that study's t. Where the targets hardly identify a parameter (for example with naive recall at its
highest), the inverse is a Bayesian one with a wide prior, and the remaining uncertainty is part of
`blur`.

**Derivatives** are found by displacing all parameters of a twin at once, up or down by a draw for
each pool (`displaced`), and then the opposite way. These two further conditions give the slopes
along all parameters (Spall 1992): half the difference on each pool, regressed on the steps.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from jbt.simulation.judges import Published
from jbt.simulation.simulate import Condition, stream
from jbt.twins.calibration import aim_of
from jbt.twins.simulated import TOLERANCE, numbers
from jbt.types import Pool, Prior

TARGETS = tuple(TOLERANCE)
PARAMETERS = ("discrimination", "bias", "position")
DISPLACED = (1.0, -1.0)
"""Values of the condition `displaced` from which slopes are computed; 0 is the twin itself."""
OPEN = 5.0
"""Prior standard deviation of the parameters before a calibration, in steps. It matters only where
the targets hardly identify them, as when twins that differ have almost the same naive recall."""
ROUNDING = 0.005
"""Largest rounding error of a printed target: half a unit of the last digit."""


def displaced(key: Key[Array, ""], condition: Condition) -> tuple[Condition, Array]:
    """The twin of a condition, its parameters displaced by `condition["displaced"]` steps.

    A step is about the calibration's error in a study of ten pools. The pool's stream
    "displacement" draws its sign for each parameter independently.

    Args:
      condition: one twin's, see `twins.conditions`, with `displaced`.

    Returns:
      The condition for `answers`, and the steps [3] of `PARAMETERS`.
    """
    unit = jnp.where(condition["argmax"] > 0, condition["pair_noise"], 1.0)
    values = jnp.stack([condition[name] for name in PARAMETERS])
    relative, absolute = jnp.array([[0.2, 0.1, 0.1], [0.02, 0.15, 0.15]], values.dtype)
    size = relative * jnp.abs(values) + absolute * unit
    signs = jax.random.rademacher(stream(key, "displacement"), (len(PARAMETERS),), size.dtype)
    steps = condition["displaced"] * signs * size
    moved = {name: v + step for name, v, step in zip(PARAMETERS, values, steps, strict=True)}
    return {**condition, **moved}, steps


def observed(
    verdicts: Bool[Array, "N N"], pool: Pool, k: int = 5, prior: Prior | None = None
) -> Float[Array, " 3"]:
    """A twin's values of `TARGETS` on one pool, every ordered pair judged once.

    Args:
      verdicts: True where the first shown wins, from `answers`.
    """
    found = numbers(verdicts, pool, k, prior or Prior())
    return jnp.stack([found[name] for name in TARGETS])


def slopes(up: np.ndarray, down: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Derivatives of the mean of a number in a twin's parameters, per step of each.

    Args:
      up, down: [..., P] the number in pools whose twin is displaced one way and the other; pools in
        which either is not finite are left out.
      steps: [3, P] steps of `up`.

    Returns:
      [..., 3].
    """
    half = (np.asarray(up, float) - down) / 2
    known = np.isfinite(half).reshape(-1, half.shape[-1]).all(0)
    flat = half[..., known].reshape(-1, int(known.sum()))
    coefficients = np.linalg.lstsq(np.sign(steps[:, known]).T, flat.T, rcond=None)[0].T
    return coefficients.reshape(*half.shape[:-1], len(steps))


@dataclasses.dataclass(frozen=True)
class CalibrationError:
    """One twin's calibration: the scatter of its targets over pools, and their derivatives."""

    targets: np.ndarray
    """[3, P] values of `TARGETS`, in the pools whose numbers are carried."""
    aim: np.ndarray
    """[3] values it is calibrated to."""
    pools: int
    """Number of pools in the study that it is calibrated to."""
    steps: np.ndarray
    """[3, P'] steps of `PARAMETERS`, in the pools in which it is displaced."""
    slopes: np.ndarray
    """[3 targets, 3 parameters] derivatives of the targets' means, per step."""

    @classmethod
    def of(
        cls,
        published: Published,
        targets: np.ndarray,
        up: np.ndarray,
        down: np.ndarray,
        steps: np.ndarray,
    ) -> CalibrationError:
        """
        Args:
          published: the judge whose twin it is.
          targets: [3, P] the twin's values.
          up, down: [3, P'] values of the twin displaced by `steps` [3, P'], and the other way.
        """
        aim = np.array(aim_of(published))
        return cls(targets, aim, published.pools, steps, slopes(up, down, steps))

    def weights(self, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        """Dependence of a number on the calibration, [..., 6]: D, its change with each target, then
        the uncertainty that the targets leave, as standard deviations along three directions.

        Args:
          up, down: [..., P'] the number in the pools of the displaced twin.
        """
        return self.weights_of(slopes(up, down, self.steps))

    def weights_of(self, slopes: np.ndarray) -> np.ndarray:
        """`weights` of a number with derivatives [..., 3] per step."""
        gain = self._gain()
        return slopes @ np.concatenate([gain, OPEN * (np.eye(3) - gain @ self.slopes)], axis=1)

    def covariance(self) -> np.ndarray:
        """[3, 3] covariance of the parameters' error, in steps."""
        left = OPEN**2 * (np.eye(3) - self._gain() @ self.slopes)
        return (left + left.T) / 2

    def _gain(self) -> np.ndarray:
        """Change of the parameters with each target, in steps [3, 3]: a Kalman gain, which is
        (dt/deta)^-1 where the targets identify the parameters well."""
        scatter = np.cov(self.targets) if self.targets.shape[-1] > 1 else np.zeros((3, 3))
        scatter = scatter / self.pools + ROUNDING**2 / 3 * np.eye(3)
        covariance = OPEN**2 * self.slopes @ self.slopes.T + scatter
        return OPEN**2 * np.linalg.solve(covariance, self.slopes).T

    @staticmethod
    def blur(weights: np.ndarray) -> np.ndarray:
        """Standard deviation [...] of a number's mean in addition to the scatter of pools, from the
        targets' rounding and the uncertainty they leave; weights [..., 6]."""
        sds = np.array([*3 * [ROUNDING / np.sqrt(3)], *3 * [1.0]])
        return np.asarray(np.linalg.norm(weights * sds, axis=-1))

    def carried(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """A number including the calibration's error, see the module's docstring. Its mean is moved
        to where the targets are met, by at most `TOLERANCE` in each target.

        Args:
          values: [..., P] the number in pools of the twin.
          weights: [..., 6] from `weights`.

        Returns:
          [..., P].
        """
        mean, most = self.targets.mean(-1), np.array(list(TOLERANCE.values()))
        aim = mean + np.clip(self.aim - mean, -most, most)
        return values - weights[..., :3] @ (self.targets - aim[:, None])
