"""A worker on a study, in a process of its own, which notes what it asked and what `tell` took: a
line of JSON each, on the disk before it goes on."""

import json
import os
import time


def work(folder: str, notes: str, lease: float, reopen: bool) -> None:
    """Ask, tell, and look at the status, until it is killed.

    Args:
      reopen: whether the study is opened again every time, as the commands do.
    """
    from jbt import own, runtime

    runtime.start()
    noted = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    study = own.Study.open(folder)

    def note(**what: object) -> None:
        os.write(noted, (json.dumps(what) + "\n").encode())
        os.fsync(noted)

    def opened() -> own.Study:
        return own.Study.open(folder) if reopen else study

    while True:
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
        if queries and queries[0].id % 5 == 0:
            opened().summary()
