"""`on_oom`: what a trial does when it runs out of memory while learning."""

from typing import Any, Literal

from pydantic import Field

from envknee.study.remedies import Remedy


def _retry(learner: Any, meter: Any) -> None:
    """Let `AccumulatingPPO` split mini-batches when memory runs out, and report the number of parts in rows and outcome."""
    learner.split_when_out_of_memory(meter.note_micro_batches)


WHOLE = "it takes each mini-batch whole"

REMEDY = Remedy(
    type=Literal["record", "retry_accumulate"],
    field=Field(
        default="record",
        description="Out of memory while learning: 'record' ends the trial; 'retry_accumulate' halves the micro-batch"
        " and accumulates gradients, for the same optimizer step.",
    ),
    agent={"rsl_rl": {"algorithm.class_name": "leanframes.rsl_rl:AccumulatingPPO"}},
    refusals=dict.fromkeys(("rl_games", "sb3", "skrl", "skrl_sac", "torchrl"), WHOLE),
    prepare=_retry,
)
