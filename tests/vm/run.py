#!/usr/bin/python3
"""Muster's units in a virtual machine: Debian 12 with its own kernel and systemd as init, which no container here has.

    tests/vm/run.py [--muster build/muster] [--cache DIR] [--accel kvm] [--keep]

Needs qemu-system-x86, debootstrap and a Debian mirror; the system is made once and kept in --cache (build-vm). The
processor is emulated, which takes minutes. The run ends when the guest says so, or when it has printed nothing
for SILENT_S: there is no limit of its whole time. Prints guest.sh's lines; exit code 1 if one of them is FAIL, or if
they do not come to an end; 77 if a tool is missing.
"""
import argparse
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "debootstrap": "debootstrap", "mke2fs": "e2fsprogs"}
PACKAGES = ["systemd", "systemd-sysv", "dbus", "linux-image-cloud-amd64", "busybox-static", "libnng1", "libprotobuf-c1", "libmicrohttpd12",
            "libjansson4", "libyaml-0-2", "libsqlite3-0", "zlib1g", "procps", "python3", "util-linux"]
SILENT_S = 600

# The guest boots into this target: basic.target and the tests, no login.
TARGET = "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\nWants=guest.service\n"
SERVICE = """[Unit]
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c 'mkdir -p /t; mount -o ro /dev/vdb /t; sh /t/guest.sh > /dev/ttyS0 2>&1; echo GUEST-END > /dev/ttyS0; poweroff -f'
"""
# What the tests do not need: devtmpfs has the nodes, nothing is logged on disk, no timer fires.
MASKED = ["systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket",
          "systemd-timesyncd.service", "systemd-journal-flush.service", "systemd-random-seed.service", "systemd-update-utmp.service",
          "systemd-modules-load.service", "systemd-binfmt.service", "systemd-pcrphase.service", "timers.target", "apt-daily.timer",
          "e2scrub_reap.service"]
MODULES = ["virtio_pci", "virtio_blk", "ext4"]
INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in $(/bin/busybox cat /modules); do /bin/busybox insmod $module; done
/bin/busybox mount -t ext4 /dev/vda /root || echo "no root file system"
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""


def archive(entries):
    """A cpio archive ("newc") of (name, mode, bytes)."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        words = [number + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + "".join(f"{word:08x}" for word in words).encode() + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def make_initrd(root, version):
    """Modules of the disk and its file system, and a shell that loads them: a tenth of the distribution's."""
    listed = subprocess.run(["chroot", str(root), "modprobe", "-S", version, "-a", "-D", *MODULES], check=True, capture_output=True, text=True).stdout
    paths = list(dict.fromkeys(line.split()[1] for line in listed.splitlines() if line.startswith("insmod ")))
    folders = [(name, 0o40755, b"") for name in ("bin", "dev", "root", "m")]
    modules = [(f"m/{Path(path).name}", 0o100644, (root / path.lstrip("/")).read_bytes()) for path in paths]
    texts = [("init", 0o100755, INIT.encode()), ("modules", 0o100644, "\n".join(f"/{name}" for name, _, _ in modules).encode())]
    return archive([*folders, ("bin/busybox", 0o100755, (root / "bin/busybox").read_bytes()), *modules, *texts])


def make_system(cache):
    """A root file system with kernel and initrd beside it, once."""
    root, image = cache / "root", cache / "root.img"
    if image.exists():
        return image
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(root)], check=True,
                   env={**os.environ, "INITRD": "No"})
    units = root / "etc/systemd/system"
    (units / "guest.target").write_text(TARGET)
    (units / "guest.service").write_text(SERVICE)
    for name in MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    kernel = next((root / "boot").glob("vmlinuz-*"))
    shutil.copy(kernel, cache / "vmlinuz")
    (cache / "initrd.img").write_bytes(make_initrd(root, kernel.name.split("-", 1)[1]))
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(cache / "making.img"), "2G"], check=True)
    (cache / "making.img").rename(image)
    shutil.rmtree(root)
    return image


def follow(qemu):
    """What the guest prints, to its end; without one if it falls silent."""
    said = bytearray()
    while select.select([qemu.stdout], [], [], SILENT_S)[0]:
        some = os.read(qemu.stdout.fileno(), 65536)
        if not some:
            return said
        said += some
    said += f"\nthe guest has printed nothing for {SILENT_S} s\n".encode()
    return said


def boot(cache, image, folder, accel):
    """What the guest printed; what it writes is not kept, so that every run begins alike."""
    shared, tests = folder / "t", folder / "t.img"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(shared), str(tests), "256M"], check=True)
    words = "console=ttyS0 quiet panic=-1 mitigations=off audit=0 apparmor=0 systemd.unit=guest.target systemd.show_status=0"
    command = ["qemu-system-x86_64", "-m", "1024", "-smp", "2", "-nographic", "-no-reboot", "-net", "none", "-accel", accel,
               "-cpu", "max", "-kernel", str(cache / "vmlinuz"), "-initrd", str(cache / "initrd.img"), "-append", words,
               "-drive", f"file={image},format=raw,if=virtio,snapshot=on", "-drive", f"file={tests},format=raw,if=virtio"]
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        return follow(qemu).decode(errors="replace").replace("\r", "")
    finally:
        qemu.kill()
        qemu.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", type=Path, default=ROOT / "build/muster")
    parser.add_argument("--cache", type=Path, default=ROOT / "build-vm")
    parser.add_argument("--accel", default="tcg,thread=multi", help="qemu's; kvm where that works: in a machine that is virtual itself it may hang")
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
        shutil.copy(options.muster.parent / "tests/libnvidia-ml.so.1", shared)  # two GPUs for the agent
        shutil.copy(Path(__file__).parent / "guest.sh", shared / "guest.sh")
        said = boot(options.cache, image, Path(folder), options.accel)
    facts = [line for line in said.splitlines() if line.startswith(("ok ", "FAIL "))]
    whole = "GUEST-END" in said
    print(said if options.keep or not whole else "\n".join(facts))
    failed = sum(line.startswith("FAIL") for line in facts)
    print(f"{len(facts) - failed} ok, {failed} failed{'' if whole else '; it did not come to an end'}")
    return 0 if whole and facts and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
