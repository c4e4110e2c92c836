"""A cgroup with a small share of the processors: for processes that stand for other machines."""
import os
from pathlib import Path

from localcluster import wait_for

V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def make(folder, file, weight):
    """The folder, or None if it cannot be had: not root, or no controller of processors. One of that name is what a run left that was killed."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    try:
        (folder / file).write_text(weight)
        return folder
    except OSError:
        folder.rmdir()
        return None


class OtherMachines:
    """`folder` is None where no cgroup can be made. Everything beside it has ten times its share."""

    def __init__(self, name):
        self.folder = make(V1 / name, "cpu.shares", "102") if (V1 / "cpu.shares").exists() else make(V2 / name, "cpu.weight", "10")

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
