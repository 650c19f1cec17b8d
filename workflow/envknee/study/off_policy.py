"""Trainers that learn from a replay buffer, as far as anything outside of them needs to know. Pure data.

Their batches are drawn from the buffer, so that a batch need not divide a rollout, and the buffer keeps its size whatever num_envs and
horizon are. Everybody else asks for that, never for a trainer's name.
"""

OFF_POLICY = frozenset({"skrl_sac"})
