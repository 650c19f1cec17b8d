"""What a program in a foreign image reaches of the host: files, variables, network, other processes. The image is bash and no more."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from envknee.machine.schema import Image
from envknee.run.container import apptainer, enter
from envknee.run.container.enter import Entrance
from envknee.study.paths import TrialFolder
from needs import need
from programs import ran, succeeded
from records import a_trial

SECRET = "kept-outside"  # noqa: S105

LOOKS = """
(exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && echo "network: reached"
while read -r place; do case "$place" in *:*) echo "interface: ${place%%:*}" ;; esac; done < /proc/net/dev
for file in /etc/* /home/* /root/* /tmp/* /mnt/* /srv/*; do [ -e "$file" ] && echo "file: $file"; done
for process in /proc/[0-9]*; do
  while IFS= read -r -d "" variable; do echo "variable: $variable"; done 2>/dev/null < "$process/environ"
done
echo "own: $(set | while read -r line; do case "$line" in *kept-outside*) echo secret ;; esac; done)"
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """A folder that holds bash and its libraries: an image that an ordinary user can enter without FUSE."""
    need("apptainer")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "image"
        for folder in ("bin", "dev", "etc", "home", "proc", "root", "sys", "tmp"):
            (root / folder).mkdir(parents=True)
        bash = Path("/bin/bash")
        linked = re.findall(r"(/\S+) \(0x", succeeded(ran(["ldd", bash])))
        for file in (bash, *map(Path, linked)):
            target = root / file.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        (root / "bin/sh").symlink_to("bash")
        Path(name).chmod(0o755)
        yield root


@pytest.mark.parametrize("user", ["this user", "an ordinary user"])
@pytest.mark.parametrize("network", [False, True])
def test_an_image_reaches_what_is_named_and_no_more(
    image: Path, user: str, network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    become: list[str] = []
    if user != "this user":
        if os.geteuid() != 0:
            pytest.skip("only root can become somebody else")
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*become, "unshare", "--user", "apptainer", "--version"], check=False).returncode:
            pytest.skip("others cannot run this apptainer, or the kernel gives them no user namespaces")
    monkeypatch.setenv("HF_TOKEN", SECRET)
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as server:
        folder = Path(name).resolve()
        folder.chmod(0o777)
        (folder / "looks.sh").write_text(LOOKS)
        inside = ["bash", str(folder / "looks.sh"), str(server.getsockname()[1])]
        words = apptainer.command_in(
            image, inside, writable=[folder], readable=[], folder=folder, gpus=False, network=network
        )
        variables = apptainer.variables_for(os.environ | {"HOME": name}, {})
        # Another process of the same user, which has the secret in its environment.
        other = subprocess.Popen([*become, "sleep", "60"], env=variables)
        try:
            said = succeeded(ran([*become, *words], env=variables, cwd=folder)).splitlines()
        finally:
            other.kill()
            other.wait()
    assert ("network: reached" in said) == network
    assert network or [line for line in said if line.startswith("interface:")] == ["interface: lo"]
    files = {line.removeprefix("file: ") for line in said if line.startswith("file: ")}
    assert files <= {"/etc/hosts", "/etc/localtime", "/etc/resolv.conf", "/etc/passwd", "/etc/group", str(folder)}
    assert SECRET not in "\n".join(said) and "own: " in said


@pytest.mark.parametrize(
    ("asked", "network"),
    [({}, False), ({"asset": "nucleus"}, True), ({"gpus": 0, "cpu_ranks": 2}, True)],
)
def test_a_trial_gets_the_network_if_it_downloads_or_has_ranks(tmp_path: Path, asked: dict, network: bool) -> None:
    request = a_trial(32).asked(**asked).request
    entrance = Entrance(Image(sif_sha256=None, content_sha256="c", labels={}), Path("/x/isaaclab.sif"))
    trials = [TrialFolder(tmp_path / "0000")]
    words, _ = enter.command_line(entrance, trials, request, ["python", "-m", "x"], {}, tmp_path)
    assert ("--network=none" not in words) == network
