"""Samplers that choose points: see `envknee.ask.samplers`."""
