"""Ratings of single answers and rankings as pairs, their failures and labels; logs and archives."""

import json
import zipfile

import pytest
from support.foreign_files import columns_of, records, save, save_sample

from jbt import own
from jbt.own import formats


def test_ratings_of_a_prompt_count_as_one_less_than_its_answers(tmp_path):
    """Also where some failed; those of other judges and rankings are not compared."""
    scores = {"a": 3, "b": 1, "c": 1, "d": None, "e": 2}
    rated = [{"prompt": "p", "model": m, "score": s, "rater": "x"} for m, s in scores.items()]
    rated += [{"prompt": "p", "model": "a", "score": 1, "rater": "y"}] * 2
    path = save(tmp_path, "rated.jsonl", rated)
    found = formats.collect([path])
    known = [v for v in found.verdicts if v.p_first is not None]
    assert sum(v.count for v in known) == pytest.approx(3)
    assert {(v.first, v.second): v.p_first for v in known} == {
        **{("a", other): 1.0 for other in "bce"},
        **{("b", "c"): 0.5, ("b", "e"): 0.0, ("c", "e"): 0.0},
    }
    assert found.counts["errors"] == 4
    assert "rated or ranked are not shown in pairs" in found.not_known()[0]


@pytest.mark.parametrize(
    ("scores", "failed"), [([-1, 0, 1], 0), ([-1, -2, 5], 0), ([-1, 7.5, -1], 2)]
)
def test_a_score_of_minus_one_failed_where_the_others_are_not_negative(scores, failed, tmp_path):
    row = {"model_a": "m", "model_b": "k", "score_b": min(3, max(scores))}
    rows = [{**row, "score_a": s} for s in scores]
    path = save(tmp_path, "scores.jsonl", rows)
    found = formats.collect([path])
    assert found.counts["errors"] == failed
    assert any("are read as failed" in note for note in found.notes()) == (failed > 0)
    told_so = formats.collect([path], columns=columns_of(map="-1=error"))
    assert told_so.counts["errors"] == scores.count(-1)


def test_labels_made_of_the_verdicts_are_named(tmp_path):
    row = {"chosen": "a", "rejected": "b", "score_chosen": 2, "score_rejected": 1}
    rows = [{**row, "prompt": p} for p in "pq"]
    said = "every verdict agrees with its label"
    assert any(said in n for n in formats.collect([save(tmp_path, "a.jsonl", rows)]).notes())
    rows[0]["score_chosen"] = 0
    assert not any(said in n for n in formats.collect([save(tmp_path, "b.jsonl", rows)]).notes())


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path


def test_logs_of_inspect_are_read_packed_and_as_json(tmp_path):
    logs = {}
    for record in records("inspect"):
        logs.setdefault(record["eval"]["model"], []).append(record)
    packed, plain = [], []
    for model, samples in logs.items():
        log = {"version": 2, "eval": samples[0]["eval"]}
        alone = [{k: v for k, v in sample.items() if k != "eval"} for sample in samples]
        members = {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in alone}
        start = "_journal/start.json" if packed else "header.json"
        packed.append(archive(tmp_path / f"{model}.eval", {start: log, **members}))
        plain.append(tmp_path / f"{model}.json")
        plain[-1].write_text(json.dumps({**log, "samples": alone}))
    expected = formats.collect([save_sample(tmp_path, "inspect")]).verdicts
    assert formats.collect(packed).verdicts == formats.collect(plain).verdicts == expected


def test_models_of_lm_eval_are_the_folders(tmp_path):
    paths = []
    for model, scores in {"org__m": (0.0, 1.0, 1.0), "org__k": (1.0, 0.0, 0.0)}.items():
        rows = [
            {"doc_id": n, "doc": {}, "filtered_resps": [], "filter": f, "exact_match": score}
            for n, f, score in zip((0, 1, 1), ("none", "none", "strict"), scores, strict=True)
        ]
        (tmp_path / model).mkdir()
        paths.append(save(tmp_path / model, "samples_t_2026-01-02T03-04-05.jsonl", rows))
    found = formats.collect(paths)
    assert [v[:5] for v in found.verdicts] == [
        ("t/0", "org/m", "org/k", 0.0, "exact_match"),
        ("t/1", "org/m", "org/k", 1.0, "exact_match"),
        ("t/1", "org/m", "org/k", 1.0, "exact_match,strict"),
    ]


def test_archives_and_workbooks(tmp_path):
    one = archive(tmp_path / "one.zip", {"a.csv": "model_a,model_b,winner\nm,k,tie\n"})
    assert formats.collect([one]).counts["ties"] == 1
    book = archive(tmp_path / "book.xlsx", {"[Content_Types].xml": "<a/>", "xl/workbook.xml": ""})
    with pytest.raises(own.TableError, match=r"a workbook, no table: .*save it as CSV"):
        own.read(book)
    cut, legacy = tmp_path / "cut.zip", tmp_path / "legacy.csv"
    cut.write_bytes(one.read_bytes()[:40])
    legacy.write_bytes("model_a,model_b,winner\nm\u00e9,k,tie\n".encode("cp1252"))
    bomb = archive(tmp_path / "bomb.zip", {"a.csv": "0" * 80_000_000})
    for path, message in (
        (book, r"several files \(or a workbook: save it as CSV\)"),
        (cut, "cannot be unpacked"),
        (bomb, "unpacks to more than 100 times its size"),
        (legacy, r"line 2: not text in UTF-8.*: save it as CSV in UTF-8"),
    ):
        with pytest.raises(own.TableError, match=message):
            formats.collect([path])
