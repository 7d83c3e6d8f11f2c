"""Formats whose records are not one pair each: logs of evaluation harnesses, which rate single
answers, lists of answers, judges in columns, and a matrix of wins."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jbt.own.formats import texts
from jbt.own.formats.columns import CHOSEN, NAMES, STEMS, Keys
from jbt.own.formats.given import USUAL
from jbt.own.formats.ratings import BY_RANK, BY_SCORE
from jbt.own.formats.records import (
    Anchor,
    Format,
    Game,
    Item,
    Layout,
    Rating,
    Record,
    Refused,
    Row,
    Verdict,
    as_name,
    as_number,
    as_word,
    brief,
    digest,
    joined,
    outside,
)
from jbt.own.tables.outcomes import ALL, CODES, read_winner

HOW = " (the higher is better)"

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "true": 1.0, "false": 0.0}
"""Inspect's grades: correct, partial, incorrect, no answer."""


def _score(value: Any, key: str, grades: Mapping[str, float | None] = GRADES) -> float | None:
    """A number, a truth value or a grade; None for a failure.

    Raises:
      Refused: something else.
    """
    code = as_word(value)
    if value is None or code in grades:
        return grades.get(code)
    number = as_number(value)
    if not math.isfinite(number):
        raise outside(key, value, ", ".join(["numbers", *grades, "null"]))
    return number


def _object(value: Any) -> Mapping[str, Any]:
    """An object; an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _within(row: Row, role: str, key: str, name: str) -> Any:
    """A value within an object; None where it is not there."""
    return _object(row.need(role, key, f".{name}")).get(name)


# Inspect: a sample of a log (`sources` adds the log's `eval`), with the scores of its scorers,
# which rate the model's answer or compare two, whose models the metadata name.

COMPARED = ("model_a", "model_b")
BASELINE = "baseline"


def _is_inspect(values: Mapping[str, Any]) -> bool:
    return "model" in _object(values.get("eval")) and {"id", "scores"} <= values.keys()


def _inspect(row: Row) -> Iterator[Record]:
    model = as_name(_within(row, "item", "eval", "model"), "eval.model")
    task = as_name(_within(row, "pool", "eval", "task"), "eval.task")
    pool = f"{task}/{row.name('pool', 'id')}"
    text = None
    if "output" in row.values and row.values.get("epoch") in (None, 1):  # others: other answers
        text = _text(_within(row, "texts", "output", "completion"))
    scores = row.values.get("scores")  # a sample that failed has none
    if scores is not None and not isinstance(scores, Mapping):
        raise outside("scores", scores, "an object")
    if not scores:
        row.note("left out", "scores", " (none in samples that failed)")
        return
    row.note("judge", "scores", " (scorers)")
    item = Item(model, model, text)
    for scorer, score in scores.items():
        key = f"scores.{scorer}.value"
        score = score if isinstance(score, Mapping) else {"value": score}
        facts = {**_object(row.values.get("metadata")), **_object(score.get("metadata"))}
        parts = score.get("value")
        for part, value in parts.items() if isinstance(parts, Mapping) else [(None, parts)]:
            judge = as_name(scorer if part is None else f"{scorer}/{part}", "a scorer")
            if set(COMPARED) <= facts.keys():
                names = _two([as_name(facts[side], f"metadata.{side}") for side in COMPARED])
                row.note("winner", "scores", f".*.value of {' and '.join(COMPARED)} (metadata)")
                first, second = (item if name == model else Item(name, name) for name in names)
                yield Verdict(pool, first, second, _winner(value, names, key), judge, False)
            elif BASELINE in facts:
                name, _ = _two([as_name(facts[BASELINE], f"metadata.{BASELINE}"), model])
                row.note("winner", "scores", f".*.value, 1 over the {BASELINE} (metadata)")
                share = _score(value, key)
                if not 0 <= (share or 0) <= 1:
                    raise outside(key, value, ", ".join(["0 to 1", *GRADES]))
                yield Verdict(pool, item, Item(name, name), share, judge, False)
            else:
                row.note("winner", "scores", f".*.value{HOW}")
                yield Rating(pool, item, _score(value, key), judge)


def _two(models: list[str]) -> list[str]:
    """Check that two models differ."""
    if models[0] == models[1]:
        raise Refused(f"{brief(models[0])} is compared with itself, allowed: two models")
    return models


def _winner(value: Any, names: Sequence[str], key: str) -> float | None:
    """The share that the first of two models won, by a word for it or its name; None: a failure."""
    try:
        return None if value is None else read_winner(str(value), names[0], names[1], CODES)
    except (KeyError, ValueError) as error:
        raise outside(key, value, f"A, B, tie, error, {' or '.join(names)}") from error


# promptfoo: a result of an evaluation, of one provider and prompt on one test.

ERROR = 2
"""`failureReason` of a result that promptfoo could not grade."""


def _promptfoo(row: Row) -> Iterator[Record]:
    provider = row.need("item", "provider")
    if isinstance(provider, Mapping):
        provider = provider.get("label") or provider.get("id")
    model = as_name(provider, "provider")
    variables = json.dumps(row.need("pool", "vars"), sort_keys=True)
    # `promptIdx` counts the prompts of all providers of a test: it differs between providers.
    prompt = row.find("pool", "promptId") or row.find("pool", "prompt") or ""
    if isinstance(prompt, Mapping):  # what tells the prompts of a test apart where they have no id
        prompt = prompt.get("label") or prompt.get("raw")
    output = _within(row, "texts", "response", "output") if row.values.get("response") else None
    score = _score(row.need("winner", "score", HOW), "score")
    failed = row.values.get("failureReason") == ERROR
    item = Item(model, model, _text(output))
    yield Rating(digest(variables, str(prompt)), item, None if failed else score, "promptfoo")


# lm-evaluation-harness: a document of a task and what its metrics say about one model, after which
# the file's folder is called.

METRICS = ("exact_match", "acc", "acc_norm", "f1", "bleu", "rouge1", "pass@1", "em")


def _lm_eval(row: Row) -> Iterator[Record]:
    model = as_name(row.file.resolve().parent.name.replace("__", "/"), "the folder")
    task = as_name(re.sub(r"^samples_|_\d{4}-\d\d-\d\dT[^_]*$", "", row.source), "the file")
    row.note("item", "the file's folder")
    pool = f"{task}/{row.name('pool', 'doc_id')}"
    metrics = row.values.get("metrics")
    metrics = metrics if isinstance(metrics, list) else [m for m in METRICS if m in row.values]
    if not metrics:
        raise Refused(f"no metric here ({', '.join(METRICS)}); keys are {row.keys()}")
    answer = row.values.get("resps")
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    text = _text(answer)  # of a choice, the choices' likelihoods
    if text is not None:
        row.note("texts", "resps")
    by = row.values.get("filter")
    filtered = f",{by}" if isinstance(by, str) and by != "none" else ""
    for metric in metrics:
        name = as_name(metric, "metrics")
        row.note("judge", name, " (its name)")
        score = _score(row.need("winner", name, HOW), name)
        yield Rating(pool, Item(model, model, text), score, as_name(f"{name}{filtered}", "filter"))


# RewardBench 2: the best of n answers, of which the first (or those called chosen) are correct.

SCORES = (("scores_chosen", "scores_rejected"), ("scores",))
"""Keys of the scores of all answers, the chosen ones first."""


def _is_best_of_n(values: Mapping[str, Any]) -> bool:
    chosen = values.get("chosen")
    if isinstance(values.get("scores"), list) and "num_correct" in values:
        return True
    is_list = isinstance(chosen, list) and not any(isinstance(c, Mapping) for c in chosen)
    return is_list and "rejected" in values


def _best_of_n(row: Row) -> Iterator[Record]:
    """Every answer's score, and labels: each chosen answer is better than each rejected one."""
    pool, judge = row.name_or_number("id"), row.optional_name("judge", "model", "reward_model")
    if "chosen" in row.values:
        sides = [row.need("texts", key) for key in CHOSEN]
        if not all(isinstance(side, list) and side for side in sides):
            raise outside("[chosen, rejected]", sides, "lists of answers")
        written, n_chosen = [*sides[0], *sides[1]], len(sides[0])
    else:
        n_chosen = row.need("anchors", "num_correct", " (the first)")
        written = row.find("texts", "text")
    scores = _scores_of_n(row)
    if not isinstance(written, list):
        written = [None] * len(scores or ())
    n, n_scores = len(written), len(scores or ())
    if (
        not isinstance(n_chosen, int)
        or not 0 < n_chosen < n
        or n_scores != n * (scores is not None)
    ):
        given = f"{n_chosen} of {n} answers chosen, {n_scores} scores"
        raise Refused(f"{given}: needs some of each, and a score for each answer")
    items = []
    for i, text in enumerate(written):
        name = f"chosen_{i + 1}" if i < n_chosen else f"rejected_{i + 1 - n_chosen}"
        items.append(Item(name, None, _text(text), by_place=True))
    better = [(a, b) for a in items[:n_chosen] for b in items[n_chosen:]]
    if scores is None:
        row.note("winner", "chosen", " (this says which was preferred; no score is in the file)")
        yield from (Verdict(pool, a, b, 1.0, judge, False, 2 / n) for a, b in better)
        return
    if "chosen" in row.values:
        row.note("anchors", "chosen", " (the better ones)")
    yield from (Rating(pool, *rated, judge) for rated in zip(items, scores, strict=True))
    yield from (Anchor(pool, a.name, b.name) for a, b in better)


def _scores_of_n(row: Row) -> list[float | None] | None:
    """The scores of the chosen and the rejected answers, one after the other; None without any."""
    scores: list[float | None] = []
    for keys in SCORES:
        for key in keys if {*keys} <= row.values.keys() else ():
            values = row.need("winner", key, HOW)
            for value in values if isinstance(values, list) else [values]:
                one = value[0] if isinstance(value, list) and len(value) == 1 else value
                scores.append(_score(one, key, {}))
        if {*keys} <= row.values.keys():
            return scores
    if unread := {"results", "result"} & row.values.keys():
        what = "says whether the best was chosen, not which won: scores of all answers are needed"
        raise Refused(f"{unread.pop()} {what}")
    return None


# A prompt's answers in a list, each with its ratings or its rank, as objects (UltraFeedback, with
# several criteria; Nectar) or as lists of the same length (distilabel).

LISTS = ("completions", "answers", "responses", "generations", "candidates", "outputs")
MODELS = ("models", "generation_models", "model_names", "generators")
RATED = {"ratings": BY_SCORE, "scores": BY_SCORE, "ranks": BY_RANK}
RATED |= dict.fromkeys(NAMES["rating"], BY_SCORE) | dict.fromkeys(NAMES["ranks"], BY_RANK)
UNRATED: dict[str, float | None] = {"N/A": None}


def _listed_answers(
    values: Mapping[str, Any],
) -> tuple[str, list[str], list[Mapping[str, Any]]] | None:
    """The key of a list of answers, those of lists beside it if it holds texts, and each answer
    with what is said about it; None without."""
    key = next((key for key in LISTS if isinstance(values.get(key), list) and values[key]), None)
    if key is None:
        return None
    answers: list[Any] = values[key]
    beside = [name for name in (*MODELS, *RATED) if isinstance(values.get(name), list)]
    if any(isinstance(answer, Mapping) for answer in answers):
        beside = []
    if beside:
        if RATED.keys().isdisjoint(beside) or any(len(values[n]) != len(answers) for n in beside):
            return None
        names = ["text", *("model" if name in MODELS else name for name in beside)]
        rows = zip(answers, *(values[name] for name in beside), strict=True)
        answers = [dict(zip(names, row, strict=True)) for row in rows]
    rated = (not {*RATED, "annotations"}.isdisjoint(_object(answer)) for answer in answers)
    return (key, beside, answers) if all(rated) else None


def _answer_list(row: Row) -> Iterator[Record]:
    found = _listed_answers(row.values)
    if found is None and any(row.values.get(key) == [] for key in LISTS):
        return  # a prompt without answers
    if found is None:
        raise Refused(f"no list of rated answers here; keys are {row.keys()}")
    key, beside, answers = found
    row.note("texts" if beside else "item", key)
    for name in beside:
        row.note("item" if name in MODELS else "winner", name)
    pool = (Keys(USUAL, tuple(row.values)).pool(USUAL) or Row.numbered)(row)
    judge = row.optional_name("judge", *NAMES["judge"])
    for place, answer in enumerate(answers, 1):
        model = next((answer[name] for name in NAMES["item"] if answer.get(name)), None)
        text = _text(next((answer[name] for name in STEMS["texts"] if name in answer), None))
        if model is None:
            item = Item(f"answer_{place}", None, text, by_place=True)
        else:
            model = as_name(model, f"the model in {key}")
            item = Item(row.apart(pool, model, text), model, text)
        criteria = _object(answer.get("annotations"))
        rated: list[Any] = [(n, BY_SCORE, _object(v).get("Rating")) for n, v in criteria.items()]
        if not rated:
            name = next(name for name in RATED if name in answer)
            rated = [(None, RATED[name], answer[name])]
        for criterion, (sign, how), value in rated:
            if not beside:
                row.note("winner", key, how)
            score = _score(value, f"a rating in {key}", UNRATED)
            score = score if score is None else sign * score
            yield Rating(pool, item, score, joined(judge, criterion))


# PandaLM: two models, joined in a key, and three annotators in columns.

PANDALM_CODES = {"0": 0.5, "1": 1.0, "2": 0.0, None: None}


def _pandalm_games(row: Row, names: Sequence[str]) -> Iterator[Game]:
    for key in [key for key in row.values if re.fullmatch(r"annotator\d+", key)]:
        row.note("judge", key, " (its name)")
        yield Game(row.code(key, PANDALM_CODES), shown=False, judge=key)


PANDALM = Layout(
    pool=lambda row: digest(row.need("pool", "instruction"), row.text("input", "pool") or ""),
    keys=("cmp_key: first", "cmp_key: second"),
    texts=("response1", "response2"),
    judge=lambda row: None,
    games=_pandalm_games,
)


def _pandalm(row: Row) -> Iterator[Record]:
    models = row.name("item", "cmp_key").split("_")
    if len(models) != 2:
        raise outside("cmp_key", row.values["cmp_key"], "MODEL_MODEL")
    named = dict(zip(PANDALM.keys, models, strict=True))
    yield from PANDALM.records(replace(row, values={**row.values, **named}))


# A matrix of wins: how often the row's item beat the column's.


def _is_matrix(values: Mapping[str, Any]) -> bool:
    one, *wins = values.values()
    is_named = len(wins) > 1 and isinstance(one, str) and one in list(values)[1:]
    return is_named and all(as_number(n) >= 0 for n in wins if n is not None)


def _matrix(row: Row) -> Iterator[Record]:
    key, *names = row.values
    one = as_name(row.values[key], key or "the first column")
    row.note("first", key, "" if key else "(the first column)")
    if one not in names:
        raise Refused(f"{brief(one)} is no column: a matrix of wins has the same rows and columns")
    for name in names:
        row.note("second", name)
        wins = texts.as_count(row.need("count", name) or 0, f"{one} against {name}")
        if wins % 0.5:
            raise Refused(f"{one} against {name} is {wins:g}, allowed: counts of wins, no shares")
        if wins and name == one:
            raise Refused(f"{brief(one)} beat itself {wins:g} times")
        if wins:
            items = Item(one), Item(as_name(name, "a column"))
            yield Verdict(ALL, *items, 1.0, None, False, wins)


FORMATS = (
    Format("inspect", "Inspect logs", _is_inspect, _inspect),
    Format(
        "promptfoo",
        "promptfoo results",
        {"provider", "vars", "score", "success"}.issubset,
        _promptfoo,
    ),
    Format(
        "lm_eval",
        "lm-evaluation-harness samples",
        {"doc_id", "doc", "filtered_resps"}.issubset,
        _lm_eval,
    ),
    Format(
        "answer_list",
        "Lists of rated answers",
        lambda values: _listed_answers(values) is not None,
        _answer_list,
    ),
    Format("best_of_n", "RewardBench 2 results", _is_best_of_n, _best_of_n),
    Format(
        "pandalm",
        "PandaLM annotations",
        {"cmp_key", "instruction", "response1", "response2"}.issubset,
        _pandalm,
    ),
    Format("win_matrix", "Matrices of wins", _is_matrix, _matrix),
)
