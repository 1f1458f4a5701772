import subprocess
import sys

from trio_profile.extras.ray import cost

BUSY = """
import time
while time.process_time() < 0.3:
    pass
print("done", flush=True)
input()
"""


def test_processes_of_ray_are_told_by_their_command(tmp_path):
    """A process that Ray's worker starts has folders of Ray in its arguments, and is not Ray's."""
    folder = tmp_path / "ray" / "_private"
    folder.mkdir(parents=True)
    (folder / "raylet.py").write_text(BUSY)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    of_ray = subprocess.Popen([sys.executable, str(folder / "raylet.py")], **pipes)
    other = subprocess.Popen([sys.executable, "-P", "-c", BUSY, str(folder)], **pipes)
    try:
        for process in (of_ray, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n"
        spent = cost.cpu_seconds()
        assert spent[of_ray.pid] >= 0.2
        assert other.pid not in spent
    finally:
        of_ray.kill()
        other.kill()


def test_the_cores_that_were_busy():
    before, after = {1: 2.0, 2: 5.0, 3: 1.0}, {1: 3.0, 2: 5.0, 4: 0.5}
    assert cost.cores(before, after, 3.0) == 0.5
