"""The known formats: which keys a record has, and how it is read.

Of each format `recognises` looks at the first record of a file, and `records` reads one record;
anything outside the format is refused, and nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from jbt.own.formats import generic, texts
from jbt.own.formats.records import (
    Anchor,
    Answer,
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_code,
    as_name,
    as_number,
    as_objects,
    brief,
    digest,
    one_hot,
)
from jbt.own.tables.outcomes import WORDS

SIDES = ("first", "second")


def _models(row: Row, keys: Sequence[str], apart: Sequence[str] = ()) -> list[tuple[str, str]]:
    """A name for the answer of each of two models, and the model.

    Args:
      apart: what tells the answers apart if the same model gave both.

    Raises:
      Refused: it did, and nothing tells them apart.
    """
    models = [row.name(role, key) for role, key in zip(SIDES, keys, strict=True)]
    if models[0] != models[1]:
        return list(zip(models, models, strict=True))
    if not apart:
        both = f"{' and '.join(keys)} are both {brief(models[0])}"
        raise Refused(f"{both}, allowed: two models")
    return [(f"{model} ({end})", model) for model, end in zip(models, apart, strict=True)]


def _places(row: Row, keys: Sequence[str]) -> list[Item]:
    """Two answers that are named after the keys of their texts."""
    for role, key in zip(SIDES, keys, strict=True):
        row.note(role, key)
    return [Item(key, text=row.text("texts", key), by_place=True) for key in keys]


def _gold(row: Row, pool: str, keys: Sequence[str], codes: Mapping[str, float]) -> Anchor:
    """The label of two answers, whose codes say whether the first is better."""
    gold = as_code(row.need("anchors", "label"), codes, "label")
    return Anchor(pool, *(keys if gold == 1 else keys[::-1]))


def _games(
    row: Row, key: str, code: str, n_games: Sequence[int], codes: Mapping[str, float]
) -> Iterator[tuple[str, float | None]]:
    """The code of each game in a list, and the share that the first won; None for a failure."""
    games = as_objects(row.need("winner", key, f"[].{code}"), key)
    if len(games) not in n_games:
        raise Refused(f"{len(games)} {key}, allowed: {' or '.join(map(str, n_games))}")
    for number, game in enumerate(games):
        value = None if game is None else game.get(code)
        yield value or "", _share(value, codes, f"{key}[{number}].{code}")


def _conversation(row: Row, key: str) -> str | None:
    """The assistant's part of a conversation; None without one."""
    messages = row.find("texts", key)
    return None if messages is None else "\n".join(texts.answers(messages, key))


def _share(code: Any, codes: Mapping[str, float | None], key: str) -> float | None:
    """`as_code` of a code that may be null, for a failed judgment."""
    return None if code is None else as_code(code, codes, key)


# Chatbot Arena: votes of visitors between two anonymous models, left (a) and right (b). Three
# releases: 100k (and FastChat's cleaned battles before it), 140k, and 55k, a CSV file whose winner
# is one-hot.

ARENA = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5, "both_bad": 0.5}
ARENA_ONE_HOT = {"winner_model_a": 1.0, "winner_model_b": 0.0, "winner_tie": 0.5}
ARENA_ALONE = {"anony", "language", "tstamp"}
"""Keys of the Arena's battles that human judgments of MT-Bench lack."""


def _is_arena(values: Mapping[str, Any]) -> bool:
    keys = values.keys()
    if not {"model_a", "model_b"} <= keys:
        return False
    if {"winner", "judge", "turn"} <= keys and not ARENA_ONE_HOT.keys() <= keys:
        return bool(ARENA_ALONE & keys)
    signs = {"conversation_a", "conv_metadata", "anony", "tstamp"}
    return ARENA_ONE_HOT.keys() <= keys or ("winner" in keys and bool(signs & keys))


def _arena(row: Row) -> Iterator[Record]:
    """Read the vote of one battle, which is a pool of its own."""
    items = []
    for side, (name, model) in zip("ab", _models(row, ("model_a", "model_b"), "ab"), strict=True):
        text, counts = _conversation(row, f"conversation_{side}"), {}
        if text is None and (reply := row.text("texts", f"response_{side}")) is not None:
            text = texts.replies(reply)
        if isinstance(metadata := row.find("counts", "conv_metadata"), Mapping):
            tokens = f"sum_assistant_{side}_tokens"
            counts = texts.style(metadata, f"_{side}", "conv_metadata", tokens)
        items.append(Item(name, model, text, counts))
    pool = row.optional_name("pool", "question_id", "id") or row.numbered()
    judge = row.optional_name("judge", "judge")
    if ARENA_ONE_HOT.keys() <= row.values.keys():
        p_first = one_hot(row, ARENA_ONE_HOT)
    else:
        p_first = as_code(row.need("winner", "winner"), ARENA, "winner")
    yield Verdict(pool, *items, p_first, judge, shown=True)


# MT-Bench: models judged by models (`*_pair.jsonl`) and by people, turn by turn.

MT_BENCH = {
    "g1_winner": {"model_1": 1.0, "model_2": 0.0, "tie": 0.5, "error": None},
    "g2_winner": {"model_1": 0.0, "model_2": 1.0, "tie": 0.5, "error": None},
}
"""Share won by the model shown first: model 1 in the first game, model 2 in the second."""

MT_BENCH_HUMAN = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def _turn(row: Row) -> tuple[str, str]:
    """The pool, which is a turn of a question, because a model answers in each; and the turn."""
    question, turn = row.name("pool", "question_id"), as_name(row.need("pool", "turn"), "turn")
    return f"{question}/turn{turn}", turn


def _judge(row: Row) -> str | None:
    """The judge's name; for a model that judges it comes first in a list, before the prompt's."""
    judge = row.find("judge", "judge")
    if isinstance(judge, list) and judge:
        judge = judge[0]
    return None if judge is None else as_name(judge, "judge")


def _mt_bench(row: Row) -> Iterator[Record]:
    """Read two games."""
    pool, judge = _turn(row)[0], _judge(row)
    items = [Item(*names) for names in _models(row, ("model_1", "model_2"))]
    shares = [as_code(row.need("winner", key), MT_BENCH[key], key) for key in MT_BENCH]
    for p_first, order in zip(shares, (items, items[::-1]), strict=True):
        yield Verdict(pool, *order, p_first, judge, shown=True)


def _is_mt_bench_human(values: Mapping[str, Any]) -> bool:
    keys = {"question_id", "model_a", "model_b", "winner", "judge", "turn"}
    return keys <= values.keys() and not ARENA_ALONE & values.keys()


def _mt_bench_human(row: Row) -> Iterator[Record]:
    """Read one judgment; the source no longer has the order in which its answers were seen."""
    models = _models(row, ("model_a", "model_b"))
    (pool, turn), items = _turn(row), []
    for names, key in zip(models, ("conversation_a", "conversation_b"), strict=True):
        replies, conversation = [], row.find("texts", key)
        if conversation is not None and turn.isdecimal():
            replies = texts.answers(conversation, key)
        there = turn.isdecimal() and 1 <= int(turn) <= len(replies)
        items.append(Item(*names, replies[int(turn) - 1] if there else None))
    winner = row.need("winner", "winner")
    if isinstance(winner, str) and "tie" in winner:  # also "tie (inconsistent)"
        winner = "tie"
    p_first = as_code(winner, MT_BENCH_HUMAN, "winner")
    yield Verdict(pool, *items, p_first, _judge(row), shown=False)


# AlpacaEval `annotations.json`: models against one baseline, with graded preferences.

OUTPUTS = ("output_1", "output_2")


def _alpaca_eval(row: Row) -> Iterator[Record]:
    """Read one annotation; all models that answered one instruction form a pool. A preference is 1
    for the first output, 2 for the second, or between; 1.5 and 0 are ties, null is a failure."""
    pool = digest(row.need("pool", "instruction"))
    models = _models(row, ("generator_1", "generator_2"), "12")
    items = [Item(*names, row.text("texts", k)) for names, k in zip(models, OUTPUTS, strict=True)]
    preference, p_first = row.need("p_first", "preference"), None
    if preference is not None:
        number = as_number(preference)
        if number != 0 and not 1 <= number <= 2:
            allowed = "1 to 2, 0 (a tie), null"
            raise Refused(f"preference is {brief(preference)}, allowed: {allowed}")
        p_first = 0.5 if number == 0 else round(2 - number, 12)
    judge = row.optional_name("judge", "annotator")
    yield Verdict(pool, *items, p_first, judge, shown=False)


# Arena-Hard v2: judgments of a model against a baseline in two games, and the models' answers.

ARENA_HARD = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A"), 1.0),
    **dict.fromkeys(("A=B", "B=A"), 0.5),
    **dict.fromkeys(("B>A", "B>>A", "A<B", "A<<B"), 0.0),
}
"""Share won by A, who is shown first."""


def _is_arena_hard(values: Mapping[str, Any]) -> bool:
    judgment = {"uid", "judge", "model", "baseline", "games"} <= values.keys()
    return judgment or ({"uid", "model", "metadata"} <= values.keys() and "games" not in values)


def _arena_hard(row: Row) -> Iterator[Record]:
    """Read two games, the baseline shown first in the first of them, or an answer."""
    pool = row.name("pool", "uid")
    if "games" not in row.values:
        model, text = row.name("item", "model"), _conversation(row, "messages")
        metadata = row.find("counts", "metadata") or {}
        counts = texts.style(metadata, "", "metadata", "token_len")
        yield Answer(pool, Item(model, model, text, counts))
        return
    items = [Item(*names) for names in _models(row, ("baseline", "model"))]
    judge = row.optional_name("judge", "judge")
    for score, p_first in _games(row, "games", "score", [2], ARENA_HARD):
        count = row.strong_weight if re.search(">>|<<", score) else 1
        yield Verdict(pool, *items, p_first, judge, shown=True, count=count)
        items = items[::-1]


# LLMBar `result.json`: pairs with a gold label, each judged in both orders.

LLMBAR = {"1": 1.0, "2": 0.0}
"""Share won by output 1, whichever was shown first."""

SWAPS = {"swap = False": LLMBAR, "swap = True": {"1": 0.0, "2": 1.0}}
"""Share won by the output shown first: output 1, or if they were swapped output 2."""


def _llmbar(row: Row) -> Iterator[Record]:
    """Read the label, and the first round's verdicts; later rounds saw the first."""
    items = _places(row, OUTPUTS)
    pool = digest(row.need("pool", "input"), *(item.text or "" for item in items))
    yield _gold(row, pool, OUTPUTS, LLMBAR)
    rounds = row.need("winner", "results", "[0].swap.winner")
    if not isinstance(rounds, list) or not rounds or not isinstance(rounds[0], Mapping):
        raise Refused(f"results is {brief(rounds)}, allowed: a list that begins with an object")
    if SWAPS.keys().isdisjoint(rounds[0]):
        allowed = ", ".join(SWAPS)
        raise Refused(f"keys of results[0] are {brief(list(rounds[0]))}, allowed: {allowed}")
    for (swap, codes), order in zip(SWAPS.items(), (items, items[::-1]), strict=True):
        game = rounds[0].get(swap, {"winner": ...})
        if not isinstance(game, Mapping) or "winner" not in game:
            raise Refused(f"no winner in results[0].{swap}")
        if game["winner"] is not ...:
            p_first = _share(game["winner"], codes, f"results[0].{swap}.winner")
            yield Verdict(pool, *order, p_first, None, shown=True)


# JudgeBench outputs: pairs of responses with a gold label, judged in one or both orders.

RESPONSES = ("response_A", "response_B")

JUDGEBENCH_GOLD = {"A>B": 1.0, "B>A": 0.0}
JUDGEBENCH = {**JUDGEBENCH_GOLD, "A=B": 0.5}
"""Share won by the response shown first, which the judge calls A."""


def _judgebench(row: Row) -> Iterator[Record]:
    """Read the label, and a verdict in each order."""
    pool, items = row.name("pool", "pair_id"), _places(row, RESPONSES)
    yield _gold(row, pool, RESPONSES, JUDGEBENCH_GOLD)
    games = list(_games(row, "judgments", "decision", [1, 2], JUDGEBENCH))
    # The model that judged stands in the file's name; else the kind of judge is known.
    named = re.search(r"judge_model=([^,=]+?)(\.jsonl?)?(\.gz)?$", row.file.name)
    if named:
        row.note("judge", "judge_model in the file's name")
        judge = as_name(named[1], "judge_model in the file's name")
    else:
        judge = row.optional_name("judge", "judge_model", "judge_name")
    for _, p_first in games:
        yield Verdict(pool, *items, p_first, judge, shown=True)
        items = items[::-1]


# compar:IA: votes of visitors, who chose a model by name or found both equal.

EQUAL = {"True": 0.5, "true": 0.5, "1": 0.5, "False": None, "false": None, "0": None}


def _comparia(row: Row) -> Iterator[Record]:
    """Read one vote, which is a pool of its own; which model was on which side is not known."""
    pool = row.optional_name("pool", "id", "conversation_pair_id") or row.numbered()
    models = _models(row, ("model_a_name", "model_b_name"), "ab")
    items = [
        Item(*names, _conversation(row, f"conversation_{side}"))
        for side, names in zip("ab", models, strict=True)
    ]
    equal = row.need("winner", "both_equal")
    p_first = _share(str(equal) if isinstance(equal, bool) else equal, EQUAL, "both_equal")
    row.need("winner", "chosen_model_name")
    chosen = row.optional_name("winner", "chosen_model_name")
    names = [model for _, model in models]
    if chosen is not None:
        if p_first is not None:
            also = f"though both_equal is {brief(equal)}"
            raise Refused(f"chosen_model_name is {brief(chosen)} {also}")
        if chosen not in names:
            allowed = f"{', '.join(names)}, null"
            raise Refused(f"chosen_model_name is {brief(chosen)}, allowed: {allowed}")
        if names[0] != names[1]:  # else either may have been chosen
            p_first = float(chosen == names[0])
    yield Verdict(pool, *items, p_first, None, shown=False)


# The journal of a study (`own.Study`): the answers among its records.


def _is_study(values: Mapping[str, Any]) -> bool:
    return values.get("event") in ("study", "ask", "tell", "lease")


def _study(row: Row) -> Iterator[Record]:
    """Read one answer; what is asked, and the study's settings, are no verdicts."""
    if row.need("event", "event") != "tell":
        return
    items = [Item(row.name(side, side)) for side in SIDES]
    p_first = row.find("p_first", "p_first")
    if p_first is not None:
        p_first = float(p_first)
    elif "winner" in row.values:
        p_first = as_code(row.need("winner", "winner"), WORDS, "winner")
    judge = row.find("judge", "judge")
    yield Verdict(row.name("pool", "pool"), *items, p_first, judge, shown=True)


FORMATS: dict[str, Format] = {
    name: Format(name, *format)
    for name, *format in (
        ("chatbot_arena", "Chatbot Arena battles", _is_arena, _arena, "columns"),
        (
            "mt_bench",
            "MT-Bench judgments of pairs",
            {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"}.issubset,
            _mt_bench,
            "recorded",
        ),
        (
            "mt_bench_human",
            "MT-Bench human judgments",
            _is_mt_bench_human,
            _mt_bench_human,
            "unknown",
        ),
        (
            "alpaca_eval",
            "AlpacaEval annotations",
            {"instruction", *OUTPUTS, "generator_1", "generator_2", "preference"}.issubset,
            _alpaca_eval,
            "unknown",
            True,
        ),
        ("arena_hard", "Arena-Hard judgments", _is_arena_hard, _arena_hard, "recorded"),
        (
            "llmbar",
            "LLMBar results",
            {"input", *OUTPUTS, "label", "results"}.issubset,
            _llmbar,
            "recorded",
        ),
        (
            "judgebench",
            "JudgeBench outputs",
            {"pair_id", *RESPONSES, "label", "judgments"}.issubset,
            _judgebench,
            "recorded",
        ),
        (
            "comparia",
            "compar:IA votes",
            {"model_a_name", "model_b_name", "chosen_model_name", "both_equal"}.issubset,
            _comparia,
            "unknown",
        ),
        ("study", "Journal of a study", _is_study, _study, "recorded"),
        ("generic", "Table of your own", generic.recognises, generic.records, "unknown"),
    )
}
"""Every format by its name."""

if TYPE_CHECKING:
    Name = str
else:
    Name = Literal["auto", *FORMATS]


def recognise(values: Mapping[str, Any]) -> Format:
    """Recognise a file's format by its first record; `generic` only if no other matches.

    Raises:
      Refused: no format is recognised, or several are.
    """
    matches = [f for f in FORMATS.values() if f.recognises(values)]
    matches = [f for f in matches if f.name != "generic"] or matches
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Refused(f"may be {' or '.join(f.name for f in matches)}: say which (--format)")
    keys = ", ".join(map(repr, list(values)[:12]))
    raise Refused(
        f"none of the formats known has the keys {keys}; if this is a table of your own, name its "
        "columns (--first --second --winner)"
    )
