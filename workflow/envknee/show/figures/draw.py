"""Draw the figures of a study, as SVG and, in png/, as PNG.

Input: results/<study>/ with its verdict. Output: the files of `registry` in results/<study>/figures. The same input gives the same
bytes.

    envknee figures results/<study>
"""

import argparse
from pathlib import Path

from envknee.decide.read import load_study
from envknee.record.packed import study_folder
from envknee.show.evidence import read_evidence
from envknee.show.figures import registry
from envknee.show.figures.canvas import saved
from envknee.study.files import write_atomically
from envknee.study.paths import StudyFolder


def draw_all(folder: StudyFolder) -> None:
    """Write every figure of a study.

    Raises:
        UserError: when the verdict is missing or older than a trial, or a file was changed after its measurement.
    """
    study, evidence = load_study(folder), read_evidence(folder)
    for entry in registry.figures_of(study):
        figure = entry.draw(evidence)
        (folder.figures / entry.png).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder.figures / entry.svg, saved(figure, "svg"))
        write_atomically(folder.figures / entry.png, saved(figure, "png"))


def main() -> None:
    """Draw every figure of a study, from its verdict and records."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    draw_all(study_folder(parser.parse_args().folder))
