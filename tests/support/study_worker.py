"""A worker on a study, in a process of its own, which notes every answer that `tell` took."""

import os
import time
from pathlib import Path


def work(folder: str, notes: str, lease: float, patience: float, moment: str = "") -> None:
    """Ask and tell until nothing is left; note the id of each answer told, before the next; keep
    in the file `moment`, if given, whether this is within an ask (a), a tell (t), or between."""
    from jbt import own, runtime

    runtime.start()
    study, idle = own.Study.open(folder), 0.0
    now = os.open(moment, os.O_WRONLY) if moment else None

    def within(letter: bytes) -> None:
        if now is not None:
            os.pwrite(now, letter, 0)

    with Path(notes).open("a") as file:
        while idle < patience:
            within(b"a")
            queries = study.ask(2, lease=lease)
            within(b"-")
            if not queries:
                if study.stopped:
                    return
                time.sleep(0.02)
                idle += 0.02
            for query in queries:
                within(b"t")
                try:
                    study.tell(query.id, "first", cost=0.5)
                except ValueError as error:
                    if "told before" not in str(error):  # its lease had ended
                        raise
                    continue
                finally:
                    within(b"-")
                file.write(f"{query.id}\n")
                file.flush()
                os.fsync(file.fileno())
