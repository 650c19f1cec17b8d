"""`envknee check`: a study file, before anything starts."""

import argparse
import json
import re
from pathlib import Path

from envknee.study.load import read_study
from envknee.study.schema import study_schema


def main() -> None:
    """Check a study file, or print the schema."""
    parser = argparse.ArgumentParser(description="Check a study file before anything starts.")
    parser.add_argument("file", nargs="?", type=Path, help="a study file, such as config/config.yaml")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a study file and stop")
    arguments = parser.parse_args()
    if arguments.schema:
        schema = json.dumps(study_schema(), indent=2, ensure_ascii=False)
        print(re.sub(r"(?<!\\n)\\n(?!\\n)", " ", schema))  # lines of a docstring, but not its paragraphs
    elif arguments.file:
        print(read_study(arguments.file).study)
    else:
        parser.error("name a study file, or --schema")
