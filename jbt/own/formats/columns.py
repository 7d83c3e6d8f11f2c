"""Usual names of the columns of a table of the user's own, compared without regard to case, and
with spaces and hyphens as underscores."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from jbt.own.formats.given import GenericColumns
from jbt.own.formats.records import Refused, Row, digest


def _lists(*names: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(listed.split()) for listed in names)


def _by_role(**names: str) -> dict[str, tuple[str, ...]]:
    return {role: tuple(listed.split()) for role, listed in names.items()}


ONE_LINE = 40
"""Most characters of a prompt that names its pool; a longer one is named by a digest."""

ENDS = _lists("a b", "1 2", "0 1", "left right", "first second", "x y", "chosen rejected")
ENDS += _lists("model_a model_b")
"""What tells the two columns of a pair apart: `STEM_a` and `STEM_b`, `STEM1`, `left_STEM`, ..."""

FORMS = ("{stem}_{end}", "{stem}{end}", "{end}_{stem}")

WON = ("winner", "loser")
"""Items of which the first won."""

CHOSEN = ("chosen", "rejected")
"""Texts of which the first is better."""

PLAIN = (*_lists("first second", "left right"), WON)
"""Pairs of columns with the items' names that are called by the side alone."""

(COUNTS,) = _lists("words tokens length chars len n_words word_count n_tokens")

STEMS = _by_role(
    items="model generator item system candidate assistant player team model_name",
    texts="response answer output completion text reply generation summary",
    scores="score rating grade scores reward",
    probability="prob probability p probs",
    logprobs="logprob log_prob logprobs logp logit",
    wins="win wins n_wins win_count",
)
"""Usual names of pairs of columns, without what tells the two apart."""

NAMES = _by_role(
    pool="pool question_id prompt_id instruction_id task_id qid doc_id query_id",
    prompt="prompt question instruction query input topic",
    judge="judge judge_model annotator evaluator rater",
    winner="winner preference preferred verdict choice decision better outcome judgment judgement "
    "vote label",
    result="results result correct is_correct",
    ties="ties tie draws draw",
    count="count weight freq frequency",
    item="model model_name model_id generator system system_id assistant",
    rating="score rating grade overall_score",
    ranking="ranking ranked rank_order",
    ranks="rank",
)
"""Usual names of columns."""

OPTIONS = {
    "items": "--first --second",
    "prompt": "--pool",
    "judge": "--judge-column",
    "winner in the other order": "--swapped",
}
"""The option that names the column or columns of a role; else it is called as the role."""


def plain(key: str) -> str:
    """A column's name as it is compared with usual ones: `Prompt ID` is prompt_id."""
    return re.sub(r"[ -]+", "_", key.strip().casefold())


class NoVerdicts(Refused):
    """A record in which nothing names two items, or nothing says who won."""


class NoWinner(NoVerdicts):
    """A record in which two items are named, and nothing says who won."""


class Keys:
    """The columns of a table, and those that the user named."""

    def __init__(self, given: GenericColumns, keys: tuple[str, ...]):
        """Raises `Refused` where a named column is missing."""
        self.keys = keys
        self.written = {plain(key): key for key in keys}
        self.shown = ", ".join(map(repr, keys[:12]))
        for key in given.named():
            if key not in keys:
                like = difflib.get_close_matches(plain(key), self.written, 1)
                hint = f"; did you mean {self.written[like[0]]!r}?" if like else ""
                raise Refused(f"no {key!r} here; keys are {self.shown}{hint}")

    def usual(self, *names: str) -> list[str]:
        """Those of these names that are there."""
        return [self.written[name] for name in names if name in self.written]

    def first(self, role: str) -> str | None:
        """The first usual name of a role that is there."""
        return next(iter(self.usual(*NAMES[role])), None)

    def one(self, role: str) -> str | None:
        """The one usual name of a role that is there; `Refused` if there are several."""
        return only(role, self.usual(*NAMES[role]))

    def pairs(self, *stems: str) -> list[tuple[str, str]]:
        """Pairs of columns with these stems."""
        names = [
            [form.format(stem=stem, end=end) for end in ends]
            for stem, ends, form in itertools.product(stems, ENDS, FORMS)
        ]
        there = self.written
        return [(there[a], there[b]) for a, b in names if a in there and b in there]

    def pair(self, role: str) -> tuple[str, str] | None:
        """The one usual pair of a role."""
        return only(role, self.pairs(*STEMS[role]))

    def halves(self, role: str) -> list[tuple[str, str]]:
        """Where one of a pair has a column: it, and the name that is missing."""
        halves = []
        for stem, ends in itertools.product(STEMS[role], ENDS):
            pair = [f"{stem}_{end}" for end in ends]
            if len(there := self.usual(*pair)) == 1:
                halves.append((there[0], pair[plain(there[0]) == pair[0]]))
        return halves

    def first_half(self) -> tuple[str, ...]:
        """The one column of a probability, called so or like the first of a pair."""
        halves = self.halves("probability")
        first = [there for there, missing in halves if plain(there) < missing]
        named = self.usual("probability", "prob", "win_probability")
        return tuple(filter(None, [only("probability", [*named, *first])]))

    def pool(self, given: GenericColumns) -> Callable[[Row], str] | None:
        """Reads the pool's name, else the prompt; None without a column for it."""
        pool, further = given.pool or self.first("pool"), None
        prompts = [] if pool else self.usual(*NAMES["prompt"])
        if [plain(name) for name in prompts] == ["instruction", "input"]:  # Alpaca's form
            further = prompts.pop()
        column = pool or only("prompt", prompts)
        if column is None:
            return None

        def read(row: Row) -> str:
            text = row.need("pool", column)
            if isinstance(text, list | dict):  # turns of a conversation
                return digest(json.dumps(text, sort_keys=True))
            if further and row.find("pool", further):
                return digest(text, row.need("pool", further))
            is_long = isinstance(text, str) and len(text) > ONE_LINE
            return digest(text) if pool is None and is_long else row.name("pool", column)

        return read


def only(role: str, candidates: Sequence[Any]) -> Any:
    """The one candidate for a role; None without any.

    Raises:
      Refused: there are several.
    """
    if len(candidates) > 1:
        shown = " or ".join(" and ".join(c) if isinstance(c, tuple) else c for c in candidates)
        raise Refused(f"the {role} may be in {shown}: say which ({OPTIONS.get(role, f'--{role}')})")
    return candidates[0] if candidates else None
