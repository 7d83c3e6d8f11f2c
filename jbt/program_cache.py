"""Keep compiled programs on disk, so that the next run does not compile them again.

JAX keeps the programs, and finds them by a digest of the code, its own version and the XLA flags.
Here the folder is chosen, and tidied at every start:

- It has one folder for each jaxlib and kind of processor, as a program may use instructions that
  another processor lacks, and JAX's digest does not know the processor.
- A process that dies while it writes leaves part of a program, which JAX would find damaged ever
  after and not replace. Such programs are removed.
- Beyond `MOST_BYTES` the programs not used for the longest time are removed. JAX can do this too,
  but reads the whole folder for every program that it adds: tests took half as long again.
- Where the folder cannot be written, nothing is kept.

Whoever can write the folder can run code as its user, so it is made readable by the user alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shutil
import time
import zlib
from pathlib import Path

import jax

MOST_BYTES = 2**29
"""Size of the programs that are kept (bytes); a sweep has one to ten million."""

UNUSED_DAYS = 60
"""A folder of another jaxlib or processor that was not used for so long is removed."""


def keep(folder: Path | None = None) -> Path | None:
    """Keep compiled programs from now on.

    Args:
      folder: where to; default `$JBT_CACHE`, or else the user's cache folder.

    Returns:
      The folder of this jaxlib and processor; None where jbt keeps nothing: `$JBT_CACHE` is `off`,
      the folder cannot be used, or JAX has a folder already (`$JAX_COMPILATION_CACHE_DIR`).
    """
    chosen = os.environ.get("JBT_CACHE", "")
    if folder is None:
        theirs = not chosen and jax.config.values["jax_compilation_cache_dir"] is not None
        if theirs or chosen.lower() == "off":
            return None
    try:
        root = folder or (Path(chosen).expanduser() if chosen else user_folder())
        programs = root / f"jaxlib-{importlib.metadata.version('jaxlib')}-{processor()}"
        programs.mkdir(mode=0o700, parents=True, exist_ok=True)
        _tidy(programs)
        _remove_unused(root, programs)
    except (OSError, RuntimeError, ValueError):  # no home, no right to write, no room, no lock
        return None
    jax.config.update("jax_compilation_cache_dir", str(programs))
    # The defaults keep only programs that took a second to compile, and large ones.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return programs


def user_folder() -> Path:
    """The folder for programs among the user's caches."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("jbt", appauthor=False)) / "programs"


def processor() -> str:
    """A digest of the processor's model and features."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    facts = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    facts += [platform.machine(), platform.processor(), platform.system()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _tidy(programs: Path) -> None:
    """Remove half-written programs, and the least recently used of too many; mark the folder as
    used. One process at a time; the others do without."""
    import filelock

    checked = programs / ".checked"
    try:
        with filelock.FileLock(programs / ".lock", timeout=0):
            since = checked.stat().st_mtime if checked.exists() else 0.0
            begin = time.time()
            entries = []
            for file in programs.glob("*-cache"):
                facts = file.stat()
                if facts.st_mtime >= since and not _is_whole(file.read_bytes()):
                    file.unlink()
                else:
                    entries.append((max(facts.st_atime, facts.st_mtime), facts.st_size, file))
            too_many = sum(size for _, size, _ in entries) - MOST_BYTES
            for _, size, file in sorted(entries):
                if too_many <= 0:
                    break
                file.unlink()
                too_many -= size
            checked.touch()
            os.utime(checked, (begin, begin))
    except (filelock.Timeout, FileNotFoundError):  # another process tidies
        pass
    os.utime(programs)


def _is_whole(program: bytes) -> bool:
    """Whether a compressed program is complete; where it cannot be told, yes."""
    if program[:1] == b"\x78":  # zlib, which has a checksum
        try:
            zlib.decompress(program)
        except zlib.error:
            return False
    return bool(program)


def _remove_unused(root: Path, programs: Path) -> None:
    """Remove the folders of other jaxlibs and processors that were not used for long."""
    for folder in root.glob("jaxlib-*"):
        if folder != programs and time.time() - folder.stat().st_mtime > UNUSED_DAYS * 86_400:
            shutil.rmtree(folder, ignore_errors=True)
