"""The proof of the joint answer in small: truths are what rows say, studies are those of the real code, tables mark what is missed."""

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envknee.ask.ask import answer
from envknee.ask.history import History
from envknee.base.point import Point
from envknee.decide.study import decide
from envknee.record.schema import Record, Request
from envknee.study.designs import derived_seed
from envknee.study.errors import UserError
from envknee.verdict.joint import thresholds
from envknee.verdict.joint.observed import Observed
from envknee.verdict.joint.profile import Profile
from envknee.verdict.schema.joint import JointAnswer
from places import ROOT
from programs import run_main

from benchmarks.joint import alike, command, landscapes, samplers, studies, tables
from benchmarks.joint.counts import Counting, Tally, limit_of
from benchmarks.joint.handed import AXES, SETTINGS, fitted
from benchmarks.joint.landscapes import Axis, Deviating, at_place, everywhere, profile, savings, valley
from benchmarks.joint.noises import Noise
from benchmarks.joint.rows import ROWS, Row, parts
from benchmarks.joint.studies import Plan

LIMIT = limit_of(0.25, "learning")


def drawn(landscape: landscapes.Landscape, seed: int = 1) -> Any:
    return landscape(np.random.default_rng(seed))


# Truths


def test_the_limit_is_the_ln_cost_that_a_saving_or_a_gain_of_delta_saves():
    assert math.exp(-limit_of(0.25, "learning")) == pytest.approx(0.75)
    assert math.exp(limit_of(0.10, "throughput")) == pytest.approx(1.10)


@pytest.mark.parametrize("axis", ["num_envs", "horizon"])
@pytest.mark.parametrize("landscape", [valley, landscapes.cliffs, Deviating(valley, 0.3, 0.7), landscapes.saturating])
def test_every_doubling_saves_exactly_delta_whatever_the_landscape(axis: Axis, landscape: landscapes.Landscape):
    own = savings(drawn(everywhere(axis, LIMIT, landscape)), axis)
    assert list(own) == AXES[axis][:-1]
    assert list(own.values()) == pytest.approx([LIMIT] * len(own))


@pytest.mark.parametrize(("axis", "place"), [("num_envs", 0), ("num_envs", 3), ("horizon", 1)])
def test_one_doubling_saves_exactly_delta_those_before_it_more_and_later_ones_nothing(axis: Axis, place: int):
    own = list(savings(drawn(at_place(axis, LIMIT, place)), axis).values())
    assert own[:place] == pytest.approx([2 * LIMIT] * place)
    assert own[place] == pytest.approx(LIMIT)
    assert own[place + 1 :] == pytest.approx([0.0] * (len(own) - place - 1), abs=1e-12)


def test_rows_at_delta_say_where_it_is():
    costs = drawn(ROWS["num_envs at 25% from 512"].landscape)
    assert savings(costs, "num_envs")[512] == pytest.approx(LIMIT)
    assert savings(drawn(ROWS["horizon at 10% from 8"].landscape), "horizon")[8] == pytest.approx(-math.log(0.9))
    fps = savings(drawn(ROWS["FPS: num_envs at 10%"].landscape), "num_envs")
    assert list(fps.values()) == pytest.approx([math.log(1.1)] * 4)


def test_the_valley_has_a_kink_at_its_bottom():
    costs = dict(zip(SETTINGS, drawn(valley).tolist(), strict=True))
    # 512 x 32 = 16,384 frames: 32, 16, 8 and 4 mini-batches; the bottom lies between 16 and 8.
    steps = [costs[Point(512, 32, batch)] for batch in (512, 1024, 2048, 4096)]
    assert np.diff(steps) == pytest.approx([-0.22, 0.0, 0.22])


def test_a_cliff_costs_much_from_one_setting_to_the_next():
    costs = dict(zip(SETTINGS, (drawn(landscapes.cliffs) - drawn(valley)).tolist(), strict=True))
    assert (costs[Point(512, 32, 2048)], costs[Point(512, 32, 4096)]) == (0.0, pytest.approx(0.8))
    assert costs[Point(2048, 64, 16384)] == pytest.approx(0.8)


@pytest.mark.parametrize(("octaves", "alike"), [(0.7, math.exp(-1 / 0.98)), (3.0, math.exp(-1 / 18))])
def test_deviations_have_their_amplitude_and_length(octaves: float, alike: float):
    landscape = Deviating(valley, 0.3, octaves)
    generator = np.random.default_rng(1)
    every = np.array([landscape(generator) - valley(generator) for _ in range(3000)])
    assert every.std() == pytest.approx(0.3, rel=0.05)
    one, other = SETTINGS.index(Point(512, 32, 2048)), SETTINGS.index(Point(512, 32, 4096))
    assert np.corrcoef(every[:, one], every[:, other])[0, 1] == pytest.approx(alike, abs=0.05)


def test_saturating_fps_double_at_first_and_hardly_gain_at_last():
    gains = [math.expm1(own) for own in savings(drawn(landscapes.saturating), "num_envs").values()]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.5 and gains[-1] < 0.5 * gains[0]


def test_the_data_s_own_fit_is_the_handed_one():
    assert drawn(landscapes.as_handed) is fitted().mean
    best = SETTINGS[int(fitted().mean.argmin())]
    assert profile(fitted().mean, "num_envs")[best.num_envs] == pytest.approx(float(fitted().mean.min()))


@pytest.mark.parametrize(
    ("noise", "num_envs", "sd"),
    [
        (Noise(0.29), 128, 0.29),
        (Noise(0.2, per_octave=-0.25), 2048, 0.2 * math.exp(-0.5)),
        (Noise(0.2, per_octave=0.25), 2048, 0.2 * math.exp(0.5)),
        # Humps: 0.15^2 + (1/3)(2/3) 0.8^2
        (Noise(0.15, slow_share=1 / 3, slow_log=0.8), 512, math.sqrt(0.15**2 + 2 / 9 * 0.64)),
    ],
)
def test_seeds_deviate_as_a_noise_says(noise: Noise, num_envs: int, sd: float):
    generator, costs = np.random.default_rng(1), np.zeros(len(SETTINGS))
    place = next(own for own, setting in enumerate(SETTINGS) if setting.num_envs == num_envs)
    logs = [math.log(noise.seed(costs, place, generator).cost) for _ in range(4000)]
    assert np.mean(logs) == pytest.approx(noise.mean, abs=4 * sd / math.sqrt(4000))
    assert np.std(logs) == pytest.approx(sd, rel=0.06)


def test_a_seed_beyond_its_budget_is_a_lower_bound():
    noise, generator = Noise(0.29, slow_share=0.5, slow_log=2.0, budget_times=3.0), np.random.default_rng(1)
    costs = np.full(len(SETTINGS), math.log(6.0))
    seeds = [noise.seed(costs, 0, generator) for _ in range(2000)]
    late = [own for own in seeds if own.is_censored]
    assert {round(own.cost, 9) for own in late} == {18.0}
    assert len(late) / 2000 == pytest.approx(0.5, abs=0.05)


# Studies

Costs = Callable[[int], Observed]


def fixed_costs(costs: Any, noise: float) -> Costs:
    """Return costs of which the n-th seed of a setting has its own, whoever asks."""
    counts: dict[int, int] = {}

    def measure(place: int) -> Observed:
        counts[place] = counts.get(place, 0) + 1
        deviation = noise * np.random.default_rng([place, counts[place]]).standard_normal()
        return Observed(math.exp(float(costs[place]) + deviation), False)

    return measure


def rounded(found: JointAnswer) -> Any:
    """Return an answer to seven digits: records of another order are summed in another order."""
    return json.loads(found.model_dump_json(), parse_float=lambda number: float(f"{float(number):.7g}"))


@pytest.mark.parametrize("plan", [Plan(trials=20, seeds=3), Plan(kind="throughput", trials=20, seeds=3)])
def test_simulated_studies_say_what_whole_ones_say_that_the_code_of_real_ones_asks_and_decides(plan: Plan):
    costs = drawn(valley) + 1.0
    study = studies.study_of(plan, 3)
    requests, records = list[Request](), dict[int, Record]()
    measure = fixed_costs(costs, 0.1)
    for slot in studies.slots_of(plan, 3):
        request = answer(study, slot, History.of(requests, records))
        requests.append(request)
        records[slot.number] = studies.recorded(request, measure(studies.PLACE_OF[request.point]))
    [arm] = decide(list(records.values()), study).arms
    [whole] = arm.joint
    quick = studies.run(plan, 3, fixed_costs(costs, 0.1), (whole.delta,))
    assert list(map(rounded, quick.answers)) == [rounded(whole)]
    assert sorted(SETTINGS[place] for place in quick.confirmed) == sorted(
        Point(own.num_envs, own.horizon, own.batch_size) for own in whole.confirmed
    )


def test_the_quick_search_of_sampler_profile_is_what_the_real_one_asks():
    plan = Plan(search="profile", trials=14)
    study, costs = studies.study_of(plan, 2), drawn(valley)
    requests, records = list[Request](), dict[int, Record]()
    measure = fixed_costs(costs, 0.1)
    slots = [slot for slot in studies.slots_of(plan, 2) if not slot.confirms]
    for slot in slots:
        request = answer(study, slot, History.of(requests, records))
        requests.append(request)
        records[slot.number] = studies.recorded(request, measure(studies.PLACE_OF[request.point]))

    def seed_of(number: int) -> int:
        return derived_seed(study.seed, "profile", studies.ARM, "learning", number)

    places = studies.sobol_places(plan, 2)
    tried = studies.search_by_profile(14, places, fixed_costs(costs, 0.1), seed_of)
    assert [SETTINGS[place] for place, _ in tried] == [request.point for request in requests]


def test_remembering_changes_no_answer(monkeypatch: pytest.MonkeyPatch):
    plan, costs = Plan(trials=16, seeds=3), drawn(valley)
    quick = studies.run(plan, 1, fixed_costs(costs, 0.2), (0.25, 0.10))
    monkeypatch.setattr(studies, "once_each", nullcontext)
    assert studies.run(plan, 1, fixed_costs(costs, 0.2), (0.25, 0.10)).answers == quick.answers


def test_further_seeds_count_where_num_envs_is_undecided_and_only_there():
    plan = Plan(trials=30, settings=5, seeds=3, more_seeds=2)
    told = {}
    landscapes_and_noises = (
        ("flat", landscapes.as_handed, 0.02),  # from 256 on a doubling saves less than 9%
        ("at delta", everywhere("num_envs", LIMIT), 0.5),
    )
    for name, landscape, noise in landscapes_and_noises:
        [found] = studies.run(plan, 1, fixed_costs(drawn(landscape), noise), (0.25,)).answers
        [state] = [own.state for own in found.thresholds if own.axis == "num_envs"]
        told[name] = (state, {own.seeds for own in found.confirmed})
    assert told["at delta"] == ("undecided", {5})
    assert told["flat"] == ("reached", {3})


@pytest.mark.parametrize(("largest", "tested", "pays"), [(0.5, [1, 2], True), (0.5, [1], False), (0.2, [1, 2], False)])
def test_the_largest_doubling_pays_only_if_it_was_tested_and_the_model_agrees(
    largest: float, tested: list[int], pays: bool
):
    noise = 0.05 * np.random.default_rng(1).standard_normal((1000, 3))
    known = Profile([1, 2, 4], np.array([1.0, 0.5, 0.5 - largest]) + noise)
    assert thresholds.still_pays(known, tested, LIMIT, 0.05) is pays


# Counts


def test_a_tiny_run_gives_sane_counts():
    row = Row("small", everywhere("num_envs", LIMIT), plan=Plan(trials=24, seeds=3))
    tally = row.part(0, 6, seed=1)
    assert (tally.studies, tally.of["soonest covered"], tally.of["false bound"]) == (6, 6, 6)
    assert tally.of["rough"] == 6 == tally.of.get("set size", 0) + tally.hits["rough"]
    assert tally.hits["false reached: num_envs 25%"] <= 1
    assert "found: num_envs 25%" not in tally.of, "no threshold is there"
    assert "false pays: num_envs 10%" not in tally.of, "the largest doubling truly saves 25%"
    assert tally.hits["soonest covered"] >= 5
    regret = tally.mean("pick regret")
    assert regret is not None and 0.0 <= regret < 0.5
    again = row.part(0, 6, seed=1)
    assert again.model_copy(update={"seconds": tally.seconds}) == tally
    assert row.part(1, 6, seed=1).sums != tally.sums


def test_a_claim_that_is_wrong_is_counted(monkeypatch: pytest.MonkeyPatch):
    plan, costs = Plan(trials=30, seeds=3), drawn(everywhere("num_envs", LIMIT))
    simulated = studies.run(plan, 1, fixed_costs(costs, 0.01), (0.25,))
    counting = Counting()
    # Seen from a truth in which everything costs e times more, and num_envs pays nowhere or everywhere.
    counting.study(simulated, costs + 1.0, "learning")
    assert (counting.of["soonest covered"], counting.hits["soonest covered"]) == (1, 0)
    wrong = simulated.answers[0].model_copy(
        update={
            "thresholds": [
                own.model_copy(update={"state": "reached", "threshold": 256}) for own in simulated.answers[0].thresholds
            ]
        }
    )
    counting.thresholds(wrong, costs, "learning")
    assert counting.hits["false reached: num_envs 25%"] == 1
    pays = wrong.model_copy(
        update={"thresholds": [own.model_copy(update={"state": "still pays"}) for own in wrong.thresholds]}
    )
    counting.thresholds(pays, drawn(at_place("num_envs", LIMIT, 0)), "learning")
    assert counting.hits["false pays: num_envs 25%"] == 1


def test_an_equal_setting_that_is_shown_slower_counts_apart_from_the_best():
    plan, costs = Plan(trials=30, seeds=3), np.zeros(len(SETTINGS))
    [found] = studies.run(plan, 1, fixed_costs(costs, 0.2), (0.25,)).answers
    slower = found.model_copy(
        update={
            "confirmed": [
                own.model_copy(update={"may_be_best": own.num_envs < 2048 and own.may_be_best})
                for own in found.confirmed
            ]
        }
    )
    counting = Counting()
    counting.confirmed(slower, costs, 0.0)
    assert (counting.hits["equal shown slower"], counting.of["equal shown slower"]) == (1, 1)
    assert counting.hits["best shown slower"] == 0


@pytest.mark.parametrize("sampler", ["random", "sobol", "profile"])
def test_a_sampler_s_regret_falls_with_trials(sampler: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(samplers, "TRIALS", (10, 40))
    monkeypatch.setattr(samplers, "POINTS", 20)
    tally = samplers.part(sampler, 0, 2, seed=1)
    few, many = tally.mean("picked: 10"), tally.mean("picked: 40")
    assert few is not None and many is not None
    assert 0.0 <= many < 0.6 and many <= few + 0.2
    told = tally.mean("told: 40")
    assert told is not None and told < 1.0, "the best one seen was lucky"


# Command and tables


def tally_of(**shares: tuple[int, int]) -> Tally:
    named = {name.replace("_", " "): own for name, own in shares.items()}
    return Tally(
        studies=2000,
        hits={name: hits for name, (hits, _) in named.items()},
        of={name: of for name, (_, of) in named.items()},
    )


def test_a_miss_is_marked_unless_chance_explains_it():
    kept = tally_of(soonest_covered=(1840, 2000), false_bound=(115, 2000))
    assert tables.missed(kept) == []
    missed = tally_of(soonest_covered=(1800, 2000), false_bound=(140, 2000), equal_shown_slower=(300, 2000))
    assert tables.missed(missed) == ["soonest's interval", '"at most so much slower" false']
    few = tally_of(profile_covered=(17, 20))
    assert tables.missed(few) == [], "chance explains as much in 20 cases"
    text = tables.all_of_it({"the data's own fit": missed}, {})
    assert "Missed in 1 of 1 rows:" in text and "| 90.0% ! |" in text
    assert "Kept in all 1 rows." in tables.all_of_it({"the data's own fit": kept}, {})


def test_rows_of_two_arms_count_what_is_falsely_and_rightly_shown():
    at_limit, same = alike.ROWS["alike: ratio 1.15, seeds of 10%"], alike.ROWS["alike: ratio 1, seeds of 16%"]
    assert (at_limit.is_alike, same.is_alike) == (False, True)
    counted = {row.name: row.part(0, 100, 1) for row in (at_limit, same)}
    assert counted[at_limit.name].of == {"false alike": 100, "varies": 100, "missed": 100}
    assert (counted[same.name].share("alike") or 0.0) > 0.8
    text = tables.all_of_it({}, {}, counted)
    assert "in 100 comparisons each" in text and f"| {same.name} |  | " in text
    assert tables.missed(tally_of(false_alike=(140, 2000))) == ["falsely shown to learn alike"]


def test_counts_of_parts_add_up():
    one = Tally(studies=2, seconds=1.0, hits={"a": 0}, of={"a": 2}, sums={"b": 0.5})
    other = Tally(studies=3, seconds=1.0, hits={"a": 2}, of={"a": 3, "b": 1}, sums={"b": 0.25})
    both = one + other
    assert (both.studies, both.share("a"), both.sums["b"], both.share("c")) == (5, 0.4, 0.75, None)


def test_a_run_that_was_stopped_goes_on_and_its_tables_come_from_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "ProcessPoolExecutor", lambda max_workers, mp_context: ThreadPoolExecutor(max_workers))
    ran = list[command.Part]()

    def count(part: command.Part) -> command.Counted:
        ran.append(part)
        tally = tally_of(soonest_covered=(1, 1)).model_copy(update={"studies": part.studies})
        return command.Counted(what=part.what, name=part.name, seed=part.seed, number=part.number, tally=tally)

    monkeypatch.setattr(command, "count", count)
    run = partial(run_main, command.main, "--folder", tmp_path / "counts", "--samplers", "none", "--workers", "1")
    for _ in range(2):
        assert run("--rows", "the data's own fit", "--studies", "300") == 0
    assert sorted((part.number, part.studies) for part in ran) == [(0, 125), (1, 125), (2, 50)] == parts(300)
    assert len(list((tmp_path / "counts").glob("*.json"))) == 3
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{command.BEGIN}earlier\n{command.END}\nlast\n")
    run("--rows", "FPS: *", "the data's own fit", "--only-write", "--output", page)
    text = page.read_text()
    assert text.startswith("# Title") and text.endswith("last\n") and "earlier" not in text
    assert "300 studies per row" in text and "| the data's own fit |" in text
    assert len(ran) == 3


def test_the_counts_of_one_part_come_back_from_its_file(tmp_path: Path):
    part = command.Part("row", "num_envs at 25%", 2, 125, 1)
    assert part.file == "row-num-envs-at-25-seed-1-part-002-of-125.json"
    assert len({command.Part("row", name, 0, 1, 1).file for name in ROWS}) == len(ROWS)
    counted = command.Counted(what="row", name=part.name, seed=1, number=2, tally=Tally(studies=1, of={"a": 1}))
    (tmp_path / part.file).write_text(json.dumps(counted.model_dump()))
    assert command.counts_in(tmp_path, "row", list(ROWS)) == {part.name: counted.tally}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--studies", "0"], "--studies is 0"),
        (["--rows", "nothing"], "--rows 'nothing' is none of: the data's own fit"),
        (["--samplers", "cmaes"], "--samplers 'cmaes' is none of: random"),
        (["--output", "proof.txt"], "ends in .md"),
    ],
)
def test_bad_arguments_are_explained(arguments: list[str], said: str):
    with pytest.raises(UserError, match=said):
        run_main(command.main, *arguments)


def test_the_documented_tables_have_the_program_s_columns_and_rows():
    """docs/verdicts.md, written by `python -m envknee prove-joint --output docs/verdicts.md`."""
    page = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")
    text = page.partition(command.BEGIN)[2].partition(command.END)[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    heads = [line for line in lines if line[0] in ("row", "sampler")]
    for columns, head in zip((tables.CLAIMS, tables.of_thresholds(), tables.ALIKE), heads, strict=False):
        assert head == ["row", *(column.heading for column in columns), ""]
    of_arms = [line for line in lines if line[0] in alike.ROWS]
    assert [line[0] for line in of_arms] == [*alike.ROWS] and not any("!" in cell for line in of_arms for cell in line)
    shown = [line[0] for line in lines if line[0] in ROWS]
    assert shown == [*ROWS, *ROWS]
    assert [line[0] for line in lines if line[0] in samplers.SAMPLERS] == list(samplers.SAMPLERS)
    # The model's set and intervals may miss, and are marked; fresh seeds and thresholds keep every promise in scope.
    of_claims, of_doublings = (lines[lines.index(head) + 2 :][: len(ROWS)] for head in heads[:2])
    kept = [line[: 1 + FRESH_CLAIMS] for line in of_claims if not line[-1]] + [
        line for line in of_doublings if not line[-1]
    ]
    assert not [line[0] for line in kept if any("!" in cell for cell in line)], "in scope and missed"


FRESH_CLAIMS = 6
"""The first columns of `tables.CLAIMS`, which rest on fresh seeds."""
