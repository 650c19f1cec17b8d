"""Archives of studies, looked into and changed by somebody."""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from envknee.record import archive_file
from envknee.study.files import canonical_json


def content_of(packed: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(packed) as source:
        return {name: source.read(name) for name in source.namelist()}


def tampered(packed: Path, changes: Mapping[str, bytes | None]) -> Path:
    """Write an archive again with other files; None leaves one out."""
    content = content_of(packed) | changes
    with zipfile.ZipFile(packed, "w") as target:
        for name, data in content.items():
            if data is not None:
                target.writestr(name, data)
    return packed


def forged(packed: Path, name: str, **changes: object) -> Path:
    """Write an archive again with other fields in the file `name`, and with a hash that fits: it is as it was made."""
    content = content_of(packed)
    changed = canonical_json(json.loads(content[name]) | changes).encode()
    before, after = (hashlib.sha256(data).hexdigest().encode() for data in (content[name], changed))
    return tampered(
        packed, {name: changed, archive_file.METADATA: content[archive_file.METADATA].replace(before, after)}
    )
