"""Make small tables for a user to start from.

Four models answer twelve questions, one of them at two lengths for every other question; two judges
see every pair in both orders, and one of them favours length.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

MODELS = {"amber": (1.5, 160), "birch": (0.2, 320), "cedar": (1.0, 120), "dune": (-1.0, 240)}
"""Quality, in logits, and typical number of words of an answer."""

JUDGES = {"magpie": (1.0, 0.3), "heron": (0.1, 0.0)}
"""Biases, in logits: for each doubling of an answer's words, and for the answer shown first."""

QUESTIONS = 12

TIE = 0.08
"""Share of verdicts that are ties: those whose random draw is close to the chance of winning."""


def example(seed: int = 0) -> dict[str, pd.DataFrame]:
    """Tables `verdicts`, `items` and `anchors`, the same for the same seed."""
    rng = np.random.default_rng(seed)
    items, verdicts, anchors = [], [], []
    for question in range(QUESTIONS):
        pool, answers = f"q{question + 1:02d}", _answers(rng, twice=question % 2 == 0)
        items += [
            {"pool": pool, "item": name, "content": model, "words": words, "quality": f"{q:.2f}"}
            for name, (model, words, q) in answers.items()
        ]
        for judge in JUDGES:
            verdicts += [
                {"pool": pool, "judge": judge, "first": a, "second": b, "winner": winner}
                for a, b in itertools.permutations(answers, 2)
                # The last question was shown to one judge in one order only.
                if (judge == "magpie" or question < QUESTIONS - 1 or a < b)
                and (winner := _winner(rng, judge, answers[a], answers[b]))
            ]
        ranked = sorted(MODELS, key=lambda model, answers=answers: -answers[model][2])
        neighbours = itertools.pairwise(ranked)
        anchors += [{"pool": pool, "better": a, "worse": b} for a, b in neighbours]
    verdicts[37]["winner"] = "error"
    tables = {"verdicts": verdicts, "items": items, "anchors": anchors}
    return {name: pd.DataFrame(rows) for name, rows in tables.items()}


def _answers(rng: np.random.Generator, *, twice: bool) -> dict[str, tuple[str, int, float]]:
    """Model, words and quality of each answer to one question, by its name."""
    answers = {}
    for model, (quality, words) in MODELS.items():
        length = round(words * 2 ** rng.uniform(-1, 1))
        answers[model] = model, length, quality + rng.uniform(-0.5, 0.5)
    if twice:
        model, length, quality = answers["birch"]
        answers["birch-long"] = model, 2 * length, quality
    return answers


def _winner(
    rng: np.random.Generator,
    judge: str,
    first: tuple[str, int, float],
    second: tuple[str, int, float],
) -> str:
    bias, position = JUDGES[judge]
    logit = first[2] - second[2] + bias * np.log2(first[1] / second[1]) + position
    margin = 1 / (1 + np.exp(-logit)) - rng.uniform()
    return "tie" if abs(margin) < TIE / 2 else "first" if margin > 0 else "second"
