"""Which figures a study has is known before anything runs: `snakemake --summary` lists them."""

from typing import Any

import pytest
from conftest import Workspace

pytestmark = pytest.mark.workflow


def test_scaling_is_planned_for_a_study_with_several_ranks_alone(workspace: Workspace):
    ranks = {"one": {"gpus": 0}, "two": {"gpus": 0, "cpu_ranks": 2}}
    for arms, planned in (({"one": ranks["one"]}, False), (ranks, True)):
        result = workspace.sweep(workspace.study(arms=arms), "--summary")
        assert result.returncode == 0, result.stdout
        assert "figures/throughput.svg" in result.stdout
        assert ("figures/scaling.svg" in result.stdout) is planned


def test_figures_follow_from_the_study_alone(workspace: Workspace):
    extra = {
        "figures/importance.svg",
        "figures/phases.svg",
        "figures/target.svg",
        "figures/pareto.svg",
        "figures/batch.svg",
    }

    def planned(**sections: Any) -> set[str]:
        result = workspace.sweep(workspace.study(**sections), "--summary")
        assert result.returncode == 0, result.stdout
        return {name for name in extra if name in result.stdout}

    learning = {"num_envs": [4], "horizon": [4], "batch_size": [8, 16], "target_reward": 1.0, "budget_s": 5.0}
    assert planned(learning=learning | {"num_envs": [4, 8]}) == extra
    assert planned(learning=learning | {"batch_size": 16}, phases="off") == {"figures/target.svg", "figures/pareto.svg"}
    assert planned(learning=None) == {"figures/phases.svg"}
