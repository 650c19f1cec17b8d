# The sweep: ask, trial, ask, trial, ...
#
# In:     results/<study>/study.json, and with runtime: apptainer the image
# Out:    results/<study>/trials/<number>/{request.json, metrics.jsonl, record.json}
# Steps:  prepare once, then for each number: request (Optuna is asked), trial (Isaac Lab runs)
#         a trial that was recorded and is torn, as after a power cut: torn, trial
#         a block or a pool has a rule for all its trials


# A mark beside the logs, until the trial was measured again: see torn_marks.
rule torn:
    output:
        touch(temp(FOLDER.root / "logs" / "torn-{number}")),
    localrule: True


rule prepare:
    input:
        image=IMAGE,
    output:
        FOLDER.resolved,
    log:
        FOLDER.root / "logs" / "prepare.log",
    retries: TRIES if SITE else 0
    resources:
        **resources_of(None),
        device=1,
    params:
        folder=FOLDER.root,
        study=lambda wildcards: canonical_json(STUDY.measured_part()),  # braces in it are no wildcards; the same in whatever order a file lists its keys
    shell:
        in_step("python -m envknee prepare {params.folder:q} {input.image:q} --log {log:q} 2>&1 | tee {log:q}")


rule request:
    input:
        unpack(lambda wildcards: known_to(int(wildcards.number))),
    output:
        FOLDER.trials / "{number}" / "request.json",
    log:
        FOLDER.root / "logs" / "request-{number}.log",
    wildcard_constraints:
        number=ALONE,
    # Seconds on one core: as a job it would wait longer than it works.
    localrule: True
    params:
        folder=FOLDER.root,
        study=FOLDER.study,
    shell:
        "python -m envknee ask --study-file {params.study:q} --folder {params.folder:q} --number {wildcards.number}"
        " 2>&1 | tee {log:q}"


# The launcher keeps each trial's own log and shows progress on the terminal: nothing is redirected here. Snakemake removes a
# rule's log before each run, and with it what a trial said that failed, or that still runs under a sweep that was killed: it
# is given a link.
rule trial:
    input:
        FOLDER.trials / "{number}" / "request.json",
        lambda wildcards: torn_marks([int(wildcards.number)]),
        image=IMAGE,
    output:
        FOLDER.trials / "{number}" / "record.json",
    log:
        FOLDER.root / "logs" / "trial-{number}.log",
    wildcard_constraints:
        number=ALONE,
    retries: TRIES
    resources:
        **resources_of(lambda wildcards: [PLAN[int(wildcards.number)]]),
        device=devices_of,
    params:
        trial=lambda wildcards: FOLDER.trials / wildcards.number,
    shell:
        in_step("python -m envknee launch {params.trial:q} {input.image:q} --log {log:q}")


# A block: one process measures several trials, which one process asked for. Each block has rules of its own, because the names
# of its files follow no pattern.
for BLOCK in BLOCKS:

    rule:
        name:
            f"requests_{BLOCK[0].number:04d}"
        input:
            **known_to(BLOCK[0].number),
        output:
            [FOLDER.trial(slot.number).request for slot in BLOCK],
        log:
            FOLDER.root / "logs" / f"request-{BLOCK[0].number:04d}.log",
        localrule: True
        params:
            folder=FOLDER.root,
            study=FOLDER.study,
            numbers=[slot.number for slot in BLOCK],
        shell:
            "python -m envknee ask --study-file {params.study:q} --folder {params.folder:q} --number {params.numbers}"
            " 2>&1 | tee {log:q}"

    rule:
        name:
            f"block_{BLOCK[0].number:04d}"
        input:
            [FOLDER.trial(slot.number).request for slot in BLOCK],
            lambda wildcards, block=BLOCK: torn_marks([slot.number for slot in block]),
            image=IMAGE,
        output:
            [FOLDER.trial(slot.number).record for slot in BLOCK],
        log:
            FOLDER.root / "logs" / f"block-{BLOCK[0].number:04d}.log",
        retries: TRIES
        resources:
            **resources_of(lambda wildcards, block=BLOCK: block),
            device=jobs.shape_of(STUDY, BLOCK[0].arm).devices,
        params:
            trials=[FOLDER.trial(slot.number).root for slot in BLOCK],
        shell:
            in_step("python -m envknee launch {params.trials:q} {input.image:q} --log {log:q}")


# A pool: workers ask for its trials as they go, and measure them. Requests are files and no outputs: who asks for which trial is
# known only then.
for POOL in POOLS:

    rule:
        name:
            f"pool_{POOL[0].number:04d}"
        input:
            **known_to_pool(POOL),
            torn=lambda wildcards, pool=POOL: torn_marks([slot.number for slot in pool]),
            image=IMAGE,
            ended=lambda wildcards, pool=POOL: jobs_to_wait_for(pool),
        output:
            [FOLDER.trial(slot.number).record for slot in POOL],
        log:
            FOLDER.root / "logs" / f"pool-{POOL[0].number:04d}.log",
        retries: 0 if SITE else TRIES
        # On a cluster workers are jobs, and this waits for their records.
        localrule: SITE is not None
        resources:
            **({} if SITE else resources_of(lambda wildcards, pool=POOL: pool[:1])),
            # Not a parameter: with another number of workers, finished trials would look out of date.
            workers=workers_of(POOL),
            device=0 if SITE else workers_of(POOL) * jobs.shape_of(STUDY, POOL[0].arm).devices,
        params:
            folder=FOLDER.root,
            pool=POOL[0].number,
            elsewhere="--elsewhere" if SITE else "",
        shell:
            f"python -m envknee workers {{params.folder:q}} {{params.pool}} {{input.image:q}} --workers {{resources.workers}}"
            f" {{params.elsewhere}} --log {{log:q}} {'--step {resources.step:q}' if ALLOCATION else ''}"

    for WORKER in range(workers_of(POOL)) if SITE else ():

        # Its output says how many records were missing when the sweep began: that of an earlier sweep does not count.
        rule:
            name:
                f"worker_{POOL[0].number:04d}_{WORKER}"
            input:
                **known_to_pool(POOL),
                torn=lambda wildcards, pool=POOL: torn_marks([slot.number for slot in pool]),
                image=IMAGE,
            output:
                touch(temp(FOLDER.root / "logs" / f"worker-{POOL[0].number:04d}-{WORKER}-{{left}}.ended")),
            log:
                FOLDER.root / "logs" / f"worker-{POOL[0].number:04d}-{WORKER}-{{left}}.log",
            wildcard_constraints:
                left=r"\d+",
            retries: TRIES
            resources:
                **resources_of(lambda wildcards, pool=POOL: jobs.share_of(pool, workers_of(pool))),
                device=jobs.shape_of(STUDY, POOL[0].arm).devices,
            params:
                folder=FOLDER.root,
                pool=POOL[0].number,
            shell:
                "python -m envknee work {params.folder:q} {params.pool} {input.image:q} --log {log:q}"
