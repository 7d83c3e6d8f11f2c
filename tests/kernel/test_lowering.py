"""The kernels of the simulation as they are lowered for a GPU, which takes no GPU.

What is slow there on thousands of small problems must not be in them: calls of libraries one
problem at a time, scatters, sorts of short rows; nor float64 in a float32 program.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from support.active import EVERY_RULE, view_of

from jbt import runtime
from jbt.simulation import simulate
from sweeps import acquisition, crossing

HARMLESS_CALLS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
"""Calls that only say where values are."""

SLOW = {"scatter", "sort", "top_k", "cholesky", "triangular_solve"}


def lower(function, *arguments):
    """The program of a jitted function, as text."""
    return jax.export.export(function, platforms=["cuda"])(*arguments).mlir_module()


def kernel_of(group, pools=2):
    """What a simulation of a sweep's group compiles for a GPU: a chunk is one batch."""
    mesh = Mesh(np.array(jax.local_devices()[:1]), ("pools",))
    with runtime.precision("float32"):
        conditions = {name: jnp.asarray(v) for name, v in group.conditions.items()}
        kernel = simulate.kernel(group.experiment, mesh, batch=pools)
        return lower(kernel, jax.random.key(0), np.zeros(pools, np.uint32), conditions, None)


def offenders(program):
    """The slow operations of a lowered program, and "float64" if anything is."""
    found = set()
    for line in program.splitlines():
        operation = re.search(r'= "?(?:stablehlo|chlo|mhlo)\.(\w+)', line)
        if not operation:
            continue
        called = re.search(r"@(\w+)", line) if operation[1] == "custom_call" else None
        if called and called[1] not in HARMLESS_CALLS:
            found.add(called[1])
        if operation[1] in SLOW:
            found.add(operation[1])
        if re.search(r"\bf64\b|xf64\b", line):
            found.add("float64")
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sweep", "changes"),
    [
        (crossing.SWEEP, {}),
        # A budget that is no multiple of R is refitted for the report alone.
        (
            acquisition.SWEEP,
            {"rule": ("top_k_aware", "top_k_aware_fresh"), "budget": (12, 24)},
        ),
    ],
)
def test_a_kernel_is_plain_arithmetic_on_a_gpu(sweep, changes):
    settings = sweep.at(n_items=30, **changes).decided()
    assert offenders(kernel_of(settings.groups()[-1])) == set()


SORTING = (
    *("insertion", "active_ranking", "accept_reject"),
    *("double_thompson", "asap", "knowledge_gradient"),
)
"""Rules of others that are made of sorts, or write into an array; slow on a GPU."""


@pytest.mark.heavy
def test_every_rule_is_plain_arithmetic_on_a_gpu():
    scores = {name: rule.score for name, rule in EVERY_RULE.items() if name not in SORTING}

    @jax.jit
    @jax.vmap
    def all_scores(key, view):
        return {name: score(view, key) for name, score in scores.items()}

    # Not one that another test has made, which may be in float64.
    with runtime.precision("float32"):
        view = view_of.__wrapped__(0, "shared")
    view = jax.tree.map(lambda v: jnp.stack([v, v]), view)
    with jax.debug_key_reuse(False):
        program = lower(all_scores, jax.random.split(jax.random.key(0)), view)
    assert offenders(program) == set()


def test_each_of_them_would_be_found():
    with runtime.precision("float64"):
        x = jnp.ones((4, 4), jnp.float32)
        for bad, name in (
            (lambda x: x.at[..., 2:].set(0.0), "scatter"),
            (lambda x: jax.lax.convert_element_type(x, jnp.float64), "float64"),
            (lambda x: jax.lax.linalg.cholesky(x), "cusolver_potrf_ffi"),
        ):
            assert offenders(lower(jax.jit(bad), x)) == {name}
