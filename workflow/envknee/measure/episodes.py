"""Returns and lengths of the whole episodes that ended in a rollout."""

import torch


class Episodes:
    """Counts whole episodes and adds up their returns and lengths, once per rollout: a step only stores two tensors.

    Trainers start environments in mid-episode, so that they don't all end at once. These partial first episodes are not counted:
    their returns would bias the mean.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._returns = torch.zeros(num_envs, dtype=torch.float64, device=device)
        self._lengths = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._is_whole = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self._rewards: list[torch.Tensor] = []
        self._ended: list[torch.Tensor] = []
        """As many of each step."""
        self._sums: torch.Tensor | None = None
        """Of the steps added up since the last `take`: sum of returns, sum of lengths, number of episodes."""

    def note(self, rewards: torch.Tensor, *dones: torch.Tensor) -> None:
        """Store a step's rewards and dones (one or several, non-zero where an episode ended), each [num_envs].

        Rewards and boolean dones are kept without a copy: nobody may write to them.
        """
        self._rewards.append(rewards)
        self._ended += [done if done.dtype == torch.bool else done > 0 for done in dones]

    def add_up(self) -> None:
        """Add up the steps noted so far, on the device and without waiting for it."""
        if not self._rewards:
            return
        count = len(self._rewards)
        rewards = torch.stack(self._rewards).double()
        ended = torch.stack(self._ended).view(count, -1, len(self._lengths)).any(dim=1)
        self._rewards, self._ended = [], []
        numbers = torch.arange(1, count + 1, device=rewards.device)[:, None]
        # Running sums that ignore episode ends. A matrix product, because `cumsum` on a GPU may add in a different order each time.
        running = self._returns + rewards.new_ones(count, count).tril() @ rewards
        newest_end = torch.where(ended, numbers, 0).cummax(dim=0).values  # [count, num_envs], 0: none yet
        end_before = torch.cat([torch.zeros_like(newest_end[:1]), newest_end[:-1]])
        sums_at_ends = torch.cat([torch.zeros_like(running[:1]), running])
        returns = running - sums_at_ends.gather(0, end_before)
        lengths = torch.where(end_before > 0, numbers - end_before, self._lengths + numbers)
        counted = ended & (self._is_whole | (end_before > 0))
        last = newest_end[-1]
        self._returns = running[-1] - sums_at_ends.gather(0, last[None])[0]
        self._lengths = torch.where(last > 0, count - last, self._lengths + count)
        self._is_whole = self._is_whole | (last > 0)
        sums = torch.stack([(returns * counted).sum(), (lengths * counted).sum().double(), counted.sum().double()])
        self._sums = sums if self._sums is None else self._sums + sums

    def take(self) -> torch.Tensor:
        """Return sum of returns, sum of lengths in steps, and number of the whole episodes that ended since the last call: float64 [3]."""
        self.add_up()
        sums, self._sums = self._sums, None
        return self._returns.new_zeros(3) if sums is None else sums
