from types import SimpleNamespace

import pytest

from jbt.simulation import memory

CPU = SimpleNamespace(platform="cpu")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Write files of /proc and /sys for `memory` to read."""
    monkeypatch.setattr(memory, "ROOT", tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable:     700 kB\n")
    return write


def test_a_cpu_has_what_the_machine_has_available(machine):
    assert memory.there_is(CPU) == 700 * 1024


@pytest.mark.parametrize(
    ("groups", "top", "names"),
    [
        ("0::/job/step\n", "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")),
        (
            "5:cpu,memory:/job/step\n1:cpu:/\n",
            "sys/fs/cgroup/memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_or_what_a_control_group_around_it_leaves(machine, groups, top, names):
    limit, used, cached = names
    machine("proc/self/cgroup", groups)
    for group, most in (("job/step", "max"), ("job", "500000")):
        machine(f"{top}/{group}/{limit}", most)
        machine(f"{top}/{group}/{used}", "300000")
        machine(f"{top}/{group}/memory.stat", f"anon 1\n{cached} 100000\n")
    assert memory.there_is(CPU) == 500_000 - (300_000 - 100_000)
