# Before hours are spent on a cluster: `snakemake preflight --profile slurm`.
#
# In:   the study's folder, the site, and the image where trials run in one
# Out:  a table on the terminal, of what a tiny job for each number of GPUs saw, and results/<study>/logs/preflight.log


if SITE is not None:

    rule preflight:
        input:
            image=IMAGE,
        log:
            FOLDER.root / "logs" / "preflight.log",
        localrule: True
        params:
            folder=FOLDER.root,
            site=SITE_PATH,
        shell:
            "python -m envknee.slurm.preflight {params.folder:q} {params.site:q} {input.image:q} 2>&1 | tee {log:q}"
