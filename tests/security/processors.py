"""A cgroup with a share of the processors of its own: the coordinator's, as its systemd unit gives it, and that of processes that stand
for other machines."""
import os
from pathlib import Path

from localcluster import wait_for

V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
USUAL = 100  # the weight of any group that says none; one of cgroup v1 is 1024 shares


def make(folder, file, weight):
    """The folder, or None if it cannot be had: not root, or no controller of processors. One of that name is what a run left that was killed."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    try:
        (folder / file).write_text(str(weight))
        return folder
    except OSError:
        folder.rmdir()
        return None


class Share:
    """`weight` as CPUWeight of systemd. `folder` is None where no cgroup can be made."""

    def __init__(self, name, weight):
        v1 = (V1 / "cpu.shares").exists()
        self.folder = make(V1 / name, "cpu.shares", 1024 * weight // USUAL) if v1 else make(V2 / name, "cpu.weight", weight)

    def move(self, pid):
        """With all that it begins from now on."""
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def end(self):
        """Once its processes have ended."""
        if not self.folder:
            return

        def gone():
            try:
                os.rmdir(self.folder)
            except OSError:
                return False
            return True
        wait_for(f"{self.folder} to be empty", 5, gone)
