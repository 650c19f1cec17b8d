"""What `.venv/bin/snakemake` runs: Snakemake as it is, once it is known that it can start here."""

import sys

from envknee.machine.caches import check_writable
from envknee.study.errors import EXIT_USER_ERROR, UserError, tell


def main() -> None:
    """Start Snakemake with the words of this process's command line."""
    try:
        check_writable()
    except UserError as error:
        tell(error)
        sys.exit(EXIT_USER_ERROR)
    from snakemake.cli import main as snakemake  # takes a second

    sys.argv[0] = "snakemake"  # how its help names it
    snakemake()


if __name__ == "__main__":
    main()
