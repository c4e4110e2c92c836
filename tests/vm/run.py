#!/usr/bin/python3
"""Muster's units in a virtual machine: Debian 12 with its own kernel and systemd as init, which no container here has.

    tests/vm/run.py [--muster build/muster] [--cache DIR] [--keep]

Needs qemu-system-x86, debootstrap and a Debian mirror; the system is made once and kept in --cache (build-vm). Without
KVM the processor is emulated: a few minutes. Prints guest.sh's lines; exit code 1 if one of them is FAIL, or if they do
not come to an end; 77 if a tool is missing.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "debootstrap": "debootstrap", "mke2fs": "e2fsprogs"}
PACKAGES = ["systemd", "systemd-sysv", "dbus", "linux-image-cloud-amd64", "libnng1", "libprotobuf-c1", "libmicrohttpd12", "libjansson4", "libyaml-0-2",
            "libsqlite3-0", "zlib1g", "procps", "python3", "util-linux"]
UNIT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c 'mkdir -p /t; mount -o ro /dev/vdb /t; sh /t/guest.sh > /dev/ttyS0 2>&1; echo GUEST-END > /dev/ttyS0; poweroff -f'
[Install]
WantedBy=multi-user.target
"""
LIMIT_S = 1500


def make_system(cache):
    """A root file system with the kernel beside it, once."""
    root, image = cache / "root", cache / "root.img"
    if image.exists():
        return image
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(root)], check=True)
    (root / "etc/systemd/system/guest.service").write_text(UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "guest.service").symlink_to("../guest.service")
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy(next((root / "boot").glob(f"{name}-*")), cache / name)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(image), "2G"], check=True)
    shutil.rmtree(root)
    return image


def boot(cache, image, folder):
    """What the guest printed; its disks are copies, so that every run begins alike."""
    shared, disk, tests = folder / "t", folder / "root.img", folder / "t.img"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(shared), str(tests), "256M"], check=True)
    subprocess.run(["cp", "--sparse=always", str(image), str(disk)], check=True)
    command = ["qemu-system-x86_64", "-m", "1024", "-smp", "1", "-nographic", "-no-reboot", "-net", "none", "-accel", "tcg", "-cpu", "max",
               "-kernel", str(cache / "vmlinuz"), "-initrd", str(cache / "initrd.img"), "-append", "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=0",
               "-drive", f"file={disk},format=raw,if=virtio", "-drive", f"file={tests},format=raw,if=virtio"]
    done = subprocess.run(["timeout", str(LIMIT_S), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.decode(errors="replace").replace("\r", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", type=Path, default=ROOT / "build/muster")
    parser.add_argument("--cache", type=Path, default=ROOT / "build-vm")
    parser.add_argument("--keep", action="store_true", help="print all that the guest wrote")
    options = parser.parse_args()
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print(f"SKIPPED: needs root and the packages {' '.join(TOOLS.values())}; missing: {' '.join(missing) or 'root'}")
        return 77
    options.cache.mkdir(parents=True, exist_ok=True)
    image = make_system(options.cache)
    with tempfile.TemporaryDirectory(prefix="muster-vm-") as folder:
        shared = Path(folder) / "t"
        shutil.copytree(ROOT / "deploy/systemd", shared / "systemd")
        shutil.copy(options.muster, shared / "muster")
        shutil.copy(Path(__file__).parent / "guest.sh", shared / "guest.sh")
        said = boot(options.cache, image, Path(folder))
    facts = [line for line in said.splitlines() if line.startswith(("ok ", "FAIL "))]
    whole = "GUEST-END" in said
    print(said if options.keep or not whole else "\n".join(facts))
    failed = sum(line.startswith("FAIL") for line in facts)
    print(f"{len(facts) - failed} ok, {failed} failed{'' if whole else '; it did not come to an end'}")
    return 0 if whole and facts and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
