"""Tenants on one node. Attacks that succeeded once are named after the review that found them."""
import ctypes
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from leavings import MARK
from localcluster import HANG_SECONDS, MUSTER, ROOT, wait_for

HIDDEN = 1900000000  # the first uid that is made for tenants
RANGE = "1900000000-1900999999"


def as_tenant(cluster, tenant, *words):
    done = subprocess.run([cluster.muster_path, *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={**cluster.environment(), "MUSTER_TOKEN": cluster.tokens[tenant]}, cwd="/")
    return done


def submit(cluster, tenant, script, *options):
    done = as_tenant(cluster, tenant, "submit", *options, "--", "/usr/bin/python3", "-c", textwrap.dedent(script))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run(cluster, tenant, script, *options):
    """What a program of that tenant prints, to its end."""
    done = as_tenant(cluster, tenant, "run", *options, "--", "/usr/bin/python3", "-c", textwrap.dedent(script))
    return done.stdout or done.stderr


def pid_of(cluster, job, tenant):
    said = wait_for("it says its pid", 30, lambda: [line for line in as_tenant(cluster, tenant, "logs", job).stdout.splitlines() if line.startswith("pid=")])
    return int(said[0].split("=")[1])


def start_red(cluster, *options, also=""):
    """A running job of red's, with a secret, that has done what it does also, and the process id of its worker."""
    says = "os.write(1, f'RED-LOG-LINE\\npid={os.getpid()}\\n'.encode())"
    job = submit(cluster, "red", "import os, time\n" + textwrap.dedent(also) + f"\n{says}\ntime.sleep(600)", "--env", "HF_TOKEN=red-secret", *options)
    cluster.wait_state(job, "running")
    return job, pid_of(cluster, job, "red")


def test_an_agent_of_roots_does_not_start_without_users_for_its_workers(make_cluster):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    cluster = make_cluster(nodes=0)
    done = subprocess.run([MUSTER, "agent", "--coordinator", cluster.rpc, "--token", "x", "--data", str(cluster.folder / "stray")],
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 2 and "workers would run as root" in done.stderr and "--worker-uids" in done.stderr, (done.returncode, done.stderr)
    cluster.start_agent("node1", "--slots", "1")
    cluster.wait_nodes(1)
    assert "jobs run as root" in cluster.muster("nodes", check=True).stdout


def test_c1_a_job_is_neither_root_nor_reads_the_agents_token(make_shared):
    cluster = make_shared()
    paths = [cluster.data / "agent.token", cluster.data / "muster.db", cluster.data / "admin.token", cluster.folder / "nodes/node1/uids",
             *cluster.folder.rglob("*.pem")]
    assert cluster.folder / "nodes/node1/node.pem" in paths, paths
    said = run(cluster, "red", f"""
        import os
        status = open("/proc/self/status").read()
        print("uids", os.getresuid(), [line for line in status.splitlines() if line.startswith(("CapEff", "CapBnd"))])
        for path in {[str(path) for path in paths]}:
            try:
                print("READ", path, open(path).read())
            except OSError as error:
                print("refused", type(error).__name__)
        print("home", os.environ["HOME"], os.access(os.environ["HOME"], os.W_OK), os.environ["USER"])
        """)
    uid = int(said.split("uids (")[1].split(",")[0])
    assert uid >= HIDDEN and f"({uid}, {uid}, {uid})" in said and "CapEff:\\t0000000000000000" in said, said
    assert said.count("refused PermissionError") == len(paths) and "READ" not in said, said
    assert f"home/{uid} True red" in said, said
    other = run(cluster, "blue", "import os; print('uid', os.getuid())")
    assert int(other.split("uid ")[1]) not in (uid, 0), other
    assert f"red {uid}\n" in (cluster.folder / "nodes/node1/uids").read_text()


def test_c2_what_the_agent_removes_cannot_be_led_elsewhere(make_shared):
    """A job swaps a folder of its work for a link while the agent deletes it; once a file of root's was gone."""
    cluster = make_shared()
    precious = cluster.folder / "precious"
    precious.mkdir(mode=0o755)
    names = [f"f{i}" for i in range(4000)]
    for name in names:
        (precious / name).touch(mode=0o600)
    works = cluster.folder / "nodes/node1/work"
    thief = submit(cluster, "red", f"""
        import os
        bait = "{works}/j2.1"
        print("watching", flush=True)
        while not os.path.exists(f"{{bait}}/full"):
            pass
        while True:
            try:
                if len(os.listdir(f"{{bait}}/d")) < 4000:
                    os.rename(f"{{bait}}/d", f"{{bait}}/e")
                    os.symlink({str(precious)!r}, f"{{bait}}/d")
                    break
            except OSError as error:
                print("too late", error, flush=True)
                break
        """)
    wait_for("the thief watches", 30, lambda: "watching" in cluster.output(thief))
    program = "import os\nos.mkdir('d')\nfor i in range(4000):\n    open(f'd/f{i}', 'w').close()\nopen('full', 'w').close()"
    status, bait = cluster.rest("POST", "/v1/jobs", {"spec": {"command": ["/usr/bin/python3", "-c", program]}}, token=cluster.tokens["red"])
    assert status in (200, 201) and bait["id"] == "j2", bait
    cluster.wait_state("j2", "succeeded")
    cluster.wait_state(thief, "succeeded", 60)
    wait_for("both works are gone", 30, lambda: not list(works.glob("*")))
    assert sorted(path.name for path in precious.iterdir()) == sorted(names)


def test_m2_nobody_else_reads_what_a_worker_prints(make_shared):
    cluster = make_shared()
    job, _ = start_red(cluster)
    node = cluster.folder / "nodes/node1"
    assert (node / f"runs/{job}.1/output").read_text().count("RED-LOG-LINE") == 1
    said = run(cluster, "blue", f"""
        import os
        for path in {[str(node / f"runs/{job}.1/{name}") for name in ("output", "launch.json", "exit.json", "memory.json")]}:
            for look in (lambda: open(path).read(), lambda: os.stat(path)):
                try:
                    print("SEEN", look())
                except OSError as error:
                    print("refused", type(error).__name__)
        """)
    assert said.count("refused PermissionError") == 8 and "SEEN" not in said, said
    for folder in (node / "runs", node / f"runs/{job}.1", node / f"work/{job}.1"):
        assert folder.stat().st_mode & 0o777 == 0o700, folder


def test_m3_a_workdir_is_entered_by_the_jobs_own_user(make_shared):
    cluster = make_shared()
    closed = cluster.folder / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner/file").write_text("inside-a-0700-folder")
    closed.chmod(0o700)
    for workdir in (closed / "inner", closed / "absent"):
        job = cluster.rest("POST", "/v1/jobs", {"spec": {"command": ["/bin/cat", "file"], "workdir": str(workdir)}}, token=cluster.tokens["red"])[1]["id"]
        ended = cluster.wait_state(job, "failed")
        assert f"cannot start in {workdir} on this machine: Permission denied" in ended["reason"]["text"], "which of root's folders exist is not told"
        assert "inside-a-0700-folder" not in cluster.output(job)


@pytest.mark.parametrize("options", [("--worker-users", "FILE"), ("--worker-user", "nobody")])
def test_users_can_be_named(make_shared, open_folder, options):
    table = open_folder / "users"
    table.write_text("red nobody\n")
    cluster = make_shared(*[str(table) if word == "FILE" else word for word in options])
    assert "nobody" in run(cluster, "red", "import pwd, os; print(pwd.getpwuid(os.getuid()).pw_name)")
    shared = options[0] == "--worker-user"
    nodes = cluster.muster("nodes", check=True).stdout
    assert ("jobs of all tenants run as nobody" in nodes) == shared, nodes
    if not shared:
        done = as_tenant(cluster, "blue", "run", "--restarts", "0", "--", "/bin/true")
        assert done.returncode == 1 and "tenant blue has no user on this node" in done.stderr, done.stderr


def example(cluster, name):
    """An example and the library where every user may read them: a clone may lie in a private folder. (path, option for its environment)"""
    folder = cluster.folder / "bin"
    folder.mkdir(mode=0o755, exist_ok=True)
    for path in (ROOT / "build/examples" / name, *(ROOT / "build").glob("libworker.so*")):
        shutil.copy(path, folder / path.name)
        (folder / path.name).chmod(0o755)
    return folder / name, ("--env", f"LD_LIBRARY_PATH={folder}")


HELLO = """
import os, subprocess
job, uid, token, url = {job!r}, 1, {token!r}, os.environ["MUSTER_WORKER_SOCKET"]
environment = dict(os.environ, MUSTER_JOB=job, MUSTER_UID=str(uid), MUSTER_WORKER_SOCKET=url, RANK="0", WORLD_SIZE="1")
environment.pop("MUSTER_WORKER_TOKEN_FILE", None)
environment["MUSTER_WORKER_TOKEN"] = token
environment["LD_LIBRARY_PATH"] = os.path.dirname({gpt!r})
done = subprocess.run([{gpt!r}, "--data", {data!r}, "--steps", "1"], env=environment, capture_output=True, text=True, timeout=300)
print("code", done.returncode, done.stderr[-300:])
"""


def test_m1_a_worker_token_is_no_longer_in_the_environment_and_good_for_its_own_user_only(make_shared):
    cluster = make_shared()
    job, pid = start_red(cluster)
    token_file = cluster.folder / f"nodes/node1/work/{job}.1.token"
    token = token_file.read_text()
    assert token and token_file.stat().st_mode & 0o777 == 0o400 and token_file.stat().st_uid >= HIDDEN
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode()
    assert token not in environment and f"MUSTER_WORKER_TOKEN_FILE={token_file}" in environment
    said = run(cluster, "blue", f"""
        import os
        for path in ("/proc/{pid}/environ", "{token_file}"):
            try:
                print("READ", open(path, "rb").read())
            except OSError as error:
                print("refused", type(error).__name__)
        for act in (lambda: os.kill({pid}, 9), lambda: os.listdir("/proc/{pid}/fd")):
            try:
                print("DONE", act())
            except OSError as error:
                print("refused", type(error).__name__)
        """)
    assert said.count("refused") == 4 and "READ" not in said and "DONE" not in said, said
    # Somebody who has come by the token anyhow.
    stolen = {"job": job, "token": token, "gpt": str(example(cluster, "gpt")[0]), "data": "/usr/share/common-licenses/GPL-3"}
    said = run(cluster, "blue", HELLO.format(**stolen))
    assert "code 0" not in said and "another user" in said, said


# What red leaves open to itself alone, as programs do, and what it leaves open to everybody.
RED = """
import ctypes, mmap, socket
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
def leave(path, mode):
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, mode)
    os.write(descriptor, b"red-secret")
    os.close(descriptor)
for folder in ("/tmp", "/dev/shm"):
    leave(f"{folder}/red-own-JOBMARK", 0o600)
    leave(f"{folder}/red-open-JOBMARK", 0o666)
home = os.environ["HOME"]
os.makedirs(f"{home}/checkpoints/step-00000001", exist_ok=True)
leave(f"{home}/checkpoints/step-00000001/manifest.json", 0o666)
segment = libc.shmget(0x4d555354, 4096, 0o1666)  # everybody may attach it
print(f"segment={segment}", flush=True)
sockets = []
for path in ("/tmp/red-socket-JOBMARK", home + "/socket"):
    os.umask(0o077 if path.startswith("/tmp") else 0)
    sockets.append(socket.socket(socket.AF_UNIX))
    sockets[-1].bind(path)
    sockets[-1].listen()
"""

# Prints NAME no or NAME YES for each thing that is tried.
BLUE = """
import ctypes, errno, os, signal, socket, subprocess
pid, shim, agent, job, node, segment, home, mark = {pid}, {shim}, {agent}, {job!r}, {node!r}, {segment}, {home!r}, {mark!r}
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        print(name, "no" if act() in (None, False, -1, b"") else "YES", flush=True)
    except OSError as error:
        print(name, "no", flush=True)
def read(path):
    with open(path, "rb") as file:
        return file.read()
def trace():
    rc = libc.ptrace(16, pid, 0, 0)
    return rc if rc == -1 else True
attempt("env", lambda: read(f"/proc/{{pid}}/environ"))
attempt("token", lambda: read(f"{{node}}/work/{{job}}.1.token"))
attempt("secret", lambda: read(f"{{node}}/runs/{{job}}.1/launch.json"))
attempt("tenant's secret", lambda: read(f"{{node}}/work/{{job}}.1.secrets/HF_KEY"))
attempt("tenant's secrets", lambda: os.listdir(f"{{node}}/work/{{job}}.1.secrets"))
attempt("secret overwritten", lambda: open(f"{{node}}/work/{{job}}.1.secrets/HF_KEY", "w"))
attempt("secret by root", lambda: read(f"/proc/{{pid}}/root{{node}}/work/{{job}}.1.secrets/HF_KEY"))
attempt("output", lambda: read(f"{{node}}/runs/{{job}}.1/output"))
attempt("files", lambda: os.listdir(f"{{node}}/work/{{job}}.1"))
attempt("home", lambda: os.listdir(home))
attempt("term", lambda: os.kill(pid, signal.SIGTERM) or True)
attempt("probe", lambda: os.kill(pid, 0) or True)
attempt("ptrace", trace)
attempt("memory", lambda: read(f"/proc/{{pid}}/maps"))
attempt("descriptors", lambda: os.listdir(f"/proc/{{pid}}/fd"))
attempt("root", lambda: os.readlink(f"/proc/{{pid}}/root"))
def write_memory():
    with open(f"/proc/{{pid}}/mem", "r+b") as file:
        return True
def connect(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        return True
def take_descriptor():
    PIDFD_OPEN, PIDFD_GETFD = 434, 438
    own = libc.syscall(PIDFD_OPEN, pid, 0)
    return libc.syscall(PIDFD_GETFD, own, 3, 0) >= 0
def gpu():
    own = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        return os.open("/dev/nvidia0" if own == "GPU-0" else "/dev/nvidia1", os.O_RDWR) >= 0 # minor numbers count down
    except OSError as error:
        return error.errno == errno.ENXIO # it came to the driver
attempt("write memory", write_memory)
attempt("own socket", lambda: connect(f"/tmp/red-socket-{{job}}{{mark}}"))
attempt("socket in its home", lambda: connect(f"{{home}}/socket"))
attempt("descriptor of it", take_descriptor)
attempt("hub", lambda: os.unlink(os.environ["MUSTER_WORKER_SOCKET"].removeprefix("ipc://")) or True)
attempt("gpu", gpu)
attempt("checkpoint", lambda: read(f"{{home}}/checkpoints/step-00000001/manifest.json"))
attempt("overwrite", lambda: open(f"{{home}}/checkpoints/step-00000001/manifest.json", "w"))
for folder in ("/tmp", "/dev/shm"):
    attempt(f"own {{folder}}", lambda: read(f"{{folder}}/red-own-{{job}}{{mark}}"))
    attempt(f"open {{folder}}", lambda: read(f"{{folder}}/red-open-{{job}}{{mark}}"))
def beneath():
    script = f"umount /proc; umount /tmp; cat /tmp/red-own-{{job}}{{mark}} /proc/{{pid}}/environ"
    return subprocess.run(["unshare", "-Urm", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300).stdout
attempt("beneath", beneath)
attempt("namespaces", lambda: os.open("/proc/1/ns/mnt", os.O_RDONLY))
attempt("shim", lambda: os.kill(shim, signal.SIGKILL) or True)
attempt("shim's memory", lambda: read(f"/proc/{{shim}}/environ"))
attempt("stop the agent", lambda: os.kill(agent, signal.SIGSTOP) or True)
attempt("agent's files", lambda: os.listdir(f"/proc/{{agent}}/fd"))
attempt("as the agent", lambda: os.open(f"{{node}}/agent.lock", os.O_RDWR))
attempt("uids", lambda: read(f"{{node}}/uids"))
attempt("works", lambda: os.listdir(f"{{node}}/work"))
attempt("job's tmp", lambda: os.listdir(f"{{node}}/tmp/{{job}}"))
attempt("cgroup", lambda: [open(f"{{root}}/muster.{{job}}/cgroup.procs", "w") for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory")])
attempt("link", lambda: os.link(f"{{node}}/work/{{job}}.1.token", os.environ["HOME"] + "/mine") or True)
attempt("sysv", lambda: libc.shmget(0x4d555354, 4096, 0) != -1)
attempt("cmdline", lambda: read(f"/proc/{{pid}}/cmdline"))
attempt("seen", lambda: str(pid) in os.listdir("/proc"))
def command_line(process):
    try:
        return read(f"/proc/{{process}}/cmdline")
    except OSError: # it ended since the list was read
        return b""
attempt("agent", lambda: [p for p in os.listdir("/proc") if p.isdigit() and b"--token" + b"-file" in command_line(p)] != [])
"""

# The twelve things of the promise ("two tenants on one node"), by what is tried of each.
TWELVE = {
    "env": {"env"},
    "token": {"token", "link", "uids"},
    "secret": {"secret", "tenant's secret", "tenant's secrets", "secret overwritten", "secret by root"},
    "output": {"output"},
    "files": {"files", "home", "own /tmp", "open /tmp", "beneath", "works", "job's tmp", "as the agent"},
    "signals": {"term", "probe", "shim", "stop the agent", "cgroup"},
    "ptrace": {"ptrace", "memory", "write memory"},
    "/proc": {"descriptors", "root", "cmdline", "seen", "agent", "namespaces", "shim's memory", "agent's files"},
    "sockets": {"own socket", "socket in its home", "descriptor of it", "hub"},
    "GPUs": {"gpu"},
    "checkpoint": {"checkpoint", "overwrite"},
    "shared memory": {"own /dev/shm", "open /dev/shm", "sysv"},
}
ALWAYS = {"env", "token", "secret", "tenant's secret", "tenant's secrets", "secret overwritten", "secret by root", "output", "files", "home", "term", "probe", "ptrace", "memory", "descriptors", "root", "checkpoint", "overwrite",
          "own /tmp", "own /dev/shm", "beneath", "namespaces", "shim", "shim's memory", "stop the agent", "agent's files", "as the agent", "uids", "works",
          "job's tmp", "cgroup", "link", "write memory", "own socket", "socket in its home", "descriptor of it", "hub", "gpu"}
# What red has left open to everybody, or the kernel shows of it; the words of the node where it stays open.
IN_NAMESPACES = {"open /tmp": "/tmp", "open /dev/shm": "/dev/shm", "sysv": "System V shared memory", "cmdline": "the list of processes",
                 "seen": "the list of processes", "agent": "the list of processes"}


@pytest.fixture
def red_leavings():
    """What red leaves on the machine itself, where it has no namespaces."""
    yield
    ctypes.CDLL(None).shmctl(ctypes.CDLL(None).shmget(0x4d555354, 4096, 0), 0, None)
    for folder in ("/tmp", "/dev/shm"):
        for name in ("own", "open"):
            Path(f"{folder}/red-{name}-j1{MARK}").unlink(missing_ok=True)
    Path(f"/tmp/red-socket-j1{MARK}").unlink(missing_ok=True)


# A /dev of the agent's own with two GPUs, of a driver that is not there: who may open them hears ENXIO.
GPU_MACHINE = ["unshare", "-m", "--propagation", "slave", "sh", "-ec", textwrap.dedent("""
    umask 0
    dev=$(mktemp -d)
    mount -t tmpfs -o mode=755 dev $dev
    for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 nvidia0:195:0 nvidia1:195:1 nvidiactl:195:255; do
        mknod -m 666 $dev/${node%%:*} c $(echo ${node#*:} | tr : ' ')
    done
    ln -s /proc/self/fd $dev/fd
    mkdir -m 1777 $dev/shm
    mount --move $dev /dev
    rmdir $dev
    exec "$@"
    """), "sh"]


def gpu_machine(monkeypatch):
    """Words that run an agent on a machine with two GPUs; None where that cannot be had."""
    library = MUSTER.parent / "tests" / "libnvidia-ml.so.1"
    if not library.exists() or subprocess.run([*GPU_MACHINE, "true"], capture_output=True).returncode:
        return None
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    monkeypatch.setenv("FAKE_NVML_GPUS", "2")
    return GPU_MACHINE


@pytest.mark.parametrize("namespaces", ["auto", "off"])
def test_what_one_tenant_tries_on_another_on_one_node(make_shared, monkeypatch, red_leavings, namespaces):
    gpus = gpu_machine(monkeypatch)
    cluster = make_shared("--worker-uids", RANGE, "--namespaces", namespaces, "--slots", "2", agent_prefix=gpus or ())
    nodes = cluster.muster("nodes", check=True).stdout
    private = namespaces == "auto" and "not private" not in nodes
    if namespaces == "off":
        lacks = nodes.split("not private: ")[1].split(" (--namespaces off)")[0].split(", ")
        assert set(lacks) == set(IN_NAMESPACES.values()), nodes
    told_gpus = "a job can open GPUs of others" in nodes
    secret = subprocess.run([cluster.muster_path, "secret", "set", "hf"], input="red-tenant-secret", capture_output=True, text=True, timeout=HANG_SECONDS,
                            env={**cluster.environment(), "MUSTER_TOKEN": cluster.tokens["red"]}, cwd="/")
    assert secret.returncode == 0, secret.stderr
    job, pid = start_red(cluster, "--secret", "HF_KEY=hf", also=RED.replace("JOB", "j1").replace("MARK", MARK))
    assert job == "j1"
    refused = as_tenant(cluster, "blue", "submit", "--secret", "HF_KEY=hf", "--", "/bin/true")
    assert refused.returncode != 0 and "red-tenant-secret" not in refused.stdout + refused.stderr, refused
    segment = wait_for("red's memory", 20, lambda: [line for line in as_tenant(cluster, "red", "logs", job).stdout.splitlines() if "segment=" in line])
    node = cluster.folder / "nodes/node1"
    uid = (node / f"work/{job}.1.token").stat().st_uid
    shim = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert (node / f"work/{job}.1.secrets/HF_KEY").read_text() == "red-tenant-secret"
    facts = {"mark": MARK, "pid": pid, "shim": shim, "agent": cluster.agents["node1"].pid, "job": job, "node": str(node), "segment": int(segment[0].split("=")[1]), "home": str(node / f"home/{uid}")}
    said = dict(line.rsplit(" ", 1) for line in run(cluster, "blue", BLUE.format(**facts)).strip().splitlines())
    assert set(said) == ALWAYS | set(IN_NAMESPACES) == set.union(*TWELVE.values()) and len(TWELVE) == 12, said
    worked = {name for name, word in said.items() if word == "YES"}
    assert not worked & ALWAYS or (told_gpus and worked & ALWAYS == {"gpu"}), (worked, nodes)
    worked -= ALWAYS
    # Without namespaces, what red left open to everybody is open, and the node says so; a kernel that refuses
    # only some of them (in a chroot: mounts) leaves a part.
    if private or namespaces == "off":
        assert worked == (set() if private else set(IN_NAMESPACES)), (worked, nodes)
    assert cluster.job(job)["state"] == "running" and int(cluster.job(job).get("restarts") or 0) == 0
    if private:
        assert not Path(f"/tmp/red-open-j1{MARK}").exists() and not Path(f"/dev/shm/red-open-j1{MARK}").exists()
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled")
    wait_for("nothing of it is left", 30, lambda: not list((node / "work").iterdir()) and not list((node / "tmp").iterdir()))


def in_namespaces(cluster):
    """The cluster, or the test is skipped: no mounts of one's own in a chroot, for one."""
    nodes = cluster.muster("nodes", check=True).stdout
    if "not private" in nodes:
        pytest.skip(next(line for line in nodes.splitlines() if "not private" in line))
    return cluster


def test_workers_of_one_job_on_one_node_share_memory_by_name(make_shared):
    cluster = in_namespaces(make_shared())
    script = """
        import os, time
        rank = os.environ["RANK"]
        for folder in ("/dev/shm", "/tmp"):
            open(f"{folder}/rank{rank}", "w").close()
            deadline = time.monotonic() + 60
            while not os.path.exists(f"{folder}/rank{1 - int(rank)}"):
                assert time.monotonic() < deadline, os.listdir(folder)
                time.sleep(0.01)
        print("ipc", os.readlink("/proc/self/ns/ipc"), "mnt", os.readlink("/proc/self/ns/mnt"))
        """
    said = run(cluster, "red", script, "-w", "2")
    spaces = {line.split("ipc ")[1] for line in said.splitlines() if "ipc " in line}
    assert said.count("ipc ") == 2 and len(spaces) == 1, said
    assert os.readlink("/proc/self/ns/mnt") not in said and os.readlink("/proc/self/ns/ipc") not in said
    said = run(cluster, "red", "import os; print(sorted(os.listdir('/dev/shm')), sorted(os.listdir('/tmp')))")
    assert "[] []" in said, said


def test_libworker_trains_as_a_tenants_user_in_namespaces(make_shared):
    cluster = make_shared()
    gpt, finds_library = example(cluster, "gpt")
    done = as_tenant(cluster, "red", "run", "-w", "2", *finds_library, "--", gpt, "--data", "/usr/share/common-licenses/GPL-3", "--steps", "6",
                     "--layers", "1", "--heads", "2", "--width", "32", "--context", "16", "--batch", "4", "--sample", "0")
    assert done.returncode == 0 and "step 6" in done.stdout.replace("  ", " "), (done.stdout, done.stderr)


def test_a_worker_in_namespaces_outlives_its_agent(make_shared):
    cluster = in_namespaces(make_shared())
    job, pid = start_red(cluster, also="open('/tmp/here', 'w').close()")
    node = cluster.folder / "nodes/node1"
    wait_for("its file", 20, lambda: (node / f"tmp/{job}/here").exists())
    with cluster.agent_away("node1"):
        pass
    cluster.wait_nodes(1)
    assert (node / f"tmp/{job}/here").exists() and Path(f"/proc/{pid}").exists()
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled")
    wait_for("nothing of it is left", 30, lambda: not list((node / "work").iterdir()) and not list((node / "tmp").iterdir()))
    assert str(cluster.folder) not in Path("/proc/mounts").read_text()


def make_gpu_machine(make_shared, monkeypatch, *options):
    prefix = gpu_machine(monkeypatch)
    if not prefix:
        pytest.skip("no fake NVML, or no mounts of one's own")
    return make_shared("--worker-uids", RANGE, "--slots", "2", "--cpus", "4", *options, agent_prefix=prefix)


OPEN_GPUS = """
import errno, os, time
said = ["has", os.environ["CUDA_VISIBLE_DEVICES"]]
for node in ("nvidia0", "nvidia1", "nvidiactl"):
    try:
        os.close(os.open(f"/dev/{node}", os.O_RDWR))
        said.append(f"{node}=reached")
    except OSError as error:
        said.append(f"{node}=" + {errno.ENXIO: "reached", errno.EPERM: "refused", errno.EACCES: "refused"}.get(error.errno, str(error)))
print(*said, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("cgroup", ["auto", "off"])
@pytest.mark.parametrize("namespaces", ["auto", "off"])
def test_a_job_opens_its_own_gpus_and_no_others(make_shared, monkeypatch, namespaces, cgroup):
    cluster = make_gpu_machine(make_shared, monkeypatch, "--namespaces", namespaces, "--cgroup", cgroup)
    nodes = cluster.muster("nodes", check=True).stdout
    told = "a job can open GPUs of others" in nodes
    if namespaces == cgroup == "off":
        assert told and "switched off by --cgroup off" in nodes, nodes
    elif told:
        pytest.skip(nodes.splitlines()[-1])
    has = {}
    for tenant in ("red", "blue"):
        job = submit(cluster, tenant, OPEN_GPUS)
        line = wait_for("it says its GPUs", 30, lambda: [line for line in as_tenant(cluster, tenant, "logs", job).stdout.splitlines() if line.startswith("has ")])
        has[tenant] = line[0].split()[1:]
    assert {has["red"][0], has["blue"][0]} == {"GPU-0", "GPU-1"}, has
    for gpu, *seen in has.values():
        own = {"GPU-0": "nvidia1", "GPU-1": "nvidia0"}[gpu]  # minor numbers count down
        expected = [f"{node}={'reached' if told or node in (own, 'nvidiactl') else 'refused'}" for node in ("nvidia0", "nvidia1", "nvidiactl")]
        assert seen == expected, (has, nodes)


def test_a_job_cannot_name_gpus_of_others(make_shared, monkeypatch):
    cluster = make_gpu_machine(make_shared, monkeypatch)
    refused = as_tenant(cluster, "blue", "submit", "--env", "CUDA_VISIBLE_DEVICES=GPU-0", "--", "/bin/true")
    assert refused.returncode == 2 and "CUDA_VISIBLE_DEVICES" in refused.stderr, refused


def test_a_node_that_cannot_tell_gpus_apart_says_so(make_shared, monkeypatch):
    monkeypatch.setenv("FAKE_NVML_NO_MINOR", "1")
    cluster = make_gpu_machine(make_shared, monkeypatch)
    assert "a job can open GPUs of others: NVML has no minor numbers" in cluster.muster("nodes", check=True).stdout
    said = submit(cluster, "red", OPEN_GPUS)
    assert wait_for("it says its GPUs", 30, lambda: "nvidia0=reached nvidia1=reached" in as_tenant(cluster, "red", "logs", said).stdout)


def test_m13_a_worker_is_bounded_and_ends_before_what_matters(make_shared):
    """A fork bomb took the machine; workers kept the agent's protection from the OOM killer."""
    cluster = make_shared("--worker-uids", RANGE, "--worker-processes", "64", "--memory", "256MiB")
    if "no pids controller" in cluster.muster("nodes", check=True).stdout:
        pytest.skip("no pids controller")
    other, pid = start_red(cluster)
    said = run(cluster, "blue", """
        import os, signal, time
        def score(value):
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(value)
        print("score", open("/proc/self/oom_score_adj").read().strip(), flush=True)
        try:
            score("-900")
            print("LOWERED", flush=True)
        except OSError:
            pass
        children = []
        try:
            for i in range(1000):
                child = os.fork()
                if not child:
                    time.sleep(600)
                children.append(child)
            print("ALL", flush=True)
        except BlockingIOError:
            print("processes", len(children) + 1, flush=True)
        for child in children:
            os.kill(child, signal.SIGKILL)
        """)
    assert "score 500" in said and "LOWERED" not in said and "ALL" not in said, said
    assert int(said.split("processes ")[1]) <= 64, said
    assert Path(f"/proc/{pid}").exists() and cluster.job(other)["state"] == "running"
    # It said nothing of memory: still it does not get more than the node offers.
    job = submit(cluster, "blue", "hold = bytearray(600 << 20)\nprint(len(hold))", "--restarts", "0")
    ended = cluster.wait_state(job, "failed", 60)
    assert "out of memory" in ended["reason"]["text"] and Path(f"/proc/{pid}").exists(), ended["reason"]


def test_m14_a_worker_does_not_leave_its_cgroup(make_shared):
    cluster = make_shared()
    said = run(cluster, "red", """
        import glob, os
        tried = 0
        for path in ["/sys/fs/cgroup/cgroup.procs", *glob.glob("/sys/fs/cgroup/*/cgroup.procs"), *glob.glob("/sys/fs/cgroup/*/*/cgroup.procs")]:
            tried += 1
            try:
                with open(path, "w") as file:
                    file.write(str(os.getpid()))
                print("LEFT", path, flush=True)
            except OSError:
                pass
        print("tried", tried > 0, flush=True)
        """)
    assert "LEFT" not in said and "tried" in said, said


@pytest.mark.parametrize("what", [{"workdir": "/tmp/somewhere"}, {"checkpoint": {"dir": "/tmp/ckpt"}}, {"command": ["/tmp/program"]}])
def test_nothing_is_kept_where_it_would_be_gone_with_the_job(make_shared, what):
    """Checkpoints in a job's own /tmp would be lost without a word."""
    cluster = in_namespaces(make_shared())
    job = cluster.rest("POST", "/v1/jobs", {"spec": {"command": ["/bin/true"], **what}}, token=cluster.tokens["red"])[1]["id"]
    ended = cluster.wait_state(job, "failed")
    assert "each job has its own /tmp on this node" in ended["reason"]["text"], ended["reason"]
