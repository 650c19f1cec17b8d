# From records to a verdict, figures and the report.
#
# In:   every trial's record.json
# Out:  verdict.json, records.csv, figures/*, and with --report results/<study>/report.html
import json

# Only arms of several ranks have a scaling efficiency.
SCALING = ["scaling.svg"] if max(STUDY.world_sizes) > 1 else []
FIGURES = [
    FOLDER.figures / name
    for name in ("throughput.svg", "memory.svg", "learning.svg", "history.svg", "trials.html", *SCALING)
]
RECORDS = [FOLDER.trial(number).record for number in range(TRIALS)]


if FOLDER.verdict.exists():
    # The report's first page, workflow/report/workflow.rst, tells what was found.
    config["verdict"] = json.loads(FOLDER.verdict.read_text(encoding="utf-8"))


rule verdict:
    input:
        RECORDS,
    output:
        verdict=FOLDER.verdict,
        csv=FOLDER.records_csv,
    log:
        FOLDER.root / "logs" / "verdict.log",
    params:
        folder=FOLDER.root,
        decide=STUDY.decide.model_dump(),
    shell:
        "python -m envknee.limits.verdict {params.folder:q} 2>&1 | tee {log:q}"


rule figures:
    input:
        RECORDS,
        verdict=FOLDER.verdict,
    output:
        throughput=report(
            FOLDER.figures / "throughput.svg", caption="../report/throughput.rst", category="1 Thresholds"
        ),
        memory=report(FOLDER.figures / "memory.svg", caption="../report/memory.rst", category="1 Thresholds"),
        learning=report(FOLDER.figures / "learning.svg", caption="../report/learning.rst", category="2 Learning"),
        history=report(FOLDER.figures / "history.svg", caption="../report/history.rst", category="3 Trials"),
        trials=report(FOLDER.figures / "trials.html", caption="../report/trials.rst", category="3 Trials"),
        scaling=[
            report(FOLDER.figures / name, caption="../report/scaling.rst", category="1 Thresholds") for name in SCALING
        ],
    log:
        FOLDER.root / "logs" / "figures.log",
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee.figures {params.folder:q} 2>&1 | tee {log:q}"
