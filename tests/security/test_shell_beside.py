"""Programs beside a worker (`muster exec`) on a node that tenants share: they are the tenant's, as the worker is."""
import os
import re
import signal
import socket
import subprocess

import pytest
from localcluster import HANG_SECONDS, gone, wait_for
from test_isolation import as_tenant, start_red

WORKER = "open('/tmp/red-was-here', 'w').write('red')"


def beside(cluster, job, script, *options):
    return as_tenant(cluster, "red", "exec", *options, job, "--", "/bin/sh", "-c", script)


def begin(cluster, job, script):
    """A program beside the worker that goes on, and its process id."""
    process = subprocess.Popen([cluster.muster_path, "exec", job, "--", "/bin/sh", "-c", f"echo $$; {script}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**cluster.environment(), "MUSTER_TOKEN": cluster.tokens["red"]}, text=True)
    return process, int(process.stdout.readline())


def status(pid, name):
    return next(line.split()[1:] for line in open(f"/proc/{pid}/status") if line.startswith(name + ":"))


def test_a_program_beside_a_worker_is_its_tenants(make_shared):
    cluster = make_shared()
    job, worker = start_red(cluster, also=WORKER)
    process, pid = begin(cluster, job, "exec sleep 600")
    wait_for("its program", 15, lambda: "sleep" in open(f"/proc/{pid}/cmdline").read())
    for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "CapEff", "CapBnd", "Cpus_allowed"):
        assert status(pid, name) == status(worker, name), name
    assert status(pid, "Uid")[0] not in ("0", str(os.getuid()))
    for link in ("ns/mnt", "ns/ipc", "cwd"):
        assert os.readlink(f"/proc/{pid}/{link}") == os.readlink(f"/proc/{worker}/{link}"), link
    assert open(f"/proc/{pid}/cgroup").read() == open(f"/proc/{worker}/cgroup").read()
    process.terminate()
    process.wait(HANG_SECONDS)
    wait_for("the program's end", 15, lambda: gone(pid))


def test_it_sees_what_the_worker_sees_and_no_more(make_shared):
    cluster = make_shared()
    job, worker = start_red(cluster, also=WORKER)
    done = beside(cluster, job, "id -u; cat /tmp/red-was-here; echo; echo $HF_TOKEN; ls /proc | grep -c '^[0-9]'")
    uid, text, secret, processes = done.stdout.split("\n")[:4]
    assert uid == status(worker, "Uid")[0] and secret == "red-secret", done
    if os.readlink(f"/proc/{worker}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
        assert text == "red" and int(processes) < 10, done
    # Neither the agent, nor the shim, nor the process that keeps this one can be looked into.
    done = beside(cluster, job, f"cat /proc/$PPID/environ /proc/{cluster.agents['node1'].pid}/environ; ls /proc/$PPID/fd;"
                                f"cat {cluster.folder}/nodes/node1/runs/*/launch.json; kill -9 $PPID; echo end")
    assert done.stdout == "end\n", done


def test_its_descriptors_are_three(make_shared):
    cluster = make_shared()
    job, _ = start_red(cluster)
    assert as_tenant(cluster, "red", "exec", job, "--", "/bin/ls", "/proc/self/fd").stdout.split() == ["0", "1", "2", "3"], "3 is its own"


def test_a_terminal_is_no_way_into_another(make_shared):
    """Input that is typed by TIOCSTI reaches its own terminal only; the controlling terminal is its own."""
    cluster = make_shared()
    job, _ = start_red(cluster)
    done = as_tenant(cluster, "red", "exec", "-t", job, "--", "/usr/bin/python3", "-c",
                     "import fcntl, os\n"
                     "assert os.ttyname(0) == os.ttyname(1) == os.ttyname(2)\n"
                     "own = os.fstat(os.open('/dev/tty', os.O_RDWR))\n"
                     "assert os.stat(0).st_uid == os.getuid() and os.stat(0).st_mode & 0o777 == 0o600\n"
                     "others = [n for n in os.listdir('/dev/pts') if n != 'ptmx' and '/dev/pts/' + n != os.ttyname(0)]\n"
                     "for n in others:\n"
                     "    try:\n"
                     "        os.open('/dev/pts/' + n, os.O_RDWR | os.O_NOCTTY)\n"
                     "        print('opened', n, os.stat('/dev/pts/' + n).st_uid)\n"
                     "    except PermissionError:\n"
                     "        pass\n"
                     "print('done')")
    assert done.returncode == 0 and done.stdout.replace("\r", "") == "done\n", done


def test_its_memory_counts_towards_the_workers_limit(make_shared):
    cluster = make_shared()
    if cluster.rest("GET", "/v1/nodes")[1]["nodes"][0]["labels"]["cgroup"] == "none":
        pytest.skip("no memory limit is enforced without a cgroup")
    job, _ = start_red(cluster, "--memory", "256MiB")
    done = as_tenant(cluster, "red", "exec", job, "--", "/usr/bin/python3", "-c", "x = bytearray(1 << 30); print(len(x))")
    assert "1073741824" not in done.stdout and done.returncode != 0, done


def test_what_it_started_does_not_outlive_the_job(make_shared):
    cluster = make_shared()
    job, worker = start_red(cluster)
    process, pid = begin(cluster, job, "trap '' HUP TERM; setsid sh -c 'trap \"\" HUP TERM; echo $$; while :; do sleep 1; done' & wait")
    away = int(process.stdout.readline())
    assert not gone(pid) and not gone(away)
    cluster.muster("cancel", job, check=True)
    assert process.wait(HANG_SECONDS) == 255
    wait_for("the worker's end and theirs", 30, lambda: gone(worker) and gone(pid) and gone(away))


def test_an_agent_that_is_killed_takes_them_along_and_no_worker(make_shared):
    cluster = make_shared()
    job, worker = start_red(cluster)
    process, pid = begin(cluster, job, "trap '' HUP; while :; do sleep 1; done")
    with cluster.agent_away("node1"):
        wait_for("the program's end", 30, lambda: gone(pid))
        assert not gone(worker)
    assert process.wait(HANG_SECONDS) == 255
    done = wait_for("a program beside the adopted worker", 60, lambda: (lambda d: d if d.returncode == 0 else None)(beside(cluster, job, "echo again")))
    assert done.stdout == "again\n" and not gone(worker)


LISTENS = """
import socket, sys, time
one = socket.create_server(("127.0.0.1", 0))
print("port=%d" % one.getsockname()[1], flush=True)
while True:
    with one.accept()[0] as client:
        client.recv(1000)  # a close with the request unread would be a reset
        client.sendall(b"hello of " + sys.argv[1].encode())
"""


def through(cluster, tenant, job, port):
    """What `muster forward` brings from that port, and what it prints."""
    process = subprocess.Popen([cluster.muster_path, "forward", job, f"0:{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**cluster.environment(), "MUSTER_TOKEN": cluster.tokens[tenant]}, text=True)
    here = int(re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())[1])
    with socket.create_connection(("127.0.0.1", here), 60) as one:
        try:
            one.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            text = one.recv(1000)
        except ConnectionError:
            text = b""
    process.send_signal(signal.SIGINT)
    return text, process.communicate(timeout=HANG_SECONDS)[1]


def test_a_port_that_is_not_the_jobs_is_not_reached(make_shared):
    """Not the coordinator's, which trusts the local user more, nor what another tenant's program offers without a password."""
    cluster = make_shared()
    jobs = {tenant: as_tenant(cluster, tenant, "submit", "--", "/usr/bin/python3", "-c", LISTENS, tenant).stdout.strip() for tenant in ("red", "blue")}
    ports = {tenant: int(wait_for("its port", 30, lambda: re.search(r"port=(\d+)", as_tenant(cluster, tenant, "logs", jobs[tenant]).stdout))[1]) for tenant in jobs}
    assert through(cluster, "red", jobs["red"], ports["red"]) == (b"hello of red", "")
    with socket.create_server(("127.0.0.1", 0)) as of_root:
        strange = [ports["blue"], of_root.getsockname()[1]]
        for port in strange:
            text, said = through(cluster, "red", jobs["red"], port)
            assert text == b"" and f"port {port} is not the job's" in said, (text, said)
    for url in (cluster.rpc, cluster.http):  # a coordinator of a test may listen on another address
        text, said = through(cluster, "red", jobs["red"], int(re.search(r":(\d+)(\?|$)", url)[1]))
        assert text == b"" and ("is not the job's" in said or "no program accepts" in said), (text, said)
    ends = [entry["text"] for entry in cluster.rest("GET", "/v1/audit?limit=100")[1]["entries"] if entry["method"] == "EndChannel"]
    assert sum("is not the job's" in text for text in ends) >= len(strange), ends
