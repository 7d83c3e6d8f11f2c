"""Small files as other tools and people write them, and what each says: `foreign/NAME.json`.

    format       as `jbt import` calls it
    name         of the file
    records      of the file; or text, as it stands
    columns      options that a table of one's own needs; options: others of `collect`
    mapping      for some things written, the keys that they came from
    verdicts     pool (its number, if a digest names it), judge (null: not named), first, second,
                 winner or p_first as it is written, order
    counts       of the verdicts, unless all are 1
    items        pool, item, content (null: not named; ?: pool/item), words (null: not known)
    anchors      pool, better, worse
    wrong        changes to the last record (?: left out) that its format does not allow, by the
                 message that they get

What the tables of one's own say was counted by readers that know nothing of jbt. Every sample has a
win for each side, a tie and, where its format knows them, a failure."""

import gzip
import json
from pathlib import Path

from jbt.own.formats import GenericColumns
from jbt.own.tables.outcomes import Outcomes

SAMPLES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(Path(__file__, "..", "foreign").resolve().glob("*.json"))
}

REFUSED = json.loads(Path(__file__).with_name("refused.json").read_text(encoding="utf-8"))
"""What is not read: `tables`, each with the columns named and the message; `files` that are
damaged, with what each message holds."""


def records(name: str) -> list[dict]:
    """The records of a sample."""
    return SAMPLES[name]["records"]


def _tuples(value):
    """Lists within, as JSON has them, as tuples."""
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def columns_of(map=None, scale=None, winner=(), **columns):
    """The options of a table of one's own."""
    outcomes = Outcomes.of_options(map, scale)
    return GenericColumns(winner=tuple(winner), outcomes=outcomes, **_tuples(columns))


def talk(*answers):
    """A conversation in which the assistant said this."""
    roles = {"user": "Why?", "assistant": None}
    return [{"role": r, "content": text or a} for a in answers for r, text in roles.items()]


def save(folder: Path, name: str, records: list[dict]) -> Path:
    """Write records to a file as its name says."""
    path = folder / name
    if name.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(records), path)
        return path
    if ".csv" in name:
        import pandas as pd

        text = pd.DataFrame(records).to_csv(index=False)
    elif ".jsonl" in name:
        text = "".join(json.dumps(record) + "\n" for record in records)
    else:
        text = json.dumps(records, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def save_sample(folder: Path, name: str) -> Path:
    """Write a sample."""
    sample = SAMPLES[name]
    if "records" in sample:
        return save(folder, sample["name"], sample["records"])
    path = folder / sample["name"]
    path.write_text(sample["text"])
    return path
