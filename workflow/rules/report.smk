# From records to a verdict, figures and the report.
#
# In:   every trial's record.json
# Out:  verdict.json, records.csv, figures/*, and with --report results/<study>/report.html
import json

from envknee import outputs

# What some studies have beside the figures of every study: name -> caption, section of the report.
EXTRA = {
    outputs.PHASES: ("../report/phases.rst", "1 Thresholds"),
    outputs.SCALING: ("../report/scaling.rst", "1 Thresholds"),
    outputs.TARGET: ("../report/target.rst", "2 Learning"),
    outputs.PARETO: ("../report/pareto.rst", "2 Learning"),
    outputs.BATCH: ("../report/batch.rst", "2 Learning"),
}
FIGURES = [FOLDER.figures / name for name in outputs.figures_of(STUDY)]
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
    localrule: True
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
        pixels=[FOLDER.figures / outputs.pixels_of(name) for name in outputs.figures_of(STUDY) if name.endswith(".svg")],
        trials=report(FOLDER.figures / "trials.html", caption="../report/trials.rst", category="3 Trials"),
        extra=[
            report(FOLDER.figures / name, caption=EXTRA[name][0], category=EXTRA[name][1])
            for name in outputs.figures_of(STUDY)
            if name in EXTRA
        ],
    log:
        FOLDER.root / "logs" / "figures.log",
    localrule: True
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee.figures {params.folder:q} 2>&1 | tee {log:q}"
