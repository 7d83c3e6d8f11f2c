"""Small files as other tools write them: a sample of each format, and what it says.

Every sample has a win for each side, a tie and, where its format knows them, a failure."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path


def talk(*answers):
    """A conversation in which the assistant said this."""
    turns = (
        [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": a}] for a in answers
    )
    return [message for turn in turns for message in turn]


@dataclass(frozen=True)
class Sample:
    """A file of a format and what it says."""

    name: str
    """Of the file."""
    records: list[dict]
    verdicts: list[tuple]
    """Pool (its number, if it is named by a digest), judge (None: not named), first, second,
    winner or p_first as it is written, order."""
    items: dict[tuple[str, str], tuple] = field(default_factory=dict)
    """Pool and item: content (None: not named; ...: pool/item) and words (None: not known)."""
    anchors: list[tuple] = field(default_factory=list)
    wrong: dict[str, object] = field(default_factory=dict)
    """Changes to the last record that its format does not allow, by the message they get."""


def metadata(a, b):
    return {
        f"{key}_{side}{end}": value
        for side, n in (("a", a), ("b", b))
        for key, end, value in (
            ("sum_assistant", "_tokens", n),
            ("header_count", "", {"h1": 1, "h2": n, "h3": 0}),
            ("list_count", "", {"ordered": 2, "unordered": n}),
            ("bold_count", "", {"**": n, "__": 0}),
        )
    }


ARENA_100K = Sample(
    "battles.json",
    [
        {"question_id": "u1", "model_a": "m", "model_b": "k", "winner": "model_a",
         "conversation_a": talk("one two", "three"), "conversation_b": talk("one"),
         "conv_metadata": metadata(7, 4), "language": "German"},
        {"question_id": "u2", "model_a": "k", "model_b": "l", "winner": "model_b",
         "conversation_a": talk("one"),
         "conversation_b": talk(""), "conv_metadata": metadata(3, 0)},
        {"question_id": "u3", "model_a": "l", "model_b": "m", "winner": "tie",
         "conversation_a": talk("one"), "conversation_b": talk("a b"),
         "conv_metadata": metadata(3, 1)},
        {"question_id": "u4", "model_a": "m", "model_b": "m", "winner": "tie (bothbad)",
         "conversation_a": talk("one"), "conversation_b": talk("a b c"),
         "conv_metadata": metadata(3, 1)},
    ],
    [("u1", None, "m", "k", "first", "shown"), ("u2", None, "k", "l", "second", "shown"),
     ("u3", None, "l", "m", "tie", "shown"), ("u4", None, "m (a)", "m (b)", "tie", "shown")],
    {("u1", "m"): ("m", 3), ("u1", "k"): ("k", 1), ("u2", "l"): ("l", 0),
     ("u4", "m (b)"): ("m", 3)},
    wrong={"winner is 'model_c'": {"winner": "model_c"}, "winner is 'Tie'": {"winner": "Tie"},
           "winner is None": {"winner": None}, "no 'winner' here": {"winner": ...},
           "model_b is 5.5": {"model_b": 5.5},
           "conversation_a is 'hello'": {"conversation_a": "hello"},
           "header_count_a is 'x'": {"conv_metadata": {"header_count_a": "x"}}},
)  # fmt: skip

PARTS = [
    {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "one two"}, {"type": "image", "text": None}],
    },
]

ARENA_140K = Sample(
    "train.parquet",
    [
        {"id": "a-1", "model_a": "m", "model_b": "k", "winner": "model_b", "conversation_a": PARTS,
         "conversation_b": PARTS, "evaluation_order": 1},
        {"id": "a-2", "model_a": "k", "model_b": "l", "winner": "both_bad", "conversation_a": PARTS,
         "conversation_b": PARTS, "evaluation_order": 1},
        {"id": "a-3", "model_a": "l", "model_b": "m", "winner": "tie", "conversation_a": PARTS,
         "conversation_b": PARTS, "evaluation_order": 1},
    ],
    [("a-1", None, "m", "k", "second", "shown"), ("a-2", None, "k", "l", "tie", "shown"),
     ("a-3", None, "l", "m", "tie", "shown")],
    {("a-1", "m"): ("m", 2)},
    wrong={"winner is 'bothbad'": {"winner": "bothbad"}},
)  # fmt: skip

ARENA_55K = Sample(
    "train.csv",
    [
        {"id": 30, "model_a": "m", "model_b": "k", "prompt": '["Why?"]',
         "response_a": '["one, \\"two\\"", "three"]', "response_b": '["a\\nb c"]',
         "winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0},
        {"id": 31, "model_a": "k", "model_b": "l", "prompt": '["Why?"]', "response_a": '["one"]',
         "response_b": "[null]", "winner_model_a": 0, "winner_model_b": 1, "winner_tie": 0},
        {"id": 32, "model_a": "l", "model_b": "m", "prompt": '["Why?"]', "response_a": "no list",
         "response_b": '["b"]', "winner_model_a": 0, "winner_model_b": 0, "winner_tie": 1},
    ],
    [("30", None, "m", "k", "first", "shown"), ("31", None, "k", "l", "second", "shown"),
     ("32", None, "l", "m", "tie", "shown")],
    {("30", "m"): ("m", 3), ("30", "k"): ("k", 3), ("31", "l"): ("l", 0), ("32", "l"): ("l", 2)},
    wrong={"winner_model_a and winner_tie of": {"winner_model_a": 1},
           "none of winner_model_a": {"winner_tie": 0}, "winner_tie is '2'": {"winner_tie": 2},
           "winner_tie is None": {"winner_tie": ""}},
)  # fmt: skip

BATTLES = Sample(
    "clean_battle.json",
    [
        {"model_a": "m", "model_b": "k", "winner": "model_a", "judge": "voter_1", "turn": 1,
         "anony": True, "language": "English", "tstamp": 1.5},
        {"model_a": "k", "model_b": "l", "winner": "model_b", "judge": "voter_2", "turn": 3,
         "anony": True, "language": "English", "tstamp": 2.5},
        {"model_a": "l", "model_b": "m", "winner": "tie (bothbad)", "judge": "voter_1", "turn": 1,
         "anony": False, "language": "English", "tstamp": 3.5},
    ],
    [("clean_battle/000000", "voter_1", "m", "k", "first", "shown"),
     ("clean_battle/000001", "voter_2", "k", "l", "second", "shown"),
     ("clean_battle/000002", "voter_1", "l", "m", "tie", "shown")],
    {("clean_battle/000000", "m"): ("m", None)},
    wrong={"winner is 'draw'": {"winner": "draw"}},
)  # fmt: skip

MT_BENCH = Sample(
    "gpt-4_pair.jsonl",
    [
        {"question_id": 81, "model_1": "m", "model_2": "k", "g1_winner": "model_1",
         "g2_winner": "model_1", "judge": ["gpt-4", "pair-v2"], "turn": 1, "g1_judgment": "..."},
        {"question_id": 81, "model_1": "m", "model_2": "k", "g1_winner": "tie",
         "g2_winner": "model_2", "judge": ["gpt-4", "pair-v2-multi-turn"], "turn": 2},
        {"question_id": 82, "model_1": "l", "model_2": "k", "g1_winner": "error",
         "g2_winner": "model_1", "judge": ["gpt-4", "pair-v2"], "turn": 1},
    ],
    [("81/turn1", "gpt-4", "m", "k", "first", "shown"),
     ("81/turn1", "gpt-4", "k", "m", "second", "shown"),
     ("81/turn2", "gpt-4", "m", "k", "tie", "shown"),
     ("81/turn2", "gpt-4", "k", "m", "first", "shown"),
     ("82/turn1", "gpt-4", "l", "k", "error", "shown"),
     ("82/turn1", "gpt-4", "k", "l", "second", "shown")],
    {("81/turn1", "m"): ("m", None), ("81/turn2", "m"): ("m", None)},
    wrong={"g2_winner is 'A'": {"g2_winner": "A"}, "g1_winner is None": {"g1_winner": None},
           "no 'turn' here": {"turn": ...}, "are both 'k'": {"model_1": "k"}},
)  # fmt: skip

MT_BENCH_HUMAN = Sample(
    "human.jsonl",
    [
        {"question_id": 81, "model_a": "m", "model_b": "k", "winner": "model_a",
         "judge": "expert_1", "turn": 1,
         "conversation_a": talk("one two", "a"), "conversation_b": talk("one", "b c d")},
        {"question_id": 81, "model_a": "m", "model_b": "k", "winner": "model_b",
         "judge": "expert_1", "turn": 2,
         "conversation_a": talk("one two", "a"), "conversation_b": talk("one", "b c d")},
        {"question_id": 82, "model_a": "l", "model_b": "m", "winner": "tie (inconsistent)",
         "judge": "author_0", "turn": 1, "conversation_a": talk("x"), "conversation_b": talk("y")},
    ],
    [("81/turn1", "expert_1", "m", "k", "first", "unknown"),
     ("81/turn2", "expert_1", "m", "k", "second", "unknown"),
     ("82/turn1", "author_0", "l", "m", "tie", "unknown")],
    {("81/turn1", "k"): ("k", 1), ("81/turn2", "k"): ("k", 3)},
    wrong={"winner is 'model_1'": {"winner": "model_1"}, "winner is 'error'": {"winner": "error"}},
)  # fmt: skip

ALPACA_EVAL = Sample(
    "annotations.json",
    [
        {"instruction": f"Task {n}", "output_1": "one two", "output_2": "x" * n,
         "generator_1": "base", "generator_2": "m", "annotator": "judge", "dataset": "any",
         "preference": preference}
        for n, preference in enumerate([1, 2.0, 1.25, 1.5, 0, None])
    ],
    [(n, "judge", "base", "m", p, "unknown")
     for n, p in enumerate(["1.0", "0.0", "0.75", "0.5", "0.5", ""])],
    {(0, "base"): ("base", 2), (0, "m"): ("m", 0), (1, "m"): ("m", 1)},
    wrong={"preference is 3": {"preference": 3}, "preference is 0.5": {"preference": 0.5},
           "preference is 'm'": {"preference": "m"}, "preference is True": {"preference": True},
           "preference is inf": {"preference": float("inf")},
           "no 'preference' here": {"preference": ...}},
)  # fmt: skip

ARENA_HARD = Sample(
    "m.jsonl",
    [
        {"uid": uid, "category": "hard_prompt", "judge": "gpt", "model": "m", "baseline": "base",
         "games": [one if one is None else {"score": one, "judgment": "..."}, {"score": two}]}
        for uid, one, two in [("q1", "A>>B", "A>B"), ("q2", "B<A", "B>>A"), ("q3", "A=B", "B=A"),
                              ("q4", "A<<B", None), ("q5", None, "B>A"), ("q6", "A<B", "B<<A")]
    ],
    [("q1", "gpt", "base", "m", "first", "shown"), ("q1", "gpt", "m", "base", "first", "shown"),
     ("q2", "gpt", "base", "m", "first", "shown"), ("q2", "gpt", "m", "base", "second", "shown"),
     ("q3", "gpt", "base", "m", "tie", "shown"), ("q3", "gpt", "m", "base", "tie", "shown"),
     ("q4", "gpt", "base", "m", "second", "shown"), ("q4", "gpt", "m", "base", "error", "shown"),
     ("q5", "gpt", "base", "m", "error", "shown"), ("q5", "gpt", "m", "base", "second", "shown"),
     ("q6", "gpt", "base", "m", "second", "shown"), ("q6", "gpt", "m", "base", "first", "shown")],
    {("q1", "base"): ("base", None)},
    wrong={"games[1].score is 'A>>>B'": {"games": [None, {"score": "A>>>B"}]},
           "3 games": {"games": [None] * 3}, "games is 'A>B'": {"games": "A>B"},
           "are both 'm'": {"baseline": "m"}},
)  # fmt: skip

OUTPUTS = [("output_1", "output_2"), ("output_2", "output_1")]

LLMBAR = Sample(
    "result.json",
    [
        {"input": f"Task {n}", "output_1": "one two three", "output_2": "one", "label": label,
         "results": [{"swap = False": {"winner": one}, "swap = True": {"winner": two}},
                     {"swap = False": {"winner": "1"}}]}
        for n, label, one, two in [(0, 1, "1", "2"), (1, 2, "2", "2"), (2, 2, None, "1")]
    ],
    [(n, None, *pair, winner, "shown")
     for n, winners in enumerate([("first", "first"), ("second", "first"), ("error", "second")])
     for pair, winner in zip(OUTPUTS, winners, strict=True)],
    {(0, "output_1"): (..., 3), (1, "output_2"): (..., 1)},
    [(0, "output_1", "output_2"), (1, "output_2", "output_1"), (2, "output_2", "output_1")],
    wrong={"label is 0": {"label": 0}, "results is []": {"results": []},
           "winner is 'tie'": {"results": [{"swap = False": {"winner": "tie"}}]},
           "no winner in": {"results": [{"swap = True": {}}]},
           "keys of results[0]": {"results": [{"swap": {"winner": "1"}}]}},
)  # fmt: skip

RESPONSES = [("response_A", "response_B"), ("response_B", "response_A")]

JUDGEBENCH = Sample(
    "dataset=judgebench,response_model=r,judge_name=arena_hard,judge_model=some-4o.jsonl",
    [
        {"pair_id": f"p{n}", "response_model": "r", "response_A": "one two", "response_B": "one",
         "label": label, "judge_name": "arena_hard", "judgments": [
             None if d is None else {"decision": d, "judgment": "..."} for d in decisions]}
        for n, (label, decisions) in enumerate(
            [("A>B", ("A>B", "A>B")), ("B>A", ("B>A", "A=B")), ("B>A", (None, "B>A")),
             ("A>B", ("A>B",))])
    ],
    [(f"p{n}", "some-4o", *pair, winner, "shown")
     for n, winners in enumerate(
         [("first", "first"), ("second", "tie"), ("error", "second"), ("first",)])
     for pair, winner in zip(RESPONSES, winners, strict=False)],
    {("p0", "response_A"): (..., 2), ("p1", "response_A"): (..., 2)},
    [("p0", "response_A", "response_B"), ("p1", "response_B", "response_A"),
     ("p2", "response_B", "response_A"), ("p3", "response_A", "response_B")],
    wrong={"label is 'A=B'": {"label": "A=B"}, "0 judgments": {"judgments": []},
           "judgments[0].decision is 'A'": {"judgments": [{"decision": "A"}]}},
)  # fmt: skip

COMPARIA = Sample(
    "votes.parquet",
    [{"id": n, "model_a_name": "m", "model_b_name": b, "chosen_model_name": chosen,
      "both_equal": equal, "conversation_a": talk("one"), "conversation_b": talk("a b")}
     for n, (b, chosen, equal) in enumerate(
         [("k", "m", False), ("l", "l", False), ("k", None, True), ("k", None, False),
          ("m", "m", False)])],
    [("0", None, "m", "k", "first", "unknown"), ("1", None, "m", "l", "second", "unknown"),
     ("2", None, "m", "k", "tie", "unknown"), ("3", None, "m", "k", "error", "unknown"),
     ("4", None, "m (a)", "m (b)", "error", "unknown")],
    {("0", "k"): ("k", 2), ("4", "m (b)"): ("m", 2)},
    wrong={"chosen_model_name is 'x'": {"chosen_model_name": "x"},
           "though both_equal is True": {"both_equal": True}},
)  # fmt: skip

GENERIC = Sample(
    "mine.csv",
    [{"pool": "p", "judge": "j", "model_a": a, "model_b": b, "winner": w}
     for a, b, w in [("x", "y", "model_a"), ("y", "x", "Right"), ("x", "z", "TIE"), ("z", "y", "2"),
                     ("x", "y", "A"), ("z", "x", "Z"), ("y", "z", "error")]],
    [("p", "j", "x", "y", "first", "unknown"), ("p", "j", "y", "x", "second", "unknown"),
     ("p", "j", "x", "z", "tie", "unknown"), ("p", "j", "z", "y", "second", "unknown"),
     ("p", "j", "x", "y", "first", "unknown"), ("p", "j", "z", "x", "first", "unknown"),
     ("p", "j", "y", "z", "error", "unknown")],
    {("p", "x"): (None, None)},
    wrong={"winner is '0'": {"winner": "0"}, "winner is 'x'": {"winner": "x"},
           "same item, 'z'": {"model_a": "z"},
           "pool is null": {"pool": ""}},
)  # fmt: skip

SAMPLES = {
    "chatbot_arena": ARENA_100K,
    "chatbot_arena 140k": ARENA_140K,
    "chatbot_arena 55k": ARENA_55K,
    "chatbot_arena clean battles": BATTLES,
    "mt_bench": MT_BENCH,
    "mt_bench_human": MT_BENCH_HUMAN,
    "alpaca_eval": ALPACA_EVAL,
    "arena_hard": ARENA_HARD,
    "llmbar": LLMBAR,
    "judgebench": JUDGEBENCH,
    "comparia": COMPARIA,
    "generic": GENERIC,
}


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
