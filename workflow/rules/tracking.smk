# Runs, curves and figures in MLflow.
#
# In:   records, verdict and figures
# Out:  results/<study>/published.json, and runs in the tracking store (publishing twice changes nothing)
# Before it, while trials run: curves, by a process beside the sweep (envknee.tracking.follow, started in common.smk)


rule publish:
    input:
        RECORDS,
        FIGURES,
        verdict=FOLDER.verdict,
    output:
        FOLDER.published,
    log:
        FOLDER.root / "logs" / "publish.log",
    # Nodes of a cluster rarely reach a tracking server.
    localrule: True
    params:
        folder=FOLDER.root,
        study=FOLDER.study,
        # Not the address itself, which may hold a password: Snakemake keeps parameters.
        tracking=STUDY.tracking.digest,
    shell:
        "python -m envknee publish {params.folder:q} --config {params.study:q} 2>&1 | tee {log:q}"
