"""An S3-compatible store on loopback: a real one, SeaweedFS."""

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from needs import need, weed
from records import known
from tracking_server import Daemon, free_ports

BUCKET = "runs"
PORTS = [f"{part}.{port}" for part in ("master", "volume", "filer", "s3") for port in ("port", "port.grpc")]

KEY = "tracking"


class ObjectStore(Daemon):
    """SeaweedFS with one user; nothing listens but on 127.0.0.1, nothing is sent anywhere."""

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, {"PATH": os.environ["PATH"], "HOME": str(folder)})
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.secret = secrets.token_urlsafe(30)
        credentials = [{"accessKey": KEY, "secretKey": self.secret}]
        users = [{"name": KEY, "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}]
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

    def client(self) -> Any:
        """Return boto3's client: the witness that is not MLflow."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.uri, aws_access_key_id=KEY, aws_secret_access_key=self.secret,
        )  # fmt: skip

    def variables(self, folder: Path) -> dict[str, str]:
        """Write the key into a file of its own, and return what a tracking server is told."""
        path = folder / "credentials"
        path.touch(mode=0o600)
        path.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {self.secret}\n")
        return {"AWS_SHARED_CREDENTIALS_FILE": str(path), "MLFLOW_S3_ENDPOINT_URL": self.uri}

    def answers(self) -> bool:
        """Make the bucket; tell whether it takes a file."""
        from botocore.exceptions import BotoCoreError, ClientError

        with suppress(BotoCoreError, ClientError):
            if BUCKET not in [bucket["Name"] for bucket in self.client().list_buckets()["Buckets"]]:
                self.client().create_bucket(Bucket=BUCKET)
            self.client().put_object(Bucket=BUCKET, Key="ready", Body=b"")
            return True
        return False

    def kill(self) -> None:
        super().kill()
        for port in self.ports.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108  its own choice
                left.unlink()

    def objects(self) -> dict[str, bytes]:
        """Return all that is in the bucket, by key."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys if key != "ready"}


def object_store(folder: Path) -> ObjectStore:
    """Return a store that will have an empty bucket; skip where SeaweedFS is not installed."""
    need("seaweedfs")
    return ObjectStore(folder, known(weed()))
