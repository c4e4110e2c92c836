"""What the page says is so: counts, places, stalls, silence, refusals, sessions; and it holds long names and many ranks."""
import json
import os
import re
import signal
import subprocess
import time

from selenium.webdriver.common.by import By

from localcluster import HANG_SECONDS, MUSTER, Cluster
from test_page import errors, find, gpt, shot, show, sign_in, text_of, wait

LONG = "a-very-long-name-that-somebody-made-of-63-characters-0123456789"
SWEEP = 210


def size(browser, width, height=900, dark=False):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def pictures(browser, name):
    """A picture at each width people have, light and dark, where they are asked for."""
    if not os.environ.get("MUSTER_SCREENSHOTS"):
        return
    for width in (1440, 1024, 390):
        for dark in (False, True):
            size(browser, width, dark=dark)
            time.sleep(0.3)
            shot(browser, f"{name}-{width}-{'dark' if dark else 'light'}")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def figure(browser, unit):
    boxes = {b.find_element(By.TAG_NAME, "span").text: b for b in browser.find_elements(By.CSS_SELECTOR, ".figure")}
    return boxes[unit].find_element(By.TAG_NAME, "strong").text


def test_newer_jobs_that_wait_hide_nothing(browser, cluster):
    holds = cluster.submit("--name", LONG, "--priority", "high", "--workers-per-node", "4", "--", "sleep", "600")
    cluster.wait_state(holds, "running")
    made = [cluster.rest("POST", "/v1/jobs", {"name": f"sweep-{n:03}", "command": ["sleep", "1"], "resources": {"slots": 4}})[1]["id"] for n in range(SWEEP)]
    urgent = cluster.submit("--name", LONG, "--priority", "10", "--workers-per-node", "4", "--", "sleep", "1")
    sign_in(browser, cluster)
    text_of(browser, "slots in use")
    assert (figure(browser, "running"), figure(browser, "waiting")) == ("1", str(SWEEP + 1))
    assert (figure(browser, "slots in use")) == "4 / 4"
    running = find(browser, "section[aria-label=Running]")
    assert LONG in running.get_attribute("textContent") and "more" not in running.text
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "section[aria-label=Queue] tbody tr")]
    assert rows[0].startswith("1") and urgent in rows[0], "the scheduler's order, not that of arrival"
    assert rows[1].startswith("2") and made[0] in rows[1], rows[1]
    text_of(browser, f"and {SWEEP + 1 - 20} more")
    pictures(browser, "overview-210")
    show(browser, cluster, "/jobs")
    tabs = wait(browser, lambda b: [a.text for a in b.find_elements(By.CSS_SELECTOR, ".tabs a")])
    assert "running 1" in tabs and f"queued {SWEEP + 1}" in tabs, tabs
    pictures(browser, "jobs-210")
    size(browser, 1024)
    try:
        fits = "return [...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth)"
        tall = "return Math.max(...[...document.querySelectorAll('main tbody tr')].map((row) => row.offsetHeight))"
        wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "main tbody tr"))
        assert browser.execute_script(fits) and browser.execute_script(tall) < 260, browser.execute_script(tall)
        show(browser, cluster, "/")
        text_of(browser, "slots in use")
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for job in [holds, urgent, *made]:
        cluster.rest("POST", f"/v1/jobs/{job}:cancel", {})
    cluster.wait_state(holds, "cancelled")
    assert not errors(browser)


def test_the_overview_reads_of_nodes_what_changed(browser, cluster):
    asked = "return performance.getEntriesByType('resource').some((e) => /[/]v1[/]nodes[?]since=[1-9]/.test(e.name))"
    sign_in(browser, cluster)
    text_of(browser, "slots in use")
    wait(browser, lambda b: b.execute_script(asked))
    assert figure(browser, "slots in use") == "0 / 4", "nothing changed, and all are there"
    job = cluster.submit("--workers-per-node", "3", "--", "sleep", "600")
    wait(browser, lambda b: figure(b, "slots in use") == "3 / 4")
    cluster.rest("POST", f"/v1/jobs/{job}:cancel", {})
    cluster.wait_state(job, "cancelled")
    wait(browser, lambda b: figure(b, "slots in use") == "0 / 4")
    assert not errors(browser)


def test_a_node_that_is_forgotten_leaves_the_overview(browser, tmp_path):
    with Cluster(tmp_path) as cluster:
        cluster.start_coordinator(extra=("--keep-nodes-for", "5s"))
        for name in ("stays", "goes"):
            cluster.start_agent(name, "--slots", "1")
        cluster.wait_nodes(2)
        sign_in(browser, cluster)
        names = lambda b: [a.text for a in b.find_elements(By.CSS_SELECTOR, ".tiles a.name")]  # noqa: E731
        wait(browser, lambda b: names(b) == ["goes", "stays"])
        cluster.agents["goes"].kill()
        cluster.agents.pop("goes").wait(HANG_SECONDS)
        wait(browser, lambda b: "goes" in find(b, "section[aria-label='Needs attention']").text)
        wait(browser, lambda b: names(b) == ["stays"])
        assert not errors(browser)
        browser.get("about:blank")  # the page would ask a coordinator that has ended
        errors(browser)


def test_a_stall_is_shown_as_one_everywhere(browser, cluster):
    spec = cluster.folder / "stall.json"
    spec.write_text(json.dumps({"name": "stall", "workers_per_node": 2, "command": [str(word) for word in gpt(cluster, "--steps", "1000000")]}))
    job = cluster.submit(spec)
    cluster.wait_state(job, "running")
    wait(browser, lambda b: int(cluster.job(job)["step"] or 0) > 3)
    pid = next(int(w["pid"]) for w in cluster.job(job)["workers"] if int(w.get("rank") or 0) == 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait(browser, lambda b: int(cluster.job(job)["stalled_wall_ms"]) > 0)
        assert cluster.job(job)["state"] == "running" and cluster.job(job)["tokens_per_second"] is None
        for words in (["ps"], ["ps", "--state", "stalled"], ["top"]):
            said = cluster.muster(*words, check=True).stdout
            assert "stalled" in next(line for line in said.splitlines() if job in line), said
        said = cluster.muster("show", job, check=True).stdout
        assert re.search(r"^ *state +stalled: ", said, re.MULTILINE), said
        metrics = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
        assert "\nmuster_jobs_stalled 1\n" in metrics
        sign_in(browser, cluster)
        text_of(browser, "Needs attention")
        assert "stalled" in find(browser, "section[aria-label='Needs attention']").text
        figures = find(browser, ".figures").text
        assert "1 stalled" in figures and "tokens/s together" not in figures, figures
        assert "stalled" in find(browser, "section[aria-label=Running] tbody").text
        pictures(browser, "overview-stall")
        show(browser, cluster, "/jobs?state=stalled")
        row = wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "main tbody tr"))
        assert job in row.text and "stalled" in row.text and "tokens/s" not in row.text
        show(browser, cluster, "/events")
        wait(browser, lambda b: any("stalled" in r.text and job in r.text for r in b.find_elements(By.CSS_SELECTOR, "tbody tr")))
        show(browser, cluster, f"/jobs/{job}")
        text_of(browser, "Stalled for")
        assert browser.find_element(By.CSS_SELECTOR, "h1 .state").text.endswith("stalled")
        wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, ".band.stalled"))
        assert "has not entered" in find(browser, ".events").text
        pictures(browser, "job-stall")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "h1 .state").text.endswith("running"))
    assert "no step completed for" in text_of(browser, "no step completed for")
    asked = "return Chart.getChart(document.querySelector('canvas')).marks"
    steps = "return Chart.getChart(document.querySelector('canvas')).data.datasets[0].data.at(-1).x"
    before = browser.execute_script(steps)
    wait(browser, lambda b: b.execute_script(steps) > before)
    assert [mark["generation"] for mark in browser.execute_script(asked)] == [1], "a stall begins no generation"
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled")
    assert not errors(browser)


def test_the_late_rank_of_512_comes_first(browser, cluster):
    sign_in(browser, cluster)
    rows = browser.execute_async_script("""
        const done = arguments[0];
        Promise.all([import("/ranks.js"), import("/dom.js")]).then(([{ ranksTable }, { section }]) => {
          const workers = Array.from({ length: 512 }, (_, rank) => ({ uid: String(rank + 1), rank, node: `node${rank >> 3}`, state: "joined", step: 7, pid: 9,
            wait: rank === 400 ? undefined : { operation: "all_reduce #7", communicator: "world", waited_ms: 12000, ranks: [400], ranks_count: 1 } }));
          document.querySelector("main").replaceChildren(section("Ranks", null, ranksTable(workers)));
          done([...document.querySelectorAll("main tbody tr")].slice(0, 2).map((r) => [r.className, r.firstChild.textContent]));
        });""")
    assert rows == [["late", "400"], ["", "0"]]
    height = browser.execute_script("return document.querySelector('section[aria-label=Ranks]').offsetHeight")
    assert height < 900, "what is below the ranks is found"
    shot(browser, "ranks-512")


def test_each_rank_has_its_pace_and_its_numbers_and_the_slow_one_is_named(browser, cluster):
    sign_in(browser, cluster)
    draw = """
        const done = arguments[0];
        Promise.all([import("/ranks.js"), import("/dom.js")]).then(([{ ranksNote, ranksTable }, { section }]) => {
          const workers = [0, 1, 2].map((rank) => ({ uid: String(rank + 1), rank, node: `node${rank}`, state: "running", step: "400", pid: "90" }));
          const figures = { by_work: true, median_ms: 120, slowest: { rank: 2, text: "rank 2 (node node2) works 190 ms in each step" }, ranks: [
            { rank: 0, timed: 9, step_ms: 203.5, work_ms: 120, ratio: 1, numbers: { loss: 2.25, lr: 0.00123456, "a": 1, "b": 2, "c": 3, "d": 4 } },
            { rank: 1, timed: 0, step_ms: null, work_ms: null, ratio: null, numbers: { loss: "NaN" } },
            { rank: 2, timed: 9, step_ms: 203.5, work_ms: 190, ratio: 1.5833, numbers: {} }] };
          const plain = ranksTable(workers)[0].querySelectorAll("th").length;
          document.querySelector("main").replaceChildren(section("Ranks", ranksNote(figures), ranksTable(workers, figures)));
          done([plain, document.querySelector("main .heading").textContent, [...document.querySelectorAll("main tr")].map((r) => [...r.children].slice(6).map((c) => c.textContent))]);
        });"""
    plain, heading, rows = browser.execute_async_script(draw)
    assert plain == 7, "without figures there are no columns for them"
    assert heading == "Ranksrank 2 (node node2) works 190 ms in each step"
    assert rows == [
        ["Work in a step", "To the median", "Loss", "Numbers", "What it does"],
        ["120 ms", "1.00", "2.2500", "lr 0.0012346, a 1, b 2, c 3 and 1 more", ""],
        ["–", "–", "NaN", "", ""],
        ["190 ms", "1.58, slowest", "–", "", ""]]
    for width in (1280, 390):
        size(browser, width)
        browser.execute_async_script(draw)  # the view may have been drawn again
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        shot(browser, f"ranks-figures-{width}")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_output_reads_as_on_a_terminal(browser, cluster):
    sign_in(browser, cluster)
    shown = browser.execute_async_script("""
        const done = arguments[0];
        import("/logs.js").then(({ readable }) => done(["\\u001b[31mred error\\u001b[0m", "10 %\\r20 %\\r100 %\\r", "user\\u202etxt.exe", "plain"].map(readable)));""")
    assert shown == ["red error", "100 %", "user\\u202etxt.exe", "plain"]


def asks_for_no_job(browser):
    """For five seconds."""
    asked = "return performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/jobs/')).length"
    before = browser.execute_script(asked)
    time.sleep(5)
    return browser.execute_script(asked) == before


def test_an_ended_job_is_asked_for_no_more(browser, cluster):
    job = cluster.submit("--name", "over", "--", "echo", "done")
    cluster.wait_state(job, "succeeded")
    sign_in(browser, cluster)
    show(browser, cluster, f"/jobs/{job}")
    text_of(browser, "succeeded")
    wait(browser, asks_for_no_job)
    errors(browser)


def test_what_is_open_beside_a_worker_is_on_its_page(browser, cluster):
    job = cluster.submit("--name", "watched", "--", "sleep", "600")
    cluster.wait_state(job, "running")
    sign_in(browser, cluster)
    show(browser, cluster, f"/jobs/{job}")
    text_of(browser, "watched")
    sections = "return [...document.querySelectorAll('section')].map((s) => s.textContent).filter((t) => t.includes('Open beside its workers'))"
    assert browser.execute_script(sections) == []
    client = subprocess.Popen([MUSTER, "exec", job, "--", "sleep", "500"], env=cluster.environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        shown, = wait(browser, lambda b: b.execute_script(sections))  # by the stream: the page asks for no job by the clock
        assert "`sleep 500`" in shown and "0node1" in shown and "admin" in shown, shown
    finally:
        client.terminate()
        client.wait()
    wait(browser, lambda b: not b.execute_script(sections))
    cluster.muster("cancel", job, check=True)
    errors(browser)


def test_an_ended_job_is_asked_for_again_after_an_answer_that_did_not_come(browser, cluster):
    job = cluster.submit("--name", "over-too", "--", "echo", "done")
    cluster.wait_state(job, "succeeded")
    sign_in(browser, cluster)
    show(browser, cluster, f"/jobs/{job}")
    link = browser.find_element(By.ID, "link")
    wait(browser, asks_for_no_job)
    browser.execute_script("""
        window.real = window.fetch;
        window.fetch = () => Promise.reject(new TypeError("no network"));
        document.dispatchEvent(new Event("visibilitychange"));""")
    wait(browser, lambda b: link.text.endswith("no answer"))
    browser.execute_script("window.fetch = window.real")
    wait(browser, lambda b: link.text.endswith("live"))
    errors(browser)


def test_a_page_of_jobs_keeps_its_number_and_the_way_back(browser, cluster):
    made = [cluster.rest("POST", "/v1/jobs", {"name": "paged", "command": ["true"], "resources": {"slots": 4}, "constraints": {"node": "node1"}})[1]["id"]
            for _ in range(205)]
    sign_in(browser, cluster)
    show(browser, cluster, "/jobs")
    first = wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "main tbody tr").get_attribute("data-key"))
    for page in (2, 3):
        wait(browser, lambda b: b.find_element(By.XPATH, "//button[contains(., 'older')]")).click()
        text_of(browser, f"page {page}, ")
    browser.refresh()
    text_of(browser, "page 3, ")
    for page in (2, 1):
        browser.find_element(By.XPATH, "//button[contains(., 'newer')]").click()
        text_of(browser, f"page {page}, ")
    assert browser.find_element(By.CSS_SELECTOR, "main tbody tr").get_attribute("data-key") == first
    for job in made:
        cluster.rest("POST", f"/v1/jobs/{job}:cancel", {})
    assert not errors(browser)


def test_what_is_refused_is_said_and_is_no_lost_coordinator(browser, cluster):
    sign_in(browser, cluster)
    show(browser, cluster, "/jobs?state=bogus")
    assert "queued" in text_of(browser, "unknown state 'bogus'")
    assert browser.find_element(By.ID, "link").text.endswith("live")
    show(browser, cluster, "/nowhere")
    text_of(browser, "There is no such page")
    show(browser, cluster, "/nodes/node1")
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "h1").text == "node1" and len(b.find_elements(By.CSS_SELECTOR, ".tile")) == 1)
    errors(browser)  # the refusal itself
    show(browser, cluster, "/jobs?tenant=nobody")
    wait(browser, lambda b: "No job is of tenant nobody" in find(b, "main").text)


def test_cancelling_says_what_can_be_continued(browser, cluster):
    job = cluster.submit("--name", "bare", "--", "sleep", "600")
    folder = cluster.folder / "saved"
    spec = cluster.folder / "saves.json"
    spec.write_text(json.dumps({"name": "saves", "command": [str(word) for word in gpt(cluster, "--steps", "1000000")], "checkpoint": {"dir": str(folder), "every": "20 steps"}}))
    saves = cluster.submit(spec)
    wait(browser, lambda b: cluster.job(saves).get("last_checkpoint"))
    waits = cluster.submit("--slots", "4", "--", "sleep", "600")
    sign_in(browser, cluster)
    for one, said in ((waits, "It has not begun"), (job, "It has no checkpoint"), (saves, "A new job can continue from its checkpoint of step")):
        show(browser, cluster, f"/jobs/{one}")
        wait(browser, lambda b: b.find_element(By.XPATH, "//button[text()='Cancel job']")).click()
        assert said in find(browser, "dialog").text
        find(browser, "dialog").find_element(By.CSS_SELECTOR, "button.danger").click()
        cluster.wait_state(one, "cancelled")
        wait(browser, lambda b: not b.find_elements(By.TAG_NAME, "dialog"))
    assert not errors(browser)


def test_a_token_in_the_address_of_an_open_page_signs_in_and_is_gone(browser, cluster):
    viewer = cluster.muster("token", "create", "opened", "--role", "viewer", "--tenant", "default", check=True).stdout.strip()
    sign_in(browser, cluster)
    text_of(browser, "slots in use")
    browser.execute_script("location.hash = '#token=' + arguments[0]", viewer)
    text_of(browser, "viewer of default")
    assert viewer not in browser.current_url
    browser.execute_script("history.back()")
    wait(browser, lambda b: b.execute_script("return document.readyState") == "complete")
    assert viewer not in browser.current_url
    browser.execute_script("history.forward()")
    time.sleep(0.3)
    assert viewer not in browser.current_url
    errors(browser)


def test_a_session_that_ends_leaves_the_page_where_it_was(browser, cluster):
    secret = cluster.muster("token", "create", "short", "--role", "operator", check=True).stdout.strip()
    sign_in(browser, cluster, secret)
    show(browser, cluster, "/nodes")
    show(browser, cluster, "/events")
    field = find(browser, "input[type=search]")
    field.send_keys("job")
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "main tbody tr"))
    cluster.muster("token", "revoke", "short", check=True)
    text_of(browser, "Your session has ended")
    before = len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr"))
    cluster.wait_state(cluster.submit("--name", "unseen", "--", "true"), "succeeded")
    time.sleep(2.5)
    assert len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == before, "a revoked token reads nothing more"
    token = find(browser, "dialog input[name=token]")
    token.send_keys(cluster.token)
    token.submit()
    wait(browser, lambda b: not b.find_elements(By.TAG_NAME, "dialog"))
    text_of(browser, "admin")
    find(browser, "dialog, main")
    sign_in(browser, cluster)
    errors(browser)


def test_a_node_with_a_long_name_keeps_its_buttons_in_sight(browser, cluster):
    name = "n" + "0123456789" * 6
    cluster.start_agent(name, "--slots", "1", "--cpus", "1", "--label", "rack=" + "r" * 50)
    cluster.wait_nodes(2)
    sign_in(browser, cluster)
    show(browser, cluster, "/nodes")
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, f"button[aria-label='drain {name}']"))
    try:
        for width in (1440, 1024):
            size(browser, width)
            place = "const r = document.querySelector(arguments[0]).getBoundingClientRect(); return r.right <= innerWidth"
            wait(browser, lambda b: b.execute_script(place, f"button[aria-label='drain {name}']"))
    finally:
        pictures(browser, "nodes")
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert [h.tag_name for h in browser.find_elements(By.CSS_SELECTOR, "main h1, main h2, main h3")][:3] == ["h1", "h2", "h3"]
    cluster.kill_node(name)
    show(browser, cluster, "/")
    wait(browser, lambda b: "lost" in find(b, "section[aria-label='Needs attention']").text and name in find(b, "section[aria-label='Needs attention']").text)
    errors(browser)


def test_a_coordinator_that_is_silent_is_not_live(browser, cluster):
    """Last but one: it is stopped for a while."""
    sign_in(browser, cluster)
    text_of(browser, "slots in use")
    link = browser.find_element(By.ID, "link")
    wait(browser, lambda b: link.text.endswith("live"))
    # What the page's own clock says when it tells: a request is given up after 15 s.
    browser.execute_script("""
        const link = document.getElementById("link"), began = performance.now();
        window.given_up = 0;
        const ask = window.fetch;
        window.fetch = (...words) => ask(...words).catch((error) => { window.given_up++; throw error; });
        new MutationObserver(() => { if (!window.told && link.textContent.endsWith("no answer")) window.told = [given_up, performance.now() - began]; })
          .observe(link, { childList: true, characterData: true, subtree: true });""")
    cluster.coordinator.send_signal(signal.SIGSTOP)
    try:
        given_up, took_ms = wait(browser, lambda b: b.execute_script("return window.told"))
    finally:
        cluster.coordinator.send_signal(signal.SIGCONT)
    assert given_up == 0, "told before a request is given up"
    wait(browser, lambda b: link.text.endswith("live"))
    print(f"told after {took_ms / 1000:.1f} s")
    errors(browser)


# The page's clock stands still, and its ticks are the test's: no slow machine makes it late.
OWN_CLOCK = """
    const now = Date.now(), each = window.setInterval, ask = window.fetch;
    window.clock = { ahead_ms: 0, ticks: [], answers: 0 };
    Date.now = () => now + clock.ahead_ms;
    window.setInterval = (call, ms) => (ms === 1000 ? clock.ticks.push(call) : each(call, ms));
    window.fetch = (...words) => ask(...words).finally(() => clock.answers++);"""
TICK = "const before = clock.answers; clock.ahead_ms += arguments[0]; clock.ticks.forEach((tick) => tick()); return before"
STALE_S = 5


def test_a_page_says_live_for_no_longer_than_five_seconds_of_silence(browser, cluster):
    """The coordinator is stopped for a while."""
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OWN_CLOCK})
    try:
        sign_in(browser, cluster)
        text_of(browser, "slots in use")
        link = browser.find_element(By.ID, "link")
        cluster.coordinator.send_signal(signal.SIGSTOP)
        answers = -1
        while answers != browser.execute_script("return clock.answers"):  # what was on its way has come
            answers = browser.execute_script(TICK, 0)
            wait(browser, lambda b: link.text)
            for _ in range(STALE_S):
                browser.execute_script(TICK, 1000)
        assert link.text.endswith("no answer"), link.text
        cluster.coordinator.send_signal(signal.SIGCONT)
        wait(browser, lambda b: [b.execute_script(TICK, 1000), link.text.endswith("live")][1])
    finally:
        cluster.coordinator.send_signal(signal.SIGCONT)
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    errors(browser)


def test_a_restart_of_the_coordinator_signs_nobody_out(browser, cluster):
    """Last: it is killed."""
    sign_in(browser, cluster)
    show(browser, cluster, "/jobs?state=succeeded")
    field = find(browser, "input[type=search]")
    field.send_keys("uns")
    wait(browser, lambda b: "q=uns" in b.current_url)
    cluster.kill_coordinator()
    text_of(browser, "What you see is from")
    cluster.start_coordinator()
    wait(browser, lambda b: b.find_element(By.ID, "link").text.endswith("live"))
    assert not browser.find_elements(By.TAG_NAME, "dialog") and field.get_attribute("value") == "uns"
    assert "state=succeeded" in browser.current_url
    errors(browser)
