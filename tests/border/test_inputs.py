"""Files that unpack to more than they seem to hold, and pipes, which can be read once."""

import gzip
import os
import threading
import time
import tracemalloc

import pytest
from support.example_tables import ITEMS, VERDICTS

from jbt import cli, own
from jbt.border import inputs
from jbt.own.tables.decoding import Damaged, unpack


def test_what_zeros_pack_is_not_unpacked_to_the_end(tmp_path):
    n = 300_000_000
    path = tmp_path / "verdicts.csv.gz"
    with gzip.GzipFile(path, "wb") as file:
        for _ in range(n // 10**6):
            file.write(bytes(10**6))
    tracemalloc.start()
    with pytest.raises(own.TableError) as refusal:
        own.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * 2**26 < n
    expected = "unpacks to more than 100 times its size, as no table does"
    assert str(refusal.value) == f"{path}: {expected}"


def test_archives_one_after_another_and_zeros_behind_them():
    packed = gzip.compress(b"ab") + gzip.compress(b"c")
    assert unpack(packed) == unpack(packed + bytes(7)) == b"abc"
    for damaged in (packed + b"junk", packed[:-1], packed[:-5] + b"x" + packed[-4:], b"\x1f\x8b"):
        with pytest.raises(Damaged, match="damaged or not whole"):
            unpack(damaged)


@pytest.fixture
def substituted():
    """What `<(printf TEXT)` is to a program that a shell starts: a pipe, closed by its writer."""
    pipes = []

    def make(text: str) -> str:
        pipe, end = os.pipe()
        os.write(end, text.encode())
        os.close(end)
        pipes.append(pipe)
        return f"/dev/fd/{pipe}"

    yield make
    for pipe in pipes:
        os.close(pipe)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_what_a_shell_substitutes_is_read_once(substituted, capsys):
    """Without a covariate the doctor looks for some in the items, once more."""
    of = ["--verdicts", substituted(VERDICTS), "--items", substituted(ITEMS)]
    assert cli.main(["doctor", *of]) == 0
    found = capsys.readouterr().out
    assert "the items table has words, lists" in found
    assert "7 items of 3 pools" in found
    empty = substituted("")
    assert cli.main(["doctor", "--verdicts", empty]) == 2
    assert capsys.readouterr().err == f"error: {empty}: the file is empty\n"


@pytest.fixture
def fifo(tmp_path):
    """A FIFO into which a text is written once."""

    def make(name: str, text: str):
        path = tmp_path / name
        os.mkfifo(path)

        threading.Thread(target=lambda: path.write_text(text), daemon=True).start()
        return path

    return make


def test_pipes_with_a_name(fifo, capsys):
    verdicts, items = fifo("verdicts", VERDICTS), fifo("items", ITEMS)
    assert cli.main(["doctor", "--verdicts", str(verdicts), "--items", str(items)]) == 0
    assert "the items table has words, lists" in capsys.readouterr().out


def test_a_pipe_is_read_by_the_library_too(fifo, tmp_path):
    (tmp_path / "items.csv").write_text(ITEMS)
    first = own.read(fifo("verdicts", VERDICTS), tmp_path / "items.csv")
    assert len(first.verdicts) == 6


def test_a_pipe_that_nothing_writes_to(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(inputs, "PATIENCE", 0.1)
    path = tmp_path / "verdicts"
    os.mkfifo(path)
    assert cli.main(["fit", "--verdicts", str(path)]) == 2
    said = "cannot be read: it is a pipe that nothing writes to, or one read already"
    assert capsys.readouterr().err == f"error: {path}: {said}\n"


def test_a_writer_may_take_its_time(tmp_path):
    path = tmp_path / "verdicts"
    os.mkfifo(path)

    def write():
        with path.open("w") as file:
            for part in ("one", "two", "three"):
                time.sleep(0.05)
                file.write(part)
                file.flush()

    thread = threading.Thread(target=write)
    thread.start()
    with inputs.noted():
        assert inputs.read_bytes(path) == b"onetwothree"
        assert inputs.read_bytes(path) == b"onetwothree"
    thread.join()


def test_a_device_is_no_table(capsys):
    assert cli.main(["doctor", "--verdicts", "/dev/zero"]) == 2
    said = "cannot be read: it is neither a file nor a pipe"
    assert capsys.readouterr().err == f"error: /dev/zero: {said}\n"
