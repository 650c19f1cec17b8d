"""Preparing runs one short iteration of each arm's smallest point."""

from asked import a_study
from envknee.run.prepare import smallest_requests, warm_up_request


def test_it_is_as_short_as_can_be_however_long_trials_are_timed():
    study = a_study(throughput__least_timed_s=300, throughput__iterations=50, throughput__warmup_iterations=5)
    [arm] = study.arms
    assert smallest_requests(study, arm)[0].least_timed_s == 300
    request = warm_up_request(study, arm)
    assert (request.warmup_iterations, request.iterations, request.least_timed_s) == (0, 1, 0)
    assert (request.num_envs, request.horizon) == (16, 8)


def test_of_several_nodes_one_is_prepared_with_its_share_of_the_batch():
    study = a_study(arms={"two-nodes": {"nodes": 2, "gpus": 1}})
    both, request = smallest_requests(study, "two-nodes")[0], warm_up_request(study, "two-nodes")
    assert (both.nodes, request.nodes) == (2, 1)
    assert both.batch_size is not None and request.batch_size == both.batch_size // 2
