"""The pytest plugin of the gate, under its public name."""

from trio_profile.kinds.gate.pytest_plugin import *  # noqa: F403 - pytest finds hooks and fixtures by their names
