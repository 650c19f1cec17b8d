import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["envknee.replay", "envknee.limits", "envknee.limits.verdict", "envknee.record"])
def test_a_usage_line_can_be_typed(module, monkeypatch):
    monkeypatch.setenv("PATH", "")  # also where what the command calls is not installed
    usage = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True).stdout
    assert usage.startswith(f"usage: python -m {module} [-h]")
