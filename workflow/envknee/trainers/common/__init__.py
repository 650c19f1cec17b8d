"""Code shared by trainers. Not a trainer itself: a study's `trainer:` cannot name it."""
