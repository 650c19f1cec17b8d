"""Parts of an environment step that Isaac Lab's Warp frontend launches kernel by kernel, as one CUDA graph each.

With few environments a GPU waits for Python: two physics steps and a camera take some 60 calls, 15 to 100 microseconds each on a slow
host. Isaac Lab 3.0.0 captures the kernels of a physics step and of a camera's rays, and calls what lies around them in every step.

Input: functions that launch the same kernels on the same arrays in every call, and never wait for the GPU. What such a function does in
Python besides, a replay must do as well: `Stage` is told how. Isaac Lab's own graphs of the same kernels are never captured.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp
from isaaclab.physics import PhysicsManager
from isaaclab.utils.buffers import TimestampedBuffer
from isaaclab_newton.physics import NewtonManager

from leanframes.captured import without_garbage_collection


class Stage:
    """Calls a function once or twice, and then replays its kernels as one CUDA graph."""

    def __init__(
        self,
        function: Callable[[], None],
        repeat: Callable[[], None],
        rehearse: Callable[[], None] | None = None,
        renderer_cfg: Any = None,
    ) -> None:
        """Prepare a function for Warp's current stream of the simulation's device.

        Args:
            function: launches kernels, and notes in Python what it did
            repeat: notes the same without kernels
            rehearse: launches the same kernels, and leaves Python's notes as they were; with it the graph is captured in the first call,
                without it in the second
            renderer_cfg: configuration of the renderer that `function` calls
        """
        self._function, self._repeat, self._rehearse = function, repeat, rehearse
        self._renderer_cfg = renderer_cfg
        self._graph: Any = None
        self._solver: Any = None
        """The solver whose arrays the function and its graph have."""

    def __call__(self) -> None:
        """Run the function, or replay its graph."""
        if self._solver is not NewtonManager._solver:
            self._begin()
        elif NewtonManager._model_changes:  # the solver is told of them outside of graphs
            self._function()
        elif self._graph is None:
            self._graph = self._captured(self._function)
            wp.capture_launch(self._graph)
        else:
            wp.capture_launch(self._graph)
            self._repeat()

    def _begin(self) -> None:
        """Run the function kernel by kernel: in its first call Isaac Lab allocates arrays."""
        self._graph, self._solver = None, NewtonManager._solver
        with _without_inner_graphs(self._renderer_cfg):
            self._function()
        if self._rehearse and not NewtonManager._model_changes:
            self._graph = self._captured(self._rehearse)

    def _captured(self, function: Callable[[], None]) -> Any:
        replays_may_change_transforms = NewtonManager.transforms_may_change_on_graph_replay
        device = PhysicsManager._device
        with (
            _without_inner_graphs(self._renderer_cfg),
            without_garbage_collection(),
            wp.ScopedCapture(device=device) as captured,
        ):
            function()
        # Newton's manager would distrust its notes from now on, and update all poses before they are read: but `repeat` keeps them right.
        NewtonManager.transforms_may_change_on_graph_replay = replays_may_change_transforms
        return captured.graph


class Notes:
    """What physics steps note in Python: numbers that count up, and which of a robot's buffers are of the newest physics step.

    Upstream: SimulationContext.step, NewtonManager.step and ArticulationData.update of Isaac Lab 3.0.0.
    """

    def __init__(self, env: Any, robot: Any) -> None:
        """Watch the notes of an environment and of its only robot."""
        scene_data = NewtonManager.get_scene_data_backend()
        self._counters = [
            (env, "_sim_step_counter"),
            (env.sim, "_physics_step_count"),
            (PhysicsManager, "_sim_time"),
            (robot.data, "_sim_timestamp"),
            (scene_data, "transforms_timestamp"),
            (scene_data, "geometry_timestamp"),
        ]
        self._data = robot.data
        self._steps: list[float] = []
        self._fresh: list[TimestampedBuffer] = []

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Learn what a call inside notes."""
        before = self._values()
        yield
        self._steps = [after - own for own, after in zip(before, self._values(), strict=True)]
        self._fresh = [buffer for buffer in self._buffers() if buffer.timestamp == self._data._sim_timestamp]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Forget what a call inside notes."""
        values, timestamps = self._values(), [(buffer, buffer.timestamp) for buffer in self._buffers()]
        yield
        for (owner, name), value in zip(self._counters, values, strict=True):
            setattr(owner, name, value)
        for buffer, timestamp in timestamps:
            buffer.timestamp = timestamp

    def repeat(self) -> None:
        """Note what the call noted that `taken` saw last."""
        for (owner, name), value, step in zip(self._counters, self._values(), self._steps, strict=True):
            setattr(owner, name, value + step)
        for buffer in self._fresh:
            buffer.timestamp = self._data._sim_timestamp

    def _buffers(self) -> list[TimestampedBuffer]:
        return [value for value in vars(self._data).values() if isinstance(value, TimestampedBuffer)]

    def _values(self) -> list[float]:
        return [getattr(owner, name) for owner, name in self._counters]


@contextmanager
def _without_inner_graphs(renderer_cfg: Any) -> Iterator[None]:
    """Let Isaac Lab launch the kernels of its own graphs: a graph cannot be replayed while another one is captured."""
    configurations: list[Any] = [cfg for cfg in (PhysicsManager._cfg, renderer_cfg) if cfg is not None]
    before: list[bool] = [cfg.use_cuda_graph for cfg in configurations]
    for cfg in configurations:
        cfg.use_cuda_graph = False
    try:
        yield
    finally:
        for cfg, use_cuda_graph in zip(configurations, before, strict=True):
            cfg.use_cuda_graph = use_cuda_graph
