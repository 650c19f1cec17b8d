"""How a trial's command enters the image that its study names: Apptainer, Docker or Podman."""
