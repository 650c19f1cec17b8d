"""`envknee sweep` chooses profiles, hands words on to Snakemake, and says what is wrong before it starts."""

import importlib.util
from pathlib import Path

import pytest
from envknee.run import project, sweep
from envknee.study.load import read_study
from envknee.study.paths import PROJECT
from places import ROOT
from programs import python, refused, run_main, told


def test_a_folders_own_profile_goes_before_the_one_that_is_shipped(tmp_path: Path):
    assert sweep.profile_of("slurm", tmp_path) == str(PROJECT / "workflow/profiles/slurm")
    assert sweep.default_profile(tmp_path) == str(PROJECT / "workflow/profiles/default")
    project.write_project(tmp_path, project.shipped_study())
    assert (sweep.profile_of("slurm", tmp_path), sweep.profile_of("allocation", tmp_path)) == ("slurm", "allocation")
    assert sweep.default_profile(tmp_path) == str(tmp_path / "profiles/default")


def test_what_stands_behind_two_dashes_is_snakemakes():
    assert sweep.split_words(["a.yaml", "--", "-n", "--", "x"]) == (["a.yaml"], ["-n", "--", "x"])
    assert sweep.split_words(["--profile", "slurm"]) == (["--profile", "slurm"], [])
    words = sweep.snakemake_words(Path("a.yaml"), "p", ["--profile", "slurm", "-n"], ["prepare"])
    assert words[0] == "prepare" and words[-5:] == [
        "--configfile",
        str(Path("a.yaml").resolve()),
        "--profile",
        "slurm",
        "-n",
    ]


def test_mistakes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    told(lambda: run_main(sweep.main), "no study was named", "config/config.yaml", "envknee init FOLDER --workflow")
    study = ROOT / "config/config.yaml"
    told(lambda: run_main(sweep.main, study, "--profile", "slrm"), "did you mean 'slurm'?", "allocation, slurm")
    elsewhere = (study, "--", f"--directory={tmp_path}")
    told(lambda: run_main(sweep.main, *elsewhere), "--directory behind --", "Start it there, without this option")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told(lambda: run_main(sweep.main, study, "--profile", "slurm"), "pip install 'envknee[slurm]'")


def test_a_project_describes_its_own_cluster_and_a_dry_run_reads_it(tmp_path: Path):
    names = project.write_project(tmp_path, project.shipped_study())
    assert names == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert read_study(tmp_path / project.CONFIG).study == "cartpole-cpu"
    site = tmp_path / project.SITE
    text = site.read_text(encoding="utf-8")
    assert text.startswith("# Your cluster: edit this file.") and "make " not in text and "\npartition: gpu\n" in text
    site.write_text(text.replace("max_gpus: 8", "max_gpus: none"), encoding="utf-8")
    done = python("-m", "envknee", "sweep", "--profile", "slurm", "--dry-run", cwd=tmp_path)
    refused(done, "slurm/site.yaml does not describe a cluster", "max_gpus")
    assert not (tmp_path / "results").exists()
