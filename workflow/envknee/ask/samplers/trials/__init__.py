"""Samplers that choose trials: see `envknee.ask.samplers`."""
