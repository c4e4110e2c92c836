"""muster ckpt verify: one checkpoint or all of a folder, whole or with one byte damaged."""
import shutil
import subprocess

from localcluster import HANG_SECONDS, MUSTER
from test_examples import run_ranks
from test_export import GPT


def verify(folder):
    done = subprocess.run([MUSTER, "ckpt", "verify", folder], capture_output=True, text=True, timeout=HANG_SECONDS)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_every_byte_of_a_checkpoint_is_looked_at(tmp_path):
    run_ranks(2, GPT, MUSTER_STRATEGY="fsdp", MUSTER_CHECKPOINT_DIR=str(tmp_path / "k"), MUSTER_CHECKPOINT_EVERY="2 steps")
    folders = [tmp_path / "k" / name for name in ("step-00000002", "step-00000004")]
    assert verify(tmp_path / "k") == (0, [f"{folder}: whole" for folder in folders], "")
    assert verify(f"{folders[1]}/") == (0, [f"{folders[1]}: whole"], "")

    for file in sorted(folders[0].iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        code, lines, said = verify(tmp_path / "k")
        assert (code, lines) == (1, [f"{folders[1]}: whole"]) and str(folders[0]) in said, file.name
        assert verify(folders[0])[0] == 1, file.name
        file.write_bytes(whole)

    shutil.rmtree(tmp_path / "k")
    assert verify(tmp_path / "k") == (1, [], f"muster: {tmp_path}/k has no checkpoint\n")
    assert verify("")[0] == 1
