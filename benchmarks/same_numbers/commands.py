"""The commands that are recorded: a name and the words after `jbt`.

Each is run in a folder of its own. `{data}` is $JBT_DATA, `{in}` the folder of `inputs`; `{prd}`
and the like are the options for a data set's tables. A list is several commands, run in turn.
"""

from __future__ import annotations

import os
from pathlib import Path

LOG = "--covariates words --transform log"
LLMBAR = "--covariates words markdown"
ALPACA = "--covariates words --transform log1p"
REPORT = " --json answer.json --out report"
JSON = " --json answer.json"
MERGED = " --merge-pools"

READING = {
    "example": "example tables",
    "import_alpaca_eval": "import {data}/raw/alpaca_eval_annotations.json --out tables" + JSON,
    "import_llmbar": "import {data}/raw/llmbar_swap_result.json --out tables" + JSON,
    "import_mt_bench": "import {in}/gpt-4_pair.jsonl --out tables" + JSON,
    "import_arena_hard": "import {in}/arena.jsonl --judge g --out tables" + JSON,
    "import_generic": (
        "import {in}/generic.csv --first left --second right --winner choice --pool prompt "
        "--judge-column by --map 1=first,2=second,0=tie --texts answer_left answer_right "
        "--out tables" + JSON
    ),
    "import_swapped": (
        "import {in}/swapped.csv --first a --second b --winner verdict --swapped verdict_swapped "
        "--swapped-codes shown --map A=first,B=second,C=tie --pool q --out tables" + JSON
    ),
    "import_scores": "import {in}/scores.csv --first a --second b --scores sa sb --out tables"
    + JSON,
    "doctor_example": "doctor {example} " + LOG + REPORT,
    "doctor_prd": "doctor {prd} " + LOG + REPORT,
    "doctor_llmbar": "doctor {llmbar} " + LLMBAR + REPORT,
    "doctor_alpaca_eval": "doctor {alpaca_eval} " + ALPACA + REPORT,
    "doctor_chain": "doctor --verdicts {in}/chain.csv" + REPORT,
    "judge_example": "judge {example} " + LOG + REPORT,
    "judge_prd": "judge {prd} --verbose " + LOG + REPORT,
    "judge_llmbar": "judge {llmbar} " + LLMBAR + REPORT,
    "judge_alpaca_eval": "judge {alpaca_eval} " + ALPACA + REPORT,
}
FITS = {
    "fit_example": "fit {example} --k 2 --per-pool --verbose " + LOG + REPORT,
    "fit_prd": "fit {prd} " + LOG + REPORT,
    "fit_prd_merged": "fit {prd} --verbose " + LOG + MERGED + REPORT,
    "fit_prd_joint": "fit {prd} --joint --content none " + LOG + REPORT,
    "fit_prd_reference": "fit {prd} --joint --reference gpt4 --content none " + LOG + REPORT,
    "fit_one_judge": "fit {prd} --judge gpt4 --lam 1 --position yes " + LOG + REPORT,
    "fit_llmbar": "fit {llmbar} " + LLMBAR + MERGED + REPORT,
    "fit_alpaca_eval": "fit {alpaca_eval} " + ALPACA + MERGED + REPORT,
    "fit_example_joint": "fit {example} --joint --content none --verbose " + LOG + REPORT,
    "fit_example_graded": (
        "fit {example} --joint --discrimination magpie=1 --content none " + LOG + REPORT
    ),
    "fit_no_covariates": "fit --verdicts {in}/chain.csv" + REPORT,
    "identify_example": "identify {example} --verbose " + LOG + REPORT,
    "identify_prd": "identify {prd} " + LOG + REPORT,
    "identify_prd_merged": "identify {prd} " + LOG + MERGED + REPORT,
    "identify_llmbar": "identify {llmbar} " + LLMBAR + MERGED + REPORT,
    "identify_example_joint": "identify {example} --joint --content none " + LOG + REPORT,
    "identify_prd_joint": "identify {prd} --joint " + LOG + REPORT,
}
BOARDS = {
    "leaderboard_example": "leaderboard {example} --verbose " + LOG + REPORT,
    "leaderboard_prd": "leaderboard {prd} --robust " + LOG + REPORT,
    "leaderboard_prd_joint": "leaderboard {prd} --joint " + LOG + REPORT,
    "leaderboard_one_judge": "leaderboard {prd} --judge gpt4 --against vicuna-13b " + LOG + REPORT,
    "leaderboard_davidson": "leaderboard {prd} --ties davidson --verbose " + LOG + REPORT,
    "leaderboard_relative": "leaderboard {prd} --difference relative --covariates words" + REPORT,
    "leaderboard_interaction": "leaderboard {prd} --interaction --judge gpt4 " + LOG + REPORT,
    "leaderboard_judge_aware": "leaderboard {prd} --joint --judge-aware --verbose " + LOG + REPORT,
    "leaderboard_ppi": "leaderboard {prd} --beside ppi " + LOG + REPORT,
    "leaderboard_alpaca_eval": "leaderboard {alpaca_eval} --robust " + ALPACA + REPORT,
    "leaderboard_chain": "leaderboard --verdicts {in}/chain.csv --verbose" + REPORT,
}
DECISIONS = {
    "gate_example": "gate {example} --verbose " + LOG + REPORT,
    "gate_prd": "gate {prd} " + LOG + REPORT,
    "gate_llmbar": "gate {llmbar} --per-pool " + LLMBAR + REPORT,
    "gate_example_betting": "gate {example} --rule sign_sequential " + LOG + REPORT,
    "replay_prd": "replay {prd} --seeds 2 " + LOG + REPORT,
    "replay_llmbar": "replay {llmbar} --seeds 1 --rules random round_robin " + LLMBAR + REPORT,
    "plan_labels": "plan labels {example} --k 2 --labels swaps --out ask.csv " + LOG + JSON,
    "plan_labels_prd": "plan labels {prd} --out ask.csv " + LOG + JSON,
    "plan_prompts": "plan prompts {example} " + LOG + REPORT,
    "plan_prompts_prd": (
        "plan prompts {prd} --better gpt4 --worse vicuna-13b --judge gpt4 " + LOG + REPORT
    ),
    "plan_pairing": "plan pairing --pools 32" + JSON,
    "plan_pairing_grows": (
        "plan pairing --pools 32 --interaction 0.3 --twice boundary --k 3 --seed 4" + JSON
    ),
    "plan_reference": "plan reference --pools 32" + JSON,
    "plan_gate": "plan gate --pools 64 --sets 4" + JSON,
    "study": [
        "ask s --items {example_items} --k 2 --n 4 --budget 40 --out asked.csv " + LOG,
        "tell s {in}/answers.csv",
        "ask s --n 3",
        "status s" + REPORT,
    ],
    "study_of_judges": [
        "ask s --items {example_items} --judges low high --price 1 5 --reference high --purse 60 "
        "--n 4 " + LOG,
        "tell s {in}/answers.csv",
        "status s" + REPORT,
    ],
    "help": [f"{command} --help" for command in ("", "fit", "leaderboard", "ask", "plan pairing")],
}
COMMANDS: dict[str, str | list[str]] = READING | FITS | BOARDS | DECISIONS


INPUTS = Path("../inputs")
"""The folder of inputs, as a command sees it."""


def words(command: str) -> list[str]:
    """The words of a command, with paths in the place of names."""
    data = os.environ["JBT_DATA"]
    example = INPUTS / "example"
    places = {
        "data": data,
        "in": INPUTS,
        "prd": _tables(Path(data, "prd")),
        "llmbar": _tables(Path(data, "llmbar")),
        "alpaca_eval": _tables(Path(data, "alpaca_eval"), anchors=False),
        "example": _tables(example),
        "example_items": example / "items.csv",
    }
    return command.format_map(places).split()


def _tables(folder: Path, anchors: bool = True) -> str:
    names = ("verdicts", "items", "anchors") if anchors else ("verdicts", "items")
    return " ".join(f"--{name} {folder}/{name}.csv" for name in names)
