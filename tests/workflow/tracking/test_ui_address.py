"""The address that `make ui` prints: of its own server, on a line of its own, the last one."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from envknee.tracking import ui
from envknee.tracking.mlflow_server import Server, announce, listens
from envknee.tracking.store import parse_uri
from forked import in_child
from tracked import a_folder, a_study
from tracking_server import free_port
from waiting import wait_for


def answers(port: int) -> bool:
    """Whether a healthy server is there. Listening on the port to see whether it is free would keep the server from it."""
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok
    except requests.ConnectionError:
        return False


@pytest.fixture
def other_port(tmp_path: Path) -> Iterator[int]:
    """A port on which another process answers as a healthy server, as one does that took it while ours started."""
    port = free_port()
    (tmp_path / "health").write_text("OK")
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port))
        yield port
    finally:
        other.kill()
        other.wait()


def a_server(port: int, where: Path) -> Server:
    store = parse_uri(f"sqlite:///{where}/mlflow.db", "a test", where)
    return Server(store, str(where), where, "127.0.0.1", port)


def starts_without_listening(server: Server) -> None:
    """Do as `Server.become` does, with a server that ends after two seconds."""
    if os.fork() == 0:
        announce(server, "THE ADDRESS")
    time.sleep(2.0)
    os._exit(0)


def test_address_is_not_printed_while_another_program_answers_on_the_port(
    other_port: int, tmp_path: Path, capfd
) -> None:
    child = in_child(starts_without_listening, a_server(other_port, tmp_path))
    child.join(timeout=300)
    until, said = time.monotonic() + 300, ""
    while f"took port {other_port}" not in said and time.monotonic() < until:
        time.sleep(0.1)
        output, errors = capfd.readouterr()
        said += errors
        assert "THE ADDRESS" not in output
    assert f"If another program took port {other_port}, start it again." in said


def test_a_port_belongs_to_the_process_that_listens_on_it() -> None:
    other = in_child(time.sleep, 20.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert listens(os.getpid(), port) and not listens(other.pid, port)
    assert not listens(os.getpid(), port)
    other.kill()
    other.join()
    assert not listens(other.pid, port)


def test_address_on_a_server_stands_alone_on_the_last_line(tmp_path: Path, capsys) -> None:
    folder = a_folder(tmp_path / "results" / "demo", a_study())
    ui.open_ui(a_study(uri="http://elsewhere:5000"), folder, None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "http://elsewhere:5000/#/experiments?workflowType=machine_learning"
