"""Figures: what each shows, that they say so when there is nothing, and that the same records give the same bytes."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drawn import curves_of, judged, marks, texts
from envknee import figures
from envknee.figures import (
    curve_of,
    draw_history,
    draw_learning,
    draw_memory,
    draw_scaling,
    draw_throughput,
    svg_of,
    trials_html,
)
from envknee.limits.verdict import Verdict
from matplotlib.figure import Figure
from records import GPU, Trial, a_study, a_trial, fps_trials, learning_trials, write_study

PLATEAU = {16: [100.0, 101.0, 102.0], 32: [190.0, 191.0, 192.0], 64: [193.0, 194.0, 195.0]}

NAMES = ("throughput.svg", "memory.svg", "history.svg", "phases.svg", "trials.html")
"""What a study of throughput trials has."""


# --- Throughput


def test_throughput_shows_every_repeat_the_threshold_and_delta():
    verdict, _ = judged(fps_trials(PLATEAU))
    figure = draw_throughput(verdict)
    upper, lower = figure.axes
    drawn = [y for _, y in marks(upper, "o")]
    for fps in (fps for repeats in PLATEAU.values() for fps in repeats):
        assert any(y == pytest.approx(fps) for y in drawn)
    assert [y for _, y in marks(lower, "o")] == pytest.approx(
        [gain.gain for gain in verdict.arms[0].throughput[0].gains]
    )
    words = texts(figure)
    assert "threshold 32" in words
    assert "δ = 10%" in words
    assert "Throughput threshold: 32 environments" in words
    assert "AMD EPYC (2 cores, 25.3 GB)" in words
    assert upper.get_ylim()[0] == 0.0


def test_throughput_at_one_size_claims_no_threshold():
    verdict, _ = judged(fps_trials({64: [193.0, 194.0, 195.0]}))
    words = texts(draw_throughput(verdict))
    assert "Throughput threshold: no doubling measured" in words
    assert "not reached" not in words


def test_gains_are_filled_only_where_they_are_shown_to_be_below_delta():
    verdict, _ = judged(fps_trials(PLATEAU))
    lower = draw_throughput(verdict).axes[1]
    fills = [line.get_markerfacecolor() for line in lower.lines if line.get_marker() == "o"]
    assert fills == ["white", figures.COLOURS[0]]


def test_one_repeat_is_said_and_nothing_is_filled():
    verdict, _ = judged(fps_trials({128: [13_900.0], 256: [22_300.0], 512: [33_900.0], 1024: [40_600.0]}))
    figure = draw_throughput(verdict)
    assert "one repeat per point" in texts(figure)
    assert "not reached by 1,024 environments" in texts(figure)
    assert {line.get_markerfacecolor() for line in figure.axes[1].lines if line.get_marker() == "o"} == {"white"}


def test_points_that_did_not_fit_are_crosses_at_their_size():
    trials = [*fps_trials(PLATEAU), a_trial(128, number=30, status="oom"), a_trial(256, number=31, status="refused")]
    figure = draw_throughput(judged(trials)[0])
    assert marks(figure.axes[0], "X") == [(128.0, 0.0), (256.0, 0.0)]
    assert figure.axes[1].get_xlim()[1] > 256


def test_no_series_is_marked_as_out_of_memory():
    study = a_study(arms={f"arm-{i}": {} for i in range(8)})
    trials = [trial for i in range(8) for trial in fps_trials(PLATEAU, arm=f"arm-{i}", first=20 * i)]
    verdict, records = judged([*trials, a_trial(128, number=200, arm="arm-0", status="oom")], study)
    for figure in (draw_throughput(verdict), draw_memory(verdict, records)):
        assert len(marks(figure.axes[0], "X")) == 1


def test_what_did_not_fit_below_every_measured_size_is_within_the_axis():
    trials = [*fps_trials(PLATEAU), a_trial(4, number=30, horizon=512, status="oom")]
    verdict, records = judged(trials)
    for figure in (draw_throughput(verdict), draw_memory(verdict, records)):
        left, right = figure.axes[-1].get_xlim()
        assert left < 4 and right > 64
        assert 4 in figure.axes[-1].xaxis.get_ticklocs()


def test_sizes_of_which_none_is_twice_another_have_no_panel_of_gains():
    verdict, _ = judged(fps_trials({16: [100.0, 101.0], 64: [190.0, 191.0]}))
    figure = draw_throughput(verdict)
    (only,) = figure.axes
    assert (16.0, pytest.approx(100.5, rel=1e-3)) in marks(only, "o")
    assert "num_envs" in only.get_xlabel() and "Gain from doubling" not in texts(figure)


def test_horizon_and_batch_that_all_arms_share_are_said_once():
    arms = {"one": {"gpus": 0}, "other": {"gpus": 0}}
    shared = [*fps_trials(PLATEAU, arm="one"), *fps_trials(PLATEAU, arm="other", first=50)]
    words = " ".join(texts(draw_throughput(judged(shared, a_study(arms=arms))[0])).split())
    assert "threshold of each arm one: 32 environments other: 32 environments Isaac-Cartpole" in words
    assert words.count("horizon 8, batch 128") == 1
    differing = [*fps_trials(PLATEAU, arm="one"), *fps_trials(PLATEAU, arm="other", first=50, horizon=16)]
    words = texts(draw_throughput(judged(differing, a_study(arms=arms))[0]))
    assert "of each arm's fastest series\none: 32 environments (horizon 8, batch 128)" in words
    assert "other:\nhorizon 16, batch 128" in words


def test_a_law_that_is_not_used_is_named_so():
    figure = draw_throughput(judged(fps_trials({16: [100.0], 32: [400.0], 64: [100.0], 128: [400.0]}))[0])
    assert "faint: not used" in texts(figure)


def test_throughput_of_several_gpus_is_told_per_gpu_and_the_law_meets_what_it_was_fitted_to():
    fps = {n: [2 * 8 * n / (0.1 + 0.001 * n)] * 3 for n in (64, 128, 256, 512)}
    verdict, _ = judged(fps_trials(fps, gpus=2, device=GPU), a_study(arms={"stock": {"gpus": 2}}))
    figure = draw_throughput(verdict)
    words = texts(figure)
    assert "not reached by 512 environments per GPU" in words and "all ranks together" in words
    assert "Environments on each GPU (num_envs)" in words and "law k·N·T / (t₀ + c·N)" in words
    (law,) = [line for line in figure.axes[0].lines if line.get_linewidth() == 0.9]
    drawn = {float(x): float(y) for x, y in zip(law.get_xdata(), law.get_ydata(), strict=True)}  # pyright: ignore[reportArgumentType]
    assert [drawn[n] for n in fps] == pytest.approx([values[0] for values in fps.values()])


# --- Scaling

ARMS = {"one": {"gpus": 1}, "two": {"gpus": 2}}


def a_pair(**fields: Any) -> list[Trial]:
    """Return PLATEAU on one GPU and 1.8 times as much on two."""
    doubled = {n: [1.8 * fps for fps in values] for n, values in PLATEAU.items()}
    return [
        *fps_trials(PLATEAU, arm="one", gpus=1, device=GPU, first=100, **fields),
        *fps_trials(doubled, arm="two", gpus=2, device=GPU, first=200, **fields),
    ]


def test_scaling_shows_the_efficiency_of_every_point_with_its_interval():
    verdict, _ = judged(a_pair(), a_study(arms=ARMS))
    figure = draw_scaling(verdict)
    (axes,) = figure.axes
    points = verdict.scaling[0].points
    assert marks(axes, "s") == [(n, pytest.approx(0.9)) for n in PLATEAU]
    bars = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 1.3]
    assert [list(map(float, bar)) for bar in bars] == [  # pyright: ignore[reportArgumentType]
        pytest.approx([point.efficiency_lower, point.efficiency_upper]) for point in points
    ]
    words = texts(figure)
    assert "Scaling: 2 GPUs give 1.80 times one GPU's FPS at 64 environments each" in words
    assert (
        "100%: k ranks give k times one rank's FPS" in words and "95% interval" in words and "one repeat" not in words
    )
    lowest, highest = axes.get_ylim()
    assert lowest < 0.9 < 1.0 < highest


def test_scaling_has_a_line_per_series_and_is_hollow_where_one_repeat_tells_no_interval():
    single = {n: [values[0]] for n, values in PLATEAU.items()}
    more = fps_trials(single, arm="one", gpus=1, device=GPU, first=300, horizon=16)
    more += fps_trials(single, arm="two", gpus=2, device=GPU, first=400, horizon=16)
    verdict, _ = judged([*a_pair(), *more], a_study(arms=ARMS))
    figure = draw_scaling(verdict)
    (axes,) = figure.axes
    fills = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() not in ("None", None, "")]
    assert fills.count("white") == len(fills) // 2 == 3
    assert "two:\nhorizon 8, batch 128" in texts(figure) and "two:\nhorizon 16, batch 128" in texts(figure)
    assert "one:" not in texts(figure)
    assert "one repeat: no interval" in texts(figure)
    assert axes.get_ylim()[0] < 0.5


def test_scaling_without_a_partner_says_what_to_add():
    verdict, _ = judged([trial for trial in a_pair() if trial.request.arm == "two"], a_study(arms={"two": {"gpus": 2}}))
    words = texts(draw_scaling(verdict)).replace("\n", " ")
    assert "Scaling: nothing to show" in words
    assert "two: no efficiency: no arm of the study is this one on one GPU" in words and "but with `gpus: 1`" in words


def test_scaling_is_written_for_studies_of_several_ranks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_study(tmp_path / "demo", a_study(arms=ARMS), a_pair())
    monkeypatch.setattr("sys.argv", ["figures", str(folder.root)])
    figures.main()
    assert sorted(path.name for path in folder.figures.iterdir()) == sorted([*NAMES, "scaling.svg", "png"])
    assert ElementTree.fromstring((folder.figures / "scaling.svg").read_bytes()).tag.endswith("svg")  # noqa: S314 - our own


# --- Memory


def test_memory_draws_the_limit_where_it_is_near_and_says_so_where_it_is_far():
    near = [a_trial(n, number=n, memory_gb=0.3 * n, device=GPU) for n in (64, 128, 256)]
    figure = draw_memory(*judged(near))
    assert "device: 85.0 GB; usable with 5% kept free: 80.8 GB" in texts(figure)
    assert figure.axes[0].get_ylim()[1] > 85.0
    far = [a_trial(n, number=n, memory_gb=0.01 * n, device=GPU) for n in (64, 128, 256)]
    figure = draw_memory(*judged(far))
    assert "times the largest peak (above this axis)" in texts(figure)
    assert figure.axes[0].get_ylim() == (0.0, pytest.approx(1.25 * 2.56))
    assert "device memory used" in texts(figure)


def test_memory_of_several_gpus_is_modelled_with_the_part_of_the_batch_that_each_holds():
    trials = [
        a_trial(n, number=i, gpus=2, device=GPU, horizon=t, batch_size=b, memory_gb=1.0 + 1e-3 * n * t + 2e-3 * b / 2)
        for i, (n, t, b) in enumerate((n, t, b) for n in (64, 128) for t in (8, 16) for b in (128, 256))
    ]
    verdict, records = judged(trials, a_study(arms={"stock": {"gpus": 2}}))
    figure = draw_memory(verdict, records)
    assert "num_envs" in texts(figure) and "on each GPU" in texts(figure)
    curves = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.4 and len(line.get_xdata()) > 2]  # pyright: ignore
    starts = sorted(float(line.get_ydata()[0]) for line in curves)  # pyright: ignore
    assert starts == pytest.approx(sorted(1.0 + 1e-3 * 64 * t + 2e-3 * b / 2 for t in (8, 16) for b in (128, 256)))


def test_memory_shows_trials_without_a_peak_and_too_few_points():
    figure = draw_memory(
        *judged([a_trial(16), a_trial(64, number=1, status="oom"), a_trial(128, number=2, status="refused")])
    )
    words = texts(figure)
    assert "out of memory" in words and "refused: cannot fit" in words and "too few points" in words
    assert [round(x) for x, _ in marks(figure.axes[0], "X")] == [64]


# --- Learning


def test_learning_shows_each_trial_against_frames_and_seconds():
    trials = learning_trials({32: [12.0, 14.0], 64: [None]}, budget_s=20.0)
    verdict, _ = judged(trials)
    figure = draw_learning(verdict, curves_of(trials))
    by_frames, by_time = figure.axes
    ends = [(line.get_xdata()[-1], line.get_marker()) for line in by_time.lines if line.get_marker() in "o^"]  # pyright: ignore
    assert ends == [(12.0, "o"), (14.0, "o"), (20.0, "^")]
    assert "target 4" in texts(figure)
    assert "2 of 3 trials reached the target, soonest 32 environments in 13.0\N{NO-BREAK SPACE}s" in texts(
        figure
    ).replace("\n", " ")
    assert by_frames.get_xlabel().startswith("Frames")


def test_learning_counts_trials_without_a_curve():
    trials = [*learning_trials({32: [12.0]}), a_trial(64, number=9, kind="learning", status="oom")]
    assert "not shown: 1" in texts(draw_learning(judged(trials)[0], curves_of(trials)))
    alone = trials[1:]
    assert "None of 1 learning trials finished enough episodes" in texts(
        draw_learning(judged(alone)[0], curves_of(alone))
    )


def test_a_curve_starts_once_enough_episodes_have_ended():
    record = a_trial(16, kind="learning", seconds=3.0).record
    curve = curve_of(record, [10, 20, 30], [1.0, 2.0, 3.0], [None, 0.5, 4.0])
    assert (curve.frames, curve.wall_s, curve.reward) == ([20, 30], [2.0, 3.0], [0.5, 4.0])


# --- History and table


def test_history_keeps_trials_without_a_value_off_the_value_axis():
    trials = [*fps_trials({16: [100.0], 32: [190.0]}), a_trial(64, number=2, status="oom")]
    (axes,) = draw_history(*judged(trials)).axes
    assert marks(axes, "o") == [(0.0, pytest.approx(100)), (1.0, pytest.approx(190))]
    ((number, strip),) = marks(axes, "X")
    assert number == 2.0 and strip < 0.0
    assert "no value" in [text.get_text() for text in axes.texts]


def test_history_has_a_panel_per_kind_and_the_best_so_far():
    trials = [*fps_trials({16: [100.0, 90.0, 120.0]}), *learning_trials({16: [12.0, 15.0, 9.0]}, first=3)]
    upper, lower = draw_history(*judged(trials)).axes
    steps = [line.get_ydata() for axes in (upper, lower) for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert [list(map(float, ys)) for ys in steps] == [  # pyright: ignore[reportArgumentType]
        pytest.approx([100, 100, 120, 120]), pytest.approx([12, 12, 9, 9])
    ]  # fmt: skip


def test_several_ranks_are_told_in_the_learning_figure_and_in_the_table():
    trials = learning_trials({32: [12.0]}, gpus=2, device=GPU)
    verdict, records = judged(trials, a_study(arms={"stock": {"gpus": 2}}))
    words = texts(draw_learning(verdict, curves_of(trials))).replace("\n", " ")
    assert (
        "soonest 32 environments per GPU in 12.0\N{NO-BREAK SPACE}s" in words
        and "32 envs per GPU, T 8, batch 128" in words
    )
    assert '<td class="n" data-head="envs">32 x 2</td>' in trials_html(verdict, records)


def test_table_lists_every_trial_and_escapes_what_it_prints():
    trials = [a_trial(32, number=1, status="oom"), a_trial(1024, number=0, fps=12_345.0, batch_size=None)]
    odd = trials[0].outcome.model_copy(update={"reason": "<b>3 & 4</b>"})
    verdict, records = judged([Trial(trials[0].request, [], odd), trials[1]])
    page = trials_html(verdict, records)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr class.*?</tr>", page)]
    assert [row[0] for row in rows] == ["0", "1"]
    assert rows[0][3:9] == ["1,024", "8", "library", "1", "measured", "12,345"]
    assert rows[1][7:10] == ["out of memory", "", ""]
    assert rows[1][-1] == "&lt;b&gt;3 &amp; 4&lt;/b&gt;"
    assert "http" not in page and "<script" not in page


# --- All of them


@pytest.mark.parametrize(
    "draw",
    [draw_throughput, draw_scaling, lambda verdict: draw_memory(verdict, []), lambda verdict: draw_learning(verdict, []),
     lambda verdict: draw_history(verdict, [])],
)  # fmt: skip
def test_nothing_to_show_is_said_in_words(draw: Callable[[Verdict], Figure]):
    assert "nothing to show" in texts(draw(judged([])[0]))


def test_all_out_of_memory_is_said_in_words():
    verdict, records = judged([a_trial(64, status="oom"), a_trial(128, number=1, status="refused")])
    assert "All 2 trials ran out of memory or were refused." in texts(draw_throughput(verdict))
    assert "No trial lived long enough" in texts(draw_memory(verdict, records))
    draw_history(verdict, records)


def test_a_series_has_one_colour_in_every_figure():
    learned = learning_trials({16: [9.0]}, horizon=4, first=40)
    verdict, records = judged([*fps_trials(PLATEAU, horizon=16), *fps_trials(PLATEAU, first=20), *learned])
    words = ("horizon 8, batch 128", "horizon 16, batch 128")

    def colours(figure: Figure) -> dict[str, object]:
        legend = figure.axes[0].get_legend()
        assert legend is not None
        keys = zip(legend.get_texts(), legend.get_lines(), strict=True)
        return {text.get_text(): line.get_color() for text, line in keys if text.get_text() in words}

    assert colours(draw_throughput(verdict)) == colours(draw_memory(verdict, records))
    assert len(set(colours(draw_throughput(verdict)).values())) == 2


def test_command_writes_every_figure_and_the_same_bytes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trials = [
        *fps_trials(PLATEAU),
        *learning_trials({32: [12.0, None]}, first=20),
        a_trial(128, number=30, status="oom"),
    ]
    folder = write_study(tmp_path / "demo", a_study(), trials)
    monkeypatch.setattr("sys.argv", ["figures", str(folder.root)])
    figures.main()
    names = [*NAMES, *(f"png/{name.removesuffix('.svg')}.png" for name in NAMES if name.endswith(".svg"))]
    first = {name: (folder.figures / name).read_bytes() for name in names}
    assert all(content.startswith(b"\x89PNG") for name, content in first.items() if name.endswith(".png"))
    figures.main()
    assert {name: (folder.figures / name).read_bytes() for name in names} == first
    for name in NAMES[:4]:
        assert ElementTree.fromstring(first[name]).tag.endswith("svg")  # noqa: S314 - written a line above
        assert b"<dc:date>" not in first[name]


def test_command_writes_every_figure_of_a_study_without_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_study(tmp_path / "demo", a_study(), [])
    monkeypatch.setattr("sys.argv", ["figures", str(folder.root)])
    figures.main()
    assert sorted(path.name for path in folder.figures.iterdir()) == sorted([*NAMES, "png"])


def test_delta_comes_from_the_file_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU))
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps(a_study(decide={"delta": 0.01}).model_dump(mode="json")))
    drawn: list[float] = []
    monkeypatch.setattr(
        figures, "draw_throughput", lambda verdict: drawn.append(verdict.delta) or draw_throughput(verdict)
    )
    monkeypatch.setattr("sys.argv", ["figures", str(folder.root), "--config", str(other)])
    figures.main()
    assert drawn == [0.01]


def test_svg_of_the_same_verdict_is_the_same_text():
    verdict, _ = judged(fps_trials(PLATEAU))
    assert svg_of(draw_throughput(verdict)) == svg_of(draw_throughput(verdict))
