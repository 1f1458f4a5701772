import subprocess
from pathlib import Path

import torch

from tests.profile.examples import environment
from trio_profile.inputs.environment import collect


def test_what_is_recorded_is_what_is_here():
    found = collect()
    assert found.torch == torch.__version__
    assert found.cpu_threads == torch.get_num_threads()
    assert found.device_name == "cpu"
    assert found.cuda is None


def test_the_commit_is_the_checkouts():
    root = Path(__file__).parents[3]
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True)
    if git.returncode == 0:
        assert collect().commit.rstrip("+").startswith(git.stdout.strip()[:7])


def test_identity_is_what_changes_a_time():
    assert environment().identity == environment(hostname="other", commit="other").identity
    assert environment().identity != environment(driver="other").identity
