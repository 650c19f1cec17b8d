"""Sign-in of our MLflow server: a generated password, in files that only their owner reads. No secret is printed or on a command line."""

import os
import secrets
import stat
from pathlib import Path

from envknee.machine.lock import locked
from envknee.study.errors import UserError
from envknee.study.files import write_atomically

ADMIN = "admin"
PASSWORD_FILE = "admin-password"  # noqa: S105  a file's name


def sign_in(private: Path) -> dict[str, str]:
    """Return the environment of a server with sign-in. The first call generates the passwords.

    `private` is a folder of mode 0700, which is made if missing: users, the password of `admin`, the key of sessions. A UserError
    says when others can read its files.
    """
    private = private.absolute()
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(private)
    settings = private / "basic_auth.ini"
    for file in (settings, private / "users.db"):
        file.touch(mode=0o600)
        _check_private(file)
    database = str(private / "users.db").replace("%", "%%")  # configparser's escape
    settings.write_text(
        "[mlflow]\n"
        "default_permission = READ\n"  # users read everything, and change their own
        f"database_uri = sqlite:///{database}\n"
        "authorization_function = envknee.tracking.guard:authenticate\n"
        # A check of a password takes a tenth of a second by design, and a page asks dozens of times.
        "auth_cache_ttl_seconds = 60\n",
        encoding="utf-8",
    )
    return {
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_AUTH_ADMIN_USERNAME": ADMIN,
        "MLFLOW_AUTH_ADMIN_PASSWORD": kept_secret(private / PASSWORD_FILE),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": kept_secret(private / "session-key"),
        "MLFLOW_BASIC_AUTH_FAIL_CLOSED": "true",  # also close routes for which MLflow has no rule
    }


def kept_secret(path: Path) -> str:
    """Return the secret in a file, which is generated at the first call.

    Raises:
        UserError: when others can read it, or it is too short.
    """
    path.with_name(".lock").touch(0o600)
    with locked(path.with_name(".lock")):  # two servers may start at once
        if not path.exists():
            write_atomically(path, secrets.token_urlsafe(24) + "\n", 0o600)
    _check_private(path)
    secret = path.read_text(encoding="ascii").strip()
    if len(secret) < 16:
        raise UserError(
            f"{path} holds no password of at least 16 characters. Delete it: the next start makes a new one."
        )
    return secret


def _check_private(path: Path) -> None:
    """Refuse a file or folder that others can read, and may have read already."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 or status.st_uid != os.geteuid():
        raise UserError(
            f"{path} holds passwords, and can be read by others (mode {mode:03o}, user {status.st_uid}). Remove it: the next start makes"
            f" a new one. Or change what is in it, if anyone may have read it, then run `chmod go= {path}`."
        )
