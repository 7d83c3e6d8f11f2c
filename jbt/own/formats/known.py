"""The known formats: which keys a record has, and how it is read.

Of each format `recognises` looks at the first record of a file, and `records` reads one record;
anything outside the format is refused, and nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def _has(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda values: set(keys) <= values.keys()


def _apart(items: Sequence[Item], names: tuple[str, str]) -> list[Item]:
    """Two answers of one record, distinguished by `names` if the same model gave both."""
    if items[0].name != items[1].name:
        return list(items)
    return [
        Item(f"{item.name} ({name})", item.content, item.text, item.measures)
        for item, name in zip(items, names, strict=True)
    ]


def _two_models(row: Row, first: str, second: str) -> list[str]:
    models = [row.name("first", first), row.name("second", second)]
    if models[0] == models[1]:
        raise Refused(f"{first} and {second} are both {brief(models[0])}, allowed: two models")
    return models


def _conversation(row: Row, key: str) -> str | None:
    """The assistant's part of a conversation; None without one."""
    messages = row.find("texts", key)
    return None if messages is None else "\n".join(texts.answers(messages, key))


def _share(code: Any, codes: Mapping[str, float | None], key: str) -> float | None:
    """`as_code` of a code that may be null, for a failed judgment."""
    return None if code is None else as_code(code, codes, key)


def _turned(share: float | None) -> float | None:
    return None if share is None else 1 - share


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
    for side, role in (("a", "first"), ("b", "second")):
        model = row.name(role, f"model_{side}")
        text, counts = _conversation(row, f"conversation_{side}"), {}
        if text is None and (reply := row.text("texts", f"response_{side}")) is not None:
            text = texts.replies(reply)
        if isinstance(metadata := row.find("counts", "conv_metadata"), Mapping):
            tokens = f"sum_assistant_{side}_tokens"
            counts = texts.style(metadata, f"_{side}", "conv_metadata", tokens)
        items.append(Item(model, model, text, counts))
    pool = row.optional_name("pool", "question_id", "id") or row.numbered()
    judge = row.optional_name("judge", "judge")
    if ARENA_ONE_HOT.keys() <= row.values.keys():
        p_first = one_hot(row, ARENA_ONE_HOT)
    else:
        p_first = as_code(row.need("winner", "winner"), ARENA, "winner")
    first, second = _apart(items, ("a", "b"))
    yield Verdict(pool, first, second, p_first, judge, shown=True)


# MT-Bench: models judged by models (`*_pair.jsonl`) and by people, turn by turn.

MT_BENCH = {"model_1": 1.0, "model_2": 0.0, "tie": 0.5, "error": None}
"""The same in both games: the second game's winner already has the first game's names."""

MT_BENCH_HUMAN = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def _turn_of(row: Row) -> str:
    """The pool: each turn of a question is one, because a model answers in each."""
    question = row.name("pool", "question_id")
    return f"{question}/turn{as_name(row.need('pool', 'turn'), 'turn')}"


def _judge_of(row: Row) -> str | None:
    """The judge's name; for a model that judges it comes first in a list, before the prompt's."""
    judge = row.find("judge", "judge")
    if isinstance(judge, list) and judge:
        judge = judge[0]
    return None if judge is None else as_name(judge, "judge")


def _mt_bench(row: Row) -> Iterator[Record]:
    """Read two games: the first shows model 1 first, the second model 2."""
    pool, judge = _turn_of(row), _judge_of(row)
    one, two = (Item(model, model) for model in _two_models(row, "model_1", "model_2"))
    p_one = [as_code(row.need("winner", key), MT_BENCH, key) for key in ("g1_winner", "g2_winner")]
    yield Verdict(pool, one, two, p_one[0], judge, shown=True)
    yield Verdict(pool, two, one, _turned(p_one[1]), judge, shown=True)


def _is_mt_bench_human(values: Mapping[str, Any]) -> bool:
    keys = {"question_id", "model_a", "model_b", "winner", "judge", "turn"}
    return keys <= values.keys() and not ARENA_ALONE & values.keys()


def _mt_bench_human(row: Row) -> Iterator[Record]:
    """Read one judgment; the source no longer has the order in which its answers were seen."""
    models = _two_models(row, "model_a", "model_b")
    turn = as_name(row.need("pool", "turn"), "turn")
    items = []
    for model, key in zip(models, ("conversation_a", "conversation_b"), strict=True):
        replies, conversation = [], row.find("texts", key)
        if conversation is not None and turn.isdecimal():
            replies = texts.answers(conversation, key)
        there = turn.isdecimal() and 1 <= int(turn) <= len(replies)
        items.append(Item(model, model, replies[int(turn) - 1] if there else None))
    winner = row.need("winner", "winner")
    if isinstance(winner, str) and "tie" in winner:  # also "tie (inconsistent)"
        winner = "tie"
    p_first = as_code(winner, MT_BENCH_HUMAN, "winner")
    first, second = items
    yield Verdict(_turn_of(row), first, second, p_first, _judge_of(row), shown=False)


# AlpacaEval `annotations.json`: models against one baseline, with graded preferences.


def _alpaca_eval(row: Row) -> Iterator[Record]:
    """Read one annotation; all models that answered one instruction form a pool. A preference is 1
    for the first output, 2 for the second, or between; 1.5 and 0 are ties, null is a failure."""
    pool = digest(row.need("pool", "instruction"))
    items = []
    for n, role in (("1", "first"), ("2", "second")):
        name = row.name(role, f"generator_{n}")
        items.append(Item(name, name, row.text("texts", f"output_{n}")))
    preference, p_first = row.need("p_first", "preference"), None
    if preference is not None:
        number = as_number(preference)
        if number != 0 and not 1 <= number <= 2:
            allowed = "1 to 2, 0 (a tie), null"
            raise Refused(f"preference is {brief(preference)}, allowed: {allowed}")
        p_first = 0.5 if number == 0 else round(2 - number, 12)
    judge = row.optional_name("judge", "annotator")
    first, second = _apart(items, ("1", "2"))
    yield Verdict(pool, first, second, p_first, judge, shown=False)


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
    items = [Item(model, model) for model in _two_models(row, "baseline", "model")]
    judge = row.optional_name("judge", "judge")
    games = as_objects(row.need("winner", "games", "[].score"), "games")
    if len(games) != 2:
        raise Refused(f"{len(games)} games, allowed: 2")
    for number, game in enumerate(games):
        score = None if game is None else game.get("score")
        p_first = _share(score, ARENA_HARD, f"games[{number}].score")
        count = row.strong_weight if re.search(">>|<<", score or "") else 1
        first, second = items[number], items[1 - number]
        yield Verdict(pool, first, second, p_first, judge, shown=True, count=count)


# LLMBar `result.json`: pairs with a gold label, each judged in both orders.

OUTPUTS = ("output_1", "output_2")

LLMBAR = {"1": 1.0, "2": 0.0}
"""Share won by output 1, whichever was shown first."""

SWAPS = ("swap = False", "swap = True")


def _llmbar(row: Row) -> Iterator[Record]:
    """Read the label, and the first round's verdicts; later rounds saw the first."""
    one, two = (Item(key, text=row.text("texts", key), by_place=True) for key in OUTPUTS)
    pool = digest(row.need("pool", "input"), one.text or "", two.text or "")
    row.note("first", "output_1")
    row.note("second", "output_2")
    gold = as_code(row.need("anchors", "label"), LLMBAR, "label")
    yield Anchor(pool, *(OUTPUTS if gold == 1 else OUTPUTS[::-1]))
    rounds = row.need("winner", "results", "[0].swap.winner")
    if not isinstance(rounds, list) or not rounds or not isinstance(rounds[0], Mapping):
        raise Refused(f"results is {brief(rounds)}, allowed: a list that begins with an object")
    games = {swap: rounds[0][swap] for swap in SWAPS if swap in rounds[0]}
    if not games:
        allowed = ", ".join(SWAPS)
        raise Refused(f"keys of results[0] are {brief(list(rounds[0]))}, allowed: {allowed}")
    for swap, game in games.items():
        if not isinstance(game, Mapping) or "winner" not in game:
            raise Refused(f"no winner in results[0].{swap}")
        p_one = _share(game["winner"], LLMBAR, f"results[0].{swap}.winner")
        if swap == SWAPS[0]:
            yield Verdict(pool, one, two, p_one, None, shown=True)
        else:
            yield Verdict(pool, two, one, _turned(p_one), None, shown=True)


# JudgeBench outputs: pairs of responses with a gold label, judged in one or both orders.

RESPONSES = ("response_A", "response_B")

JUDGEBENCH = {"A>B": 1.0, "B>A": 0.0, "A=B": 0.5}
"""Share won by the response shown first, which the judge calls A."""


def _judgebench(row: Row) -> Iterator[Record]:
    """Read the label, and a verdict in each order."""
    pool = row.name("pool", "pair_id")
    items = [Item(key, text=row.text("texts", key), by_place=True) for key in RESPONSES]
    row.note("first", "response_A")
    row.note("second", "response_B")
    labels = {code: JUDGEBENCH[code] for code in ("A>B", "B>A")}
    gold = as_code(row.need("anchors", "label"), labels, "label")
    yield Anchor(pool, *(RESPONSES if gold == 1 else RESPONSES[::-1]))
    judgments = as_objects(row.need("winner", "judgments", "[].decision"), "judgments")
    if len(judgments) not in (1, 2):
        raise Refused(f"{len(judgments)} judgments, allowed: 1 or 2")
    # The model that judged stands in the file's name; else the kind of judge is known.
    named = re.search(r"judge_model=([^,=]+?)(\.jsonl?)?(\.gz)?$", row.file.name)
    if named:
        row.note("judge", "judge_model in the file's name")
        judge = as_name(named[1], "judge_model in the file's name")
    else:
        judge = row.optional_name("judge", "judge_model", "judge_name")
    for number, judgment in enumerate(judgments):
        decision = None if judgment is None else judgment.get("decision")
        p_first = _share(decision, JUDGEBENCH, f"judgments[{number}].decision")
        first, second = items[number], items[1 - number]
        yield Verdict(pool, first, second, p_first, judge, shown=True)


# compar:IA: votes of visitors, who chose a model by name or found both equal.

EQUAL = {"True": 0.5, "true": 0.5, "1": 0.5, "False": None, "false": None, "0": None}


def _comparia(row: Row) -> Iterator[Record]:
    """Read one vote, which is a pool of its own; which model was on which side is not known."""
    pool = row.optional_name("pool", "id", "conversation_pair_id") or row.numbered()
    items = []
    for side, role in (("a", "first"), ("b", "second")):
        model = row.name(role, f"model_{side}_name")
        items.append(Item(model, model, _conversation(row, f"conversation_{side}")))
    names = [item.name for item in items]
    equal = row.need("winner", "both_equal")
    p_first = _share(str(equal) if isinstance(equal, bool) else equal, EQUAL, "both_equal")
    row.need("winner", "chosen_model_name")
    chosen = row.optional_name("winner", "chosen_model_name")
    if chosen is not None:
        if p_first is not None:
            also = f"though both_equal is {brief(equal)}"
            raise Refused(f"chosen_model_name is {brief(chosen)} {also}")
        if chosen not in names:
            allowed = f"{', '.join(names)}, null"
            raise Refused(f"chosen_model_name is {brief(chosen)}, allowed: {allowed}")
        if names[0] != names[1]:  # else either may have been chosen
            p_first = float(chosen == names[0])
    first, second = _apart(items, ("a", "b"))
    yield Verdict(pool, first, second, p_first, None, shown=False)


# The journal of a study (`own.Study`): the answers among its records.


def _is_study(values: Mapping[str, Any]) -> bool:
    return values.get("event") in ("study", "ask", "tell", "lease")


def _study(row: Row) -> Iterator[Record]:
    """Read one answer; what is asked, and the study's settings, are no verdicts."""
    if row.need("event", "event") != "tell":
        return
    first, second = (Item(row.name(side, side)) for side in ("first", "second"))
    p_first = row.find("p_first", "p_first")
    if p_first is not None:
        p_first = float(p_first)
    elif "winner" in row.values:
        p_first = as_code(row.need("winner", "winner"), WORDS, "winner")
    judge = row.find("judge", "judge")
    yield Verdict(row.name("pool", "pool"), first, second, p_first, judge, shown=True)


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("chatbot_arena", "Chatbot Arena battles", _is_arena, _arena, "columns"),
        Format(
            "mt_bench",
            "MT-Bench judgments of pairs",
            _has("question_id", "model_1", "model_2", "g1_winner", "g2_winner"),
            _mt_bench,
            "recorded",
        ),
        Format(
            "mt_bench_human",
            "MT-Bench human judgments",
            _is_mt_bench_human,
            _mt_bench_human,
            "unknown",
        ),
        Format(
            "alpaca_eval",
            "AlpacaEval annotations",
            _has("instruction", *OUTPUTS, "generator_1", "generator_2", "preference"),
            _alpaca_eval,
            "unknown",
            graded=True,
        ),
        Format("arena_hard", "Arena-Hard judgments", _is_arena_hard, _arena_hard, "recorded"),
        Format(
            "llmbar",
            "LLMBar results",
            _has("input", *OUTPUTS, "label", "results"),
            _llmbar,
            "recorded",
        ),
        Format(
            "judgebench",
            "JudgeBench outputs",
            _has("pair_id", *RESPONSES, "label", "judgments"),
            _judgebench,
            "recorded",
        ),
        Format(
            "comparia",
            "compar:IA votes",
            _has("model_a_name", "model_b_name", "chosen_model_name", "both_equal"),
            _comparia,
            "unknown",
        ),
        Format("study", "Journal of a study", _is_study, _study, "recorded"),
        Format("generic", "Table of your own", generic.recognises, generic.records, "unknown"),
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
