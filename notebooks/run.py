"""Run the notebooks and keep what they show: `python notebooks/run.py [NAME ...] [--preset smoke]`.

At the preset `full` a notebook is written back with its outputs; at `smoke`, the size of the tests,
nothing is written. What could differ from machine to machine is left out: warnings and progress,
widgets, versions. Prints the CPU seconds of each.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
WIDGET = "application/vnd.jupyter.widget-view+json"


def executed(path: Path, preset: str) -> Any:
    """The notebook with the outputs of a fresh kernel.

    Raises:
      CellExecutionError: a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    os.environ["JBT_PRESET"] = preset
    where = {"metadata": {"path": str(HERE)}}
    NotebookClient(notebook, timeout=600, resources=where, record_timing=False).execute()
    return stored(notebook)


def stored(notebook: Any) -> Any:
    """The notebook with those of its outputs that are kept in the repository."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        cell.execution_count, cell.metadata = count, {}
        cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
        for out in cell.outputs:
            if "execution_count" in out:
                out.execution_count = count
            if data := out.get("data"):
                data.pop(WIDGET, None)
                if "image/png" in data:
                    data["text/plain"] = "figure"
    return notebook


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("names", nargs="*", default=[path.stem for path in NOTEBOOKS])
    parser.add_argument("--preset", choices=("smoke", "full"), default="full")
    options = parser.parse_args(argv)
    if unknown := set(options.names) - {path.stem for path in NOTEBOOKS}:
        parser.error(f"no notebook {', '.join(sorted(unknown))}")
    import nbformat

    for name in options.names:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        notebook = executed(HERE / f"{name}.ipynb", options.preset)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if options.preset == "full":
            nbformat.write(notebook, HERE / f"{name}.ipynb")
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{name}: {seconds:.0f} s of CPU", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
