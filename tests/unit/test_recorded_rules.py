"""The study of learning rules (results-published/cartpole-learning-rules): docs/learning-rules.md says what its records say."""

import math
from collections.abc import Iterator
from itertools import combinations, pairwise, product

from envknee.verdict.schema.learning import Cost, RuleLimit, RulePoint, Rules
from envknee.words.states import gain_evidence
from published import ROOT, records_of, uuid_of, verdict_of, words_of
from records import known

STUDY = "cartpole-learning-rules"
BASE = 1024


def rules() -> Rules:
    return known(verdict_of(STUDY).rules)


def cost(given: Cost | None, unit: float, decimals: int) -> str:
    """Return `12.3 (11.0 to 13.7)`, or `over 12.3` for a lower bound."""
    assert given is not None
    if given.lower_bound:
        return f"over {given.value / unit:.{decimals}f}"
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
    for rule in rules().rules:
        for point in rule.points:
            values = f"{point.horizon} | {point.batch_size:,} | {point.learning_rate * 1e4:.2g}"
            costs = f"{seconds(point)} | {frames(point)} | {point.seconds_per_million_frames:.1f}"
            yield f"| `{rule.arm}` | {point.num_envs:,} | {values} | {costs} | {point.reached} of {point.seeds} |"


def limit_rows() -> Iterator[str]:
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


def spread_at_base() -> float:
    """Return how far seconds per frame are apart where all rules are the same training, as a ratio."""
    own = [point_at(rule, BASE).seconds_per_million_frames or 0.0 for rule in rules().rules]
    return max(own) / min(own)


def losses() -> dict[tuple[str, int], tuple[float, float, str]]:
    """Return by rule and size what the next size loses: frames ratio, seconds per frame ratio, and the limit's name."""
    found = {}
    for rule in rules().rules:
        for first, then in pairwise(rule.points):
            assert first.seconds_per_million_frames and then.seconds_per_million_frames
            more = known(then.frames_to_target).value / known(first.frames_to_target).value
            slower = then.seconds_per_million_frames / first.seconds_per_million_frames
            ideal = first.num_envs / then.num_envs
            name = "PPO" if more > slower / ideal else "simulator"
            if abs(math.log(more / (slower / ideal))) < math.log(spread_at_base()):
                name = "both"
            found[rule.arm, first.num_envs] = more, slower, "rule" if then.reached < then.seeds else name
    return found


def loss_rows() -> Iterator[str]:
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
    assert one is not None and other is not None
    (lowest, first_end), (lower, last_end) = (
        (cost.value, math.inf) if cost.lower_bound else (cost.interval_lower, cost.interval_upper)
        for cost in (one, other)
    )
    return known(first_end) < known(lower) or known(last_end) < known(lowest)


def test_the_tables_hold_what_was_measured():
    docs = (ROOT / "docs/learning-rules.md").read_text()
    for row in (*cost_rows(), *limit_rows(), *loss_rows()):
        assert row in docs


def test_at_the_base_all_rules_are_the_same_training():
    docs = words_of("docs/learning-rules.md")
    by_seed: dict[int, set[int | None]] = {}
    for record in records_of(STUDY):
        if record.request.num_envs == BASE:
            by_seed.setdefault(record.request.repeat, set()).add(record.frames_to_target)
    assert len(by_seed) == 5 and all(len(found) == 1 and None not in found for found in by_seed.values())
    assert "At 1,024 environments the rules took the same frames, seed by seed, on every machine" in docs
    assert f"Their seconds per frame were {spread_at_base() - 1:.0%} apart" in docs
    assert f"the two losses are within {spread_at_base() - 1:.0%} of each other" in docs
    times = [time.value for rule in rules().rules if (time := point_at(rule, BASE).seconds_to_target)]
    assert len(times) == 4
    assert f"with 1,024 environments the same training took {min(times):.1f} to {max(times):.1f} s" in docs


def test_the_page_says_what_the_rules_show():
    docs, found = words_of("docs/learning-rules.md"), rules()
    assert found.has_moved is False
    soonest = {rule.arm: rule.soonest_num_envs for rule in found.rules}
    assert soonest == {"fixed_batch": 1024, "fixed_frames": 1024, "library": 256, "sqrt_lr": 1024}
    values = [known(point_at(rule, soonest[rule.arm] or 0).seconds_to_target).value for rule in found.rules]
    assert len({uuid_of(record) for record in records_of(STUDY)} - {None}) == 5
    assert "GPUs: five H100" in docs
    soon = f"{min(values):.1f} to {max(values):.1f} s"
    assert f"`library` learns soonest with 256 environments, the other rules with 1,024, in {soon}" in docs
    lowest = max(rule.soonest_lowest or 0 for rule in found.rules)
    highest = min(rule.soonest_highest or 0 for rule in found.rules)
    assert f"Their ranges share {lowest:,} to {highest:,}" in docs
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
    assert all(apart(one.frames_to_target, other.frames_to_target) for one, other in combinations(rising, 2))
    few, some, many = (f"{known(point.frames_to_target).value / 1e6:.2f}" for point in rising)
    said = f"{few}, {some} and {many} million with 256, 512 and 1,024 (intervals do not meet)"
    assert f"Its frames rise from the smallest size on: {said}" in docs
    assert [own["sqrt_lr", size][2] for size in (256, 512)] == ["PPO", "both"]
    for size in (256, 512):
        by_arm = {rule.arm: of(rule.arm, size).frames_to_target for rule in found.rules}
        values = {arm: cost.value for arm, cost in by_arm.items() if cost is not None}
        assert values["library"] < values["sqrt_lr"] < min(values["fixed_batch"], values["fixed_frames"])
    assert "`sqrt_lr` is between" in docs
    (slow,) = (record for record in records_of(STUDY) if record.outcome.status == "timeout")
    assert (slow.request.arm, slow.request.num_envs, slow.request.budget_s) == ("library", 8192, 120.0)
    assert "Under `library` a seed with 8,192 environments spent its 120 s. All other trials arrived" in docs


def test_the_page_says_where_rules_differ():
    docs = words_of("docs/learning-rules.md")
    cases = [
        (point.num_envs, one.arm, other.arm, what)
        for one, other in combinations(rules().rules, 2)
        for point in one.points
        for what in ("seconds_to_target", "frames_to_target")
    ]
    found = {
        (size, one, other, what)
        for size, one, other, what in cases
        if apart(getattr(of(one, size), what), getattr(of(other, size), what))
    }
    pairs = (4096, "fixed_batch", "library"), (8192, "fixed_batch", "library"), (8192, "library", "sqrt_lr")
    both = [(*pair, f"{what}_to_target") for pair in pairs for what in ("seconds", "frames")]
    few = [
        (256, *pair, "frames_to_target") for pair in product(("fixed_batch", "fixed_frames"), ("library", "sqrt_lr"))
    ]
    assert found == {*both, *few}
    assert f"meet in {len(cases) - len(found)} of {len(cases)} cases" in docs
    for said in (
        "`library` against `fixed_batch` with 4,096 and with 8,192 environments, "
        "and against `sqrt_lr` with 8,192, in seconds and in frames",
        "`library` and `sqrt_lr` against `fixed_batch` and `fixed_frames` with 256 environments, in frames alone",
    ):
        assert said in docs
    library, root = of("library", 8192), of("sqrt_lr", 8192)
    for size, said in ((4096, "With 4,096 environments `fixed_batch` takes"), (8192, "With 8,192 it takes")):
        assert f"{said} {seconds(of('fixed_batch', size))} s, `library` {seconds(of('library', size))} s" in docs
    assert f"There `sqrt_lr` takes {seconds(root)} s, which nearly meets the bound" in docs
    ends = root.seconds_to_target, library.seconds_to_target
    assert ends[0] and ends[1] and ends[0].interval_upper and ends[1].lower_bound
    assert 1 < ends[1].value / ends[0].interval_upper < 1.05
    few = [of(arm, 256) for arm in ("library", "sqrt_lr", "fixed_batch", "fixed_frames")]
    assert [point.batch_size for point in few] == [2048, 2048, 8192, 8192]
    assert "The first two have a quarter of the batch" in docs
    own, root, batch, kept = map(frames, few)
    said = f"`library` takes {own} million frames, `sqrt_lr` {root}, `fixed_batch` {batch}, `fixed_frames` {kept}"
    assert said in docs


def test_a_doubling_that_may_save_something_after_all_says_what_the_bound_is_of():
    """Not `takes 12.9% longer (at most 11.2%, ...)`: the bound is of a saving."""
    said = {arm.arm: gain_evidence(arm.learning[0])[0] for arm in verdict_of(STUDY).arms}
    longer = "doubling 1,024 takes 12.9% longer (saves at most 11.2%, 5 seeds; pays from 25%"
    assert said["fixed_batch"].startswith(longer)
