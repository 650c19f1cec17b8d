"""Mean episode reward of every learning trial: against frames, against wall seconds."""

from collections.abc import Sequence
from operator import attrgetter

from matplotlib.figure import Figure

from envknee.record.build import reward_averages
from envknee.record.schema import Record, Row
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, INK, STATUS_MARKERS, look_at
from envknee.verdict.schema.learning import best_of
from envknee.verdict.schema.study import Verdict
from envknee.words.learning import seconds_told
from envknee.words.numbers import shown_batch
from envknee.words.ranks import each
from envknee.words.statuses import STATUS_WORDS
from envknee.words.study import reached

_point = attrgetter("request.arm", "request.num_envs", "request.horizon", "request.batch_size")


def draw_learning(evidence: Evidence) -> Figure:
    """Return the mean episode reward of every learning trial against frames and against wall seconds."""
    verdict = evidence.verdict
    learned = [record for record in evidence.records if record.request.kind == "learning"]
    curves = [(record, curve) for record in learned if (curve := _curve(record, evidence.rows(record)))]
    unseen = len(learned) - len(curves)
    if not curves:
        why = f"None of {unseen} learning trials finished enough episodes for a mean."
        return canvas.in_words("Learning", why if unseen else "No learning trial has run yet.", verdict)
    points = sorted({_point(record) for record, _ in curves}, key=lambda point: (*point[:3], point[3] or 0))
    several = len({arm for arm, *_ in points}) > 1
    ranks = {arm.arm: arm.ranks for arm in verdict.arms}
    looks = {}
    for place, point in enumerate(points):
        arm, num_envs, horizon, batch_size = point
        label = f"{num_envs:,} envs{each(ranks[arm])}, T {horizon}, {shown_batch(batch_size)}"
        looks[point] = look_at(place, f"{arm}:\n{label}" if several else label)
    figure, (by_frames, by_time) = canvas.panels(_learning_title(verdict), verdict, height=5.0, columns=2)
    targets = sorted({r.request.target_reward for r, _ in curves if r.request.target_reward is not None})
    for axes, quantity in ((by_frames, "frames"), (by_time, "wall_s")):
        for record, curve in curves:
            look, status = looks[_point(record)], record.outcome.status
            x, reward = [getattr(row, quantity) for row, _ in curve], [reward for _, reward in curve]
            axes.plot(x, reward, color=look.colour, linestyle=look.dashes, linewidth=1.4, alpha=0.85)
            axes.plot(
                x[-1], reward[-1], STATUS_MARKERS[status], color=look.colour, markersize=6.5,
                markerfacecolor=look.colour if status == "target_reached" else "white", clip_on=False, zorder=4,
            )  # fmt: skip
        for target in targets:
            axes.axhline(target, color=INK, linewidth=1.0, linestyle=DASHED)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(canvas.thousands)
    episodes = sorted({record.request.target_episodes or 1 for record, _ in curves})
    by_frames.set_ylabel(f"Mean episode reward\n(over at least {' or '.join(map(str, episodes))} episodes)")
    by_frames.set_xlabel("Frames, all environments together")
    by_time.set_xlabel("Wall seconds of training")
    by_time.tick_params(labelleft=False)
    keys = [canvas.line_key(look.label, look.colour, 2, linestyle=look.dashes) for look in looks.values()]
    keys += [canvas.line_key(f"target {target:g}", INK, linestyle=DASHED) for target in targets]
    statuses = sorted({record.outcome.status for record, _ in curves})
    for status in statuses:
        label = f"ends: {STATUS_WORDS[status]}"
        keys.append(canvas.key(label, STATUS_MARKERS[status], hollow=status != "target_reached"))
    if unseen:
        keys.append(canvas.note(f"not shown: {unseen} that finished\ntoo few episodes"))
    canvas.legend(by_time, keys)
    return figure


def _curve(record: Record, rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Return the rows of a learning trial with their mean reward, from the iteration on by which enough episodes had ended."""
    averages = reward_averages(rows, record.request.target_episodes or 1)
    return [(row, reward) for row, reward in zip(rows, averages, strict=True) if reward is not None]


def _learning_title(verdict: Verdict) -> str:
    bests = [(arm.ranks, found[1]) for arm in verdict.arms if (found := best_of(arm.learning))]
    title = f"{reached(limit for arm in verdict.arms for limit in arm.learning)} reached the target"
    if bests:
        ranks, best = min(bests, key=lambda ranked: ranked[1].order)
        title += f", soonest {best.num_envs:,} environments{each(ranks)} in {seconds_told(best)}"
    return title
