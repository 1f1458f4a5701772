import subprocess
from pathlib import Path

import torch

from tests.profile.examples import environment
from trio_profile.inputs.environment import collect


def test_the_environment_is_that_of_this_machine():
    found = collect()
    assert found.torch == torch.__version__
    assert found.cpu_threads == torch.get_num_threads()
    assert found.device_name == "cpu"
    assert found.cuda is None


def test_the_commit_is_that_of_the_checkout():
    root = Path(__file__).parents[3]
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True)
    if git.returncode == 0:
        assert collect().commit.rstrip("+").startswith(git.stdout.strip()[:7])


def test_the_identity_has_only_what_changes_a_time():
    assert environment().identity == environment(hostname="other", commit="other").identity
    assert environment().identity != environment(driver="other").identity
