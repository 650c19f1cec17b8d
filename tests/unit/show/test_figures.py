"""Figures: what each shows, that they say so when there is nothing, and that the same records give the same bytes."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_data import three, trials_of
from drawn import judged, marks, texts, with_verdict
from envknee.record.schema import PHASES, Phase
from envknee.show.evidence import Evidence
from envknee.show.figures import draw, registry
from envknee.show.figures.batch import draw_batch
from envknee.show.figures.canvas import INTERVAL, saved, thousands
from envknee.show.figures.finding import NOTHING, finding_of
from envknee.show.figures.learning import draw_learning
from envknee.show.figures.memory import draw_memory
from envknee.show.figures.phases import LARGEST, draw_phases
from envknee.show.figures.scaling import draw_scaling
from envknee.show.figures.target import draw_target
from envknee.show.figures.throughput import draw_throughput
from envknee.study.errors import UserError
from envknee.study.paths import StudyFolder
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETUP
from phase_data import LAWS, SIZES, at
from places import ROOT
from programs import python
from records import GPU, PLATEAU, Trial, a_study, a_trial, fps_trials, known, learning_trials, phase_trials, write_study

NAMES = ("throughput", "memory", "phases")
"""Figures of a study of throughput trials."""

LEARNING = {"num_envs": [4], "horizon": [4], "batch_size": [8, 16], "target_reward": 1.0, "budget_s": 5.0}


def test_throughput_shows_every_repeat_the_threshold_and_delta():
    evidence = judged(fps_trials(PLATEAU))
    figure = draw_throughput(evidence)
    upper, lower = figure.axes
    drawn = [y for _, y in marks(upper, "o")]
    for fps in (fps for repeats in PLATEAU.values() for fps in repeats):
        assert any(y == pytest.approx(fps) for y in drawn)
    gains = [gain.gain for gain in evidence.verdict.arms[0].throughput[0].gains]
    assert [y for _, y in marks(lower, "o")] == pytest.approx(gains)
    fills = [line.get_fillstyle() for line in lower.lines if line.get_marker() == "o"]
    assert fills == ["top", "full"], "half where it is shown to pay, whole where it is shown to be below delta"
    words = texts(figure)
    assert "threshold 32" in words
    assert "cut-off 10%" in words
    assert "191 FPS with 32 environments; doubling gains 1.6% (horizon 8, batch 128)" in words
    assert "AMD EPYC (2 cores, 25.3 GB)" in words
    assert upper.get_ylim()[0] == 0.0


def test_points_that_did_not_fit_are_crosses_at_their_size():
    trials = [*fps_trials(PLATEAU), a_trial(128, number=30, status="oom"), a_trial(256, number=31, status="refused")]
    figure = draw_throughput(judged(trials))
    assert marks(figure.axes[0], "X") == [(128.0, 0.0), (256.0, 0.0)]
    assert figure.axes[1].get_xlim()[1] > 256


def test_no_series_is_marked_as_out_of_memory():
    study = a_study(arms={f"arm-{i}": {} for i in range(8)})
    trials = [trial for i in range(8) for trial in fps_trials(PLATEAU, arm=f"arm-{i}", first=20 * i)]
    evidence = judged([*trials, a_trial(128, number=200, arm="arm-0", status="oom")], study)
    for figure in (draw_throughput(evidence), draw_memory(evidence)):
        assert len(marks(figure.axes[0], "X")) == 1


def test_what_did_not_fit_below_every_measured_size_is_within_the_axis():
    trials = [*fps_trials(PLATEAU), a_trial(4, number=30, horizon=512, status="oom")]
    evidence = judged(trials)
    for figure in (draw_throughput(evidence), draw_memory(evidence)):
        left, right = figure.axes[-1].get_xlim()
        assert left < 4 and right > 64
        assert 4 in figure.axes[-1].xaxis.get_ticklocs()


def test_horizon_and_batch_that_all_arms_share_are_said_once():
    arms = {"one": {"gpus": 0}, "other": {"gpus": 0}}
    shared = [*fps_trials(PLATEAU, arm="one"), *fps_trials(PLATEAU, arm="other", first=50)]
    words = " ".join(texts(draw_throughput(judged(shared, a_study(arms=arms)))).split())
    one = "191 FPS with 32 environments; doubling gains 1.6%"
    assert f"one: {one} other: {one} Isaac-Cartpole" in words
    assert words.count("horizon 8, batch 128") == 1
    differing = [*fps_trials(PLATEAU, arm="one"), *fps_trials(PLATEAU, arm="other", first=50, horizon=16)]
    words = texts(draw_throughput(judged(differing, a_study(arms=arms))))
    assert "one: 191 FPS with 32 environments; doubling gains 1.6% (horizon 8, batch 128)" in words
    assert "other:\nhorizon 16, batch 128" in words


def test_throughput_of_several_gpus_is_told_per_gpu_and_the_law_meets_what_it_was_fitted_to():
    fps = {n: [2 * 8 * n / (0.1 + 0.001 * n)] * 3 for n in (64, 128, 256, 512)}
    evidence = judged(fps_trials(fps, gpus=2, device=GPU), a_study(arms={"stock": {"gpus": 2}}))
    figure = draw_throughput(evidence)
    words = texts(figure)
    assert "still pays at 512 environments per GPU" in words and "all ranks together" in words
    assert "Environments on each GPU (num_envs)" in words and "law k·N·T / (t₀ + c·N)" in words
    (law,) = [line for line in figure.axes[0].lines if line.get_linewidth() == 0.9]
    drawn = {float(x): float(y) for x, y in zip(law.get_xdata(), law.get_ydata(), strict=True)}  # pyright: ignore[reportArgumentType]
    assert [drawn[n] for n in fps] == pytest.approx([values[0] for values in fps.values()])


ARMS = {"one": {"gpus": 1}, "two": {"gpus": 2}}


def a_pair(**fields: Any) -> list[Trial]:
    """Return PLATEAU on one GPU and 1.8 times as much on two."""
    doubled = {n: [1.8 * fps for fps in values] for n, values in PLATEAU.items()}
    return [
        *fps_trials(PLATEAU, arm="one", gpus=1, device=GPU, first=100, **fields),
        *fps_trials(doubled, arm="two", gpus=2, device=GPU, first=200, **fields),
    ]


def test_scaling_shows_the_efficiency_of_every_point_with_its_interval():
    evidence = judged(a_pair(), a_study(arms=ARMS))
    figure = draw_scaling(evidence)
    (axes,) = figure.axes
    points = evidence.verdict.scaling[0].points
    assert marks(axes, "s") == [(n, pytest.approx(0.9)) for n in PLATEAU]
    bars = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 1.3]
    assert [list(map(float, bar)) for bar in bars] == [  # pyright: ignore[reportArgumentType]
        pytest.approx([point.efficiency_lower, point.efficiency_upper]) for point in points
    ]
    words = texts(figure)
    assert "2 GPUs give 1.80 times one GPU's FPS at 64 environments each" in words
    assert "100%: k ranks give\nk times one rank's FPS" in words
    assert "95% interval" in words and "one repeat" not in words
    lowest, highest = axes.get_ylim()
    assert lowest < 0.9 < 1.0 < highest


def test_memory_draws_the_limit_where_it_is_near_and_says_so_where_it_is_far():
    near = [a_trial(n, number=n, memory_gb=0.3 * n, device=GPU) for n in (64, 128, 256)]
    figure = draw_memory(judged(near))
    assert "device: 85.0 GB; usable with 5% kept free: 80.8 GB" in texts(figure)
    assert figure.axes[0].get_ylim()[1] > 85.0
    far = [a_trial(n, number=n, memory_gb=0.01 * n, device=GPU) for n in (64, 128, 256)]
    figure = draw_memory(judged(far))
    assert "times the largest peak (above this axis)" in texts(figure)
    assert figure.axes[0].get_ylim() == (0.0, pytest.approx(1.25 * 2.56))
    assert "device memory used" in texts(figure)


def test_memory_of_several_gpus_is_modelled_with_the_part_of_the_batch_that_each_holds():
    trials = [
        a_trial(n, number=i, gpus=2, device=GPU, horizon=t, batch_size=b, memory_gb=1.0 + 1e-3 * n * t + 2e-3 * b / 2)
        for i, (n, t, b) in enumerate((n, t, b) for n in (64, 128) for t in (8, 16) for b in (128, 256))
    ]
    evidence = judged(trials, a_study(arms={"stock": {"gpus": 2}}))
    figure = draw_memory(evidence)
    assert "num_envs" in texts(figure) and "on each GPU" in texts(figure)
    curves = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.4 and len(line.get_xdata()) > 2]  # pyright: ignore
    starts = sorted(float(line.get_ydata()[0]) for line in curves)  # pyright: ignore
    assert starts == pytest.approx(sorted(1.0 + 1e-3 * 64 * t + 2e-3 * b / 2 for t in (8, 16) for b in (128, 256)))


def test_learning_shows_each_trial_against_frames_and_seconds():
    trials = learning_trials({32: [12.0, 14.0], 64: [None]}, budget_s=20.0)
    evidence = judged(trials)
    figure = draw_learning(evidence)
    by_frames, by_time = figure.axes
    ends = [(line.get_xdata()[-1], line.get_marker()) for line in by_time.lines if line.get_marker() in "o^"]  # pyright: ignore
    assert ends == [(12.0, "o"), (14.0, "o"), (20.0, "^")]
    assert "target 4" in texts(figure)
    words = texts(figure).replace("\n", " ")
    assert "2 of 3 trials reached the target, soonest 32 environments in 13.0 s" in words
    assert by_frames.get_xlabel().startswith("Environment steps")


def test_a_curve_starts_once_enough_episodes_have_ended():
    (trial,) = learning_trials({16: [24.0]})
    few = [row.model_copy(update={"episodes": 0 if row.iteration < 3 else row.episodes}) for row in trial.rows]
    evidence = judged([trial])._replace(rows=lambda _: few)
    line = draw_learning(evidence).axes[1].lines[0]
    assert [float(x) for x in line.get_xdata()] == [row.wall_s for row in few[3:]]  # pyright: ignore[reportGeneralTypeIssues]


BENT = {16: [100.0], 32: [400.0], 64: [100.0], 128: [400.0]}

NO_LEARNING_LAW = {n: [at(n, {**LAWS, "learning": (0.5 if n in (128, 512) else 0.05, 0.0)})] * 2 for n in SIZES}

WITHOUT_MEMORY = [a_trial(64, status="oom"), a_trial(128, number=1, status="refused")]

ONE_REPEAT_MORE = [
    trial
    for first, (arm, gpus) in enumerate([("one", 1), ("two", 2)])
    for trial in fps_trials({64: [100.0]}, arm=arm, gpus=gpus, device=GPU, first=300 + first, horizon=16)
]


@pytest.mark.parametrize(
    ("draws", "trials", "arms", "said", "not_said"),
    [
        (draw_throughput, fps_trials({128: [13_900.0], 256: [22_300.0]}), None,
         ["one repeat per point", "Undecided up to 256 environments"], []),
        (draw_throughput, fps_trials({64: [193.0, 194.0, 195.0]}), None,
         ["194 FPS with 64 environments (horizon 8, batch 128)"], ["not reached"]),
        (draw_throughput, [*fps_trials({512: [33_900.0], 1024: [40_600.0]}), a_trial(2048, number=90, status="oom")], None,
         ["40,600 FPS with 1,024 environments; 2,048 do not fit"], []),
        (draw_throughput, fps_trials({16: [100.0, 101.0], 64: [190.0, 191.0]}), None, ["num_envs"], ["Gain from doubling"]),
        (draw_throughput, fps_trials(BENT), None, ["faint: not used"], []),
        (draw_throughput, WITHOUT_MEMORY, None, ["All 2 trials ran out of memory or were refused."], []),
        (draw_memory, WITHOUT_MEMORY, None, ["No trial lived long enough"], []),
        (draw_memory, [a_trial(16, memory_gb=0.0, device=GPU)], None, ["No trial took any memory of its GPUs"], []),
        (draw_memory, [a_trial(16, number=2), *WITHOUT_MEMORY], None, ["out of memory", "refused: cannot fit", "too few points"], []),
        (draw_scaling, [*a_pair(), *ONE_REPEAT_MORE], ARMS,
         ["two: horizon 8, batch 128", "two: horizon 16, batch 128", "one repeat: no interval"], ["one:"]),
        (draw_scaling, a_pair()[9:], {"two": {"gpus": 2}},
         ["Scaling: nothing to show", "two: no efficiency: no arm of the study is this one on one GPU", "but with `gpus: 1`"], []),
        (draw_learning, [*learning_trials({32: [12.0]}), a_trial(64, number=9, kind="learning", status="oom")], None,
         ["not shown: 1"], []),
        (draw_learning, [a_trial(64, kind="learning", status="oom")], None, ["None of 1 learning trials finished enough episodes"], []),
        (draw_learning, learning_trials({32: [12.0]}, gpus=2, device=GPU), {"stock": {"gpus": 2}},
         ["soonest 32 environments per GPU in 12.0 s", "32 envs per GPU"], []),
        (draw_batch, trials_of({size: values[:1] for size, values in three().items()}), None, ["Critical batch size"], ["its interval"]),
        (draw_batch, trials_of(three([256, 512])), None, ["for B_noise measure 1 more batch size", "batch 256, 512 alone"], []),
        (draw_phases, phase_trials({1024: [at(1024)]}), None,
         ["At 1,024 environments learning takes 31% of an iteration"], ["limit of many"]),
        (draw_phases, phase_trials(NO_LEARNING_LAW), None, [], ["limit of many"]),
        (draw_phases, [t for i in range(LARGEST + 2) for t in phase_trials({64: [at(64)]}, horizon=i + 1, first=9 * i)], None,
         ["not shown: 2 slower series"], []),
        (draw_phases, fps_trials({64: [100.0]}), None, ["No throughput trial tells its phases."], []),
        (draw_target, learning_trials({32: [40.0], 64: [20.0]}), None, ["Environment steps to the target"], ["CPU-seconds"]),
    ],
)  # fmt: skip
def test_odd_cases_are_drawn_with_words_that_say_so(
    draws: Callable[[Evidence], Figure],
    trials: list[Trial],
    arms: dict[str, dict[str, int]] | None,
    said: list[str],
    not_said: list[str],
):
    words = texts(draws(judged(trials, a_study(arms=arms) if arms else None))).replace("\n", " ")
    for part in said:
        assert part in words
    for part in not_said:
        assert part not in words


@pytest.mark.parametrize("entry", registry.FIGURES, ids=lambda entry: entry.name)
def test_every_figure_says_in_words_that_there_is_nothing_to_show(entry: registry.Entry):
    assert "nothing to show" in texts(entry.draw(judged([])))


def test_every_figure_has_a_caption_and_a_section():
    captions = ROOT / "workflow/report"
    for entry in registry.FIGURES:
        assert (captions / entry.caption).read_text(encoding="utf-8").startswith("**")
    assert len({entry.name for entry in registry.FIGURES}) == len(registry.FIGURES)


def test_figures_follow_from_the_study():
    def names(**sections: Any) -> set[str]:
        return {entry.name for entry in registry.figures_of(a_study(**sections))}

    assert names() == {*NAMES}
    assert names(phases="off") == {"throughput", "memory"}
    assert names(arms=ARMS) == {*NAMES, "scaling"}
    assert names(throughput=None, learning=LEARNING) == {"memory", "learning", "target", "pareto", "batch"}
    assert names(throughput=None, learning=LEARNING | {"batch_size": 16}) == {"memory", "learning", "target", "pareto"}
    # Efficiency is a ratio of FPS: a report of learning alone opens with the target.
    assert "scaling" not in names(throughput=None, learning=LEARNING, arms=ARMS)


def test_a_series_has_one_colour_in_every_figure():
    learned = learning_trials({16: [9.0]}, horizon=4, first=40)
    evidence = judged([*fps_trials(PLATEAU, horizon=16), *fps_trials(PLATEAU, first=20), *learned])
    words = ("horizon 8, batch 128", "horizon 16, batch 128")

    def colours(figure: Figure) -> dict[str, object]:
        legend = known(figure.axes[0].get_legend())
        keys = zip(legend.get_texts(), legend.get_lines(), strict=True)
        return {text.get_text(): line.get_color() for text, line in keys if text.get_text() in words}

    assert colours(draw_throughput(evidence)) == colours(draw_memory(evidence))
    assert len(set(colours(draw_throughput(evidence)).values())) == 2


def drawn(folder: StudyFolder) -> dict[str, bytes]:
    draw.draw_all(with_verdict(folder))
    files = [path for path in folder.figures.rglob("*") if path.is_file()]
    return {path.relative_to(folder.figures).as_posix(): path.read_bytes() for path in files}


def test_command_writes_every_figure_and_the_same_bytes_again(tmp_path: Path):
    trials = [
        *phase_trials({n: [at(n)] * 2 for n in SIZES}),
        *trials_of(three(), first=50),
        *learning_trials({32: [12.0, None], 64: [9.0, 8.0]}, first=80),
        a_trial(128, number=90, status="oom"),
    ]
    folder = write_study(tmp_path / "demo", a_study(learning=LEARNING), trials)
    files = drawn(folder)
    names = {*NAMES, "learning", "target", "pareto", "batch"}
    assert set(files) == {f"{name}.svg" for name in names} | {f"png/{name}.png" for name in names}
    for name, content in files.items():
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG")
        else:
            assert ElementTree.fromstring(content).tag.endswith("svg")  # noqa: S314 - written a line above
            assert b"<dc:date>" not in content
    assert drawn(folder) == files


def test_figures_repeat_the_verdict_and_do_not_decide_again(tmp_path: Path):
    folder = with_verdict(write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU)))
    plain = json.loads(folder.verdict.read_text())
    folder.verdict.write_text(json.dumps(plain | {"delta": 0.25}))
    draw.draw_all(folder)
    assert "cut-off 25%" in (folder.figures / "throughput.svg").read_text()


def test_a_verdict_that_is_missing_or_older_than_a_trial_is_refused(tmp_path: Path):
    folder = write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU))
    missing = python("-m", "envknee", "figures", folder.root)
    assert missing.returncode == 2 and re.search("holds no verdict.json yet.*envknee verdict", missing.stderr)
    with_verdict(folder)
    folder.trial(0).record.unlink()
    with pytest.raises(UserError, match=r"decided from 9 trials, and .* holds 8\. Write it with `envknee verdict"):
        draw.draw_all(folder)


def test_a_figure_takes_names_as_they_stand():
    evidence = judged(fps_trials(PLATEAU))
    arm = evidence.verdict.arms[0].model_copy(
        update={"hardware": ["A $x^{$ & <b>\x1b[31m\N{RIGHT-TO-LEFT OVERRIDE}card"]}
    )
    odd = evidence._replace(verdict=evidence.verdict.model_copy(update={"arms": [arm]}))
    text = saved(draw_throughput(odd), "svg").decode()
    assert "A $x^{$ &amp; &lt;b&gt;[31mcard" in text
    ElementTree.fromstring(text)  # noqa: S314 - written a line above


def bars(axes: Axes) -> dict[str, list[float]]:
    """Return the heights of the bars of each phase, in the order of num_envs."""
    stacks = [container for container in axes.containers if isinstance(container, BarContainer)]
    return {
        phase: [float(bar.get_height()) for bar in stack.patches] for phase, stack in zip(PHASES, stacks, strict=True)
    }


def test_bars_are_microseconds_per_frame_and_shares_of_an_iteration():
    evidence = judged(phase_trials({n: [at(n)] * 2 for n in (256, 512, 1024)}, horizon=16))
    left, right = draw_phases(evidence).axes
    for phase in PHASES:
        expected = [1e6 * at(n)[phase] / (16 * n) for n in (256, 512, 1024)]
        assert bars(left)[phase] == pytest.approx(expected)
        assert bars(right)[phase] == pytest.approx([at(n)[phase] / sum(at(n).values()) for n in (256, 512, 1024)])
    assert [sum(column) for column in zip(*bars(right).values(), strict=True)] == pytest.approx([1.0] * 3)


def test_the_title_names_the_phase_that_sets_the_knee_and_the_line_is_its_limit():
    evidence = judged(phase_trials({n: [at(n)] * 2 for n in SIZES}))
    figure = draw_phases(evidence)
    words = " ".join(texts(figure).split())
    assert words.startswith("Learning takes 50% ") and "of each added environment's time, " in words
    assert "limit of many num_envs" in texts(figure)
    (line,) = figure.axes[0].lines
    assert list(map(float, line.get_ydata())) == pytest.approx([1e6 * 12e-5 / 8] * 2)  # pyright: ignore[reportArgumentType]


def test_bars_far_above_the_others_are_cut_off_with_their_height():
    evidence = judged(phase_trials({n: [at(n)] for n in (64, 128, 4096)}))
    figure = draw_phases(evidence)
    left = figure.axes[0]
    heights = [1e6 * sum(at(n).values()) / (8 * n) for n in (64, 128, 4096)]
    assert left.get_ylim()[1] == pytest.approx(1.06 * 6 * heights[-1])
    assert [text.get_text() for text in left.texts] == [f"{heights[0]:.0f}", f"{heights[1]:.0f}"]
    assert "bars cut off" in texts(figure)


def test_each_series_has_a_row_and_each_arms_fastest_comes_first():
    study = a_study(arms={"stock": {}, "lean": {}})
    slow: dict[Phase, tuple[float, float]] = {phase: (2 * t0, 2 * c) for phase, (t0, c) in LAWS.items()}
    trials: list[Trial] = []
    for i, (arm, horizon) in enumerate([("stock", 8), ("stock", 16), ("lean", 8)]):
        laws = slow if (arm, horizon) == ("stock", 8) else LAWS
        trials += phase_trials({n: [at(n, laws)] for n in SIZES}, arm=arm, horizon=horizon, first=20 * i)
    figure = draw_phases(judged(trials, study))
    rows = [axes.get_title(loc="left") for axes in figure.axes[::2]]
    assert rows == ["stock: horizon 16, batch 128", "lean: horizon 8, batch 128", "stock: horizon 8, batch 128"]
    assert texts(figure).startswith("Most of each added environment's time goes to learning\n")
    assert "\nstock: learning takes 50% " in texts(figure) and "\nlean: learning takes 50% " in texts(figure)


def test_several_ranks_count_frames_of_all():
    sizes = (256, 512, 1024)
    trials = phase_trials({n: [at(n)] for n in sizes}, gpus=2, device=GPU)
    figure = draw_phases(judged(trials, a_study(arms={"stock": {"gpus": 2}})))
    assert bars(figure.axes[0])["learning"] == pytest.approx([1e6 * at(n)["learning"] / (2 * 8 * n) for n in sizes])
    assert "on each GPU" in texts(figure)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (0.25, "0.25"), (-2.5, "−2.5"), (500, "500"), (1_024, "1,024"), (8_000, "8k"), (2_500, "2.5k"), (12_345, "12,345"),
     (512_000, "512k"), (1_024_000, "1,024k"), (1_250_000, "1.25M"), (1_500_000, "1.5M"), (20_000_000, "20M")],
)  # fmt: skip
def test_numbers_of_axes_are_short_only_where_few_decimals_suffice(value: float, said: str):
    assert thousands(value) == said


def test_one_axis_of_fps_is_numbered_in_one_way():
    axes = draw_throughput(judged(fps_trials({n: [62.5 * n] * 3 for n in (32, 128, 512, 16_384)}))).axes[0]
    numbers = [axes.yaxis.get_major_formatter()(place) for place in axes.yaxis.get_ticklocs()]
    assert {"2k", "1,024k"} <= set(numbers) and not [
        number for number in numbers if "." in number and number.endswith("M")
    ]


Drawing = Callable[[Evidence], Figure]

WIDE = {32: [100.0, 400.0, 110.0], 64: [220.0, 60.0, 900.0], 128: [300.0, 305.0, 310.0]}


@pytest.mark.parametrize(
    ("drawing", "trials"),
    [(draw_throughput, fps_trials(WIDE)), (draw_target, learning_trials({16: [9.0, 30.0], 32: [8.0, 9.0]}))],
)
def test_an_interval_that_leaves_the_panel_ends_there_in_an_arrow(drawing: Drawing, trials: list[Trial]):
    figure = drawing(judged(trials))
    left_it = 0
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        arrows = {(*place, "up") for place in marks(axes, CARETUP)} | {
            (*place, "down") for place in marks(axes, CARETDOWN)
        }
        for bar in [line for line in axes.lines if line.get_label() == INTERVAL]:
            x, (lower, upper) = float(bar.get_xdata()[0]), bar.get_ydata()  # pyright: ignore
            assert ((x, top, "up") in arrows) == (upper > top) and ((x, bottom, "down") in arrows) == (lower < bottom)
            left_it += (upper > top) + (lower < bottom)
    assert left_it


@pytest.mark.parametrize("count", [2, 12])
def test_a_legend_stays_within_the_figure_and_off_the_one_below(count: int):
    study = a_study(arms={f"arm-{i}": {} for i in range(count)})
    trials = [
        trial for i in range(count) for trial in fps_trials(PLATEAU, arm=f"arm-{i}", first=20 * i, horizon=8 * (i + 1))
    ]
    figure = draw_throughput(judged(trials, study))
    upper, lower = (known(axes.get_legend()).get_window_extent() for axes in figure.axes)
    assert upper.y0 >= lower.y1 and lower.y0 >= 0
    assert figure.texts[0].get_window_extent().y1 <= figure.bbox.y1
    assert min(text.get_window_extent().y0 for text in figure.texts) > figure.axes[0].get_window_extent().y1


def many_arms(count: int) -> Evidence:
    trials = [
        trial
        for i in range(count)
        for trial in learning_trials({16: [9.0], 32: [8.0], 64: [7.0]}, arm=f"arm-{i}", first=10 * i)
    ]
    return judged(trials, a_study(arms={f"arm-{i}": {} for i in range(count)}))


def test_more_than_eight_settings_have_panels_by_arm_with_one_colour_for_one_size():
    assert len(draw_learning(many_arms(2)).axes) == 2
    figure = draw_learning(many_arms(3))
    assert len(figure.axes) == 6
    assert [axes.get_title(loc="left") for axes in figure.axes[::2]] == [
        f"arm-{i}: horizon 8, batch 128" for i in range(3)
    ]
    by_size: dict[str, set[Any]] = {}
    for axes in figure.axes[1::2]:
        legend = known(axes.get_legend())
        for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True):
            if "envs" in text.get_text():
                by_size.setdefault(text.get_text(), set()).add(line.get_color())
    assert list(by_size) == ["16 envs", "32 envs", "64 envs"] and all(len(colours) == 1 for colours in by_size.values())
    for axes in figure.axes:
        right = axes.get_xlim()[1]
        assert all(max(line.get_xdata()) <= right for line in axes.lines)  # pyright: ignore


def test_a_figure_of_several_arms_has_one_sentence_with_the_factor_as_its_title():
    figure = draw_throughput(judged(a_pair(), a_study(arms=ARMS)))
    title = figure.texts[0].get_text().replace("\n", " ")
    assert title.startswith("two is fastest: ") and title.endswith("1.80 times one")
    assert figure.texts[1].get_text().startswith("one: 191 FPS")


def test_every_letter_of_a_law_is_defined_beside_it():
    words = texts(draw_throughput(judged(a_pair(), a_study(arms=ARMS))))
    assert "k ranks, N num_envs, T horizon,\nt₀ and c fitted" in words
    assert "N num_envs, T horizon,\nB batch size; v₀, a, b, c fitted" in texts(draw_memory(judged(fps_trials(PLATEAU))))
    assert "S_min the fewest" in texts(draw_batch(judged(trials_of(three()))))


def test_text_of_an_svg_stays_text_and_its_title_is_the_finding():
    svg = saved(draw_throughput(judged(fps_trials(PLATEAU))), "svg")
    assert b">threshold 32<" in svg.replace(b"> threshold", b">threshold")
    assert finding_of(svg) == "191 FPS with 32 environments; doubling gains 1.6% (horizon 8, batch 128)"
    empty = finding_of(saved(draw_throughput(judged([])), "svg"))
    assert NOTHING in empty and empty.endswith("No throughput trial has run yet.")


def test_with_one_gpu_frames_stand_beside_seconds_as_gpu_seconds_would_repeat_them():
    figure = draw_target(judged(learning_trials({32: [40.0], 64: [20.0]}, gpus=1, device=GPU)))
    assert figure.axes[1].get_ylabel() == "Environment steps to the target"
