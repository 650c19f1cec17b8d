"""The command line for Docker and Podman, what is read of their images, and whom is asked."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from envknee.machine.schema import Image
from envknee.run.container import docker, enter
from envknee.study.errors import UserError
from programs import a_program, told

ID = "f" * 64
IMAGE = Image(sif_sha256=None, content_sha256=ID, labels={})


def words(program: docker.Program, *, gpus: Sequence[str] = (), network: bool = False, uid: int = 1000) -> list[str]:
    return docker.command_in(
        program,
        IMAGE,
        ["python", "-m", "envknee.run.process", "/study/0 1"],
        container="envknee-ranks-x",
        user=(uid, 1001),
        variables={"PATH": "/bin", "OMNI_PASS": "secret", "CUDA_VISIBLE_DEVICES": "GPU-a", "HOME": "/home/me"},
        inside={"HOME": "/scratch/tmp", "CUDA_VISIBLE_DEVICES": "GPU-a"},
        writable=[Path("/study/0 1"), Path("/scratch")],
        readable=[Path("/code, and more")],
        folder=Path("/study"),
        gpus=gpus,
        network=network,
    )


def test_only_what_is_named_comes_in() -> None:
    assert words("docker") == [
        "docker", "run", "--rm", "--pull=never", "--name=envknee-ranks-x", "--user=1000:1001", "--pid=host",
        "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--shm-size=8g", "--network=none",
        "--entrypoint=", "--workdir=/study",
        '--mount=type=bind,"src=/code, and more","dst=/code, and more",ro',
        "--mount=type=bind,src=/study/0 1,dst=/study/0 1", "--mount=type=bind,src=/scratch,dst=/scratch",
        "--env=OMNI_PASS",  # its value is nobody's business
        "--env=CUDA_VISIBLE_DEVICES=GPU-a", "--env=HOME=/scratch/tmp",
        ID, "python", "-m", "envknee.run.process", "/study/0 1",
    ]  # fmt: skip


def test_of_the_host_an_image_reads_the_named_file_and_nothing_around_it(tmp_path: Path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in (".ssh/id_rsa", "robots/ant.usda", "robots/net.pt", "ant.usda"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    assert enter.shown("~/robots/ant.usda") == home / "robots"  # it may name others beside it
    for name in (f"{home}/robots/net.pt", f"{home}/ant.usda", f"{tmp_path}/ant.usda", "/nothing.usda", "/mnt/x.usda"):
        assert enter.shown(name) == Path(name)
    (home / "robots/link.usda").symlink_to(home / ".ssh/id_rsa")
    in_home = ("~/.ssh/id_rsa", "~/robots/link.usda", "~/robots/../.ssh/x.usda")
    for refused in (*in_home, "/etc/shadow", "/proc/self/environ"):
        with pytest.raises(UserError, match="hidden folders and in /etc.*stay out of images"):
            enter.shown(refused)


@pytest.mark.parametrize(
    "hidden", [".ssh/id_rsa", ".env", "textures/.aws/credentials", ".git/config", "a/b/c/.netrc", ".config/x"]
)
def test_a_folder_with_hidden_files_does_not_come_in_with_a_robot(hidden: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("robots/ant.usda", f"robots/{hidden}"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    first = tmp_path / "robots" / hidden
    while not first.name.startswith("."):
        first = first.parent
    for shown in (lambda: enter.shown(f"{tmp_path}/robots/ant.usda"), lambda: enter.shown_folder(f"{tmp_path}/robots")):
        told(shown, f"an image would read all of {tmp_path}/robots, where {first} lies", "a folder of its own")
    assert enter.shown(f"{tmp_path}/robots/net.pt") == tmp_path / "robots/net.pt", "another file comes in alone"


def test_pictures_beside_assets_are_no_secrets(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("robots/ant.usda", "robots/.thumbs/256x256/ant.usda.png", "robots/.DS_Store"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert enter.shown(f"{tmp_path}/robots/ant.usda") == tmp_path / "robots" == enter.shown_folder(f"{tmp_path}/robots")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a folder to somebody else")
def test_another_users_folder_does_not_come_in_with_a_robot(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/ant.usda").touch()
    os.chown(tmp_path / "theirs", 12345, 12345)
    told(
        lambda: enter.shown(f"{tmp_path}/theirs/ant.usda"),
        f"{tmp_path}/theirs belongs to another user",
        "Copy what the",
    )


def test_gpus_and_a_network_only_where_they_are_needed() -> None:
    assert '--gpus="device=GPU-a,GPU-b"' in words("docker", gpus=["GPU-a", "GPU-b"])
    assert "--device=nvidia.com/gpu=all" in words("podman", gpus=["GPU-a", "GPU-b"])
    assert "--network=host" in words("docker", network=True)


def test_without_root_podman_keeps_the_numbers_of_users() -> None:
    assert "--userns=keep-id" in words("podman")
    assert "--userns=keep-id" not in words("podman", uid=0) + words("docker")


def test_an_images_id_stands_for_its_content() -> None:
    labels = {"org.envknee.torch": "cpu", "maintainer": "somebody"}
    image = Image(sif_sha256=None, content_sha256=ID, labels={"org.envknee.torch": "cpu"})
    assert docker.described({"Id": f"sha256:{ID}", "Config": {"Labels": labels}}) == image  # Docker
    assert docker.described({"Id": ID, "Config": {"Labels": labels}}) == image  # Podman
    assert docker.described({"Id": ID, "Config": {"Labels": None}}).labels == {}


def test_who_has_the_image_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="neither docker nor podman on PATH"):
        docker.find("envknee")
    a_program(tmp_path, "docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(UserError, match="image 'envknee' is not there, .*docker says: Cannot connect to the Docker"):
        docker.find("envknee")
    a_program(
        tmp_path, "podman", f"""[ "$*" = "image inspect -- envknee" ] && echo '[{{"Id": "{ID}", "Config": {{}}}}]'"""
    )
    assert docker.find("envknee") == ("podman", IMAGE)
    with pytest.raises(UserError, match="image '--help' is not there"):
        docker.find("--help")
