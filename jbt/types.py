"""Every container of jbt, with the shape and unit of each field where it is declared.

Axis letters, used in every annotation of the package:

    N  items of a pool, padding included
    M  contents of a pool: what owns a quality (M = N unless renderings share one)
    R  rows of verdicts, where they are not counted over all pairs of items
    D  covariates of an item
    J  judges of a panel
    P  free and fixed parameters together, P = M + D + 1, ordered (theta, c, kappa); of a panel
       M + (D + 1) J, each coefficient of (c, kappa) for all judges before the next
    biases  all of them behind theta

Containers describe *one* pool; thousands of them are the same containers with leading
axes, made by `jax.vmap` or `jax.tree.map(jnp.stack, ...)`. `...` in an annotation says that axes
which follow are passed through: the solver works on thousands of pools with the pool as the last
axis (`jbt.batching`), and reads no differently for it. Where jaxtyping's import hook is on,
as under pytest, shapes are checked when a container is built by hand, and not when JAX rebuilds
one from its leaves. `build` checks values, at any time.

Orientation, here and everywhere: index `[i, j]` means "i shown first, j second", and a
win of `[i, j]` is a win of i, the first shown. kappa > 0 favours the first shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Shaped

T = TypeVar("T")

ArrayLike = Array | np.ndarray
"""Of JAX or NumPy."""

ScalarLike = Float[Array, ""] | float | int
"""A number per pool: traced inside a kernel, a plain float outside."""


@dataclass_transform(frozen_default=True)
def container(cls: type[T]) -> type[T]:
    """A frozen dataclass registered as a pytree.

    Unlike `jax.tree_util.register_dataclass` it rebuilds without calling `__init__`, so
    that batched leaves (one more axis than declared) and the placeholders of JAX's
    transformations pass, while the constructor keeps its checks. A field with
    `metadata={"static": True}` belongs to the structure: changing it recompiles.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    leaves = [f.name for f in fields if not f.metadata.get("static")]
    static = [f.name for f in fields if f.metadata.get("static")]

    def rebuild(aux: tuple[Any, ...], children: Any) -> T:
        self = object.__new__(cls)
        for name, value in zip(leaves, children, strict=True):
            object.__setattr__(self, name, value)
        for name, value in zip(static, aux, strict=True):
            object.__setattr__(self, name, value)
        return self

    def flatten(self: T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(self, n) for n in leaves], tuple(getattr(self, n) for n in static)

    def flatten_with_keys(self: T) -> tuple[list[Any], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in leaves]
        return children, tuple(getattr(self, n) for n in static)

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, rebuild, flatten)
    return cls


class Status(IntEnum):
    """How a fit ended. Nothing raises inside a batch: every result carries one of these."""

    CONVERGED = 0
    NOT_CONVERGED = 1
    """The step limit came first."""
    NOT_FINITE = 2
    """An input or an iterate is NaN or infinite, or a prior precision is not above 0."""
    DOES_NOT_EXIST = 3
    """The prior-free optimum is at infinity (separated) or not unique (disconnected, flat)."""
    COVARIATE_CONSTANT = 4
    """Set at the border: a covariate does not vary within the pool, so its c stays at 0."""
    NO_VERDICTS = 5
    """Set at the border: the pool has no valid verdict, so the estimate is the prior's mean."""
    FLAT = 6
    """One coefficient has no prior-free estimate: the comparisons made are silent about it, as
    another parameter can undo any change of it."""
    DISCONNECTED = 7
    """As FLAT, but comparing items that no chain of comparisons (of a panel: of one judge's) links
    would break the silence."""
    SEPARATED = 8
    """One coefficient has no prior-free estimate: the likelihood rises all the way to infinity."""
    NO_REFERENCE = 9
    """Set at the border: of a panel, the judges whose biases are known saw nothing of the pool, so
    that what others tell of the biases corrects it."""


LARGEST_COUNT = 10**6
"""Of anything but pools in a sweep."""


def check_count(
    name: str, value: int, *, least: float | int = 1, most: int = LARGEST_COUNT
) -> None:
    """Raise `ValueError` unless `value` is an integer in least..most."""
    if not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least:g}, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")


def check_word(name: str, value: Any, allowed: Sequence[str | bool]) -> None:
    """Raise `ValueError` unless `value` is one of the words, or truth values, that are allowed."""
    if not (isinstance(value, str | bool | np.bool_) and value in allowed):
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value` is finite and above 0; traced values pass."""
    if not isinstance(value, Tracer):
        v = np.asarray(value)
        if v.dtype.kind not in "fiu" and not isinstance(value, jax.Array):  # bfloat16 is of kind V
            raise ValueError(f"{name} must be a number above 0, got {value!r}")
        if not (np.isfinite(v).all() and (v > 0).all()):
            raise ValueError(f"{name} must be finite and above 0, got {value}")


@container
class Design:
    """Who owns what: how items map to parameters."""

    covariates: Float[Array, "N D ..."]
    """Covariates of each item, in the units c is to be read in."""
    content: Int[Array, "N ..."] | None
    """Content of each item, in 0..M-1. None means that every item is its own content
    (M = N, the unpaired design): the same numbers as `arange(N)` without a gather."""
    item_mask: Bool[Array, "N ..."]
    """False for padding. Padded items may hold anything finite."""
    n_contents: int = dataclasses.field(metadata={"static": True})
    """M."""

    @classmethod
    def build(
        cls,
        covariates: Any,
        content: Any = None,
        item_mask: Any = None,
        n_contents: int | None = None,
    ) -> Design:
        """A design from arrays or lists, checked.

        Args:
          covariates: [N, D] finite numbers ([N] is read as D = 1; [N, 0] for none).
          content: [N] integers in 0..M-1, or None for one content an item.
          item_mask: [N] booleans, default all True.
          n_contents: M, default `max(content) + 1`.

        Raises:
          ValueError: shapes that do not fit, fewer than two items, NaN, content out of range.
        """
        x = jnp.asarray(covariates)
        x = x.astype(jnp.result_type(float)) if not jnp.issubdtype(x.dtype, jnp.floating) else x
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2:
            raise ValueError(f"covariates must be [N, D], got shape {x.shape}")
        n = x.shape[0]
        mask = jnp.ones(n, bool) if item_mask is None else jnp.asarray(item_mask, bool)
        if mask.shape != (n,):
            raise ValueError(f"item_mask must be [{n}], got shape {mask.shape}")
        if int(mask.sum()) < 2:
            raise ValueError(f"a pool needs at least 2 items, got {int(mask.sum())}")
        if not bool(jnp.isfinite(x).all()):
            raise ValueError("covariates must be finite")
        if content is None:
            if n_contents not in (None, n):
                raise ValueError(f"without content every item is its own: n_contents must be {n}")
            return cls(x, None, mask, n)
        owner = np.asarray(content)
        if owner.shape != (n,) or not np.issubdtype(owner.dtype, np.integer):
            raise ValueError(f"content must be {n} integers, got {owner.dtype} {owner.shape}")
        m = int(owner.max()) + 1 if n_contents is None else n_contents
        if owner.min() < 0 or owner.max() >= m:
            raise ValueError(f"content must lie in 0..{m - 1}, got {owner.min()}..{owner.max()}")
        return cls(x, jnp.asarray(owner), mask, m)

    @classmethod
    def of_contents(cls, n_contents: int, n_covariates: int, dtype: Any = None) -> Design:
        """The design that goes with `Rows`: every content once, without covariates of its own."""
        x = jnp.zeros((n_contents, n_covariates), dtype or jnp.result_type(float))
        return cls(x, None, jnp.ones(n_contents, bool), n_contents)

    @property
    def n_items(self) -> int:
        """N."""
        return self.covariates.shape[0]

    @property
    def n_covariates(self) -> int:
        """D."""
        return self.covariates.shape[1]

    @property
    def dtype(self) -> Any:
        """Precision of everything computed with this design."""
        return self.covariates.dtype

    def ownership(self) -> Float[Array, "N M ..."]:
        """One-hot matrix of which content each item shows; rows of padding are zero."""
        owner = self.content
        if owner is None:
            owner = jax.lax.broadcasted_iota(jnp.int32, self.item_mask.shape, 0)
        shows = jax.nn.one_hot(owner, self.n_contents, dtype=self.dtype, axis=1)
        return shows * self.item_mask[:, None]

    def content_mask(self) -> Bool[Array, "M ..."]:
        """Which contents are shown by at least one real item."""
        return self.item_mask if self.content is None else (self.ownership() > 0).any(0)

    def centred(self) -> Design:
        """The design with each covariate's mean over the real items taken off, zeros at padding.
        Only differences between items are compared, so nothing else changes but the rounding."""
        items = self.item_mask[:, None]
        x = jnp.where(items, self.covariates, 0)
        for _ in range(2):  # the mean of a large offset is rounded; what is left of it is not large
            x = jnp.where(items, x - x.sum(0) / items.sum(0), 0)
        return dataclasses.replace(self, covariates=x)

    def spread(self) -> Float[Array, "D ..."]:
        """Standard deviation of each covariate over the real items; 0 where it does not vary."""
        x = self.centred().covariates
        items = self.item_mask[:, None]
        spread = jnp.sqrt((x**2).sum(0) / items.sum(0))
        largest = jnp.where(items, jnp.abs(self.covariates), 0).max(0)
        rounding = 4 * jnp.finfo(x.dtype).eps * largest
        return jnp.where(spread > rounding, spread, 0)

    def of_items(self, per_content: Shaped[Array, "M ..."]) -> Shaped[Array, "N ..."]:
        """The value of each item's content."""
        content = self.content
        if content is None:
            return per_content
        if content.size == len(content):  # one for all problems
            return per_content[content.reshape(-1)]
        return jnp.take_along_axis(per_content, content, axis=0)


@container
class Pool:
    """One prompt with its candidate answers, and the truth about them."""

    quality: Float[Array, " M"]
    """True quality theta*, in logits at discrimination 1."""
    design: Design


@container
class Judge:
    """A simulated judge, Eq. 1 with its true coefficients."""

    bias: Float[Array, " D"] | Float[np.ndarray, " D"]
    """c*, logits per unit of each covariate."""
    position: ScalarLike
    """kappa*, logits in favour of the first shown."""
    discrimination: ScalarLike = 1.0
    """Factor on quality (not on the biases); below 1 the judge hears quality less well."""

    @classmethod
    def of(cls, bias: Any, position: float = 0.0, discrimination: float = 1.0) -> Judge:
        """A judge from numbers, in NumPy: making one does not start JAX, so that lists of judges
        can be constants of a module.

        Args:
          bias: a number for one covariate, or [D] numbers.

        Raises:
          ValueError: more than one axis, not finite.
        """
        c = np.atleast_1d(np.asarray(bias, float))
        if c.ndim != 1:
            raise ValueError(f"bias must be a number or [D], got shape {c.shape}")
        judge = cls(c, float(position), float(discrimination))
        for name, value in vars(judge).items():
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite, got {value}")
        return judge


@container
class Comparisons:
    """Counts of verdicts: the sufficient statistics of the model."""

    shown: Float[Array, "N N ..."]
    """How often i was shown first against j. Zero on the diagonal and at padding."""
    wins: Float[Array, "N N ..."]
    """How often i then won; a tie is half a win. 0 <= wins <= shown."""

    @classmethod
    def build(cls, shown: Any, wins: Any, dtype: Any = None) -> Comparisons:
        """Comparisons from arrays or lists, checked.

        Raises:
          ValueError: not square, diagonal not zero, negative or not finite, wins above shown.
        """
        s, w = np.asarray(shown), np.asarray(wins)
        if s.ndim != 2 or s.shape[0] != s.shape[1] or s.shape != w.shape:
            raise ValueError(f"shown and wins must be [N, N], got {s.shape} and {w.shape}")
        if not (np.isfinite(s).all() and np.isfinite(w).all()):
            raise ValueError("shown and wins must be finite")
        if np.diagonal(s).any():
            raise ValueError("an item cannot be compared with itself: shown[i, i] must be 0")
        if (w < 0).any() or (w > s).any():
            raise ValueError("wins must lie between 0 and shown")
        dtype = dtype or jnp.result_type(float)
        return cls(jnp.asarray(s, dtype), jnp.asarray(w, dtype))


@container
class Rows:
    """Verdicts one a row, or like ones together: the same data as `Comparisons` where N x N counts
    would be mostly zeros (a leaderboard has a few models and thousands of answers), or where it is
    not known for all of them which item was shown first. Whatever takes `Verdicts` takes either;
    rows go with a `Design.of_contents`, as each brings its own difference of covariates."""

    first: Int[Array, "R ..."]
    """Content of one item, in 0..M-1; the one shown first where that is known."""
    second: Int[Array, "R ..."]
    """Content of the other item."""
    difference: Float[Array, "R D ..."]
    """Covariates of the first less those of the second."""
    ordered: Float[Array, "R ..."]
    """1 where `first` was shown first, so that kappa acts in its favour; 0 where it is not known
    which was, so that kappa is left out."""
    shown: Float[Array, "R ..."]
    """How many verdicts the row stands for; 0 for padding."""
    wins: Float[Array, "R ..."]
    """How many of them the first won; a tie is half a win. 0 <= wins <= shown."""

    @classmethod
    def build(
        cls,
        first: Any,
        second: Any,
        difference: Any,
        share: Any,
        *,
        weight: Any = 1.0,
        ordered: Any = True,
    ) -> Rows:
        """Rows from arrays or lists, checked.

        Args:
          first, second: [R] contents, integers from 0.
          difference: [R, D] covariates of the first less those of the second.
          share: [R] of the verdicts won by the first, 0..1.
          weight: [R] or one number, how many verdicts a row stands for.
          ordered: [R] or one boolean, whether `first` was shown first.

        Raises:
          ValueError: shapes that do not fit, contents below 0, share outside 0..1, negative
            weights, numbers that are not finite.
        """
        f, s, d, p = (np.asarray(v) for v in (first, second, difference, share))
        rows = f.shape
        if len(rows) != 1 or s.shape != rows or p.shape != rows or d.shape[:-1] != rows:
            shapes = f"{f.shape}, {s.shape}, {d.shape} and {p.shape}"
            raise ValueError(
                f"first, second, difference, share must be [R], [R], [R, D], [R]: {shapes}"
            )
        for name, v in (("first", f), ("second", s)):
            if not np.issubdtype(v.dtype, np.integer) or v.min(initial=0) < 0:
                raise ValueError(f"{name} must be integers from 0")
        w, o = (np.broadcast_to(np.asarray(v, float), rows) for v in (weight, ordered))
        if not all(np.isfinite(v).all() for v in (d, p, w)):
            raise ValueError("difference, share and weight must be finite")
        if (p < 0).any() or (p > 1).any():
            raise ValueError("share must lie between 0 and 1")
        if (w < 0).any() or not np.isin(o, (0, 1)).all():
            raise ValueError("weight must not be negative, ordered must be true or false")
        number = jnp.result_type(float)
        each = [jnp.asarray(v, number) for v in (d, o, w, w * p)]
        return cls(jnp.asarray(f, jnp.int32), jnp.asarray(s, jnp.int32), *each)


@container
class Panel:
    """Several judges' verdicts about the same items, who share the qualities and nothing else:

        P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

    What takes `Verdicts` and a `Variant` takes a panel, with a variant for its judges. `Parameters`
    then hold c [D, J] and kappa [J], and so does the `Variant`."""

    verdicts: Comparisons | Rows
    """Of all judges, the judge as last axis: counts [N, N, J], or rows [R, J]."""
    discrimination: Float[Array, "J ..."]
    """s_g above 0, a factor on quality and not on the biases."""
    sharing: Float[Array, "J J ..."]
    """How the judges' biases are made of J sets of coefficients, which are the parameters: those
    of judge g, (c, kappa), are the sum over h of `sharing[g, h]` times set h. The identity gives
    every judge its own; a first column of ones and zeros elsewhere, one for all; any other matrix
    passes."""

    @classmethod
    def build(
        cls,
        verdicts: Sequence[Comparisons] | Sequence[Rows],
        *,
        discrimination: Any = 1.0,
        sharing: Any = None,
    ) -> Panel:
        """A panel from the verdicts of each judge, checked.

        Args:
          verdicts: J of them, all counts over the same items or all rows; shorter rows are padded.
          discrimination: s_g, one number or [J].
          sharing: [J, J], default the identity.

        Raises:
          ValueError: no judge, counts beside rows, shapes that do not fit, s not above 0.
        """
        each = list(verdicts)
        if not each:
            raise ValueError("a panel needs at least one judge")
        if len({type(v) for v in each}) > 1:
            raise ValueError("the judges of a panel have all counts or all rows")
        if isinstance(each[0], Rows):
            longest = max(v.shown.shape[0] for v in each)
            each = [_padded(v, longest) for v in each if isinstance(v, Rows)]
            widths = sorted({v.difference.shape[1] for v in each})
            if len(widths) > 1:
                raise ValueError(f"the judges' rows differ in their covariates: {widths} of them")
        shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(v)) for v in each}
        if len(shapes) > 1:
            found = " and ".join(sorted(str(v.shown.shape) for v in each))
            raise ValueError(f"the judges of a panel see the same items, got counts {found}")
        n, dtype = len(each), each[0].shown.dtype
        check_positive("discrimination", discrimination)
        s = jnp.asarray(discrimination, dtype)
        if s.shape not in ((), (n,)):
            raise ValueError(f"discrimination must be a number or [{n}], got shape {s.shape}")
        given = np.eye(n) if sharing is None else sharing
        finite = isinstance(given, Tracer) or bool(np.isfinite(np.asarray(given)).all())
        mixes = jnp.asarray(given, dtype)
        if mixes.shape != (n, n) or not finite:
            raise ValueError(f"sharing must be [{n}, {n}] finite numbers, got shape {mixes.shape}")
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves, -1), *each)
        return cls(stacked, jnp.broadcast_to(s, n), mixes)

    @property
    def shown(self) -> Float[Array, "... J"]:
        """How many verdicts of each judge stand behind each pair or row."""
        return self.verdicts.shown


def _padded(rows: Rows, n: int) -> Rows:
    """With rows of no verdicts behind, n in all."""
    more = n - rows.shown.shape[0]
    return jax.tree.map(lambda v: jnp.pad(v, [(0, more)] + [(0, 0)] * (v.ndim - 1)), rows)


Verdicts = Comparisons | Rows | Panel
"""The forms of the data."""


def n_judges(verdicts: Verdicts) -> int | None:
    """J of a panel, None of a single judge."""
    return verdicts.discrimination.shape[0] if isinstance(verdicts, Panel) else None


@container
class Parameters:
    """beta = (theta, c, kappa) of Eq. 1."""

    theta: Float[Array, "M ..."]
    """Quality of each content, logits."""
    c: Float[Array, "D ..."]
    """Bias coefficient of each covariate, logits per unit of the covariate; of a panel [D, J]."""
    kappa: Float[Array, "..."]
    """Position term, logits in favour of the first shown; of a panel [J]."""

    @classmethod
    def zeros(cls, design: Design, n_judges: int | None = None) -> Parameters:
        """All zero; `n_judges` is J of a panel, None of a single judge."""
        d, j = design.dtype, () if n_judges is None else (n_judges,)
        return cls(
            jnp.zeros(design.n_contents, d),
            jnp.zeros((design.n_covariates, *j), d),
            jnp.zeros(j, d),
        )

    def flat(self) -> Float[Array, "P ..."]:
        """theta, c, kappa one after the other."""
        return flat(self.theta, self.c, self.kappa)

    @classmethod
    def unflat(
        cls, beta: Float[Array, "P ..."], n_contents: int, n_judges: int | None = None
    ) -> Parameters:
        """`n_judges`: J of a panel, None of a single judge."""
        biases = beta[n_contents:]
        if n_judges is not None:
            biases = biases.reshape(-1, n_judges, *biases.shape[1:])
        return cls(beta[:n_contents], biases[:-1], biases[-1])


def flat(
    theta: Shaped[ArrayLike, "M ..."],
    c: Shaped[ArrayLike, "D ..."],
    kappa: Shaped[ArrayLike, "..."],
) -> Shaped[Array, "P ..."]:
    """Values for theta, c and kappa one after the other, in the order of P."""
    biases = jnp.concatenate([c, kappa[None]])
    return jnp.concatenate([theta, biases.reshape(-1, *theta.shape[1:])])


@container
class Prior:
    """theta ~ N(0, 1/lam), c and kappa ~ N(0, 1/lam_b), independent (Eq. S1)."""

    lam: ScalarLike = 1.0
    """Precision of quality, 1/logit^2."""
    lam_b: ScalarLike | Float[Array, " biases"] | Float[Array, " biases J"] = 0.1
    """Precision of c and kappa, 1/tau^2: one for all, one for each of (c, kappa), or of a panel
    one for each of them and each set of coefficients."""

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("lam_b", self.lam_b)


@container
class Variant:
    """Which coefficients a model frees; the others stay at zero. Traced, so that all
    variants are one compiled kernel."""

    c: Bool[Array, "D ..."]
    kappa: Bool[Array, "..."]

    @property
    def n_judges(self) -> int | None:
        """J of a panel, None of a single judge."""
        return self.kappa.shape[0] if self.kappa.ndim else None


@container
class Fit:
    """What a solver returns."""

    parameters: Parameters
    status: Int[Array, "..."]
    """A `Status`."""
    steps: Int[Array, "..."]
    """Iterations used."""
    grad_norm: Float[Array, "..."]
    """Euclidean norm of the objective's gradient over the free parameters, at the result."""
    objective: Float[Array, "..."]
    """Penalised negative log-likelihood at the result, nats (MLE: without the penalty)."""


@container
class Posterior:
    """A Gaussian over beta = (theta, c, kappa), N(mean, root' root)."""

    mean: Parameters
    root: Float[Array, "Z P"]
    """Inverse of the precision's lower Cholesky factor, columns of fixed parameters zeroed:
    mean + z @ root with standard normal z [Z] is a draw. Z is P; of one judge's own model in a
    panel it is the P of the panel."""
    factor: Float[Array, "Z Z"]
    """The precision's lower Cholesky factor; of fixed parameters, rows of the identity."""

    def covariance(self) -> Float[Array, "P P"]:
        """Of theta, c, kappa, in that order; its leading M x M block marginalises c and kappa."""
        return self.root.T @ self.root
