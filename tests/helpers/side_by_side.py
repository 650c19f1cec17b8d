"""Tests side by side: which of them share a worker, in which order they come, and which run while no other does.

A plugin of pytest's, which conftest registers: hooks of a conftest itself see the tests of their folder alone.
"""

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodeid import coerce_node_id

FIRST = ("test_container.py", "test_jobs.py", "test_allocations_and_workers.py", "test_sweep.py", "test_trials.py")
"""What takes longest starts first, and unit tests fill what is left at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests that share a fixture one worker, so that it is made once, and put the long ones first."""
    for item in items:
        item.user_properties.append(("test", item.nodeid))  # for a report: below, names get a suffix
    shared = {item: [] if _is_alone(item) else _shared_fixtures(item) for item in items}
    groups: dict[str, str] = {}
    for names in shared.values():
        merged = {groups.get(name, name) for name in names}
        groups |= dict.fromkeys([*names, *(name for name in groups if groups[name] in merged)], min(merged, default=""))
    for item, names in shared.items() if hasattr(config, "workerinput") else ():
        for name in names[:1]:
            # As pytest-xdist 3.8.0 does for its mark xdist_group, in an attribute that pytest 9.2 no longer has.
            setattr(item, "_id", coerce_node_id(f"{item.nodeid}@{groups[name]}"))  # noqa: B010  pytest has no public name for it
    items.sort(key=_place)


def _shared_fixtures(item: pytest.Item) -> list[str]:
    """Return the project's fixtures of a wider scope than the test itself. Each file has its own of a module's scope."""
    known: dict[str, Any] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  pytest has no public name for it
    last = {name: definitions[-1] for name, definitions in known.items() if definitions}
    file = item.nodeid.partition("::")[0]
    places = {
        name: file if definition.scope == "module" else definition.baseid
        for name, definition in last.items()
        if definition.scope != "function" and definition.baseid
    }
    return [f"{place.replace(':', '.')}.{name}" for name, place in places.items()]


def _place(item: pytest.Item) -> tuple[bool, int, bool]:
    name = item.path.name
    return _is_alone(item), FIRST.index(name) if name in FIRST else len(FIRST), item.nodeid.startswith("tests/unit/")


def _is_alone(item: pytest.Item) -> bool:
    return any(item.iter_markers("alone")) or any(item.iter_markers("gpu"))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest-timeout: a test that waits for its turn is not late
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run tests that look at the clock, at load or at a GPU while no other test runs."""
    with Path(__file__).open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # processes forked meanwhile have the file open, too
