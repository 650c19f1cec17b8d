"""`mixed_precision`: activations of the learner in bfloat16."""

from pydantic import Field

from envknee.study.remedies import Remedy

REMEDY = Remedy(
    type=bool,
    field=Field(default=False, description="Learn in bfloat16 (RSL-RL's use_mixed_precision)."),
    agent={"rsl_rl": {"algorithm.use_mixed_precision": True}, "rl_games": {"params.config.mixed_precision": True}},
    # As of skrl 2.1.1, stable-baselines3 2.9.2, TorchRL 0.14.1 and rl-games 1.6.5.
    refusals=dict.fromkeys(
        ("skrl", "skrl_sac"),
        "its own computes in float16 on a GPU, in rollouts too, where this option means bfloat16 while learning",
    )
    | {"sb3": "its update computes in float32 only", "torchrl": "its losses compute in float32"},
    refusals_on_cpu={"rl_games": "it asks for bfloat16 on a GPU only, and computes in float32 on a CPU all the same"},
)
