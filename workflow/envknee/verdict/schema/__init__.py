"""Everything that verdict.json holds, as frozen models, a file per part. Decides nothing."""
