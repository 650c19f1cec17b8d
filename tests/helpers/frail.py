"""A network between a program and its server that a test can cut: connections are refused, or stay open while no byte passes."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Literal, Self

LOOKS_S = 0.05

State = Literal["open", "silent", "gone"]


class Network:
    """Listens on a port of 127.0.0.1 and passes bytes on to another one."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.state: State = "open"
        self.passed = 0
        """Number of bytes that were passed on, both ways."""
        self._ended = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            accepting.start()
            try:
                yield self
            finally:
                self._ended.set()
                accepting.join()

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(LOOKS_S)
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                near, _ = listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            if self.state != "gone":
                with socket.create_connection(("127.0.0.1", self.target)) as far:
                    back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
                    back.start()
                    self._pass_on(near, far)
                    back.join()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        """Copy bytes until one side closes, or the network is gone."""
        source.settimeout(LOOKS_S)
        with contextlib.suppress(OSError):
            while self.state != "gone" and not self._ended.is_set():
                if self.state == "silent":
                    self._ended.wait(LOOKS_S)
                    continue
                try:
                    some = source.recv(65_536)
                except TimeoutError:
                    continue
                if not some:
                    break
                while self.state == "silent" and not self._ended.is_set():  # it went silent meanwhile
                    self._ended.wait(LOOKS_S)
                sink.sendall(some)
                self.passed += len(some)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
