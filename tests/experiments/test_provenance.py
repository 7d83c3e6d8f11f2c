"""A run knows the code it was simulated with: edits are noticed."""

import importlib
import sys

import pytest

from jbt.experiments import provenance, run, store
from jbt.simulation import simulate
from sweeps import crossing, judges

EXPERIMENT = '''"""A sweep of its own."""
from dataclasses import dataclass
import numpy as np
from jbt import pools
from jbt.experiments import declare, plots
import {helper}

@dataclass(frozen=True, kw_only=True)
class Own(declare.Sweep):
    """Numbers times a factor."""

    name = "own"
    columns = ("a",)
    index = "a"

    def experiment(self, key, condition):
        """What it measures."""
        return {{"value": condition["a"] * {helper}.FACTOR}}

    def groups(self):
        a = [1.0, 2.0]
        conditions = {{"a": np.array(a)}}
        return [declare.Group("g", self.experiment, conditions, {{"a": a}}, 4, self.pools)]

    def table(self, ds, t):
        t.means("value", ds["value"])

    def figure(self, table):
        return plots.new_figure()[0]


SWEEP = Own
'''


class Own:
    """A sweep in a folder of its own, whose files can be edited."""

    def __init__(self, folder, monkeypatch, name):
        self.folder, self.name, self.helper = folder, f"sweep_{name}", f"helper_{name}"
        self.out = folder / "results"
        self._file(self.name).write_text(EXPERIMENT.format(helper=self.helper))
        self._file(self.helper).write_text("FACTOR = 3.0  # times\n")
        monkeypatch.syspath_prepend(str(folder))
        # Or edits within a second would be missed: they have one time stamp.
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def _file(self, module):
        return self.folder / f"{module}.py"

    def edit(self, module, old, new):
        text = self._file(module).read_text()
        assert old in text
        self._file(module).write_text(text.replace(old, new))

    def sweep(self):
        for module in (self.helper, self.name):
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        return importlib.import_module(self.name).SWEEP

    def run(self, **options):
        return run.run(self.sweep()(pools=6, chunk=2, devices=1, out=self.out, **options))

    def interrupt(self, monkeypatch):
        """Leave all chunks but the first missing."""
        write = store.Store.write

        def killed(*arguments):
            write(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as m:
            m.setattr(simulate, "CPU_PROBLEMS", 4)
            m.setattr(store.Store, "write", killed)
            with pytest.raises(KeyboardInterrupt):
                self.run()
        assert store.Store(self.out / "own" / store.RESULTS).missing()


@pytest.fixture
def own(tmp_path, monkeypatch, request):
    return Own(tmp_path, monkeypatch, request.node.name.removeprefix("test_")[:20])


def test_an_unfinished_run_of_other_code_is_refused(own, monkeypatch):
    own.interrupt(monkeypatch)
    own.edit(own.name, 'condition["a"] *', '2 * condition["a"] *')
    with pytest.raises(ValueError, match=f"unfinished run of other code.*{own.name}.py changed"):
        own.run()
    assert own.run(overwrite=True).estimate.tolist() == [6, 12]


@pytest.mark.heavy
def test_a_finished_run_says_what_has_changed(own, capsys):
    assert own.run().estimate.tolist() == [3, 6]
    assert own.run().estimate.tolist() == [3, 6]
    assert "changed" not in capsys.readouterr().err
    own.edit(own.helper, "3.0", "5.0")
    assert own.run().estimate.tolist() == [3, 6]
    assert f": {own.helper}.py; --overwrite simulates them again" in capsys.readouterr().err
    assert own.run(overwrite=True).estimate.tolist() == [5, 10]


def test_table_and_figure_are_made_anew(own):
    own.run()
    written = (own.out / "own" / "results.zarr" / "zarr.json").stat().st_mtime_ns
    own.edit(own.name, 't.means("value", ds["value"])', 't.means("double", 2 * ds["value"])')
    table = own.run()
    assert table.quantity.tolist() == ["double"] * 2
    assert table.estimate.tolist() == [6, 12]
    assert (own.out / "own" / "results.zarr" / "zarr.json").stat().st_mtime_ns == written


def test_the_code_is_that_which_runs_not_what_its_file_says_by_now(own):
    sweep = own.sweep()
    before = provenance.code_of(sweep)
    own.edit(own.helper, "3.0", "5.0")
    assert provenance.code_of(sweep) == before  # the helper imported has 3.0
    assert provenance.code_of(own.sweep()) != before


def test_the_files_are_those_that_can_change_the_numbers():
    names = set(provenance.code_of(crossing.SWEEP))
    kernel = {"jbt/kernel/model.py", "jbt/kernel/fit.py", "jbt/types/pool.py"}
    assert {"crossing.py", "_shared/active.py", "jbt/simulation/pools/kinds.py", *kernel} <= names
    assert {"jbt/simulation/simulate.py", "jbt/runtime.py", "jbt/data/judges.csv"} <= names
    assert "jbt/experiments/work.py" in names
    # Code that shows numbers cannot change them.
    shows = {"jbt/experiments/table.py", "jbt/experiments/plots.py", "jbt/border/plots.py"}
    assert not shows & names
    assert "judges/rows.py" in provenance.code_of(judges.SWEEP)


@pytest.mark.parametrize("pattern", provenance.SIMULATE)
def test_every_pattern_finds_files(pattern):
    assert list(provenance.PACKAGE.glob(pattern))


def test_a_script_counts_with_the_files_beside_it(own):
    names = set(provenance.code_of(own.sweep()))
    assert {f"{own.name}.py", f"{own.helper}.py", "jbt/kernel/fit.py"} <= names
