"""What trainers have in common. No trainer itself: the study's `trainer:` cannot name it."""
