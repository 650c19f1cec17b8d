"""RSL-RL's PPO on lean frames (rsl-rl-lib 5.5.1).

An agent's configuration names the classes: `leanframes.rsl_rl:LeanPPO` as its algorithm, and `leanframes.rsl_rl:LeanCNNModel` for each
network that sees images.

model          the network that normalizes frames itself
ppo            the learner
steps          switches of the learner
storage        a rollout with each frame once
acting         acting and storing as CUDA graphs
accumulate     gradients of a mini-batch in parts: with stock frames, too
out_of_memory  recognizes exceptions for lack of memory
"""

from leanframes.rsl_rl.accumulate import AccumulatingPPO
from leanframes.rsl_rl.model import LeanCNNModel
from leanframes.rsl_rl.ppo import LeanPPO
from leanframes.rsl_rl.steps import LearnerSteps
from leanframes.rsl_rl.storage import FrameStorage

__all__ = ["AccumulatingPPO", "FrameStorage", "LeanCNNModel", "LeanPPO", "LearnerSteps"]
