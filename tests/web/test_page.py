"""The page in a real browser: sign in, the overview, a job from its queue to its end, nodes, tenants, tokens, events."""
import json
import os
import re
import signal
import time
from urllib.parse import quote

from localcluster import HANG_SECONDS, MUSTER
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

MARKUP = "<img src=x onerror=alert(1)>"


def wait(browser, probe):
    """The limit is that of a hang. What the page draws anew meanwhile is looked for again."""
    return WebDriverWait(browser, HANG_SECONDS, poll_frequency=0.1, ignored_exceptions=[StaleElementReferenceException]).until(probe)


def text_of(browser, what):
    """Waits until the page's text holds `what`."""
    return wait(browser, lambda b: what in (t := b.find_element(By.TAG_NAME, "body").text) and t)


def find(browser, css):
    return wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, css))


def sign_in(browser, cluster, token=None):
    browser.get(f"http://{cluster.http}/")
    browser.delete_all_cookies()
    browser.get(f"http://{cluster.http}/#token={token or cluster.token}")
    browser.refresh()
    text_of(browser, "live")


def show(browser, cluster, place):
    browser.get(f"http://{cluster.http}/#{place}")


# Refusals that the page expects: requests before signing in, and the plan of a job that stopped
# waiting after the page last heard of it.
EXPECTED = re.compile(r"status of 401 |/v1/plan - Failed to load resource: the server responded with a status of 412 ")


def errors(browser):
    """What the browser complained about, expected refusals aside."""
    return [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE" and not EXPECTED.search(e["message"])]


def shot(browser, name):
    folder = os.environ.get("MUSTER_SCREENSHOTS")
    if folder:
        browser.save_screenshot(f"{folder}/{name}.png")


def gpt(cluster, *options):
    from localcluster import ROOT
    text = cluster.folder / "text.txt"
    text.write_text("In the beginning was the word, and the word was long. " * 2000)
    return [ROOT / "build/examples/gpt", "--data", text, "--layers", "1", "--heads", "2", "--width", "32",
            "--context", "32", "--batch", "4", *options]


def test_signing_in(browser, cluster):
    browser.get(f"http://{cluster.http}/")
    text_of(browser, "Sign in")
    refused = [entry for entry in cluster.rest("GET", "/v1/audit")[1].get("entries", []) if entry["result"] != "OK"]
    assert not refused, "a page that nobody has signed in to asks for nothing that is refused"
    field = browser.find_element(By.CSS_SELECTOR, "input[name=token]")
    field.send_keys("mst_admin_wrong")
    field.submit()
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, ".error").text)
    shot(browser, "login")
    field.clear()
    field.send_keys(cluster.token)
    field.submit()
    text_of(browser, "slots in use")
    cookie = wait(browser, lambda b: b.get_cookies())[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    browser.find_element(By.XPATH, "//button[text()='Sign out']").click()
    text_of(browser, "Paste an access token")


def test_the_cause_of_a_failure_comes_first_with_its_evidence(browser, cluster):
    job = cluster.submit("--name", "broken", "--restarts", "0", "--", "/bin/sh", "-c", f"echo 'a line {MARKUP}'; exit 5")
    cluster.wait_state(job, "failed")
    sign_in(browser, cluster)
    show(browser, cluster, "/jobs")
    text_of(browser, job)
    shot(browser, "jobs")
    browser.find_element(By.LINK_TEXT, job).click()
    cause = find(browser, ".cause")
    assert "exited with code 5" in cause.text and f"a line {MARKUP}" in cause.find_element(By.TAG_NAME, "pre").text
    wait(browser, lambda b: MARKUP in b.find_element(By.CSS_SELECTOR, ".log").text)
    assert not browser.find_elements(By.CSS_SELECTOR, "main img"), "output is text, never markup"
    assert cause.location["y"] < browser.find_element(By.CSS_SELECTOR, ".timeline").location["y"]
    shot(browser, "failed")
    assert not errors(browser)


def test_what_the_server_says_never_becomes_markup(browser, cluster):
    """Every text a view draws goes through h(): a job whose facts are all markup draws none."""
    sign_in(browser, cluster)
    drawn = browser.execute_async_script("""
        const done = arguments[1], evil = arguments[0];
        Promise.all(["dom", "tiles", "ranks", "cause", "ledger", "shares", "plan"].map((name) => import(`/${name}.js`))).then(
          ([dom, tiles, ranks, cause, ledger, shares, plan]) => {
            const place = document.createElement("div");
            dom.show(place, dom.table([evil], [[evil]], evil, evil), dom.state(evil), dom.jobLink(evil, evil),
              tiles.tile({ name: evil, state: evil, slots: 2, slots_used: 1, uses: [{ job: evil, name: evil, slots: 1 }] }),
              ranks.ranksTable([{ uid: 1, node: evil, state: evil, wait: { operation: evil, communicator: evil, ranks: [1] } }],
                { ranks: [{ numbers: { [evil]: evil, loss: evil } }] }), ranks.ranksNote({ slowest: { text: evil } }),
              cause.cause({ state: "failed", workers: [{ node: evil, exit: { code: 1, text: evil, last_output: evil } }] }, { reasons: [{ text: evil, hint: evil }] }),
              shares.shareBar({ name: evil, slots_used: 1 }, 4), plan.answerOf({ summary: evil, nodes: [evil], reasons: [{ text: evil }], effects: [{ name: evil, effect: evil }] }));
            done([place.querySelectorAll("img, script").length, place.textContent.split(evil).length - 1]);
          });""", MARKUP)
    assert drawn[0] == 0 and drawn[1] > 15


def test_a_refresh_keeps_focus_selection_and_what_was_typed(browser, cluster):
    sign_in(browser, cluster)
    kept = browser.execute_async_script("""
        const done = arguments[0];
        import("/dom.js").then(({ h, show, table }) => {
          const place = document.createElement("div");
          document.body.append(place);
          const rows = (list, step) => table(["Name", "Step"], list.map((name) => ({ key: name, cells: [h("a", { href: "#x" }, name), h("input", {}), step] })), "none");
          show(place, rows(["a", "b", "c"], "1"));
          const [link] = [...place.querySelectorAll("a")].filter((a) => a.textContent === "b");
          place.querySelectorAll("input")[1].value = "typed";
          link.focus();
          getSelection().selectAllChildren(link);
          show(place, rows(["new", "b", "c"], "2"));
          const row = link.closest("tr");
          const answer = [document.activeElement === link, String(getSelection()), row.querySelector("input").value, row.lastChild.textContent, place.querySelectorAll("tbody tr").length, place.querySelector("tbody").textContent];
          place.remove();
          done(answer);
        });""")
    assert kept == [True, "b", "typed", "2", 3, "new2b2c2"]


def test_jobs_that_run_together_have_colours_of_their_own_and_keep_them(browser, cluster):
    sign_in(browser, cluster)
    first, second, alone, many = browser.execute_async_script("""
        const done = arguments[0];
        import("/dom.js").then(({ colourJobs, jobColour }) => {
          const seen = (ids) => { colourJobs(ids); return ids.map(jobColour); };
          const answer = [seen(["j4", "j100004"]), seen(["j3", "j100004", "j4"]), seen(["j100004"]), seen(Array.from({ length: 9 }, (_, i) => `j${8 * i}`))];
          colourJobs([]);
          done(answer);
        });""")
    assert first == ["job-4", "job-5"] and second == ["job-3", "job-5", "job-4"]
    assert alone == ["job-5"] and len(set(many)) == 8


def test_a_live_loss_chart_timeline_and_ledger(browser, cluster):
    folder = cluster.folder / "checkpoints"
    spec = cluster.folder / "chart.json"
    command = [str(word) for word in gpt(cluster, "--steps", "600")]
    spec.write_text(json.dumps({"name": "chart", "command": command, "workers_per_node": 2, "checkpoint": {"dir": str(folder), "every": "200 steps"}}))
    job = cluster.submit(spec)
    sign_in(browser, cluster)
    show(browser, cluster, f"/jobs/{job}")
    data = "const c = Chart.getChart(document.querySelector('canvas')); return c && c.data.datasets[%d].data%s"
    wait(browser, lambda b: b.execute_script(data % (0, ".length")) > 10)
    points = browser.execute_script(data % (0, ""))
    assert [p["x"] for p in points] == sorted({p["x"] for p in points})
    smooth = browser.execute_script(data % (2, ""))
    assert len(smooth) >= len(points) and min(p["y"] for p in points) <= smooth[len(points) - 1]["y"] <= max(p["y"] for p in points)
    cluster.wait_state(job, "succeeded", seconds=60)
    text_of(browser, "succeeded")
    # As many as were written: one that falls due while another is being written waits for it.
    events = cluster.rest("GET", f"/v1/jobs/{job}/events")[1]["events"]
    saved = [e["reason"]["text"] for e in events if e["kind"] == "checkpoint"]
    assert saved and "step 600" in saved[-1], saved
    ticks = "return [...document.querySelectorAll('.tick')].map((tick) => tick.dataset.text.replace(/^.*, checkpoint: /, ''))"
    wait(browser, lambda b: b.execute_script(ticks) == saved)
    band = next(b for b in browser.find_elements(By.CSS_SELECTOR, ".band.running"))
    assert "generation 1 of 2 workers" in band.get_attribute("data-text")
    ledger = cluster.job(job)["ledger"]
    shown = wait(browser, lambda b: [p.get_attribute("title") for p in b.find_elements(By.CSS_SELECTOR, ".ledger .part")])
    parts = {k for k, v in ledger.items() if k not in ("total", "rework_steps") and v > 0}
    assert {title.split(":")[0] for title in shown} == parts
    browser.find_element(By.XPATH, "//label[contains(., 'log scale')]/input").click()
    assert browser.execute_script("return Chart.getChart(document.querySelector('canvas')).options.scales.y.type") == "logarithmic"
    shown = "return Chart.getChart(document.querySelector('canvas')).scales.rate.options.display"
    assert browser.execute_script(shown)
    shot(browser, "chart")
    # One that reports its loss only has no scale of tokens.
    report = f"{MUSTER} report step"
    job = cluster.submit("--", "sh", "-c", f"for i in 1 2 3; do {report} $i --loss $i; done; exec sleep 1000")
    show(browser, cluster, f"/jobs/{job}")
    wait(browser, lambda b: b.execute_script(data % (0, ".length")) == 3)
    assert not browser.execute_script(shown)
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=60)
    assert not errors(browser)


def test_the_output_is_bounded_filtered_and_followed(browser, cluster):
    job = cluster.submit("--name", "talks", "--restarts", "0", "--", "/bin/sh", "-c", "seq -f 'line %g' 1 5000; sleep 3600")
    cluster.wait_state(job, "running")
    sign_in(browser, cluster)
    show(browser, cluster, f"/jobs/{job}")
    log = find(browser, ".log")
    wait(browser, lambda b: "line 5000" in log.text)
    lines = browser.execute_script("return [arguments[0].childElementCount, arguments[0].scrollTop + arguments[0].clientHeight >= arguments[0].scrollHeight - 30]", log)
    assert lines[0] <= 2000 and lines[1]
    field = browser.find_element(By.CSS_SELECTOR, "input[aria-label='Filter the output by text']")
    field.send_keys("line 4999")
    wait(browser, lambda b: log.text.endswith("line 4999") and "\n" not in log.text)
    follow = browser.find_element(By.XPATH, "//button[text()='Follow']")
    follow.click()
    assert follow.get_attribute("aria-pressed") == "false"
    browser.find_element(By.XPATH, "//button[text()='Stacks']").click()
    wait(browser, lambda b: "none of these processes is known to be Python" in log.text)
    assert follow.get_attribute("aria-pressed") == "true" and not field.get_attribute("value")
    browser.find_element(By.XPATH, "//button[text()='Cancel job']").click()
    dialog = find(browser, "dialog")
    dialog.find_element(By.CSS_SELECTOR, "button.danger").click()
    cluster.wait_state(job, "cancelled")
    wait(browser, lambda b: not b.find_elements(By.TAG_NAME, "dialog"))
    assert not errors(browser)


def test_a_gang_that_stands_still_says_who_is_late(browser, cluster):
    spec = cluster.folder / "hang.json"
    spec.write_text(json.dumps({"name": "hang", "workers_per_node": 2, "command": [str(word) for word in gpt(cluster, "--steps", "1000000")]}))
    job = cluster.submit(spec)
    cluster.wait_state(job, "running")
    pid = next(int(w["pid"]) for w in cluster.job(job)["workers"] if int(w.get("rank") or 0) == 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        sign_in(browser, cluster)
        show(browser, cluster, f"/jobs/{job}")
        text_of(browser, "has not entered")
        late = find(browser, "tr.late")
        assert "others wait for it" in late.text
        shot(browser, "hang")
    finally:
        os.kill(pid, signal.SIGCONT)
        cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled")
    assert not errors(browser)


def test_the_overview_shows_slots_the_queue_and_why(browser, cluster):
    holds = cluster.submit("--name", "holds", "--workers-per-node", "3", "--", "sleep", "300")
    cluster.wait_state(holds, "running")
    waits = cluster.submit("--name", "waits", "--workers-per-node", "2", "--", "sleep", "300")
    sign_in(browser, cluster)
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, ".tile a.use .cell")) == 3)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".tile .cell.free")) == 1
    text_of(browser, "1 free")
    queue = find(browser, "section[aria-label=Queue]")
    wait(browser, lambda b: "waits" in queue.text and "unknown" in queue.text)
    assert "needs" in queue.text
    browser.execute_script("document.querySelector('.tile a.use').focus()")
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, ".tile li.pointed").text.startswith("holds"))
    assert browser.find_element(By.CSS_SELECTOR, ".tile a.use").get_attribute("aria-label") == "holds: 3 slots of node1"
    shot(browser, "overview")
    show(browser, cluster, f"/jobs/{waits}")
    text_of(browser, "Why it waits")
    wait(browser, lambda b: b.find_element(By.XPATH, "//button[starts-with(text(), 'What if')]")).click()
    dialog = find(browser, "dialog")
    dialog.find_element(By.CSS_SELECTOR, "select[name=like]").send_keys("node1")
    dialog.find_element(By.XPATH, ".//button[text()='Ask']").click()
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "dialog .answer").text)
    shot(browser, "plan")
    for job in (holds, waits):
        cluster.muster("cancel", job, check=True)
        cluster.wait_state(job, "cancelled")
    assert not errors(browser)


def test_nodes_and_events(browser, cluster):
    sign_in(browser, cluster)
    show(browser, cluster, "/nodes")
    wait(browser, lambda b: b.find_element(By.XPATH, "//button[text()='drain']")).click()
    assert "moves to other nodes" in find(browser, "dialog").text
    browser.find_element(By.XPATH, "//dialog//button[text()='Close']").click()
    browser.find_element(By.XPATH, "//button[text()='cordon']").click()
    find(browser, "dialog").find_element(By.XPATH, ".//button[text()='Cordon']").click()
    text_of(browser, "cordoned")
    nodes = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]
    assert nodes[0]["state"] == "cordoned"
    browser.find_element(By.XPATH, "//button[text()='uncordon']").click()
    text_of(browser, "ready")
    shot(browser, "nodes")
    show(browser, cluster, "/events")
    text_of(browser, "cordoned")
    find(browser, "input[type=search]").send_keys("an administrator")
    wait(browser, lambda b: all("cordon" in r.text or "ready" in r.text for r in b.find_elements(By.CSS_SELECTOR, "tbody tr")))
    assert not errors(browser)


def test_tenants_tokens_and_what_a_viewer_may(browser, cluster):
    sign_in(browser, cluster)
    show(browser, cluster, "/tenants")
    wait(browser, lambda b: b.find_element(By.XPATH, "//button[text()='New tenant']")).click()
    form = find(browser, "dialog form")
    form.find_element(By.NAME, "name").send_keys("vision")
    form.find_element(By.NAME, "guaranteed_slots").clear()
    form.find_element(By.NAME, "guaranteed_slots").send_keys("2")
    form.submit()
    wait(browser, lambda b: not b.find_elements(By.TAG_NAME, "dialog"))
    text_of(browser, "2 guaranteed")
    browser.find_element(By.XPATH, "//button[text()='New token']").click()
    form = find(browser, "dialog form")
    form.find_element(By.NAME, "name").send_keys("wall")
    form.find_element(By.NAME, "role").send_keys("viewer")
    form.find_element(By.NAME, "tenant").send_keys("vision")
    form.submit()
    token = wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, ".secret code").text)
    browser.find_element(By.XPATH, "//dialog//button[text()='Close']").click()
    find(browser, "button[aria-label='revoke wall']")
    shot(browser, "tenants")
    secret = cluster.submit("--name", "hidden", "--", "sleep", "300")
    cluster.wait_state(secret, "running")
    sign_in(browser, cluster, token)
    text_of(browser, "viewer of vision")
    tile = find(browser, ".tile")
    wait(browser, lambda b: "(another tenant's)" in tile.text)
    assert "hidden" not in browser.find_element(By.TAG_NAME, "body").text
    show(browser, cluster, "/tenants")
    text_of(browser, "Recent use")
    assert not browser.find_elements(By.XPATH, "//button[text()='New token' or text()='Edit quota']")
    show(browser, cluster, "/nodes")
    text_of(browser, "Details")
    assert not browser.find_elements(By.XPATH, "//button[text()='drain']")
    cluster.muster("cancel", secret, check=True)
    cluster.muster("token", "revoke", "wall", check=True)
    text_of(browser, "Paste an access token")
    assert not errors(browser)


def test_the_keyboard_reaches_every_view(browser, cluster):
    sign_in(browser, cluster)
    body = browser.find_element(By.TAG_NAME, "body")
    for key, title in (("n", "Nodes"), ("t", "Tenants"), ("s", "Secrets"), ("e", "Events"), ("j", "Jobs"), ("o", "Overview")):
        body.send_keys(key)
        wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "nav a[aria-current]").text == title)
        wait(browser, lambda b: b.execute_script("return document.querySelector('h1').textContent") == title)
    body.send_keys("?")
    assert "Overview" in find(browser, "dialog").text
    find(browser, "dialog").send_keys(Keys.ESCAPE)
    wait(browser, lambda b: not b.find_elements(By.TAG_NAME, "dialog"))


def test_narrow_screens_do_not_scroll_sideways(browser, cluster):
    sign_in(browser, cluster)
    job = cluster.submit("--name", "n" * 60, "--restarts", "0", "--", "/bin/sh", "-c", f"echo {'w' * 200}; exit 5")
    cluster.wait_state(job, "failed")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    try:
        for place, what in (("/", "slots in use"), ("/jobs", job), (f"/jobs/{job}", "Why it failed"), ("/nodes", "Details"), ("/tenants", "Tokens"), ("/secrets", "Secrets"), ("/events", "accepted")):
            show(browser, cluster, place)
            text_of(browser, what)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 360, place
            shot(browser, f"narrow{place.replace('/', '-')}")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_page_without_answers_says_since_when(browser, cluster):
    """Last: the coordinator is gone for a while."""
    sign_in(browser, cluster)
    text_of(browser, "slots in use")
    cluster.kill_coordinator()
    text_of(browser, "What you see is from")
    shot(browser, "stale")
    cluster.start_coordinator()
    wait(browser, lambda b: b.find_element(By.ID, "link").text.endswith("live"))


REQUESTS = "return performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/overview?')).length"


def test_a_change_is_heard_of_and_what_is_quiet_is_left_alone(browser, cluster):
    errors(browser)  # those of a coordinator that another test killed
    sign_in(browser, cluster)
    show(browser, cluster, "/")
    text_of(browser, "slots in use")
    wait(browser, lambda b: b.find_element(By.ID, "link").get_attribute("title") == "Changes are shown as they happen")
    # The page's clock stands still: what it asks for now, it has heard of.
    browser.execute_script("const now = Date.now(); Date.now = () => now; window.ticks = 0; setInterval(() => ticks++, 1000);")
    before = browser.execute_script(REQUESTS)
    wait(browser, lambda b: b.execute_script("return ticks") >= 6)
    assert browser.execute_script(REQUESTS) - before <= 4, "asked by the clock though the stream is open"
    job = cluster.submit("--name", "heard-of", "--", "sleep", "3600")
    text_of(browser, job)
    cluster.muster("cancel", job, check=True)
    assert not errors(browser)


def test_without_a_stream_it_asks_every_second(browser, cluster):
    errors(browser)
    # The page's timers that repeat are the test's: it sees how often they would fire, and fires them.
    source = "delete window.TextDecoderStream; window.timers = []; window.setInterval = (fire, every) => timers.push({ fire, every });"
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})["identifier"]
    try:
        browser.get("about:blank")
        sign_in(browser, cluster)
        show(browser, cluster, "/")
        text_of(browser, "slots in use")
        assert browser.find_element(By.ID, "link").get_attribute("title") == "Asks for changes every second"
        assert 1000 in browser.execute_script("return timers.map((timer) => timer.every)")
        fire = "for (const timer of timers) if (timer.every === 1000) timer.fire();"
        for _ in range(4):
            before = browser.execute_script(REQUESTS)
            browser.execute_script(fire)
            wait(browser, lambda b: b.execute_script(REQUESTS) == before + 1)
        job = cluster.submit("--name", "polled", "--", "/bin/true")
        browser.execute_script(fire)
        text_of(browser, job)
        assert not errors(browser)
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})


def test_the_audit_trail_is_for_administrators(browser, cluster):
    viewer = cluster.muster("token", "create", "onlooker", "--role", "viewer", "--tenant", "default", check=True).stdout.strip()
    marked = cluster.rest("POST", f"/v1/nodes/{quote(MARKUP, safe='')}:drain", {})
    assert marked[0] in (400, 404), marked
    errors(browser)
    sign_in(browser, cluster)
    browser.find_element(By.TAG_NAME, "body").send_keys("a")
    text_of(browser, "create token")
    assert "onlooker" in text_of(browser, "set node") and "not found" in browser.find_element(By.TAG_NAME, "main").text
    assert MARKUP in text_of(browser, MARKUP) and not browser.find_elements(By.CSS_SELECTOR, "main img")
    browser.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys("<img")
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 1)
    cells = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "main tbody tr td")]
    assert "admin" in cells[2] and "REST" in cells[3] and cells[4:6] == ["set node", MARKUP] and "not found" in cells[6], cells
    browser.find_element(By.CSS_SELECTOR, "input[type=search]").clear()
    browser.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys(" ")
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, "main tbody tr")) >= 2)
    numbers = [int(cell.text) for cell in browser.find_elements(By.CSS_SELECTOR, "main tbody tr td:first-child")]
    assert len(numbers) >= 2 and numbers == sorted(numbers, reverse=True), "newest first"
    token = cluster.muster("token", "create", "afterwards", "--role", "viewer", "--tenant", "default", check=True)
    text_of(browser, "afterwards")
    first = browser.find_element(By.CSS_SELECTOR, "main tbody tr").text
    assert "afterwards" in first and token.stdout.strip() not in browser.page_source, first
    node = cluster.rest("GET", "/v1/nodes")[1]["nodes"][0]["name"]
    for number in range(505):  # changes: refusals of a minute are one entry
        cluster.rest("POST", f"/v1/nodes/{node}:{'cordon' if number % 2 else 'uncordon'}", {"reason": f"turn {number}"})
    text_of(browser, "turn 504")
    assert len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 500, "the last 500"
    shot(browser, "audit")
    assert not errors(browser)
    sign_in(browser, cluster, viewer)
    assert not browser.find_element(By.CSS_SELECTOR, "nav [data-view=audit]").is_displayed()
    show(browser, cluster, "/audit")
    text_of(browser, "There is no such page")
