"""FPS that follow the law of saturation."""


def fps_of(num_envs: int, ranks: int = 1) -> float:
    """Return FPS at t = 0.1 + 0.001 N and horizon 8: with one rank the asymptote is 8 / 0.001, half of it at N = 100."""
    return ranks * 8 * num_envs / (0.1 + 0.001 * num_envs)
