"""The error of a calibration, carried into what a twin predicts.

A twin's parameters eta solve m(eta) = t, where t are printed means over the n pools of a study. So
eta has an error, and a number q that the twin predicts has it too. Were the twin's kind of judge
the true one, a study's mean of q would differ from the prediction to first order by

    mean over its n pools of  q_i - D (t_i - t),    D = dq/deta (dt/deta)^-1,

as q_i and t_i are of the same pools: where both are high by chance, part of the error cancels, and
where q depends much on eta, it adds. `carried` gives these numbers of each simulated pool; means of
n of them fall where a study's q falls, given that the twin was calibrated to that study's t. Where
targets hardly tell a parameter (naive recall is at its highest, say), the inverse is Bayes' with a
wide prior, and what is left open is part of `blur`.

**Derivatives** by displacing all parameters of a twin at once, up or down as each pool's own draw
says (`displaced`), and the other way: two further conditions tell the slopes along all of them
(Spall 1992), as half the difference on each pool, regressed on the steps.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from jbt import estimators
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.judges import Published
from jbt.simulation.simulate import Condition, stream
from jbt.twins.calibration import aim_of
from jbt.twins.twin import TOLERANCE
from jbt.types import Pool, Prior

TARGETS = tuple(TOLERANCE)
PARAMETERS = ("discrimination", "bias", "position")
DISPLACED = (1.0, -1.0)
"""Values of the condition `displaced` that slopes are found from; 0 is the twin itself."""
OPEN = 5.0
"""Standard deviation in steps of what is thought of the parameters before a calibration. It matters
only where the targets hardly tell them: a naive recall that all but the same twins share."""
ROUNDING = 0.005
"""How far a target may lie from what is printed: half a unit of the last digit."""


def displaced(key: Key[Array, ""], condition: Condition) -> tuple[Condition, Array]:
    """The twin of a condition, its parameters displaced by `condition["displaced"]` steps.

    A step is about what the calibration's error is in a study of ten pools. It is up or down as the
    pool's stream "displacement" says, for each parameter by itself.

    Args:
      condition: of one twin, see `twins.conditions`, with `displaced`.

    Returns:
      the condition to give to `answers`, and the steps [3], of `PARAMETERS`.
    """
    unit = jnp.where(condition["argmax"] > 0, condition["pair_noise"], 1.0)
    own = jnp.stack([condition[name] for name in PARAMETERS])
    share, of_unit = jnp.array([[0.2, 0.1, 0.1], [0.02, 0.15, 0.15]], own.dtype)
    size = share * jnp.abs(own) + of_unit * unit
    signs = jax.random.rademacher(stream(key, "displacement"), (len(PARAMETERS),), size.dtype)
    steps = condition["displaced"] * signs * size
    moved = {name: each + step for name, each, step in zip(PARAMETERS, own, steps, strict=True)}
    return {**condition, **moved}, steps


def observed(
    verdicts: Bool[Array, "N N"], pool: Pool, k: int = 5, prior: Prior | None = None
) -> Float[Array, " 3"]:
    """What a twin shows of `TARGETS` on one pool, every ordered pair judged once.

    Args:
      verdicts: True where the first shown wins, of `answers`.
    """
    shown = judges.reveal(verdicts, pairs.every_pair(pool))
    naive = estimators.naive(shown, pool.design, prior or Prior()).parameters
    aware = estimators.bias_aware(shown, pool.design, prior or Prior()).parameters
    recall = metrics.top_k_recall(naive.theta, pool.quality, k)
    return jnp.stack([aware.c[0], aware.kappa, recall])


def slopes(up: np.ndarray, down: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Derivatives of the mean of a number by a twin's parameters, per step of each.

    Args:
      up, down: [..., P] the number in pools whose twin is displaced one way and the other; pools in
        which either is not finite are left out.
      steps: [3, P] of the first.

    Returns:
      [..., 3].
    """
    half = (np.asarray(up, float) - down) / 2
    known = np.isfinite(half).reshape(-1, half.shape[-1]).all(0)
    flat = half[..., known].reshape(-1, int(known.sum()))
    found = np.linalg.lstsq(np.sign(steps[:, known]).T, flat.T, rcond=None)[0].T
    return found.reshape(*half.shape[:-1], len(steps))


@dataclasses.dataclass(frozen=True)
class CalibrationError:
    """Of one twin: how its targets scatter over pools, and what moves them."""

    targets: np.ndarray
    """[3, P] of `TARGETS`, in the pools whose numbers are carried."""
    aim: np.ndarray
    """[3] what it is calibrated to."""
    pools: int
    """Of the study that it is calibrated to (count)."""
    steps: np.ndarray
    """[3, P'] of `PARAMETERS`, in the pools in which it is displaced."""
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
          published: whose twin it is.
          targets: [3, P] of the twin.
          up, down: [3, P'] of the twin displaced by `steps` [3, P'], and the other way.
        """
        aim = np.array(aim_of(published))
        return cls(targets, aim, published.pools, steps, slopes(up, down, steps))

    def weights(self, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        """How a number hangs on the calibration, [..., 6]: D, by how much it changes with each
        target, then what the targets leave open of it, as standard deviations along three
        directions.

        Args:
          up, down: [..., P'] the number in the pools of the displaced twin.
        """
        return self.weights_of(slopes(up, down, self.steps))

    def weights_of(self, slopes: np.ndarray) -> np.ndarray:
        """The same of a number with derivatives [..., 3] per step."""
        gain = self._gain()
        return slopes @ np.concatenate([gain, OPEN * (np.eye(3) - gain @ self.slopes)], axis=1)

    def covariance(self) -> np.ndarray:
        """[3, 3] of the parameters' error, in steps."""
        left = OPEN**2 * (np.eye(3) - self._gain() @ self.slopes)
        return (left + left.T) / 2

    def _gain(self) -> np.ndarray:
        """What a change of each target does to the parameters, in steps [3, 3]: (dt/deta)^-1 where
        targets tell them well (a Kalman gain)."""
        scatter = np.cov(self.targets) if self.targets.shape[-1] > 1 else np.zeros((3, 3))
        scatter = scatter / self.pools + ROUNDING**2 / 3 * np.eye(3)
        of_targets = OPEN**2 * self.slopes @ self.slopes.T + scatter
        return OPEN**2 * np.linalg.solve(of_targets, self.slopes).T

    @staticmethod
    def blur(weights: np.ndarray) -> np.ndarray:
        """Standard deviation [...] of a number's mean beside the scatter of pools: the rounding of
        the targets, and what they leave open; weights [..., 6]."""
        each = np.array([*3 * [ROUNDING / np.sqrt(3)], *3 * [1.0]])
        return np.asarray(np.linalg.norm(weights * each, axis=-1))

    def carried(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """A number with the calibration's error in it, see the module's docstring. Its mean is
        moved to where the targets are met, as far as `TOLERANCE` goes.

        Args:
          values: [..., P] the number in pools of the twin.
          weights: [..., 6] of `weights`.

        Returns:
          [..., P].
        """
        mean, most = self.targets.mean(-1), np.array(list(TOLERANCE.values()))
        aim = mean + np.clip(self.aim - mean, -most, most)
        return values - weights[..., :3] @ (self.targets - aim[:, None])
