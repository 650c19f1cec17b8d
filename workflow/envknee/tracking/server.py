"""A tracking server for a group: the command line of `make server` (docs/tracking.md)."""

import argparse
import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from envknee.study.errors import UserError, run_command
from envknee.tracking.mlflow_server import DEFAULT_PORT, LOOPBACK, Server
from envknee.tracking.store import Store, parse_uri

PRIVATE = Path("tracking/private")
NAME = r"([\w.-]+|\[[0-9a-fA-F:]+\])(:\d+)?"


def main() -> None:
    """Start a tracking server for a group: MLflow's own, on which everybody signs in."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--backend",
        default="sqlite:///tracking/mlflow.db",
        help="runs: sqlite:///FILE, or postgresql://USER@HOST:PORT/DATABASE",
    )
    parser.add_argument(
        "--artifacts", default="tracking/artifacts", help="files of runs: a folder, or s3://BUCKET/PATH"
    )
    parser.add_argument(
        "--host", default=LOOPBACK, help="address to listen on; any but this machine's own needs --name"
    )
    parser.add_argument("--port", type=port_number, default=DEFAULT_PORT)
    parser.add_argument(
        "--name", action="append", default=[], help="under which clients reach it: mlflow.lab.example:5000"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that answer requests")
    given = parser.parse_args()
    backend, files = _backend(given.backend), _files(given.artifacts)
    server = Server(backend, files, PRIVATE, given.host, given.port, given.name, given.workers)
    check_names(server)
    uri = f"http://{server.names[0]}" if server.names else server.address
    server.become(
        f"MLflow serves {server.address}; runs in {server.store.shown}, files in {server.files} (Ctrl-C ends it)\n"
        f"{server.how_to_sign_in}; give each person an account (docs/tracking.md)\n"
        f"Studies use it with MLFLOW_TRACKING_URI={uri}"
    )


def check_names(server: Server) -> None:
    """Raise a UserError for an open address without names, or with patterns as names: any web page could then use the server."""
    example = f"--name mlflow.lab.example:{server.port}"
    if not is_loopback(server.host) and not server.names:
        raise UserError(f"--host {server.host} is reached by others. Say under which names, with the port: {example}")
    for name in server.names:
        if not re.fullmatch(NAME, name):
            raise UserError(
                f"--name {name!r} is no host or HOST:PORT (formulas such as * are refused). Write {example}"
            )


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine only. A name other than localhost counts as open."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def port_number(text: str) -> int:
    """Return a port, for argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected a whole number from 1 to 65535")
    return int(text)


def _backend(uri: str) -> Store:
    store = parse_uri(uri, "--backend", Path.cwd())
    if store.artifacts is None:
        raise UserError(
            f"--backend {store.shown} is a server. Expected sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE."
        )
    parts = urlsplit(uri)
    if parts.password or "password" in parts.query:
        raise UserError(
            "--backend holds a password, which others read in the list of processes. Leave it out, and write it into the file"
            " that PGPASSFILE names (mode 0600)."
        )
    return store


def _files(place: str) -> str:
    if "://" not in place:
        return str(Path(place).absolute())
    if not re.fullmatch(r"s3://[^/?#]+(/[^?#]*)?", place):
        raise UserError(f"--artifacts {place!r} cannot be used. Expected a folder or s3://BUCKET/PATH.")
    return place


if __name__ == "__main__":
    run_command(main)
