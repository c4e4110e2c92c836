"""What a job can make its agent do by the socket for reports, on a node that tenants share."""
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from localcluster import wait_for
from test_isolation import as_tenant, submit

LAST = Path("/proc/sys/kernel/ns_last_pid")  # the number after it is given next

# A connection is made by a child that ends at once, so its number is free while the connection is open.
OFFERS = """
    import os, socket, sys, time
    s = socket.socket(socket.AF_UNIX)
    child = os.fork()
    if child == 0:
        s.connect(os.environ["MUSTER_REPORT_SOCKET"])
        os._exit(0)
    os.waitpid(child, 0)
    print(f"pid={child}", flush=True)
    while True:  # its number may be seen, if not the process
        try:
            os.kill(child, 0)
        except PermissionError:
            break
        except ProcessLookupError:
            time.sleep(0.01)
    s.sendall(b'{"do": "stacks", "signal": "USR2"}\\n')
    print("offered", flush=True)
    time.sleep(600)
"""


def process_of_number(number):
    """A process of the test's own user that has this number."""
    for _ in range(50):
        LAST.write_text(str(number - 1))
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        if process.pid == number:
            return process
        process.kill()
        process.wait()
    pytest.skip(f"process number {number} is not given again here")


def test_the_number_of_a_process_that_ended_brings_no_other_a_signal(make_shared):
    """The process that connected has ended, and another user's has its number: once the agent, which is root, signalled that one."""
    cluster = make_shared()
    if not os.access(LAST, os.W_OK):
        pytest.skip("needs /proc/sys/kernel/ns_last_pid")
    job = submit(cluster, "red", OFFERS)
    number = int(wait_for("the number", 30, lambda: [line for line in as_tenant(cluster, "red", "logs", job).stdout.splitlines() if "pid=" in line])[0].split("=")[1])
    victim = process_of_number(number)
    try:
        cluster.wait_state(job, "running")
        wait_for("the offer", 30, lambda: "offered" in as_tenant(cluster, "red", "logs", job).stdout)
        for _ in range(3):
            asked = as_tenant(cluster, "red", "stacks", job)
            assert "is starting" not in asked.stderr, asked
            time.sleep(0.5)
        assert victim.poll() is None, "a signal reached a process that is not the job's"
    finally:
        victim.kill()
        victim.wait()
