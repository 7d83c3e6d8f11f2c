"""A worker on a study, in a process of its own, which notes what it asked and what `tell` took: a
line of JSON each, on the disk before it goes on."""

import json
import os
import time


def work(folder: str, notes: str, lease: float, patience: float, reopen: bool = False) -> None:
    """Ask, tell, and look at the status, until nothing is left, or for so many seconds without a
    query.

    Args:
      reopen: whether the study is opened again every time, as the commands do.
    """
    from jbt import own, runtime

    runtime.start()
    noted = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    study, idle = own.Study.open(folder), 0.0

    def note(**what: object) -> None:
        os.write(noted, (json.dumps(what) + "\n").encode())
        os.fsync(noted)

    def opened() -> own.Study:
        return own.Study.open(folder) if reopen else study

    while idle < patience:
        called = time.time()
        queries = opened().ask(2, lease=lease)
        returned = time.time()
        for query in queries:
            pair = query.first, query.second
            note(asked=query.id, pair=pair, until=called + lease, at=returned)
        for query in queries:
            try:
                opened().tell(query.id, "first", cost=0.5)
                note(told=query.id)
            except ValueError as error:
                if "told before" not in str(error):  # its lease had ended
                    raise
        if not queries or queries[0].id % 5 == 0:
            stopped = opened().summary().stopped
            if stopped and not queries:
                return
        if not queries:
            time.sleep(0.02)
            idle += 0.02
