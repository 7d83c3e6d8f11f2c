"""What the documents show runs."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_in_the_readme():
    example = EXAMPLES[0]
    promised = [float(v) for v in re.findall(r"about ([\d., ]+)", example)[0].split(", ")]
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["recall"].shape == (2000, 3)
    assert names["recall"].mean(0) == pytest.approx(promised, abs=0.01)


def test_the_example_on_identifiability(capsys):
    exec(compile(EXAMPLES[1], "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    unpaired, no_nats, no_c, flat, paired, nats, c, converged = printed
    assert (flat, converged) == ("FLAT", "CONVERGED")
    assert "trading quality against x1" in unpaired
    assert paired == "('adding 1 to every quality',)"
    assert float(no_nats.split()[1]) < 1e-10
    assert float(nats.split()[1]) > 10
    assert no_c == "c: nan nan nan"
    estimate, low, high = map(float, c.split()[1:])
    assert low < estimate < high


def test_the_example_of_a_rule_of_your_own():
    names: dict = {}
    exec(compile(EXAMPLES[2], "README.md", "exec"), names)
    assert names["trace"].recall.shape == (15,)
    assert (names["trace"].status == 0).all()


def test_ci_runs_the_readme_s_test_command():
    pattern = re.search(r"grep -E \"(.*?)\" README.md", (ROOT / ".ci" / "run").read_text())
    assert pattern
    found = [line for line in README.splitlines() if re.search(pattern[1], line)]
    assert len(found) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks_run_and_carry_no_output(path):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
