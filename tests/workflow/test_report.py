"""Which figures a study has is known before anything runs: `snakemake --summary` lists them."""

import pytest
from conftest import Workspace
from programs import succeeded

pytestmark = pytest.mark.workflow


def test_figures_follow_from_the_study_alone(workspace: Workspace):
    two_arms = {"one": {"gpus": 0}, "two": {"gpus": 0, "cpu_ranks": 2}}
    result = succeeded(workspace.sweep(workspace.study(arms=two_arms), "--summary"))
    for name in ("throughput", "scaling", "pareto"):
        assert f"figures/{name}.svg" in result and f"figures/png/{name}.png" in result
    result = succeeded(workspace.sweep(workspace.study(learning=None), "--summary"))
    assert "figures/phases.svg" in result
    assert "figures/scaling.svg" not in result and "figures/pareto.svg" not in result
