"""Compiles a kernel for the CPU, and another one after Warp's precompiled headers were removed; ends as a trial's process does."""

import os
import tempfile
from pathlib import Path

import warp
from envknee.run.kernel_cache import remove_headers


@warp.kernel(module="unique")
def first(values: warp.array(dtype=float)):  # type: ignore[valid-type]  # as Warp wants it
    values[warp.tid()] = 1.0


@warp.kernel(module="unique")
def second(values: warp.array(dtype=float)):  # type: ignore[valid-type]
    values[warp.tid()] = 2.0


def count() -> int:
    """Return the number of Warp's folders."""
    return len(list(Path(tempfile.gettempdir()).glob("wp_pch_*")))


def main() -> None:
    """Compile both."""
    values = warp.zeros(4, dtype=float, device="cpu")
    for name, kernel in (("first", first), ("second", second)):
        warp.launch(kernel, dim=4, inputs=[values], device="cpu")
        made = count()
        remove_headers()
        print(f"{name}: {made} folder, then {count()}", flush=True)
    assert values.numpy().tolist() == [2.0] * 4
    os._exit(0)


if __name__ == "__main__":
    main()
