"""The known formats: which keys a record has, and how it is read.

Of each format `recognises` looks at the first record of a file, and a `Layout` says where a record
has what; anything outside the format is refused, and nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from jbt.own.formats import generic, logs, mt_bench, texts
from jbt.own.formats.mt_bench import ARENA_ALONE
from jbt.own.formats.records import (
    Answer,
    Codes,
    Format,
    Game,
    Item,
    Layout,
    Record,
    Refused,
    Row,
    as_code,
    as_name,
    as_number,
    as_truth,
    brief,
    digest,
    one_hot,
    outside,
)
from jbt.own.tables.outcomes import WORDS


def _conversation(row: Row, key: str) -> str | None:
    """The assistant's part of a conversation."""
    messages = row.find("texts", key)
    return None if messages is None else "\n".join(texts.answers(messages, key))


def _both_games(row: Row, key: str, code: str, codes: Codes) -> Iterator[Game]:
    """One or two games in a list, each with a code: the first answer is shown first in the first
    of them, the second in the second."""
    games = row.need("winner", key, f"[].{code}")
    if not isinstance(games, list) or not all(isinstance(g, Mapping | None) for g in games):
        raise outside(key, games, "a list of objects")
    if len(games) not in (1, 2):
        raise Refused(f"{len(games)} {key}, allowed: 1 or 2")
    for number, game in enumerate(games):
        value = (game or {}).get(code)
        p_first = as_code(value, codes, f"{key}[{number}].{code}")
        strong = isinstance(value, str) and re.search(">>|<<", value)
        yield Game(p_first, number == 1, count=row.strong_weight if strong else 1)


# Chatbot Arena: votes of visitors between two anonymous models, left (a) and right (b). Three
# releases: 100k (and FastChat's cleaned battles before it), 140k, and 55k, a CSV file whose winner
# is one-hot.

ARENA = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5, "both_bad": 0.5}
ARENA_ONE_HOT = {"winner_model_a": 1.0, "winner_model_b": 0.0, "winner_tie": 0.5}
CONVERSATIONS = ("conversation_a", "conversation_b")


def _is_arena(values: Mapping[str, Any]) -> bool:
    keys = values.keys()
    if not {"model_a", "model_b"} <= keys:
        return False
    if {"winner", "judge", "turn"} <= keys and not ARENA_ONE_HOT.keys() <= keys:
        return bool(ARENA_ALONE & keys)
    signs = {"conversation_a", "conv_metadata", "anony", "tstamp"}
    return ARENA_ONE_HOT.keys() <= keys or ("winner" in keys and bool(signs & keys))


def _arena_text(row: Row, key: str) -> str | None:
    text = _conversation(row, key)
    if text is None and (reply := row.text(f"response_{key[-1]}")) is not None:
        text = texts.replies(reply)
    return text


def _arena_counts(row: Row, side: int) -> Mapping[str, float]:
    metadata, end = row.find("counts", "conv_metadata"), "ab"[side]
    if not isinstance(metadata, Mapping):
        return {}
    return texts.style(metadata, f"_{end}", "conv_metadata", f"sum_assistant_{end}_tokens")


def _arena_games(row: Row, names: Sequence[str]) -> list[Game]:
    is_one_hot = ARENA_ONE_HOT.keys() <= row.values.keys()
    return [Game(one_hot(row, ARENA_ONE_HOT) if is_one_hot else row.code("winner", ARENA))]


CHATBOT_ARENA = Layout(
    pool=lambda row: row.name_or_number("question_id", "id"),
    keys=("model_a", "model_b"),
    apart="ab",
    texts=CONVERSATIONS,
    read=_arena_text,
    counts=_arena_counts,
    games=_arena_games,
)


# AlpacaEval `annotations.json`: models against one baseline, with graded preferences; all models
# that answered one instruction form a pool.

OUTPUTS = ("output_1", "output_2")


def _preference(row: Row, names: Sequence[str]) -> list[Game]:
    """A preference is 1 for the first output, 2 for the second, or between; 1.5 and 0 are ties,
    null is a failure."""
    preference = row.need("p_first", "preference")
    if preference is None:
        return [Game(None, shown=False)]
    number = as_number(preference)
    if number != 0 and not 1 <= number <= 2:
        raise outside("preference", preference, "1 to 2, 0 (a tie), null")
    return [Game(0.5 if number == 0 else round(2 - number, 12), shown=False)]


ALPACA_EVAL = Layout(
    pool=lambda row: digest(row.need("pool", "instruction")),
    keys=("generator_1", "generator_2"),
    apart="12",
    texts=OUTPUTS,
    judge=lambda row: row.optional_name("judge", "annotator"),
    games=_preference,
)


# Arena-Hard: judgments of a model against a baseline in one or two games, and the models' answers.

ARENA_HARD_CODES = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A"), 1.0),
    **dict.fromkeys(("A=B", "B=A"), 0.5),
    **dict.fromkeys(("B>A", "B>>A", "A<B", "A<<B"), 0.0),
    None: None,
}
"""Share won by A, who is shown first."""

ARENA_HARD = Layout(
    pool=lambda row: row.name("pool", "uid", "question_id"),
    keys=("baseline", "model"),
    games=lambda row, names: _both_games(row, "games", "score", ARENA_HARD_CODES),
)


def _is_arena_hard(values: Mapping[str, Any]) -> bool:
    keys = values.keys()
    judgment = {"judge", "model", "games"} <= keys and bool({"uid", "question_id"} & keys)
    return judgment or ({"uid", "model", "metadata"} <= keys and "games" not in keys)


def _arena_hard(row: Row) -> Iterator[Record]:
    """Read one game, in which the baseline is first, or two; or an answer."""
    if "games" in row.values:
        if "baseline" not in row.values:
            if row.baseline is None:
                what = "these judgments do not name the model compared with: --baseline NAME"
                raise Refused(f"{what} (gpt-4-0314 in Arena-Hard v0.1)")
            row = replace(row, values={**row.values, "baseline": row.baseline})
        yield from ARENA_HARD.records(row)
        return
    model, text = row.name("item", "model"), _conversation(row, "messages")
    metadata = row.find("counts", "metadata") or {}
    counts = texts.style(metadata, "", "metadata", "token_len")
    yield Answer(row.name("pool", "uid"), Item(model, model, text, counts))


# LLMBar `result.json`: pairs with a gold label, each judged in both orders.

SWAPS = {
    "swap = False": {"1": 1.0, "2": 0.0, None: None},
    "swap = True": {"1": 0.0, "2": 1.0, None: None},
}
"""Share won by the output shown first: output 1, or if they were swapped output 2."""


def _first_round(row: Row, names: Sequence[str]) -> Iterator[Game]:
    """Later rounds saw the first."""
    rounds = row.need("winner", "results", "[0].swap.winner")
    first = rounds[0] if isinstance(rounds, list) and rounds else None
    if not isinstance(first, Mapping) or SWAPS.keys().isdisjoint(first):
        allowed = f"a list that begins with an object with {' or '.join(SWAPS)}"
        raise outside("results", rounds, allowed)
    for swap in [swap for swap in SWAPS if swap in first]:
        key, game = f"results[0].{swap}", first[swap]
        if not isinstance(game, Mapping) or "winner" not in game:
            raise Refused(f"no winner in {key}")
        p_first = as_code(game["winner"], SWAPS[swap], f"{key}.winner")
        yield Game(p_first, swapped=swap == "swap = True")


LLMBAR = Layout(
    pool=lambda row: digest(row.need("pool", "input"), *(row.text(key) or "" for key in OUTPUTS)),
    keys=OUTPUTS,
    by_place=True,
    texts=OUTPUTS,
    judge=lambda row: None,
    gold=lambda row, names: row.code("label", {"1": 1.0, "2": 0.0}, "anchors"),
    games=_first_round,
)


# JudgeBench outputs: pairs of responses with a gold label, judged in one or both orders.

RESPONSES = ("response_A", "response_B")
DECISIONS = {"A>B": 1.0, "B>A": 0.0, "A=B": 0.5, None: None}


def _judge_of_file(row: Row) -> str | None:
    """The model that judged stands in the file's name; else the kind of judge is known."""
    key = "judge_model in the file's name"
    named = re.search(r"judge_model=([^,=]+?)(\.jsonl?)?(\.gz)?$", row.file.name)
    if named is None:
        return row.optional_name("judge", "judge_model", "judge_name")
    row.note("judge", key)
    return as_name(named[1], key)


JUDGEBENCH = Layout(
    pool=lambda row: row.name("pool", "pair_id"),
    keys=RESPONSES,
    by_place=True,
    texts=RESPONSES,
    judge=_judge_of_file,
    gold=lambda row, names: row.code("label", {"A>B": 1.0, "B>A": 0.0}, "anchors"),
    games=lambda row, names: _both_games(row, "judgments", "decision", DECISIONS),
)


# compar:IA: votes of visitors, who chose a model by name or found both equal; which model was on
# which side is not known.


def _chosen(row: Row, names: Sequence[str]) -> list[Game]:
    equal = row.need("winner", "both_equal")
    p_first = 0.5 if equal is not None and as_truth(equal, "both_equal") else None
    row.need("winner", "chosen_model_name")
    chosen = row.optional_name("winner", "chosen_model_name")
    if chosen is not None:
        if p_first is not None:
            also = f"though both_equal is {brief(equal)}"
            raise Refused(f"chosen_model_name is {brief(chosen)} {also}")
        if chosen not in names:
            raise outside("chosen_model_name", chosen, f"{', '.join(names)}, null")
        if names[0] != names[1]:  # else either may have been chosen
            p_first = float(chosen == names[0])
    return [Game(p_first, shown=False)]


COMPARIA = Layout(
    pool=lambda row: row.name_or_number("id", "conversation_pair_id"),
    keys=("model_a_name", "model_b_name"),
    apart="ab",
    texts=CONVERSATIONS,
    read=_conversation,
    judge=lambda row: None,
    games=_chosen,
)


# The journal of a study (`own.Study`): the answers among its records.


def _answer(row: Row, names: Sequence[str]) -> list[Game]:
    p_first = row.find("p_first", "p_first")
    if p_first is None and "winner" in row.values:
        return [Game(row.code("winner", WORDS))]
    return [Game(p_first if p_first is None else float(p_first))]


STUDY = Layout(
    pool=lambda row: row.name("pool", "pool"),
    keys=("first", "second"),
    of_models=False,
    games=_answer,
)


def _is_study(values: Mapping[str, Any]) -> bool:
    return values.get("event") in ("study", "ask", "tell", "lease")


def _study(row: Row) -> Iterator[Record]:
    """Read one answer; what is asked, and the study's settings, are no verdicts."""
    if row.need("event", "event") == "tell":
        yield from STUDY.records(row)


_PAIRS = (
    Format("chatbot_arena", "Chatbot Arena battles", _is_arena, CHATBOT_ARENA.records, "columns"),
    *mt_bench.FORMATS,
    Format(
        "alpaca_eval",
        "AlpacaEval annotations",
        {"instruction", *OUTPUTS, *ALPACA_EVAL.keys, "preference"}.issubset,
        ALPACA_EVAL.records,
        graded=True,
    ),
    Format("arena_hard", "Arena-Hard judgments", _is_arena_hard, _arena_hard, "recorded"),
    Format(
        "llmbar",
        "LLMBar results",
        {"input", *OUTPUTS, "label", "results"}.issubset,
        LLMBAR.records,
        "recorded",
    ),
    Format(
        "judgebench",
        "JudgeBench outputs",
        {"pair_id", *RESPONSES, "label", "judgments"}.issubset,
        JUDGEBENCH.records,
        "recorded",
    ),
    Format(
        "comparia",
        "compar:IA votes",
        {*COMPARIA.keys, "chosen_model_name", "both_equal"}.issubset,
        COMPARIA.records,
    ),
)
STUDIES = Format("study", "Journal of a study", _is_study, _study, "recorded")
OWN = Format("generic", "Table of your own", generic.recognises, generic.records)

FORMATS = {format.name: format for format in (*_PAIRS, *logs.FORMATS, STUDIES, OWN)}
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
    matches = [f for f in FORMATS.values() if f is not OWN and f.recognises(values)]
    if not matches and OWN.recognises(values):
        return OWN
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Refused(f"may be {' or '.join(f.name for f in matches)}: say which (--format)")
    keys = ", ".join(map(repr, list(values)[:12]))
    raise Refused(
        f"none of the formats known has the keys {keys}; if this is a table of your own, name its "
        "columns (--first --second --winner; of rated answers --item --rating, or --ranks)"
    )
