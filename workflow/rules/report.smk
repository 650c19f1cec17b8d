# From records to a verdict, figures and the report.
#
# In:   every trial's record.json
# Out:  verdict.json, records.csv, figures/*, report.html
#
# Snakemake's own report (snakemake --report FILE.html) has the same figures and captions, and when each job ran. The one written
# here can be read on a phone and on paper, says the verdict in words, and links trials to their files and runs.
from envknee.show.figures import registry

DRAWN = registry.figures_of(STUDY)
FIGURES = [FOLDER.figures / entry.svg for entry in DRAWN]
RECORDS = [FOLDER.trial(number).record for number in range(TRIALS)]


rule verdict:
    input:
        RECORDS,
    output:
        verdict=FOLDER.verdict,
        csv=report(FOLDER.records_csv, caption="../report/trials.rst", category="3 Trials"),
    log:
        FOLDER.root / "logs" / "verdict.log",
    localrule: True
    params:
        folder=FOLDER.root,
        decide=STUDY.decide.model_dump(),
    shell:
        "python -m envknee verdict {params.folder:q} 2>&1 | tee {log:q}"


rule figures:
    input:
        RECORDS,
        verdict=FOLDER.verdict,
    output:
        [
            report(FOLDER.figures / entry.svg, caption=f"../report/{entry.caption}", category=entry.section)
            for entry in DRAWN
        ],
        [FOLDER.figures / entry.png for entry in DRAWN],
    log:
        FOLDER.root / "logs" / "figures.log",
    localrule: True
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee figures {params.folder:q} 2>&1 | tee {log:q}"


# It needs no tracking store: it is written before, or beside, publication.
rule report:
    input:
        RECORDS,
        FIGURES,
        verdict=FOLDER.verdict,
    output:
        FOLDER.report,
    log:
        FOLDER.root / "logs" / "report.log",
    priority: 1
    localrule: True
    params:
        folder=FOLDER.root,
    shell:
        "python -m envknee report {params.folder:q} 2>&1 | tee {log:q}"
