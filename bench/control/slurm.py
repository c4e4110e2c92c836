"""A Slurm of its own beside ours: munged with a fresh key, slurmctld and one slurmd, all on loopback and
on free ports, with everything they write under one temporary folder; ended and removed with the `with`. Packages: slurm-wlm
and munge.

Settings are those it was fastest with here: no accounting, no cgroups (proctrack/linuxproc, task/none),
the scheduler that runs jobs in order (sched/builtin) at each submit and each end (no minimum interval),
`defer` and `max_rpc_cnt` so that passes give way to submits, cons_tres. A job holds its CPU for about a
second whatever it does, and so the node says it has 256 of them: with as many as our two agents have
slots, 15 jobs a second end, with 64 46, with 256 56. pgid instead of linuxproc, sched/backfill,
and neither munge nor signed credentials made no difference of more than some percent.
"""
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ctld}
SlurmdPort={slurmd}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldDebug=error
SlurmdDebug=error
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
PriorityType=priority/basic
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,default_queue_depth=10000,max_rpc_cnt=150,defer
MessageTimeout=60
MinJobAge=2
MaxJobCount=100000
ReturnToService=2
SlurmdParameters=config_overrides
LaunchParameters=disable_send_gids
NodeName={host} NodeAddr=127.0.0.1 CPUs=256 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
PARALLEL = (2, 4, 8)


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing():
    """Why there is no Slurm to stand beside, or None."""
    absent = [program for program in PROGRAMS if not find(program)]
    return f"slurm is not here: install slurm-wlm and munge ({' '.join(absent)} missing)" if absent else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm:
    def __init__(self):
        self.folder, self.processes = Path(tempfile.mkdtemp(prefix="muster-slurm-")), []
        self.folder.chmod(0o711)  # munged insists that everybody could reach its socket
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self, *words):
        with open(self.folder / "out", "ab") as out:
            self.processes.append(subprocess.Popen([find(words[0]), *words[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                   env=self.environment, start_new_session=True))

    def __enter__(self):
        folder, host = self.folder, socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        ports = {"ctld": free_port(), "slurmd": free_port()}
        (folder / "slurm.conf").write_text(CONF.format(host=host, user=os.getuid(), folder=folder, **ports))
        self.job = folder / "job"
        self.job.write_text("#!/bin/sh\nexec /bin/true\n")
        try:
            self.start("munged", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={key}", f"--pid-file={folder}/munged.pid",
                       f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed", "--num-threads=4")
            self.wait("munged listens", lambda: (folder / "munge.socket").exists())
            self.start("slurmctld", "-D", "-f", str(folder / "slurm.conf"))
            self.start("slurmd", "-D", "-N", host, "-f", str(folder / "slurm.conf"))
            self.wait("the node is idle", lambda: self.ask("sinfo", "-h", "-o", "%t") == "idle")
        except Exception:
            self.__exit__()
            raise
        return self

    def wait(self, what, probe, seconds=60):
        end = time.monotonic() + seconds
        while not probe():
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes):
                raise RuntimeError(f"slurm: {what}: not so\n" + "".join(p.read_text()[-1000:] for p in [self.folder / "out", *self.folder.glob("*.log")]))
            time.sleep(0.05)

    def ask(self, *words):
        return subprocess.run(words, capture_output=True, text=True, env=self.environment).stdout.strip()

    def submit(self, jobs, at_once=1, held=True):
        """Submits a second by `at_once` sbatch side by side. Held jobs are stored and never run, as ours that no node fits."""
        words = ["sbatch", *(["-H"] if held else []), "-D", "/", "-o", "/dev/null", str(self.job)]
        start = time.monotonic()
        if at_once == 1:
            for _ in range(jobs):
                subprocess.run(words, check=True, capture_output=True, env=self.environment)
        else:
            subprocess.run(["xargs", "-P", str(at_once), "-I{}", *words], check=True, capture_output=True, text=True,
                           input="\n".join(map(str, range(jobs))), env=self.environment)
        rate = jobs / (time.monotonic() - start)
        if held:
            subprocess.run(["scancel", "-u", str(os.getuid())], check=True, capture_output=True, env=self.environment)
        return rate

    def submit_parallel(self, jobs):
        return max(self.submit(jobs, at_once) for at_once in PARALLEL)

    def through(self, jobs):
        """Jobs a second from the first submit, by four sbatch at once, until none is left."""
        start = time.monotonic()
        self.submit(jobs, 4, held=False)
        self.wait("all jobs end", lambda: not self.ask("squeue", "-h", "-t", "PD,R,CG"), seconds=300)
        return jobs / (time.monotonic() - start)

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
