"""A joint answer as a verdict has it, with what a test changes."""

from typing import Any

from envknee.verdict.schema.joint import ConfirmedSetting, JointAnswer, JointThreshold, MiniBatches


def a_setting(
    num_envs: int, horizon: int, batch_size: int | None, cost: float | None, **changes: Any
) -> ConfirmedSetting:
    values: dict[str, Any] = {
        "seeds": 8,
        "reached": 8,
        "lost": 0,
        "cost_lower": None if cost is None else cost * 0.8,
        "cost_upper": None if cost is None else cost * 1.25,
        "may_be_best": True,
        "most_slower": 0.12,
        "chance": 0.34,
        "memory_peak_gb": 3.0,
    }
    return ConfirmedSetting(num_envs=num_envs, horizon=horizon, batch_size=batch_size, cost=cost, **values | changes)


def a_threshold(axis: Any = "num_envs", **changes: Any) -> JointThreshold:
    values: dict[str, Any] = {
        "state": "reached", "threshold": 256, "by_fresh": 128, "by_model": 256, "tested": [128, 256, 512], "profile": []
    }  # fmt: skip
    return JointThreshold(axis=axis, **values | changes)


SETTINGS = [
    a_setting(512, 32, 1024, 6.0),
    a_setting(256, 32, 512, 6.4, most_slower=0.2),
    a_setting(128, 16, 512, 9.0, most_slower=0.9, may_be_best=False),
]


def an_answer(**changes: Any) -> JointAnswer:
    values: dict[str, Any] = {
        "arm": "lean",
        "kind": "learning",
        "state": "confirmed",
        "delta": 0.25,
        "confidence": 0.95,
        "claims": 4,
        "error_of_kind": 0.05,
        "error_of_claim": 0.01,
        "search_trials": 64,
        "legal_settings": 100,
        "fresh_ended": 24,
        "fresh_planned": 24,
        "seeds_to_next_look": 5,
        "censored": 0,
        "amplitude": 0.12,
        "seed_sd": 0.29,
        "is_rough": False,
        "likely": [],
        "confirmed": SETTINGS,
        "soonest": 0,
        "fewest_environments": 1,
        "least_memory": 1,
        "fewest_gpu_seconds": 0,
        "spreads_differ": False,
        "thresholds": [a_threshold(), a_threshold("horizon", threshold=16)],
        "mini_batches": [
            MiniBatches(value=value, cost=7.0, cost_lower=6.0, cost_upper=8.0, not_slower=value in (8, 16))
            for value in (1, 2, 4, 8, 16, 32)
        ],
    }
    return JointAnswer(**values | changes)
