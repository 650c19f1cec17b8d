# Runs, curves and figures in MLflow.
#
# In:   records, verdict and figures
# Out:  results/<study>/published.json, and runs in the tracking store (publishing twice changes nothing)


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
        tracking=STUDY.tracking.model_dump(),
    shell:
        "python -m envknee.tracking {params.folder:q} --config {params.study:q} 2>&1 | tee {log:q}"
