"""The kernels of the simulation as they are lowered for a GPU, which takes no GPU.

What is slow there on thousands of small problems must not be in them: calls of libraries one
problem at a time, scatters, sorts of short rows; nor float64 in a float32 program.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from support.active import EVERY_RULE, view_of

from jbt import runtime
from jbt.simulation import simulate
from sweeps import acquisition, crossing

ROOT = Path(__file__).parents[2]

HARMLESS_CALLS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
"""Calls that only say where values are."""

SLOW = {"scatter", "sort", "top_k", "cholesky", "triangular_solve"}


def lower(function, *arguments, platform="cuda"):
    """The program of a jitted function, as text."""
    return jax.export.export(function, platforms=[platform])(*arguments).mlir_module()


def kernel_of(group, dtype="float32", pools=2):
    """What a simulation of a sweep's group compiles for a GPU: a chunk is one batch."""
    mesh = Mesh(np.array(jax.local_devices()[:1]), ("pools",))
    with runtime.precision(dtype):
        conditions = {name: jnp.asarray(v) for name, v in group.conditions.items()}
        kernel = simulate.kernel(group.experiment, mesh, batch=pools)
        return lower(kernel, jax.random.key(0), np.zeros(pools, np.uint32), conditions, None)


class Program:
    """A lowered program's text, and where its lines come from."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.locations = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
        self.function = []  # that each line belongs to
        self.calls = {}  # function -> numbers of the lines that call it
        name = ""
        for number, line in enumerate(self.lines):
            if header := re.match(r" *func\.func .*?@(\w+)", line):
                name = header[1]
            self.function.append(name)
            if call := re.search(r"\bcall @(\w+)", line):
                self.calls.setdefault(call[1], []).append(number)

    def offenders(self):
        """(what, "file:line") of every slow operation, and of any float64."""
        found = set()
        for number, line in enumerate(self.lines):
            operation = re.search(r'= "?(?:stablehlo|chlo|mhlo)\.(\w+)', line)
            what = operation[1] if operation else ""
            if what == "custom_call":
                what = re.search(r"@(\w+)", line)[1]
                slow = what not in HARMLESS_CALLS
            else:
                slow = what in SLOW
            if slow:
                found.add((what, self.place(number)))
            if operation and re.search(r"\bf64\b|xf64\b", line):
                found.add(("float64", self.place(number)))
        return found

    def place(self, number):
        """The innermost line of jbt that an operation comes from, "" where there is none."""
        end = number
        if self.lines[number].endswith("({"):  # its location is behind its body
            closing = re.match(" *", self.lines[number])[0] + "})"
            end = next(
                i for i in range(number, len(self.lines)) if self.lines[i].startswith(closing)
            )
        for file in self.files(self.lines[end].rpartition(" loc(")[2]):
            if "site-packages" not in file:
                return file.removeprefix(f"{ROOT}/")
        # Of a function of jax.numpy that is a function of the program too: what calls it.
        callers = self.calls.get(self.function[number], [])
        return next(filter(None, map(self.place, callers)), "")

    def files(self, location):
        """Every "file:line" that a location names, innermost first."""
        for name, file in re.findall(r'(#loc\d*)|"([^"]*\.py":\d+)', location):
            if file:
                yield file.replace('"', "")
            else:
                yield from self.files(self.locations.get(name, ""))


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
    assert Program(kernel_of(settings.groups()[-1])).offenders() == set()


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
        program = Program(lower(all_scores, jax.random.split(jax.random.key(0)), view))
    assert program.offenders() == set()


BAD = {
    "scatter": lambda x: x.at[..., 2:].set(0.0),
    "sort": lambda x: jnp.sort(x),
    "float64": lambda x: jax.lax.convert_element_type(x, jnp.float64),
    "cusolver_potrf_ffi": lambda x: jax.lax.linalg.cholesky(x),
    "triangular_solve": lambda x: jax.scipy.linalg.solve_triangular(x, x),
    "cusolver_syevd_ffi": lambda x: jnp.linalg.eigh(x)[0],
    "sort or top_k": lambda x: jax.lax.top_k(x, 2)[0],  # as JAX's versions have it
    "cholesky": lambda x: jax.lax.linalg.cholesky(x),  # for a TPU
}


@pytest.mark.parametrize("what", BAD)
def test_each_of_them_would_be_found(what):
    platform = "tpu" if what == "cholesky" else "cuda"
    with runtime.precision("float64"):
        x = jnp.ones((2, 4, 4), jnp.float32)
        program = Program(lower(jax.jit(jax.vmap(BAD[what])), x, platform=platform))
    ((found, place),) = program.offenders()
    assert found in what.split(" or ")
    here, line = Path(__file__), BAD[what].__code__.co_firstlineno
    assert place == f"{here.relative_to(ROOT)}:{line}"
