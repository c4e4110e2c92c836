"""Doors of the file system: what another user of the machine puts where the coordinator, an agent or an administrator will look.

| attack | door | what must hold |
|---|---|---|
| a folder of another user's, with a token in it that its maker knows | coordinator --data | not started |
| a folder that everybody may write in | coordinator, agent --data | not started |
| a link of another user's to a folder of root's | coordinator, agent --data | not started, and the folder keeps its mode |
| the folder for the hub's socket, made before | XDG_RUNTIME_DIR, /tmp/muster-UID | not started, and what a link leads to keeps its mode |
| a umask of 0 | every file that is made | nothing is readable or writable by others but what must be |
| `.partial` of a backup: a link, a FIFO, a folder, a file | POST /v1/backup | refused; it stays, and nothing of it is written through |
| the backup's name, a salvage's: a link that leads nowhere | POST /v1/backup, store salvage | refused, the link stays, and nothing is made there |
| a token file that others can read | agent --token-file | not started |
| a FIFO as the audit file, also put there by a rotation | --audit-file | not waited for |
| a FIFO, a device or a folder as a store | store check, restore | an error at once |
"""
import os
import stat
import subprocess

import pytest
from localcluster import MUSTER

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is deceived by files of other users")


def start(*words, seconds=60, **environment):
    """(code, what it said) of a program that must end by itself."""
    try:
        done = subprocess.run([str(MUSTER), *map(str, words)], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    except subprocess.TimeoutExpired as error:
        return None, f"it runs: {error.stderr}"
    return done.returncode, done.stderr


def coordinator(data):
    return start("coordinator", "--data", data, "--rpc", "tcp://127.0.0.1:0", "--http", "off", seconds=10)


def agent(data, *options, **environment):
    return start("agent", "--data", data, "--name", "n", "--coordinator", "tcp://127.0.0.1:9", "--slots", "1", "--allow-root-workers", "--token", "mst_x." + "A" * 43, *options, seconds=10, **environment)


@pytest.fixture
def theirs(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    return folder


@needs_root
@pytest.mark.parametrize("program", [coordinator, agent])
def test_a_data_folder_of_another_user_is_not_taken(theirs, program):
    (theirs / "planted").write_text("planted")
    code, said = program(theirs)
    assert code not in (None, 0) and f"{theirs} belongs to uid {NOBODY}" in said, (code, said)
    assert sorted(path.name for path in theirs.iterdir()) == ["planted"], "nothing was made there"


@pytest.mark.parametrize("program", [coordinator, agent])
def test_a_data_folder_that_everybody_may_write_in_is_not_taken(tmp_path, program):
    folder = tmp_path / "open"
    folder.mkdir()
    for mode in (0o777, 0o1777):
        folder.chmod(mode)
        code, said = program(folder)
        assert code not in (None, 0) and "any user may write" in said, (code, said)
        assert not list(folder.iterdir()) and stat.S_IMODE(folder.stat().st_mode) == mode


@needs_root
@pytest.mark.parametrize("program", [coordinator, agent])
def test_a_link_of_another_user_leads_no_data_astray(tmp_path, program):
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to(precious)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    code, said = program(link)
    assert code not in (None, 0) and f"belongs to uid {NOBODY}" in said, (code, said)
    assert not list(precious.iterdir()) and stat.S_IMODE(precious.stat().st_mode) == 0o755


@needs_root
@pytest.mark.parametrize("what", ["folder", "link", "file"])
def test_the_hubs_folder_made_before_by_another_user_is_not_taken(tmp_path, what):
    """As /tmp/muster-0, which whoever comes first may make."""
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o755)
    runtime = tmp_path / "muster"
    runtime.mkdir() if what == "folder" else runtime.symlink_to(precious) if what == "link" else runtime.touch()
    os.chown(runtime, NOBODY, NOBODY, follow_symlinks=False)
    data = tmp_path / ("d" * 120)  # too long for a socket of its own
    code, said = agent(data, XDG_RUNTIME_DIR=str(tmp_path))
    assert code not in (None, 0) and "is not a folder of this user's" in said, (code, said)
    assert stat.S_IMODE(precious.stat().st_mode) == 0o755 and not list(precious.iterdir())


def test_files_are_private_whatever_the_umask(make_cluster):
    old = os.umask(0)
    try:
        cluster = make_cluster(nodes=0, coordinator=False)
        for folder in (cluster.data, cluster.folder / "nodes" / "node1"):
            folder.mkdir(parents=True)
            folder.chmod(0o700)
        cluster.start_coordinator()
        cluster.start_agent("node1", "--slots", "1")
        cluster.wait_nodes(1)
        cluster.muster("submit", "-n", "said", "--", "/bin/echo", "said", check=True)
        cluster.wait_state("said", "succeeded")
        running = cluster.submit("--", "/bin/sleep", "300")
        cluster.wait_state(running, "running")
        assert cluster.rest("POST", "/v1/backup", {"path": str(cluster.data / "copy.db")})[0] == 200
    finally:
        os.umask(old)
    open_to_all = []
    for top in (cluster.data, cluster.folder / "nodes" / "node1"):
        for path in top.rglob("*"):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and not stat.S_ISSOCK(mode) and mode & 0o077 and stat.S_IMODE(mode) != 0o711:
                open_to_all.append(f"{path.relative_to(cluster.folder)} {stat.filemode(mode)}")
    assert [one for one in open_to_all if not one.startswith(("coordinator/rpc.url ", "coordinator/http.url "))] == []
    assert not [one for one in open_to_all if one[-2] == "w" or one[-5] == "w"], open_to_all


@pytest.mark.parametrize("planted", ["link", "FIFO", "folder", "file"])
def test_a_backup_is_not_written_through_what_lies_there(make_cluster, tmp_path, planted):
    cluster = make_cluster(nodes=0)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    copy, partial = tmp_path / "copy.db", tmp_path / "copy.db.partial"
    if planted == "link":
        partial.symlink_to(precious)
    elif planted == "FIFO":
        os.mkfifo(partial)
    elif planted == "folder":
        partial.mkdir()
    else:
        partial.touch(mode=0o666)
        opened = open(partial, "rb")  # who holds it open reads nothing of the copy
    before = partial.lstat()
    status, answer = cluster.rest("POST", "/v1/backup", {"path": str(copy)})
    assert status == 412 and str(partial) in answer["error"]["message"] and not copy.exists(), answer
    after = partial.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode) and precious.read_text() == "precious"
    if planted == "file":
        assert opened.read() == b""
        opened.close()
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to(tmp_path / "made")
    status, answer = cluster.rest("POST", "/v1/backup", {"path": str(nowhere)})
    assert status in (409, 412, 500, 503) and not (tmp_path / "made").exists(), answer
    assert not (tmp_path / "nowhere.partial").exists()
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200
    free = tmp_path / "free.db"
    assert cluster.rest("POST", "/v1/backup", {"path": str(free)})[0] == 200
    assert stat.S_IMODE(free.stat().st_mode) == 0o600 and not (tmp_path / "free.db.partial").exists()
    code, said = start("store", "salvage", free, nowhere)
    assert code not in (None, 0) and str(nowhere) in said and nowhere.is_symlink() and not (tmp_path / "made").exists(), (code, said)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_token_that_others_can_read_is_not_used(tmp_path, mode):
    """The node's jobs are such others: with the token they bring in a node of their own."""
    file = tmp_path / "agent.token"
    file.write_text("mst_x." + "A" * 43 + "\n")
    file.chmod(mode)
    words = ("agent", "--data", tmp_path / "a", "--name", "n", "--coordinator", "tcp://127.0.0.1:9", "--slots", "1", "--allow-root-workers", "--token-file", file)
    code, said = start(*words, seconds=10)
    assert code not in (None, 0) and str(file) in said and "chmod 600" in said, (code, said)
    file.chmod(0o600)
    code, said = start(*words, seconds=5)
    assert code is None and "token file" not in said, (code, said)  # it runs, and dials on


def test_an_audit_file_that_is_a_fifo_is_not_waited_for(make_cluster, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code, said = start("coordinator", "--data", tmp_path / "c", "--rpc", "tcp://127.0.0.1:0", "--http", "off", "--audit-file", fifo, seconds=10)
    assert code not in (None, 0) and "audit file" in said, (code, said)
    cluster = make_cluster(nodes=0, coordinator=False)
    trail = tmp_path / "trail"
    cluster.start_coordinator(extra=("--audit-file", str(trail)))
    trail.unlink()
    os.mkfifo(trail)  # whoever may write in the folder of logs
    for i in range(3):
        cluster.muster("tenant", "create", f"t{i}", check=True)
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200


@pytest.mark.parametrize("what", ["FIFO", "device", "folder", "link"])
def test_a_store_that_is_no_file_ends_at_once(tmp_path, what):
    path = tmp_path / "store"
    os.mkfifo(path) if what == "FIFO" else path.symlink_to("/dev/zero" if what == "device" else path) if what in ("device", "link") else path.mkdir()
    for words in (("store", "check", path), ("store", "salvage", path, tmp_path / "new"), ("coordinator", "--data", tmp_path / "d", "--restore", path, "--rpc", "tcp://127.0.0.1:0", "--http", "off"), ("restore", path, "--data", tmp_path / "r")):
        code, said = start(*words, seconds=10)
        assert code not in (None, 0) and code > 0, (words, code, said)
