"""Small files for the recorded commands: as other tools write them, and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

from jbt.own.tables.example import example

GENERIC = [
    ("left", "right", "choice", "prompt", "by", "answer_left", "answer_right"),
    ("m", "k", 1, "p1", "j1", "one two three", "one"),
    ("k", "l", 2, "p1", "j1", "one", "- a\n- b"),
    ("l", "m", 0, "p1", "j2", "- a\n- b", "one two three"),
    ("m", "k", 2, "p2", "j2", "four", "five six"),
]
SWAPPED = [
    ("q", "a", "b", "verdict", "verdict_swapped"),
    ("1", "m", "k", "A", "B"),
    ("1", "k", "l", "B", "B"),
    ("1", "l", "m", "C", "A"),
]
SCORES = [("pool", "a", "b", "sa", "sb"), ("1", "m", "k", 7, 5), ("1", "k", "l", 6, 6)]
CHAIN = [("first", "second", "winner"), *[("x", "y", "x")] * 20, *[("y", "z", "y")] * 20]
ANSWERS = [("id", "winner"), (1, "first"), (2, "second"), (3, "tie"), (4, "first")]
MT_BENCH = [
    {"question_id": 81, "model_1": "m", "model_2": "k", "g1_winner": "model_1",
     "g2_winner": "model_1", "judge": ["gpt-4", "pair-v2"], "turn": 1},
    {"question_id": 81, "model_1": "m", "model_2": "k", "g1_winner": "tie",
     "g2_winner": "model_2", "judge": ["gpt-4", "pair-v2-multi-turn"], "turn": 2},
    {"question_id": 82, "model_1": "l", "model_2": "k", "g1_winner": "error",
     "g2_winner": "model_1", "judge": ["gpt-4", "pair-v2"], "turn": 1},
]  # fmt: skip
ARENA_HARD = [
    {"uid": uid, "judge": "g", "model": "m", "baseline": "base",
     "games": [{"score": one}, {"score": two}]}
    for uid, one, two in [("q1", "A>>B", "A>B"), ("q2", "B>A", "B>>A"), ("q3", "A=B", "B>A")]
]  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Write all of them to a folder, and the example of `jbt example` into one of its own."""
    (folder / "example").mkdir(parents=True, exist_ok=True)
    tables = {name: frame.to_csv(index=False) for name, frame in example().items()}
    for name, text in tables.items():
        (folder / "example" / f"{name}.csv").write_text(text)
    rows = {"generic": GENERIC, "swapped": SWAPPED, "scores": SCORES, "chain": CHAIN}
    for name, table in (rows | {"answers": ANSWERS}).items():
        (folder / f"{name}.csv").write_text(_csv(table))
    for name, records in {"gpt-4_pair": MT_BENCH, "arena": ARENA_HARD}.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))
    for name, (_, table, text) in WRONG_TABLES.items():
        (folder / f"wrong_{name}.csv").write_text(text if table is None else tables[table] + text)


def _csv(rows: list[tuple]) -> str:
    quoted = [[f'"{cell}"' if "\n" in str(cell) else str(cell) for cell in row] for row in rows]
    return "".join(",".join(row) + "\n" for row in quoted)


EXAMPLE_VERDICTS = "--verdicts {in}/example/verdicts.csv"
WITH_VERDICTS = "--verdicts {file} --items {in}/example/items.csv --covariates words"
WITH_ITEMS = EXAMPLE_VERDICTS + " --items {file} --covariates words"
WITH_ANCHORS = "{example} --anchors {file} --covariates words"
WRONG_TABLES = {
    "empty": ("fit --verdicts {file}", None, ""),
    "header_only": ("leaderboard --verdicts {file}", None, "pool,first,second,winner\n"),
    "no_winner": ("fit --verdicts {file}", None, "pool,first,second\nq,a,b\n"),
    "column_twice": ("fit --verdicts {file}", None, "first,second,winner,winner\na,b,a,b\n"),
    "unknown_item": ("fit " + WITH_VERDICTS, "verdicts", "q01,magpie,amber,zinc,first\n"),
    "unknown_pool": ("fit " + WITH_VERDICTS, "verdicts", "q99,magpie,amber,birch,first\n"),
    "unknown_winner": ("judge " + WITH_VERDICTS, "verdicts", "q01,magpie,amber,birch,left\n"),
    "itself": ("leaderboard " + WITH_VERDICTS, "verdicts", "q01,magpie,amber,amber,first\n"),
    "no_judge": ("fit " + WITH_VERDICTS, "verdicts", "q01,,amber,birch,first\n"),
    "short_row": ("fit " + WITH_VERDICTS, "verdicts", "q01,magpie,amber\n"),
    "long_row": ("fit " + WITH_VERDICTS, "verdicts", "q01,magpie,amber,birch,first,9\n"),
    "unclosed_quote": ("fit " + WITH_VERDICTS, "verdicts", 'q01,magpie,"amber,birch,first\n'),
    "both_sides": ("fit --verdicts {file}", None, "first,second,winner\nA,B,A\nB,A,A\n"),
    "a_side_as_name": ("fit --verdicts {file}", None, "first,second,winner\nfirst,b,first\n"),
    "share_too_large": ("fit --verdicts {file}", None, "first,second,p_first\na,b,1.5\n"),
    "share_no_number": ("fit --verdicts {file}", None, "first,second,p_first\na,b,high\n"),
    "count_negative": ("fit --verdicts {file}", None, "first,second,winner,count\na,b,a,-2\n"),
    "count_half": ("fit --verdicts {file}", None, "first,second,winner,count\na,b,a,1.5\n"),
    "order_unknown_word": ("fit --verdicts {file}", None, "first,second,winner,order\na,b,a,no\n"),
    "only_errors": ("leaderboard --verdicts {file}", None, "first,second,winner\na,b,error\n"),
    "item_twice": ("fit " + WITH_ITEMS, "items", "q01,amber,amber,5,1\n"),
    "words_negative": ("fit " + WITH_ITEMS + " --transform log", "items", "q01,elm,elm,0,1\n"),
    "words_text": ("fit " + WITH_ITEMS, "items", "q01,elm,elm,many,1\n"),
    "words_missing": ("fit " + WITH_ITEMS, "items", "q01,elm,elm,,1\n"),
    "words_infinite": ("fit " + WITH_ITEMS, "items", "q01,elm,elm,inf,1\n"),
    "item_empty": ("fit " + WITH_ITEMS, "items", "q01,,elm,5,1\n"),
    "anchor_unknown": ("gate " + WITH_ANCHORS, "anchors", "q01,amber,zinc\n"),
    "anchor_itself": ("gate " + WITH_ANCHORS, "anchors", "q01,amber,amber\n"),
    "anchor_circle": ("gate " + WITH_ANCHORS, "anchors", "q01,birch,cedar\n"),
    "anchor_columns": ("gate " + WITH_ANCHORS, None, "pool,winner,loser\nq01,amber,birch\n"),
    "nul": ("fit --verdicts {file}", None, "first,second,winner\na\0,b,first\n"),
}
"""Name -> command, and the example's table that the text is added to (None: the text alone)."""

WRONG_OPTIONS = [
    "",
    "fitt",
    "fit",
    "fit --verdicts nofile.csv",
    "fit --verdicts {in}",
    "fit {example} --covariates word",
    "fit {example} --covariates words words",
    "fit {example} --lam 0",
    "fit {example} --lam-b nan",
    "fit {example} --k 9",
    "fit {example} --transform sqrt",
    "fit {example} --judge nobody",
    "fit {example} --ties davidson",
    "fit {example} --reference magpie",
    "fit {example} --joint --reference nobody",
    "fit {example} --joint --discrimination magpie",
    "fit {example} --map A=first,B",
    "fit {example} --scale 1",
    "fit {example} --winner choice",
    "fit {example} --cov words",
    "fit {example} --json nofolder/answer.json",
    "fit {example} --out {in}/chain.csv",
    "judge {example} --content model",
    "identify {example} --joint --judge magpie",
    "leaderboard {example} --against nobody",
    "leaderboard {example} --interaction",
    "leaderboard {example} --interaction --ties davidson --covariates words",
    "leaderboard {example} --beside nothing",
    "leaderboard {example} --content none",
    "gate " + EXAMPLE_VERDICTS,
    "gate {example} --covariates words --alpha 0.7",
    "gate {example} --covariates words --k 0",
    "replay {example} --rules nothing",
    "replay {example} --seeds 0 --k 9",
    "replay {example} --target 2",
    "plan",
    "plan labels {example} --n 0",
    "plan pairing --pool 10",
    "plan pairing --half-width -1",
    "plan gate --alpha 2",
    "plan reference --recall 2",
    "plan prompts {example} --better amber",
    "ask nostudy",
    "ask s --items nofile.csv",
    "ask s --items {example_items} --k 0",
    "tell nostudy {in}/answers.csv",
    "status nostudy",
    "import nofile.json --out tables",
    "import {in}/generic.csv --out tables",
    "import {in}/arena.jsonl --format mt_bench --out tables",
    "import {in}/chain.csv --out {in}/chain.csv",
    "example {in}/chain.csv",
    "sweep nothing",
]
"""Commands with a mistake in their options."""
