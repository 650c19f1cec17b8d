"""How a trial ended, in a few words. Pure."""

STATUS_WORDS: dict[str, str] = {
    "ok": "measured",
    "target_reached": "target reached",
    "timeout": "budget spent first",
    "oom": "out of memory",
    "refused": "refused: cannot fit",
    "nan": "NaN",
    "diverged": "diverged",
    "invalid": "invalid: fast but wrong",
    "crashed": "crashed",
    "skipped": "not needed",
}
