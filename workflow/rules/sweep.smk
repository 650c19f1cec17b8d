# The sweep: ask, trial, ask, trial, ...
#
# In:     results/<study>/study.json
# Out:    results/<study>/trials/<number>/{request.json, metrics.jsonl, record.json}
# Steps:  prepare once, then for each number: request (Optuna is asked), trial (Isaac Lab runs)


rule prepare:
    output:
        FOLDER.resolved,
    params:
        folder=FOLDER.root,
        study=STUDY.measured_part(),
    resources:
        device=1,
    retries: 0  # what it finds does not go away by itself
    shell:
        "python -m envknee.prepare {params.folder:q}"


def what_is_known(wildcards):
    """Request n follows from request n-1 and from records up to n - window: the window keeps several trials running."""
    number = int(wildcards.number)
    known = {"resolved": ancient(FOLDER.resolved)}
    if number >= 1:
        known["previous"] = FOLDER.trial(number - 1).request
    if number >= STUDY.window:
        # Measuring one trial again must not throw away those asked after it.
        known["newest_record"] = ancient(FOLDER.trial(number - STUDY.window).record)
    return known


rule request:
    input:
        unpack(what_is_known),
    output:
        FOLDER.trials / "{number}" / "request.json",
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee.ask --study-file {params.folder:q}/study.json --folder {params.folder:q} --number {wildcards.number}"


rule trial:
    input:
        FOLDER.trials / "{number}" / "request.json",
    output:
        FOLDER.trials / "{number}" / "record.json",
    params:
        trial=lambda wildcards: FOLDER.trials / wildcards.number,
    resources:
        device=1,
    shell:
        "python -m envknee.launch {params.trial:q}"
