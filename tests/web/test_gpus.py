"""The GPUs of a node on its page: what they do, and what ails them, as it changes."""

import json

from localcluster import MUSTER
from test_page import errors, shot, show, sign_in, text_of, wait
from selenium.webdriver.common.by import By


def rows(browser):
    return [row.text for row in browser.find_elements(By.CSS_SELECTOR, "section[aria-label=GPUs] tbody tr")]


def test_each_gpu_has_a_row_that_is_live(browser, cluster, monkeypatch, tmp_path):
    readings = tmp_path / "readings"
    readings.write_text("0 used 87\n0 memory 76800\n0 celsius 71\n0 watts 640\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(MUSTER.parent / "tests"))
    monkeypatch.setenv("FAKE_NVML_GPUS", "3")
    monkeypatch.setenv("FAKE_NVML_DIVIDED", "2")
    monkeypatch.setenv("FAKE_NVML_READINGS", str(readings))
    cluster.start_agent("node2", "--cpus", "4")
    cluster.wait_nodes(2)
    sign_in(browser, cluster)
    show(browser, cluster, "/nodes/node2")
    wait(browser, lambda b: len(rows(b)) == 4)
    first, divided = rows(browser)[0], rows(browser)[2]
    for part in ("NVIDIA H200", "87 %", "75.0 GiB / 150.0 GiB", "71 °C", "640 W"):
        assert part in first, first
    assert "MIG 1g.18gb" in divided and " %" not in divided, divided
    bars = browser.find_elements(By.CSS_SELECTOR, "section[aria-label=GPUs] tbody tr:first-child progress")
    assert [float(bar.get_attribute("value")) for bar in bars] == [0.87, 0.5]
    matrix = [row.text.split() for row in browser.find_elements(By.CSS_SELECTOR, "section[aria-label='Links of GPUs'] tbody tr")]
    assert matrix == [["0", "X", "NV4", "NODE", "NODE", "5", "x16", "0"], ["1", "NV4", "X", "NODE", "NODE", "5", "x8", "0"],
                      ["2:0", "NODE", "NODE", "X", "PIX", "5", "x16", "0"], ["2:1", "NODE", "NODE", "PIX", "X", "5", "x16", "0"]]
    shot(browser, "gpus")
    readings.write_text("0 used 3\n1 lost 1\n")
    text_of(browser, "cannot be read any more")
    wait(browser, lambda b: "3 %" in rows(b)[0])
    report = f"i=0; while [ $i -lt 400 ]; do i=$((i+1)); {MUSTER} report step $i --loss 1; sleep 0.1; done"
    spec = tmp_path / "job.json"
    spec.write_text(json.dumps({"name": "user", "workers_per_node": 2, "constraints": {"gpu.model": "H200"}, "command": ["/bin/sh", "-c", report]}))
    readings.write_text("0 used 3\n")
    wait(browser, lambda b: "cannot be read" not in b.find_element(By.TAG_NAME, "body").text)  # else no job gets it
    job = cluster.submit(spec)
    show(browser, cluster, f"/jobs/{job}")
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "section[aria-label=GPUs]").is_displayed())
    found = f"/v1/jobs/{job}/metrics?series=gpu.used.node0,gpu.memory.node0"
    wait(browser, lambda b: {one["name"] for one in cluster.rest("GET", found)[1]["series"]} == {"gpu.used.node0", "gpu.memory.node0"})
    shot(browser, "gpu_curves")
    readings.write_text("0 memory 3072\n")
    cluster.muster("cancel", job, check=True)
    show(browser, cluster, "/nodes/node2")
    text_of(browser, "gets no job: its last worker has ended and 3.0 GiB of its memory are still in use")
    assert not errors(browser)
