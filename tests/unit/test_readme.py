"""README, tutorial and FAQ: every number comes from a record, every command is run by a test."""

import io
import json
import re
import sys
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from envknee import commands
from envknee.show.terminal import print_answer
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.verdict.power import enough_repeats
from envknee.verdict.schema.learning import best_of
from envknee.verdict.schema.study import ArmVerdict
from envknee.words.phases import phase_statement
from envknee.words.scaling import scaling_statement
from programs import python, succeeded
from published import (
    PUBLISHED,
    ROOT,
    both_sides,
    fits_by_card,
    gain_in_fps,
    peak_gb,
    ratio_of,
    records_of,
    uuid_of,
    verdict_of,
    words_of,
)
from records import known
from rich.console import Console

HEADLINE = "cartpole-stock-lean-h200"
README, TUTORIAL, FAQ = ROOT / "README.md", ROOT / "docs/tutorial.md", ROOT / "docs/faq.md"


def arm_of(study: str, name: str) -> ArmVerdict:
    return next(arm for arm in verdict_of(study).arms if arm.arm == name)


@cache
def phrases() -> dict[str, list[str]]:
    """Return by page what it has to say of the published studies, computed from their records."""
    stock, decided = arm_of("cartpole-stock-lean", "stock"), until_fps_flatten()

    learning = verdict_of("cartpole-one-gpu-learning").arms[0].learning
    (limit,) = [candidate for candidate in learning if candidate.state == "reached" and candidate.horizon == 32]
    (saving,) = [candidate for candidate in limit.gains if candidate.num_envs == limit.threshold_num_envs]
    soonest, best = known(best_of(learning))
    assert soonest is limit and best.num_envs == limit.threshold_num_envs
    seconds = known(best.seconds_to_target).value
    at_64_s = next(
        point.seconds_to_target.value
        for own in learning
        if own.horizon == 64
        for point in own.points
        if point.num_envs == limit.threshold_num_envs and point.seconds_to_target is not None
    )
    longer, at_least = f"{-saving.gain:.0%}", f"{-saving.gain_upper_one_sided:.0%}"
    fps = [
        median(
            record.fps_total.median
            for record in records_of("cartpole-one-gpu-learning")
            if (record.request.num_envs, record.request.horizon) == (num_envs, 32) and record.fps_total is not None
        )
        for num_envs in (1024, 2048)
    ]

    fits = fits_by_card(known(stock.memory), 32)
    few, small, large = (fits[card].partition(" ")[0] for card in ("24 GB", "8 GB", "80 GB"))
    by_arm = {scaling.arm: scaling_statement(scaling) for scaling in verdict_of("cartpole-two-gpus-lean").scaling}
    pattern = r"^2 GPUs give (\S+) times one GPU's FPS at 4,096"
    times, lean_times = (re.findall(pattern, by_arm[arm])[0] for arm in ("two-gpus", "lean-two-gpus"))

    overhead = json.loads((ROOT / "results-published/overhead-h200.json").read_text())["spreads"]
    train = overhead["trial / isaaclab train"]["median"]
    of_lean = [
        json.loads((ROOT / f"results-published/overhead-lean-warp-{name}.json").read_text())["spreads"]
        for name in ("4096-h200", "1024-h100")
    ]
    (paid,) = {f"{1 - spreads['trial / bare loop']['median']:.1%}" for spreads in of_lean}

    repeats = {6: "six"}[enough_repeats(0.05, 0.10, 0.95) or 0]

    sooner = f"{limit.threshold_num_envs:,}"
    return {
        "README.md": [
            *decided["README.md"],
            *on_an_h100(),
            f"run **{sooner} environments × horizon {limit.horizon}** to learn soonest: reward 4.5 in "
            f"{seconds:.0f} s; 2,048 take {longer} longer.",
            f"**{sooner}** ({limit.threshold_lowest} to {limit.threshold_highest:,}) at horizon {limit.horizon}: "
            f"reward 4.5 in {seconds:.0f} s. 2,048 take {longer} longer (at least {at_least}, three seeds)",
            f"{sooner} at horizon 64 take {at_64_s:.0f} s |",
            f"{small} environments on 8 GB, {fits['24 GB']} on 24 GB, {large} on 80 GB. ",
            "80% of the time that an added environment costs is learning (PPO's updates)",
            f"Two H100 with 4,096 environments each give {times} times the FPS of one, {lean_times} times with lean frames",
            *on_two_gpus(),
            one_gpu(),
            *learned_on_warps_frontend(),
            f"alternating with `isaaclab train` on an H200, trials reached {train:.2f}× its FPS",
            f"measuring takes {paid} of a bare loop's FPS, with 4,096 environments on an H200 as with 1,024 on an H100 ([",
        ],
        "docs/tutorial.md": [
            f"`{sooner} (256 to {sooner})`: more environments are shown not to pay. The range is its 95% interval",
            f"Here it costs {longer} more time; it would pay if it saved 25%",
            *decided["docs/tutorial.md"],
            f"the learning limit is {sooner} environments at horizon {limit.horizon}, ",
            f" To train one policy take {sooner}.",
            f"the {len(records_of('cartpole-one-gpu'))} trials of `results-published/cartpole-one-gpu`",
        ],
        "docs/faq.md": [
            f"{sooner} with horizon {limit.horizon} to learn soonest",
            f"From 1,024 to 2,048 environments FPS grow by {fps[1] / fps[0] - 1:.0%}, and reward 4.5 comes {longer} later",
            f"{few} environments with Isaac Lab's frames, ",
            f"a bare loop's FPS, with 4,096 environments as with 1,024: {paid}",
            *decided["docs/faq.md"],
            f"If FPS vary by 5% between processes, {repeats} repeats show a plateau in 80% of studies, at a cut-off of 10%",
        ],
    }


def until_fps_flatten() -> dict[str, list[str]]:
    """Return by page what it says of the study on H200s that measured until both arms were decided."""
    stock, warp = (arm_of(HEADLINE, name) for name in ("stock", "lean-warp"))
    assert warp.hardware == stock.hardware == ["NVIDIA H200 (150.1 GB)"]
    said = {}
    for arm, repeats in ((stock, "five"), (warp, "three")):
        (limit,), head = arm.throughput, arm.headline
        assert head is not None and limit.state == "reached" and head.binds == "throughput"
        assert limit.threshold_num_envs == head.num_envs == 8192 and limit.delta == 0.1
        gain = limit.gains[-1]
        assert (gain.num_envs, gain.repeats) == (8192, {"five": 5, "three": 3}[repeats])
        bound = f"Doubling gains {gain.gain:.1%} (at most {gain.gain_upper_one_sided:.1%}, {repeats} repeats"
        said[arm.arm] = (
            head,
            f"{gain.gain:.1%}",
            f"**8,192** give {head.fps_share_of_best:.0%} of the best FPS. {bound}",
        )
    (of_stock, gain, row), (of_warp, warp_gain, warp_row) = said["stock"], said["lean-warp"]
    half = stock.throughput[0].gains[-2]
    assert half.num_envs == 4096 and known(half.gain_lower) < 0.1 < known(half.gain_upper)
    before = f"{half.gain:.1%} ({half.gain_lower:.1%} to {half.gain_upper:.1%})"
    times = float(gain_in_fps(HEADLINE, "lean-warp", 8192, pairs=3).split()[0])
    assert f"{times:.1f}" == f"{of_warp.fps / of_stock.fps:.1f}"
    assert stock.phases[0].points[-1].num_envs == warp.phases[0].points[-1].num_envs == 16384
    assert "learning takes 80%" in phase_statement(stock.phases[0])
    said_of_warp = "learning takes 55% (53% to 56%) of each added environment's time, render 35%"
    assert phase_statement(warp.phases[0]).startswith(said_of_warp)
    fits = fits_by_card(known(warp.memory), 32)["24 GB"]
    return {
        "README.md": [
            f"FPS flatten at {of_stock.num_envs:,} environments with Isaac Lab's frames, "
            f"and with lean frames on Warp's frontend at {times:.1f} times those FPS",
            f"For most environment steps per second (FPS) run **{of_stock.num_envs:,}**: {of_stock.fps:,.0f} FPS. "
            f"Doubling them gains {gain}, less than the 10% that counts as paying. "
            f"With [lean frames](docs/lean.md) and Warp's frontend {of_warp.num_envs:,} give {of_warp.fps:,.0f} FPS, "
            f"**{times:.1f} times** as many. Doubling them gains {warp_gain}.",
            f"{row}, cut-off 10%). Doubling 4,096 gains {before}, which may still pay |",
            f"{warp_row}) |",
            "With lean frames and Warp's frontend 55% is learning, 35% rendering |",
            f"With lean frames and Warp's frontend {fits} on 24 GB |",
            "One H200 measured each arm, on the same host ",
            "FPS are means of five repeats with Isaac Lab's frames and three with lean ones",
            *lean_table(),
        ],
        "docs/tutorial.md": [
            f"they stop paying at {of_stock.num_envs:,} environments",
            f"with Warp's frontend: they stop paying at {of_warp.num_envs:,}, too",
            f"and the throughput limit {of_stock.num_envs:,}.",
        ],
        "docs/faq.md": [
            f", {of_stock.num_envs:,} for FPS",
            f"With lean frames and `frontend: warp` it is {of_warp.num_envs:,}, too, with {times:.1f} times the FPS",
            f"{fits.partition(' ')[0]} with lean frames and `frontend: warp`",
        ],
    }


def one_gpu() -> str:
    study = "cartpole-stock-lean-warp"
    few, many = (gain_in_fps(study, "lean-warp", num_envs, pairs=5).split(" ", 1) for num_envs in (1024, 4096))
    gpus = [{uuid_of(record) for record in records_of(study) if record.request.repeat == repeat} for repeat in range(5)]
    assert all(len(own) == 1 for own in gpus)
    return (
        f"in [five repeats on H200s](results-published/{study}), 1,024 environments gave **{few[0]} times** the FPS {few[1]}. "
        f"4,096 gave **{many[0]} times** {many[1]}, in {peak_gb(study, 'lean-warp', 4096):.2f} GB "
        f"instead of {peak_gb(study, 'stock', 4096):.2f}."
    )


def on_two_gpus() -> list[str]:
    study = "cartpole-two-gpu-learning"
    one_s, two_s = (
        median(record.seconds_to_target or 0.0 for record in records_of(study) if record.request.arm == arm)
        for arm in ("one-gpu", "data-parallel")
    )
    assert two_s / one_s > 0.95
    ((batch_size, scale),) = [
        (point.batch_size, point.scale) for arm in verdict_of(study).arms for point in arm.noise_scales
    ]
    assert scale.samples == 5
    return [
        "Two that share 1,024 environments do not learn sooner",
        f"About **{scale.transitions:.0f}** transitions, the gradient noise scale "
        f"({scale.lower:.0f} to {scale.upper:.0f}; five seeds, two H100)",
        f"Far larger ones ({batch_size:,} transitions, same GPUs) cost environment steps",
    ]


def learned_on_warps_frontend() -> list[str]:
    both = both_sides("cartpole-stock-lean-warp-learning", "stock", "lean-warp")
    frames, seconds = ratio_of(both, "frames_to_target"), ratio_of(both, "seconds_to_target")
    assert (frames.pairs, seconds.pairs) == (15, 15)
    assert frames.lower is not None and frames.upper is not None and frames.lower < 1 < frames.upper
    stock_s, warp_s = (median(record.seconds_to_target or 0.0 for record in side.records) for side in both)
    return [
        f"Reward 4.5 came in **{seconds.ratio:.2f} of the time** ({seconds.lower:.2f} to {seconds.upper:.2f}), "
        f"{warp_s:.1f} s instead of {stock_s:.1f}, with [15 seeds on H100s]",
        "The environment steps to that reward are not shown to differ: "
        f"{frames.ratio:.2f} times ({frames.lower:.2f} to {frames.upper:.2f})",
    ]


def on_an_h100() -> list[str]:
    stock, warp = (arm_of("cartpole-stock-lean-decided", name) for name in ("stock", "lean-warp"))
    (of_stock,) = stock.throughput
    assert warp.hardware == stock.hardware == ["NVIDIA H100 80GB HBM3 (85.0 GB)"]
    # Memory ends stock's series: the next size did not fit, and the last doubling is undecided.
    assert (of_stock.state, of_stock.largest_num_envs, known(stock.headline).binds) == ("undecided", 8192, "memory")
    assert [point.num_envs for point in of_stock.infeasible] == [16384]
    last = of_stock.gains[-1]
    assert known(last.gain_lower) < 0.1 < known(last.gain_upper)
    return [
        "And on an 80 GB H100? | It does not fit 16,384. "
        f"[Doubling {last.num_envs:,}](results-published/cartpole-stock-lean-decided) gains {last.gain:.1%} "
        f"({last.gain_lower:.1%} to {last.gain_upper:.1%}), too near the cut-off to decide"
    ]


def lean_table() -> list[str]:
    points = [
        {point.num_envs: point for point in arm_of(HEADLINE, name).throughput[0].points}
        for name in ("stock", "lean-warp")
    ]
    rows = []
    for num_envs in (4096, 8192, 16384):
        fps = " | ".join(f"{of[num_envs].fps:,.0f}" for of in points)
        times, interval = gain_in_fps(HEADLINE, "lean-warp", num_envs, pairs=3).split(" ", 1)
        times = f"**{times} times**" if num_envs == 8192 else f"{times} times"
        stock_gb, gb = (peak_gb(HEADLINE, arm, num_envs) for arm in ("stock", "lean-warp"))
        rows.append(f"| {num_envs:,} | {fps} | {times} {interval} | {gb:.2f} GB instead of {stock_gb:.2f} |")
    return rows


NOT_MEASURED = {
    "README.md": [
        # Set-ups, sizes and versions that are asked for, not found.
        "Isaac Lab 3.0's", "96×96 pixels, 2 frames", "Isaac Lab 3.0.0's", "horizon 32, Newton 1.6.1, RSL-RL 5.5.1, torch 2.11.0",
        "CPython 3.11 or 3.12", "4 GB of disk (10 GB with", "one 80 GB GPU", "--num-envs 512..16384", "memory_cap_gb: 8",
        "`gpus: 2`, `nodes: 2`", "Linux x86-64",
        # Cut-offs and levels that are the defaults (test_config), and what `make prove` promises.
        "95% unless", "10% more FPS, or 25% less time to a target", "At most 5% of their verdicts name too small a size",
        "0 pass, 3 worse, 4 inconclusive", "`more_repeats: 10`",
        # The margin of the studies, a size of the one shown above, and what NVIDIA calls 24 GB (memory_model).
        "5% of its memory kept free", "keeps 5% of the memory free",
        "a card of 24 GB holds 25.8 × 10⁹ bytes",
        # Said by hand; the machine decides.
        "about 5 minutes on two", "about 15 minutes on two CPU cores",
        "about half a minute of the 5", "frames: 3 minutes", "`undecided (10 more repeats)`",
        # Names.
        "H200", "H100", "`stock-lean-h200`", "Apache-2.0", "SB3", "python3-venv",
    ],
    "docs/tutorial.md": [
        "CPython 3.11 or 3.12", "4 GB of disk (10 GB with", "about 5 minutes on two", "on an 80 GB GPU, the study quick: 3 minutes",
        "H200", "`stock-lean-h200`", "Seconds to reward 4.5 against", "`over 16,384`", "`undecided (10 more repeats)`",
        "Linux x86-64", "python3-venv", "5000:127.0.0.1:5000", "about 25 minutes on an H100",
    ],
    "docs/faq.md": [
        "H200", "about 5 minutes on two CPU cores", "it takes 4 to 8 minutes", "3 minutes on an 80 GB GPU", "rl-zoo3",
        "fits in 24 GB", "96×96 pixels, 2 frames and horizon 32",
    ],
}  # fmt: skip
"""By page, the numbers that no published record holds."""


@pytest.mark.parametrize("name", NOT_MEASURED)
def test_every_number_is_that_of_a_record_or_known_to_be_none(name: str):
    text = words_of(name)
    for phrase in phrases()[name]:
        assert phrase in text
    for phrase in NOT_MEASURED[name]:
        assert phrase in text, "no longer said: take it out of the list"
    text = re.sub(r"```text.*?```", "", text)  # compared below
    for phrase in sorted(phrases()[name] + NOT_MEASURED[name], key=len, reverse=True):
        text = text.replace(phrase, "")
    text = re.sub(r"\]\([^)]*\)|^#+ \S+", "", text)
    text = re.sub(r"## \d\.", "", text)  # steps
    assert re.findall(r"\S* ?\S*\d\S*", re.sub(r"(^| )\d\. ", " ", text)) == []


def test_the_readme_is_read_at_one_sitting():
    assert len(README.read_text().splitlines()) <= 150


@pytest.mark.parametrize(
    ("page", "before", "study"),
    [
        (README, "longer study, [`stock-lean-h200`]", HEADLINE),
        (TUTORIAL, "the [study of learning on H200s]", "cartpole-one-gpu-learning"),
    ],
    ids=["README", "tutorial"],
)
def test_output_on_a_page_is_what_is_printed(page: Path, before: str, study: str, tmp_path: Path):
    """Of the study that it names, at the width of a terminal. Paste what differs."""
    (block,) = re.findall(re.escape(before) + r".*?```text\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / study).symlink_to(PUBLISHED[study].root)
    stream = io.StringIO()
    print_answer(verdict_of(study), StudyFolder(tmp_path / study), Console(file=stream, width=100))
    printed = [line.rstrip() for line in stream.getvalue().strip().splitlines()]
    shown = block.rstrip().splitlines()
    assert len(shown) >= 6 and shown == printed[: len(shown)]


# --- Commands ----------------------------------------------------------------------------------------------------------

RUN_BY = {
    "make sweep": "tests/workflow/test_slurm.py: \"make\", \"sweep\"",
    "make sweep FROM=study.zip": "tests/workflow/test_setup.py: FROM=",
    "make sweep PROFILE=slurm": "tests/workflow/test_slurm.py: PROFILE=",
    "snakemake prepare --profile slurm": "tests/workflow/test_slurm.py: \"prepare\"",
    "make sweep PROFILE=allocation": "tests/workflow/test_slurm.py: test_blocks_run_as_steps_of_an_allocation",
    "make test": ".ci/run: make test",
    "make setup": "tests/workflow/test_setup.py: workflow/setup.sh",
    "make setup PHYSICS=ovphysx": "tests/workflow/test_setup.py: PHYSICS",
    "make setup TRAINERS=all": "tests/workflow/test_setup.py: TRAINERS",
    "make ui": "tests/workflow/test_mlflow_ui.py: --ui",
    "make compare": "tests/workflow/test_setup.py: compare",
    "make replay": "tests/workflow/test_setup.py: \"make\", \"replay\"",
    "make archive": "tests/workflow/test_setup.py: archive",
    "make verify": "tests/workflow/test_setup.py: \"make\", \"verify\"",
    "make prove": "tests/unit/test_limits_prove.py: prove",
    "make docs": "tests/workflow/test_docs.py: mkdocs",
    "make": "tests/workflow/test_setup.py: project.does(\"make\")",
    **dict.fromkeys(("envknee plan", "envknee knee", "envknee limits", "envknee presets", "envknee --help"), "here"),
    "envknee summary": "tests/unit/test_summary.py: --all",
    "envknee repeats": "tests/unit/test_repeats.py: repeats",
}  # fmt: skip
"""By command, the test that runs it: a file, and a word of it."""

NOT_RUN = {
    "apt-get install": "changes the machine",
    "isaaclab train": "one of `envknee knee`'s arguments; tests/workflow/test_foreign_trainers.py runs it where Isaac Lab is there",
    "cp config/": "an ordinary copy",
    "source .venv/bin/activate": "a shell's own command",
    "$EDITOR": "an editor",
}
"""By command, why no test runs it."""


def commands_of(page: Path) -> set[str]:
    """Return what a page asks the reader to type, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line.split("  #")[0].strip() for line in blocks] + [
        span for span in spans if re.match(r"make\b|envknee .|apt-get|isaaclab ", span)
    ]
    return {line.removeprefix(".venv/bin/") for line in lines if line}


@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.name)
def test_every_command_is_run_by_a_test_or_marked(page: Path):
    for command in commands_of(page):
        known = [start for start in RUN_BY if command == start or command.startswith((f"{start} ", f"{start}\n"))]
        if not known:
            assert any(command.startswith(start) for start in NOT_RUN), f"{command}: no test runs it"
            continue
        where = RUN_BY[max(known, key=len)]
        if where != "here":
            file, _, word = where.partition(": ")
            assert word in (ROOT / file).read_text(), f"{command}: {file} has no {word!r}"
        program, *words = command.split()
        if program == "make" and words:
            assert re.search(rf"^{words[0]}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        elif program == "envknee" and words[0] != "--help" and words[0] != "COMMAND":
            assert words[0] in commands.listed()
        for study in re.findall(r"(?:CONFIG=| )(config/\S+\.yaml)", command):
            read_study(ROOT / study)


@pytest.mark.parametrize(
    "command",
    [
        "plan config/config.yaml",
        "plan config/studies/quick.yaml",
        "limits tests/fixtures/published/isaac-lab-rtx-4090.csv",
        "presets",
        "--help",
        "knee --num-envs 512..16384 --preset isaaclab-rsl-rl --dry-run -- {python} train --rl_library rsl_rl --task Isaac-Ant",
    ],
)
def test_what_takes_seconds_is_run_here(command: str, tmp_path: Path):
    words = [
        str(ROOT / word) if "/" in word and not word.startswith("{") else word.replace("{python}", sys.executable)
        for word in command.split()
    ]
    variables = {"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert succeeded(python("-m", "envknee", *words, cwd=tmp_path, env=variables))


# --- Studies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["compare.md", "small-card.md", "commands.md"]
)  # test_extending sweeps that of extending.md
def test_studies_in_the_docs_are_legal(name: str, tmp_path: Path):
    blocks = re.findall(r"```yaml\n(study: .*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "study.yaml").write_text(blocks[0])
    study = read_study(tmp_path / "study.yaml")
    assert study.throughput is not None and len(study.arms) >= 1
