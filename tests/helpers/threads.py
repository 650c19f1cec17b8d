"""One thread for PyTorch, in tests that compare numbers: small steps are slower on more, and their sums come out in another order."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let PyTorch compute on one thread."""
    import torch  # two seconds, which most tests need not wait

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
