# From records to a verdict, figures and the report.
#
# In:   every trial's record.json
# Out:  verdict.json, records.csv, figures/*, report.html
#
# Snakemake's own report (snakemake --report FILE.html) has the same figures and captions, and when each job ran. The one written
# here can be read on a phone and on paper, and links trials to their files and runs.
import json

from envknee import outputs

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
        [
            report(
                FOLDER.figures / name,
                caption=f"../report/{outputs.caption_of(name)}",
                category=outputs.section_of(name),
            )
            for name in outputs.figures_of(STUDY)
        ],
        [FOLDER.figures / outputs.pixels_of(name) for name in outputs.figures_of(STUDY) if name.endswith(".svg")],
    log:
        FOLDER.root / "logs" / "figures.log",
    localrule: True
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee.figures {params.folder:q} 2>&1 | tee {log:q}"


rule report:
    input:
        RECORDS,
        FIGURES,
        verdict=FOLDER.verdict,
        published=FOLDER.published,
    output:
        FOLDER.report,
    log:
        FOLDER.root / "logs" / "report.log",
    localrule: True
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee.report {params.folder:q} 2>&1 | tee {log:q}"
