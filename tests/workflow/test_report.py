"""Which figures a study has is known before anything runs: `snakemake --summary` lists them."""

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
