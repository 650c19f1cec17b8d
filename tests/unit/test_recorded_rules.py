"""The study of learning rules (results-published/cartpole-learning-rules): docs/learning-rules.md says what its records say."""

import math
from collections.abc import Iterator
from itertools import combinations, pairwise
from statistics import median

from envknee.study import space
from envknee.study.load import read_study
from envknee.verdict.schema.learning import Cost
from envknee.verdict.schema.rules import RuleLimit, RulePoint, Rules
from envknee.verdict.words.learning import saving_evidence
from published import PUBLISHED, ROOT, records_of, uuid_of, verdict_of, words_of

STUDY = "cartpole-learning-rules"
BASE = 1024
OLDER = 41
"""So many trials, the first ones, ran with an older version on another machine."""


def rules() -> Rules:
    found = verdict_of(STUDY).rules
    assert found is not None
    return found


def cost(given: Cost | None, unit: float, decimals: int) -> str:
    """Return `12.3 (11.0 to 13.7)`, or `over 12.3` for a lower bound."""
    assert given is not None
    if given.lower_bound:
        return f"over {given.value / unit:.{decimals}f}"
    assert given.interval_lower is not None and given.interval_upper is not None
    return f"{given.value / unit:.{decimals}f} ({given.interval_lower / unit:.{decimals}f} to {given.interval_upper / unit:.{decimals}f})"


def frames(point: RulePoint) -> str:
    return cost(point.frames_to_target, 1e6, 2)


def seconds(point: RulePoint) -> str:
    return cost(point.seconds_to_target, 1.0, 1)


def point_at(rule: RuleLimit, num_envs: int) -> RulePoint:
    return next(point for point in rule.points if point.num_envs == num_envs)


def of(arm: str, num_envs: int) -> RulePoint:
    return point_at(next(rule for rule in rules().rules if rule.arm == arm), num_envs)


def cost_rows() -> Iterator[str]:
    """Return the rows of the table of costs."""
    for rule in rules().rules:
        for point in rule.points:
            assert point.learning_rate is not None and point.batch_size is not None
            values = f"{point.horizon} | {point.batch_size:,} | {point.learning_rate * 1e4:.2g}"
            costs = f"{seconds(point)} | {frames(point)} | {point.seconds_per_million_frames:.1f}"
            yield f"| `{rule.arm}` | {point.num_envs:,} | {values} | {costs} | {point.reached} of {point.seeds} |"


def limit_rows() -> Iterator[str]:
    """Return the rows of the table of limits."""
    by_arm = {arm.arm: arm.learning[0] for arm in verdict_of(STUDY).arms}
    for rule in rules().rules:
        own = by_arm[rule.arm]
        assert own.state == "reached" and rule.soonest_num_envs is not None
        interval = f"({own.threshold_lowest:,} to {own.threshold_highest:,})"
        soonest = f"{rule.soonest_num_envs:,}: {seconds(point_at(rule, rule.soonest_num_envs))} s"
        yield (
            f"| `{rule.arm}` | {own.threshold_num_envs:,} {interval} | {soonest}"
            f" | {rule.soonest_lowest:,} to {rule.soonest_highest:,} |"
        )


def seconds_per_frame(since: int = 0) -> dict[tuple[str, int], float]:
    """Return by rule and size the median seconds per frame of trials from a number on."""
    own: dict[tuple[str, int], list[float]] = {}
    for record in records_of(STUDY):
        if record.frames and record.train_s and record.request.number >= since:
            place = record.request.arm, record.request.num_envs
            own.setdefault(place, []).append(record.train_s / record.frames)
    return {place: median(values) for place, values in own.items()}


def spread_at_base() -> float:
    """Return how far seconds per frame are apart where all rules are the same training, as a ratio."""
    own = [value for (_, num_envs), value in seconds_per_frame().items() if num_envs == BASE]
    return max(own) / min(own)


def losses(since: int = 0) -> dict[tuple[str, int], tuple[float, float, str]]:
    """Return by rule and size what the next size loses: frames ratio, seconds per frame ratio, and the limit's name."""
    found, per_frame = {}, seconds_per_frame(since)
    for rule in rules().rules:
        for first, then in pairwise(rule.points):
            assert first.frames_to_target is not None and then.frames_to_target is not None
            more = then.frames_to_target.value / first.frames_to_target.value
            slower = per_frame[rule.arm, then.num_envs] / per_frame[rule.arm, first.num_envs]
            ideal = first.num_envs / then.num_envs
            name = "PPO" if more > slower / ideal else "simulator"
            if abs(math.log(more / (slower / ideal))) < math.log(spread_at_base()):
                name = "both"
            found[rule.arm, first.num_envs] = more, slower, "rule" if then.reached < then.seeds else name
    return found


def loss_rows() -> Iterator[str]:
    """Return the rows of the table of what limits each doubling."""
    own, names = losses(), [rule.arm for rule in rules().rules]
    yield f"| from, to | {' | '.join(f'`{name}`' for name in names)} |"
    for first in [point.num_envs for point in rules().rules[0].points][:-1]:
        cells = []
        for name in names:
            more, slower, limit = own[name, first]
            least = "over " if of(name, 2 * first).reached < of(name, 2 * first).seeds else ""
            cells.append(f"{least}{more:.2f}, {slower:.2f}: {limit}")
        yield f"| {first:,}, {2 * first:,} | {' | '.join(cells)} |"


def apart(one: Cost | None, other: Cost | None) -> bool:
    """Return whether two intervals do not meet."""
    assert one is not None and other is not None
    ends = [
        (cost.value if cost.lower_bound else cost.interval_lower, None if cost.lower_bound else cost.interval_upper)
        for cost in (one, other)
    ]
    return any(
        upper is not None and lower is not None and upper < lower for (_, upper), (lower, _) in (ends, ends[::-1])
    )


# --- The page


def test_the_tables_hold_what_was_measured():
    docs = (ROOT / "docs/learning-rules.md").read_text()
    for row in (*cost_rows(), *limit_rows(), *loss_rows()):
        assert row in docs


def test_the_page_says_how_much_is_measured():
    docs, results = words_of("docs/learning-rules.md"), words_of("docs/results.md")
    records = records_of(STUDY)
    planned = len(space.plan(read_study(PUBLISHED[STUDY].study)))
    assert f"{len(records)} of {planned} trials" in docs
    assert f"Of `learning-rules`' {planned} it is the first {len(records)}" in results
    seeds = [point.seeds for rule in rules().rules for point in rule.points]
    assert set(seeds) == {3, 4}
    assert f"Each of {len(seeds)} places has three seeds, {seeds.count(4)} have a fourth" in docs
    (skipped,) = (record for record in records if record.outcome.status == "skipped")
    assert (skipped.request.arm, skipped.request.num_envs, skipped.request.repeat) == ("fixed_batch", 8192, 3)
    assert "`fixed_batch` with 8,192 environments gets no fourth seed" in docs


def test_the_page_says_which_trials_are_older_and_what_that_changes():
    docs = words_of("docs/learning-rules.md")
    older = [record for record in records_of(STUDY) if record.request.number < OLDER]
    later = [record for record in records_of(STUDY) if record.request.number >= OLDER]
    on = [{uuid_of(record) for record in half} - {None} for half in (older, later)]
    assert [len(gpus) for gpus in on] == [2, 2] and not on[0] & on[1]
    places = [(record.request.arm, record.request.num_envs) for record in older]
    assert {places.count(place) for place in set(places)} == {1, 2} and len(set(places)) == 24
    assert f"The first {OLDER} trials, one or two seeds of each place" in docs
    longer: dict[int, list[float]] = {}
    before: dict[tuple[str, int], list[float]] = {}
    for record in older:
        assert record.frames and record.train_s
        before.setdefault((record.request.arm, record.request.num_envs), []).append(record.train_s / record.frames)
    for (arm, num_envs), value in seconds_per_frame(OLDER).items():
        longer.setdefault(num_envs, []).append(median(before[arm, num_envs]) / value - 1)
    more = {num_envs: median(values) for num_envs, values in longer.items()}
    assert (
        f"They took {more[256]:.0%} more seconds per frame with 256 environments, and {more[8192]:.0%} more with 8,192"
        in docs
    )
    assert (more[256], more[8192]) == (max(more.values()), min(more.values()))
    base = [
        [(record.request.repeat, record.frames_to_target) for record in half if record.request.num_envs == BASE]
        for half in (older, later)
    ]
    assert len(set(base[0]) & set(base[1])) == 1
    assert "A seed of the base ran with both and took the same frames" in docs
    now, then = losses(), losses(OLDER)
    (changed,) = (place for place in now if now[place][2] != then[place][2])
    assert changed == ("fixed_batch", 1024) and then[changed][2] == "both"
    assert "With the later 50 trials alone one cell changes: `fixed_batch` from 1,024 to 2,048 says *both*" in docs
    assert len(later) == 50


def test_at_the_base_all_rules_are_the_same_training():
    docs = words_of("docs/learning-rules.md")
    by_seed: dict[int, set[int | None]] = {}
    for record in records_of(STUDY):
        if record.request.num_envs == BASE:
            by_seed.setdefault(record.request.repeat, set()).add(record.frames_to_target)
    assert len(by_seed) == 4 and all(len(found) == 1 and None not in found for found in by_seed.values())
    assert "At 1,024 environments the rules took exactly the same frames, seed by seed" in docs
    assert f"their seconds per frame were {spread_at_base() - 1:.0%} apart" in docs
    assert f"the two losses are within {spread_at_base() - 1:.0%} of each other" in docs


def test_the_page_says_what_the_rules_show():
    docs, found = words_of("docs/learning-rules.md"), rules()
    assert found.has_moved is False
    soonest = {rule.arm: rule.soonest_num_envs for rule in found.rules}
    assert soonest == {"fixed_batch": 1024, "fixed_frames": 1024, "library": 512, "sqrt_lr": 1024}
    times = [
        point_at(rule, rule.soonest_num_envs or 0).seconds_to_target for rule in found.rules if rule.soonest_num_envs
    ]
    values = [time.value for time in times if time is not None]
    assert len({uuid_of(record) for record in records_of(STUDY)} - {None}) == 4
    assert f"all take {min(values):.1f} to {max(values):.1f} s there" in docs
    own = losses()
    for rule in found.rules:
        limit = own[rule.arm, rule.soonest_num_envs or 0][2]
        assert limit in (rule.limit, "both")
    few = [(arm, size) for arm in ("fixed_batch", "fixed_frames") for size in (256, 512)]
    assert {own[place][2] for place in few} == {"simulator"}
    flat = [of(arm, size).frames_to_target for arm in ("fixed_batch", "fixed_frames") for size in (256, 512, 1024)]
    low, high = (end(cost.value for cost in flat if cost is not None) / 1e6 for end in (min, max))
    assert f"Up to 1,024 environments they take about the same frames, {low:.1f} to {high:.1f} million" in docs
    rising = [of("library", size) for size in (256, 512, 1024)]
    assert {own["library", size][2] for size in (256, 512, 1024, 2048)} == {"PPO"} and own["library", 4096][2] == "rule"
    assert apart(rising[0].frames_to_target, rising[2].frames_to_target)
    in_millions = [f"{point.frames_to_target.value / 1e6:.2f}" for point in rising if point.frames_to_target]
    assert (
        f"Its frames rise from the smallest size on: {in_millions[0]}, {in_millions[1]} and {in_millions[2]} million"
        in docs
    )
    assert {own["sqrt_lr", size][2] for size in (256, 512)} == {"both"}
    assert "For `sqrt_lr` it is both" in docs
    (library,) = next(arm for arm in verdict_of(STUDY).arms if arm.arm == "library").learning
    shown = {saving.num_envs: saving.shown_below_delta for saving in library.savings}
    assert not shown[512] and not shown[1024] and shown[2048]
    (slow,) = (record for record in records_of(STUDY) if record.outcome.status == "timeout")
    assert (slow.request.arm, slow.request.num_envs, slow.request.budget_s) == ("library", 8192, 120.0)
    assert (
        "Under `library` a seed with 8,192 environments spent its 120 s, and three arrived. All other trials arrived"
        in docs
    )


def test_the_page_says_where_rules_differ():
    docs = words_of("docs/learning-rules.md")
    found = {
        (point.num_envs, one.arm, other.arm, what)
        for one, other in combinations(rules().rules, 2)
        for point in one.points
        for what in ("seconds_to_target", "frames_to_target")
        if apart(getattr(point, what), getattr(point_at(other, point.num_envs), what))
    }
    both = [
        (size, "fixed_batch", "library", f"{what}_to_target") for size in (4096, 8192) for what in ("seconds", "frames")
    ]
    few = [(256, arm, "library", "frames_to_target") for arm in ("fixed_batch", "fixed_frames")]
    assert found == {*both, *few}
    batch, library = of("fixed_batch", 4096), of("library", 4096)
    assert f"With 4,096 environments `fixed_batch` takes {seconds(batch)} s, `library` {seconds(library)} s" in docs
    batch, library = of("fixed_batch", 8192), of("library", 8192)
    assert f"With 8,192 it takes {seconds(batch)} s, `library` {seconds(library)} s" in docs
    few = [of(arm, 256) for arm in ("library", "fixed_batch", "fixed_frames")]
    assert [point.batch_size for point in few] == [2048, 8192, 8192]
    assert (
        f"With 256 `library` takes {frames(few[0])} million frames, `fixed_batch` {frames(few[1])}, `fixed_frames` {frames(few[2])}"
        in docs
    )


def test_the_results_name_the_study():
    times = [f"{of(arm, 4096).seconds_to_target.value:.1f}" for arm in ("fixed_batch", "library")]  # type: ignore[union-attr]
    results = words_of("docs/results.md")
    assert f"With 4,096 environments `fixed_batch` takes {times[0]} s to reward 4.5, `library` {times[1]} s" in results


def test_a_doubling_that_may_save_something_after_all_says_what_the_bound_is_of():
    """Not `takes 14.2% longer (at most 13.4%, ...)`: the bound is of a saving."""
    said = {arm.arm: saving_evidence(arm.learning[0])[0] for arm in verdict_of(STUDY).arms}
    assert said["fixed_batch"].startswith(
        "doubling 1,024 takes 14.2% longer (saves at most 13.4%, 4 seeds; pays from 25%"
    )
