"""Secrets on the page: names, times and the jobs that name them; set, replaced and removed; never a value."""
import hashlib
import json

from selenium.webdriver.common.by import By

from test_page import errors, find, shot, show, sign_in, text_of, wait
from test_truth import size

VALUE = "-----BEGIN-----\nzq7-not-to-be-seen\n-----END-----"
OTHER = "zq8-not-to-be-seen-either"


def row(browser, name):
    """Its cells by their titles; None while it is not there."""
    rows = browser.execute_script("""
        return [...document.querySelectorAll("main tbody tr")].map((row) => Object.fromEntries([...row.children].map((cell) => [cell.dataset.title, cell.innerText.trim()])));""")
    return next((cells for cells in rows if cells["Name"] == name), None)


def click(browser, text):
    wait(browser, lambda b: b.find_element(By.XPATH, f"//button[text()='{text}']")).click()


def fill(browser, name, value, tenant=None):
    form = find(browser, "dialog form")
    if name:
        form.find_element(By.NAME, "name").send_keys(name)
    if tenant:
        form.find_element(By.NAME, "tenant").send_keys(tenant)
    form.find_element(By.NAME, "value").send_keys(value)
    return form


def closed(browser):
    return wait(browser, lambda b: not b.find_elements(By.TAG_NAME, "dialog"))


def told(cluster):
    """What the command line lists, by name."""
    return {s["name"]: s for s in json.loads(cluster.muster("secret", "list", "-o", "json", check=True).stdout).get("secrets", [])}


def sum_of(cluster, job):
    """The value that its worker had, which output would show as ***."""
    cluster.wait_state(job, "succeeded")
    return cluster.output(job).split()[0]


def test_a_secret_is_set_named_by_jobs_replaced_and_removed(browser, cluster):
    sign_in(browser, cluster)
    show(browser, cluster, "/secrets")
    text_of(browser, "No secrets yet")
    click(browser, "New secret")
    form = fill(browser, "wandb", VALUE + "\n", "default")
    dots = "return getComputedStyle(document.querySelector('dialog textarea')).webkitTextSecurity"
    assert browser.execute_script(dots) == "disc"
    shot(browser, "secret-new")
    form.submit()
    closed(browser)
    cells = wait(browser, lambda b: row(b, "wandb"))
    assert cells["Tenant"] == "default" and cells["Changed"].endswith("by admin") and (cells["Named by"], cells["Used"]) == ("none", "never"), cells
    job = cluster.submit("--name", "reads", "--secret", "KEY=wandb", "--secret", "AGAIN=wandb", "--", "/bin/sh", "-c", 'printf %s "$KEY" | sha256sum')
    assert sum_of(cluster, job) == hashlib.sha256(VALUE.encode()).hexdigest(), "all lines, without the last line end"

    stays = cluster.submit("--name", "stays", "--secret", "KEY=wandb", "--secret", "AGAIN=wandb", "--", "sleep", "3600")
    cluster.muster("scale", stays, "1..2", check=True)
    wait(browser, lambda b: stays in row(b, "wandb")["Named by"])
    assert "stays" in row(browser, "wandb")["Named by"] and job not in row(browser, "wandb")["Named by"], "of jobs that have not ended"
    assert told(cluster)["wandb"]["jobs"] == [{"job": stays, "name": "stays"}] and told(cluster)["wandb"]["jobs_count"] == 1
    wait(browser, lambda b: row(b, "wandb")["Used"] != "never")
    shot(browser, "secrets")

    click(browser, "New secret")
    fill(browser, "wandb", OTHER).submit()
    text_of(browser, "replace it in the list")
    click(browser, "Close")
    closed(browser)
    before = told(cluster)["wandb"]["changed_wall_ms"]
    find(browser, "button[aria-label='replace wandb of default']").click()
    fill(browser, None, OTHER).submit()
    closed(browser)
    assert told(cluster)["wandb"]["changed_wall_ms"] > before
    after = cluster.submit("--secret", "KEY=wandb", "--", "/bin/sh", "-c", 'printf %s "$KEY" | sha256sum')
    assert sum_of(cluster, after) == hashlib.sha256(OTHER.encode()).hexdigest()

    find(browser, "button[aria-label='remove wandb of default']").click()
    said = find(browser, "dialog").text
    assert "1 job that has not ended names it" in said and stays in said, said
    find(browser, "dialog button.danger").click()
    closed(browser)
    text_of(browser, "No secrets yet")
    assert not told(cluster)
    show(browser, cluster, "/audit")
    assert "default/wandb" in text_of(browser, "remove secret")
    for value in (VALUE.split("\n")[1], OTHER):
        assert value not in browser.page_source
    cluster.muster("cancel", stays, check=True)
    assert not errors(browser)


def test_members_set_their_own_and_viewers_see_names(browser, cluster):
    cluster.muster("tenant", "create", "vision", check=True)
    member, viewer = (cluster.muster("token", "create", f"{role}-s", "--role", role, "--tenant", "vision", check=True).stdout.strip() for role in ("member", "viewer"))
    cluster.muster("secret", "set", "theirs", check=True, input=OTHER)
    sign_in(browser, cluster, member)
    show(browser, cluster, "/secrets")
    text_of(browser, "No secrets yet")
    click(browser, "New secret")
    assert not find(browser, "dialog form").find_elements(By.NAME, "tenant")
    fill(browser, "hf", OTHER).submit()
    closed(browser)
    assert wait(browser, lambda b: row(b, "hf"))["Tenant"] == "vision" and not row(browser, "theirs")
    for n in range(10):
        cluster.submit("--tenant", "vision", "--name", f"waits-{n}-{'x' * 50}", "--secret", "HF_TOKEN=hf", "--slots", "4", "--", "sleep", "3600")
    wait(browser, lambda b: row(b, "hf")["Named by"].endswith("and 2 more"))
    size(browser, 360)
    try:
        fits = "return [...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth)"
        assert browser.execute_script("return innerWidth") == 360 and browser.execute_script(fits), "long names are cut"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    find(browser, "input[type=search]").send_keys("waits-3")
    wait(browser, lambda b: row(b, "hf"))
    find(browser, "input[type=search]").send_keys("-none")
    text_of(browser, "No secret has that in it")
    sign_in(browser, cluster, viewer)
    show(browser, cluster, "/secrets")
    wait(browser, lambda b: row(b, "hf"))
    assert not row(browser, "theirs")
    assert not browser.find_elements(By.XPATH, "//main//button"), "a viewer changes nothing"
    for job in cluster.rest("GET", "/v1/jobs?tenant=vision&state=active")[1]["jobs"]:
        cluster.rest("POST", f"/v1/jobs/{job['id']}:cancel", {})
    assert not errors(browser)


def test_secrets_whose_key_is_not_here_say_so(browser, cluster):
    """Last: the coordinator is started without its file of keys."""
    cluster.muster("secret", "set", "sealed", check=True, input=OTHER)
    sign_in(browser, cluster)
    show(browser, cluster, "/secrets")
    wait(browser, lambda b: row(b, "sealed"))
    cluster.kill_coordinator()
    key = cluster.data / "secrets.key"
    key.rename(cluster.data / "kept.key")
    cluster.start_coordinator()
    wait(browser, lambda b: "its key is not here" in row(b, "sealed")["Changed"])
    lost = sum(bool(s["lost"]) for s in told(cluster).values())
    assert f"{lost} secrets cannot be opened" in find(browser, ".cause.bad").text
    shot(browser, "secrets-lost")
    (cluster.data / "kept.key").rename(key)
    wait(browser, lambda b: not b.find_elements(By.CSS_SELECTOR, ".cause.bad"))
    errors(browser)
