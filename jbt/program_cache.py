"""Keep compiled programs on disk, so that the next run does not compile them again.

JAX finds a program by a key, a digest of the code, its own version and the XLA flags. Here the
folder is chosen, and tidied at every start; `Programs` reads and writes for JAX:

- There is one folder for each jaxlib and kind of processor, as a program may use instructions that
  another processor lacks, and JAX's key does not know the processor.
- An entry is named after its key, and begins with a checksum of key and program. A damaged entry
  and one under another name are misses, so JAX compiles the program and writes it anew.
- An entry is written under a temporary name and then renamed, so processes need no lock.
- Beyond `MOST_BYTES` the programs not used for the longest time are removed at the next start.
- Folders of other jaxlibs and processors that were not used for `UNUSED_DAYS` are removed, if they
  have the name and hold the mark that jbt gives them.

Whoever can write an entry can run code as its user. So a folder is used under these conditions;
otherwise nothing is kept, and one line on stderr says why:

- The folder of the programs belongs to the user, cannot be written by group or others, is no
  link, and holds jbt's mark or is empty.
- The folder that it stands in, which `$JBT_CACHE` names, belongs to the user or to root. Group and
  others cannot write it, unless its sticky bit keeps them from renaming what is not theirs, as in
  `/tmp`. The same holds for `jbt` in the user's cache folder. A link to either is followed once,
  and its target is checked.
- Missing folders are made for the user alone, whatever the umask is.
- Folders further above are not checked, as a group can often write them. Its members can put
  another folder in place, but cannot give its files to the user, and an entry is read only if it
  belongs to the user.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import jax

MOST_BYTES = 2**29
"""Size of the programs that are kept (bytes); a sweep has one to ten million."""

UNUSED_DAYS = 60
"""A folder of another jaxlib or processor that was not used for so long is removed."""

NAME = re.compile(r"jaxlib-[0-9][0-9A-Za-z.+!]*-[0-9a-f]{12}")
"""Names of jbt's folders: the version of jaxlib and a digest of the processor."""

MARK = ".jbt-programs"
"""A file in each of jbt's folders; its time is the folder's last use."""


def keep(folder: Path | None = None) -> Path | None:
    """Keep compiled programs from now on.

    Args:
      folder: where to; default `$JBT_CACHE`, or else the user's cache folder.

    Returns:
      The folder of this jaxlib and processor; None where jbt keeps nothing: `$JBT_CACHE` is `off`,
      JAX has a folder already (`$JAX_COMPILATION_CACHE_DIR`), or the folder cannot be used, which
      a line on stderr explains.
    """
    chosen = os.environ.get("JBT_CACHE", "")
    if folder is None:
        theirs = not chosen and jax.config.values["jax_compilation_cache_dir"] is not None
        if theirs or chosen.lower() == "off":
            return None
    try:
        named = folder or (Path(chosen).expanduser() if chosen else user_folder())
        root = Path(os.path.realpath(named))
        programs = root / f"jaxlib-{importlib.metadata.version('jaxlib')}-{processor()}"
        _make(programs, [root] if folder or chosen else [root.parent, root])
        _tidy(programs)
        _remove_unused(root, programs)
        _install(Programs(programs))
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        _say(str(error))
        return None
    # The defaults keep only programs that took a second to compile, and large ones.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return programs


def user_folder() -> Path:
    """The folder for programs among the user's caches."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("jbt", appauthor=False)) / "programs"


def processor() -> str:
    """A digest of the processor's model and features, and of the form of entries."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    facts = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    facts += [platform.machine(), platform.processor(), platform.system(), "with checksum"]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


class Programs:
    """Compiled programs in a folder, with the methods that JAX calls."""

    def __init__(self, folder: Path) -> None:
        self._path = folder  # JAX logs it under this name

    def get(self, key: str) -> bytes | None:
        """The program of a key; None if there is none, or it is damaged or not the user's own."""
        try:
            with open(self._path / f"{key}-cache", "rb", opener=_open_at_once) as stream:
                facts = os.fstat(stream.fileno())
                if not stat.S_ISREG(facts.st_mode) or _writer(facts):
                    return None
                entry = stream.read()
        except OSError:
            return None
        checksum, program = entry[:32], entry[32:]
        return program if checksum == _checksum(key, program) else None

    def put(self, key: str, value: bytes) -> None:
        """Write a program, in place of whatever has its name."""
        try:
            handle, name = tempfile.mkstemp(prefix="new-cache.", dir=self._path)
            try:
                with open(handle, "wb") as stream:
                    stream.write(_checksum(key, value) + value)
                os.replace(name, self._path / f"{key}-cache")
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            _say(f"cannot write in {self._path}: {error.strerror}")


def _install(programs: Programs) -> None:
    """Have JAX use programs. Its public setting would have it read and write files by itself."""
    from jax._src import compilation_cache

    if not hasattr(compilation_cache, "_cache"):
        raise ImportError(f"JAX {jax.__version__} has no place for them")
    compilation_cache._cache = programs  # type: ignore[assignment]


@functools.cache
def _say(why: str) -> None:
    """Say once why programs are not kept."""
    print(
        f"jbt: compiled programs are not kept: {why}; JBT_CACHE names another folder, or off",
        file=sys.stderr,
    )


def _checksum(key: str, program: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + program).digest()


def _open_at_once(path: str, flags: int) -> int:
    """Open a file, but follow no link, and do not wait for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _writer(facts: os.stat_result, *, parent: bool = False) -> str:
    """Who else can change a file or folder, in words; empty if nobody can. The parent of a folder
    may be root's, or sticky: others cannot rename the folder in it."""
    if not hasattr(os, "geteuid"):  # Windows closes a user's folders to others
        return ""
    if facts.st_uid != os.geteuid() and not (parent and facts.st_uid == 0):
        return f"belongs to user {facts.st_uid}"
    if facts.st_mode & 0o022 and not (parent and facts.st_mode & stat.S_ISVTX):
        return f"can be written by others (mode {stat.S_IMODE(facts.st_mode):04o})"
    return ""


def _make(programs: Path, parents: list[Path]) -> None:
    """Make and mark a folder, and those above it that are missing.

    Raises:
      OSError: it cannot be made, others can change it or one of the parents, or jbt did not
        make it.
    """
    for folder in reversed((programs, *programs.parents)):
        folder.mkdir(mode=0o700, exist_ok=True)
    for folder in (*parents, programs):
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode):
            raise OSError(f"{folder} is a link")
        if writer := _writer(facts, parent=folder != programs):
            raise OSError(f"{folder} {writer}")
    names = os.listdir(programs)
    if names and MARK not in names:
        raise OSError(f"{programs} has files, but not the mark of a folder that jbt made ({MARK})")
    (programs / MARK).touch()


def _tidy(programs: Path) -> None:
    """Remove the least recently used of too many entries, half-written ones among them."""
    entries = []
    for file in programs.glob("*-cache*"):
        with suppress(FileNotFoundError):  # another process tidies, or has just renamed it
            facts = file.lstat()
            if stat.S_ISREG(facts.st_mode):
                entries.append((max(facts.st_atime, facts.st_mtime), facts.st_size, file))
    too_many = sum(size for _, size, _ in entries) - MOST_BYTES
    for _, size, file in sorted(entries):
        if too_many <= 0:
            break
        file.unlink(missing_ok=True)
        too_many -= size


def _remove_unused(root: Path, programs: Path) -> None:
    """Remove jbt's folders of other jaxlibs and processors that were not used for long."""
    for folder in root.glob("jaxlib-*"):
        if folder == programs or not NAME.fullmatch(folder.name):
            continue
        with suppress(OSError):  # no mark, another user's, or another process removes it
            facts, mark = folder.lstat(), (folder / MARK).lstat()
            made_by_jbt = stat.S_ISDIR(facts.st_mode) and stat.S_ISREG(mark.st_mode)
            unused = time.time() - mark.st_mtime > UNUSED_DAYS * 86_400
            if made_by_jbt and unused and not _writer(facts):
                shutil.rmtree(folder)
