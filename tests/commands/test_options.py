"""What holds of every command on a user's tables."""

import json

import pytest

from jbt import cli

COMMANDS = {
    "doctor": [],
    "identify": [],
    "fit": [],
    "leaderboard": [],
    "replay": ["--rules", "round_robin", "--seeds", "1"],
    "gate": ["--anchors", "a.csv"],
}
CODE = '__import__("os").mkdir("done")'
"""A name that, run as code, would leave a folder behind; likewise =formulas and $(commands)."""


def written(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_executed_and_nothing_written_elsewhere(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [CODE, "=1+cmd|' /C calc'!A0", "$(touch done)"]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    verdicts, items = ["pool,first,second,winner"], ["pool,item,words"]
    for pool in range(12):
        items += [f"{pool},{name},{10 + 7 * i + pool % 3}" for i, name in enumerate(quoted)]
        for i, a in enumerate(quoted):
            for j, b in enumerate(quoted):
                if i != j:
                    verdicts.append(f"{pool},{a},{b},{'first' if (i + pool) % 3 else 'second'}")
    (tmp_path / "v.csv").write_text("\n".join(verdicts) + "\n")
    (tmp_path / "i.csv").write_text("\n".join(items) + "\n")
    (tmp_path / "a.csv").write_text(f"pool,item,member\n0,{quoted[0]},yes\n0,{quoted[1]},no\n")
    before = written(tmp_path)

    tables = ["--verdicts", "v.csv", "--items", "i.csv", "--covariates", "words"]
    outputs = ["--out", "report", "--json", "found.json"]
    assert cli.main([command, *tables, *outputs, *COMMANDS[command]]) == 0
    after = written(tmp_path)
    assert {path: after[path] for path in before} == before
    inside = {path.relative_to(tmp_path).parts[0] for path in after.keys() - before.keys()}
    assert inside == {"report", "found.json"}
    assert {p.name for p in tmp_path.iterdir()} == {
        *("v.csv", "i.csv", "a.csv"),
        *("report", "found.json"),
    }

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    json.loads((tmp_path / "found.json").read_text(), parse_constant=refuse)
