"""Lean frames on Warp's frontend as measured on GPUs: docs/lean.md and docs/measuring.md say what the records do."""

import json
from itertools import chain
from math import inf
from statistics import median

import pytest
from envknee.record.build import spread
from envknee.record.read import read_rows
from envknee.record.schema import Spread
from published import PUBLISHED, ROOT, gain_in_fps, peak_gb, quotients, records_of, uuid_of, verdict_of, words_of
from pytest import approx

HEADLINE = "cartpole-stock-lean-h200"


@pytest.mark.parametrize(
    ("num_envs", "card", "where", "pairs"),
    [
        (4096, "h200", "H200", 5),
        (1024, "h100", "H100", 4),
        (1024, "h100-earlier", "H100, an earlier version", 5),
        (1024, "h100-earlier-2", "H100 of another host, an earlier version", 5),
        (1024, "h200", "H200, on a busy host, an earlier version", 5),
    ],
)
def test_the_docs_say_what_measuring_lean_frames_costs(num_envs: int, card: str, where: str, pairs: int):
    docs = words_of("docs/measuring.md")
    name = f"overhead-lean-warp-{num_envs}-{card}.json"
    lean = json.loads((ROOT / "results-published" / name).read_text())
    asked, environment, ratios = lean["request"], lean["environment"], lean["ratios"]["trial / bare loop"]
    assert ratios == approx(quotients(lean["fps"]["trial"], lean["fps"]["bare loop"]))
    of_ratios = spread(ratios)
    assert of_ratios is not None and len(ratios) == pairs
    assert of_ratios == Spread.model_validate(lean["spreads"]["trial / bare loop"])
    words = "{median:.3f} times (quartiles {lower_quartile:.3f} to {upper_quartile:.3f})".format(
        **of_ratios.model_dump()
    )
    assert f"| {num_envs:,} | {where} | {pairs} | {words} | [`{name}`](../results-published/{name}) |" in docs
    assert (asked["num_envs"], asked["horizon"], asked["arm"]) == (num_envs, 32, "lean-warp")
    assert round(of_ratios.median, 2) == (0.96 if "busy" in where else 0.99)
    assert f"from {min(ratios):.3f} to {max(ratios):.3f}" in docs
    command = f"--horizon 32 --warmup {asked['warmup_iterations']} --iterations {asked['iterations']}"
    assert f'ARGS="--arm lean-warp --num-envs {num_envs} {command}"' in docs
    versions = environment["packages"]
    assert (
        f"(driver {environment['device']['driver']}, torch {versions['torch']}, Warp {versions['warp-lang']},"
        f" RSL-RL {versions['rsl-rl-lib']})" in docs
    )
    assert card.partition("-")[0].upper() in environment["device"]["name"]
    if pairs == 4:
        assert f"the median of five is at least {median([-inf, *ratios]):.3f}" in docs


def test_the_docs_say_what_lean_frames_gain_until_fps_flatten():
    docs, arms = words_of("docs/lean.md"), {arm.arm: arm for arm in verdict_of(HEADLINE).arms}
    fps = {name: {point.num_envs: point.fps for point in arm.throughput[0].points} for name, arm in arms.items()}
    for num_envs in (4096, 8192, 16384):
        stock_gb, lean_gb = (peak_gb(HEADLINE, name, num_envs) for name in ("stock", "lean-warp"))
        ratio = gain_in_fps(HEADLINE, "lean-warp", num_envs, pairs=3)
        assert (
            f"| {num_envs:,} | {fps['stock'][num_envs]:,.0f} | {fps['lean-warp'][num_envs]:,.0f} | {ratio}"
            f" | {stock_gb:.2f} | {lean_gb:.2f} |"
        ) in docs
    headlines = [arm.headline for arm in arms.values() if arm.headline is not None]
    assert [(headline.state, headline.threshold_num_envs) for headline in headlines] == [("reached", 8192)] * 2
    gpus = {arm: {uuid_of(r) for r in records_of(HEADLINE) if r.request.arm == arm} - {None} for arm in arms}
    assert [len(each) for each in gpus.values()] == [1, 1] and len(set(chain(*gpus.values()))) == 2

    shares = next(point.shares for point in arms["lean-warp"].phases[0].points if point.num_envs == 4096)
    words = "learning takes {learning:.0%} of an iteration, rendering {render:.0%}, physics {physics:.0%}, acting {inference:.0%}"
    assert words.format(**shares) in docs
    rows = [
        row
        for record in records_of(HEADLINE)
        if (record.request.arm, record.request.num_envs, record.outcome.status) == ("lean-warp", 4096, "ok")
        for row in read_rows(PUBLISHED[HEADLINE].trial(record.request.number))[2:]
    ]
    step_ms = median((row.env_step_s or 0.0) / 32 * 1e3 for row in rows)
    fine = [row.phases_s or {} for row in rows]
    on_gpu_ms = median(sum(of[name] for name in ("physics", "render", "observation")) / 32 * 1e3 for of in fine)
    assert f"An iteration takes {median(row.iteration_s or 0.0 for row in rows) * 1e3:.0f} ms." in docs
    assert (
        f"takes {step_ms:.2f} ms; physics, rendering and frames, timed on the GPU, take {on_gpu_ms:.2f} ms of that"
        in docs
    )


def test_the_docs_say_what_a_mini_batch_in_one_part_saved():
    docs = words_of("docs/lean.md")
    measured = json.loads((ROOT / "results-published/bare-loop-h100.json").read_text())
    for num_envs in (1024, 4096):
        before, now = (
            median(
                second
                for run in measured["runs"]
                if (run["num_envs"], run["version"]) == (num_envs, version)
                for second in run["iteration_s"][run["warmup_iterations"] :]
            )
            for version in ("c1506af", "f247536")
        )
        assert f"| {num_envs:,} | {before * 1e3:.1f} | {now * 1e3:.1f} | {1 - now / before:.0%} |" in docs
