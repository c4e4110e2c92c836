#!/usr/bin/python3
"""./dev setup cuda: what a build of the module for GPUs needs, where no CUDA toolkit is installed.

    tools/toolkit.py [--wheels]

With a toolkit (nvcc of PATH, CUDA_HOME or /usr/local/cuda) it says what is there and does no more; --wheels makes one in
any case. Else it installs the wheels of deploy/cuda-wheels.txt into .cuda, about a gigabyte, where CMake finds them.
Exit status 1: they cannot be had; the sentence is pip's.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cuda"
WHEELS = ROOT / "deploy/cuda-wheels.txt"
PARTS = {"nvcc": "bin/nvcc", "headers": "include/cuda_runtime_api.h", "cudart": "lib*/libcudart_static.a", "cuBLASLt": "lib*/libcublasLt.so*"}


def nvcc_of():
    found = shutil.which("nvcc")
    for folder in filter(None, [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]):
        if not found and (Path(folder) / "bin/nvcc").exists():
            found = str(Path(folder) / "bin/nvcc")
    return found


def version_of(nvcc):
    out = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    found = re.search(r"release ([\d.]+)", out)
    return found.group(1) if found else "of an unknown version"


def say(root, nvcc):
    missing = [name for name, pattern in PARTS.items() if not any(root.glob(pattern)) and not any((root / "targets/x86_64-linux").glob(pattern))]
    print(f"setup: the CUDA toolkit of {root} is {version_of(nvcc)}" + (f", without {', '.join(missing)}" if missing else ""))
    return 1 if missing else 0


def pip_of():
    """A command that is pip: the Python's own, or that of a virtual environment in the folder."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
        return [sys.executable, "-m", "pip"]
    own = FOLDER / "venv"
    if not (own / "bin/python").exists() and subprocess.run([sys.executable, "-m", "venv", str(own)]).returncode:
        sys.exit("setup: there is neither pip nor venv: Debian has them as python3-pip and python3-venv")
    return [str(own / "bin/python"), "-m", "pip"]


def install():
    FOLDER.mkdir(exist_ok=True)
    wheels = FOLDER / "wheels"
    command = [*pip_of(), "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--no-compile",
               "--upgrade", "--target", str(wheels), "-r", str(WHEELS)]
    if subprocess.run(command).returncode:
        print("setup: pip could not install them (above). Where there is no network, install a CUDA toolkit and name it by CUDA_HOME", file=sys.stderr)
        return 1
    toolkit = wheels / "nvidia/cu13"
    for part in ("bin", "include", "lib", "nvvm"):
        link = FOLDER / part
        if link.is_symlink():
            link.unlink()
        link.symlink_to(Path("wheels/nvidia/cu13") / part)
    (FOLDER / "bin/nvcc").chmod(0o755)
    nccl = wheels / "nvidia/nccl/lib/libnccl.so.2"
    if nccl.exists():
        print(f"setup: NCCL is {nccl}: programs find it by MUSTER_NCCL")
    return say(FOLDER, str(FOLDER / "bin/nvcc"))


def main():
    p = argparse.ArgumentParser(prog="./dev setup cuda", description="Make a CUDA toolkit of PyPI's wheels where none is installed.")
    p.add_argument("--wheels", action="store_true", help="also where one is installed")
    a = p.parse_args()
    nvcc = nvcc_of()
    if nvcc and not a.wheels:
        return say(Path(nvcc).resolve().parent.parent, nvcc)
    return install()


if __name__ == "__main__":
    sys.exit(main())
