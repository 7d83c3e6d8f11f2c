"""Keep the import paths of version 0.1 working for modules that have moved into folders."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "jbt.model": "jbt.kernel.model",
    "jbt.rows": "jbt.kernel.rows",
    "jbt.panel": "jbt.kernel.panel",
    "jbt.newton": "jbt.kernel.newton",
    "jbt.cholesky": "jbt.kernel.cholesky",
    "jbt.batching": "jbt.kernel.batching",
    "jbt.fit": "jbt.kernel.fit",
    "jbt.laplace": "jbt.kernel.laplace",
    "jbt.membership": "jbt.kernel.membership",
    "jbt.metrics": "jbt.kernel.metrics",
    "jbt.priors": "jbt.estimators.priors",
    "jbt.clusters": "jbt.stats.row_jackknife",
    "jbt.reference": "jbt.estimators.reference",
    "jbt.jackknife": "jbt.stats.row_jackknife",
    "jbt.pools": "jbt.simulation.pools",
    "jbt.judges": "jbt.simulation.judges",
    "jbt.pairs": "jbt.simulation.pairs",
    "jbt.theory": "jbt.simulation.theory",
    "jbt.simulate": "jbt.simulation.simulate",
    "jbt.memory": "jbt.simulation.memory",
    "jbt.pools.covariates": "jbt.simulation.pools.covariates",
    "jbt.pools.kinds": "jbt.simulation.pools.kinds",
    "jbt.pools.renderings": "jbt.simulation.pools.renderings",
    "jbt.sweep": "jbt.experiments.declare",
    "jbt.study": "jbt.experiments.run",
    "jbt.results": "jbt.experiments.store",
    "jbt.store": "jbt.experiments.store",
    "jbt.provenance": "jbt.experiments.provenance",
    "jbt.tables": "jbt.experiments.table",
    "jbt.paper": "jbt.experiments.paper",
    "jbt.files": "jbt.border.files",
    "jbt.exits": "jbt.border.exits",
    "jbt.inputs": "jbt.border.inputs",
    "jbt.parsing": "jbt.border.inputs",
    "jbt.progress": "jbt.border.terminal",
    "jbt.plots": "jbt.experiments.plots",
    "jbt.own.leaderboard": "jbt.own.leaderboards.rank",
    "jbt.own.gate": "jbt.own.gates.decide",
    "jbt.own.labelling": "jbt.own.gates.labelling",
    "jbt.own.replay": "jbt.own.replays.run",
    "jbt.acquisition.run": "jbt.acquisition.runs",
    "jbt.gate.trial": "jbt.gate.trials",
    "jbt.identifiability.silence": "jbt.identifiability.unidentified",
    "jbt.identifiability.likelihood": "jbt.identifiability.profile_likelihood",
    "jbt.stats.jackknife": "jbt.stats.cluster_jackknife",
    "jbt.twins.twin": "jbt.twins.simulated",
}
"""Old path -> new path of a module."""


class _Alias(Loader):
    """Load the module of the new path under the old one; both are one module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(MOVED[spec.name])
        self._own_spec = module.__spec__
        return module

    def get_code(self, name: str) -> None:
        """For `python -m`, which runs no old path."""
        raise ImportError(f"{name} is {MOVED[name]} now")

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has set it to the alias's


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Alias()) if fullname in MOVED else None


def install() -> None:
    """Make the old paths importable."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # First: a folder that the old version left behind would be found before it.
        sys.meta_path.insert(0, _Finder())


class _Package(ModuleType):
    """A package some of whose functions have the names of modules."""

    functions: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets a package's attribute to each module that it imports.
        if not (name in self.functions and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def keep_functions(package: str, *names: str) -> None:
    """Keep a package's functions that have the names of moved modules: otherwise Python replaces
    them by the modules when the old paths are imported."""
    kind = type("Package", (_Package,), {"functions": frozenset(names)})
    sys.modules[package].__class__ = kind
