"""What the client's verbs say and how they end."""
import json

from localcluster import wait_for


def test_figures_that_nobody_told_are_null(cluster):
    job = cluster.submit("--name", "quiet", "--", "sleep", "60")
    now = cluster.wait_state(job, "running")
    assert [now[key] for key in ("step", "loss", "tokens_per_second", "total_steps", "exit_code", "last_recovery_ms")] == [None] * 6, now
    assert now["workers"][0]["state"] == "running" and now["workers"][0]["step"] is None, now["workers"]
    status, answer = cluster.rest("GET", "/v1/jobs/" + job)
    assert status == 200 and answer["loss"] is None and answer["step"] is None, answer
    row = cluster.muster("ps", check=True).stdout.splitlines()[1].split()
    assert row.count("-") >= 3 and "0" not in row, row
    shown = cluster.muster("show", job, check=True).stdout
    assert "reports no steps" in shown and "step 0" not in shown, shown
    cluster.muster("cancel", job, check=True)
    ended = cluster.wait_state(job, "cancelled")
    assert isinstance(ended["exit_code"], int), ended
