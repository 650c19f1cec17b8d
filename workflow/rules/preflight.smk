# Before hours are spent on a cluster: `snakemake preflight --profile slurm`.
#
# In:   the study's folder, and the site
# Out:  a table on the terminal, of what a tiny job for each number of GPUs saw, and results/<study>/logs/preflight.log


if SITE is not None:

    rule preflight:
        log:
            FOLDER.root / "logs" / "preflight.log",
        localrule: True
        params:
            folder=FOLDER.root,
            site=SITE_PATH,
        shell:
            "python -m envknee.slurm.preflight {params.folder:q} {params.site:q} 2>&1 | tee {log:q}"
