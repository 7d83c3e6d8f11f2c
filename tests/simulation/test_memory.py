from types import SimpleNamespace

import jax
import jax.numpy as jnp
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


def test_a_program_needs_its_arguments_results_and_temporaries():
    x = jnp.ones((100, 100))
    compiled = jax.jit(lambda x: x @ (x + 1)).lower(x).compile()
    assert 2 * x.nbytes <= memory.needed(compiled) < 5 * x.nbytes


def test_a_gpu_has_what_jax_may_allocate():
    def gpu(stats):
        return SimpleNamespace(platform="gpu", memory_stats=lambda: stats)

    assert memory.there_is(gpu({"bytes_limit": 60, "bytes_in_use": 50})) == 60
    assert memory.there_is(gpu(None)) is None


def test_a_cpu_has_what_the_machine_has_available(machine):
    assert memory.there_is(CPU) == 700 * 1024


def test_this_machine_has_memory():
    assert memory.there_is(CPU) > 2**20


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


def test_without_such_files_it_has_what_is_built_in(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    built_in = {"SC_PHYS_PAGES": 300, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", built_in.get, raising=False)
    assert memory.there_is(CPU) == 300 * 4096
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.there_is(CPU) is None
