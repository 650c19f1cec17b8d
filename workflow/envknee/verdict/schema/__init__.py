"""The content of verdict.json as frozen models, a file per part. Decides nothing."""
