"""The page in a real browser: sign in, jobs, one job with its chart and output, nodes, events."""
import json
import os

from selenium.common.exceptions import NoAlertPresentException, NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

MARKUP = "<img src=x onerror=alert(1)>"


def text_of(browser, what, seconds=15):
    """Waits until the page's text holds `what`."""
    return WebDriverWait(browser, seconds).until(lambda b: what in (t := b.find_element(By.TAG_NAME, "body").text) and t)


def press(browser, words):
    """The button of these words; a refresh may put a new one in its place at any moment."""
    def pressed(b):
        b.find_element(By.XPATH, f"//button[text()='{words}']").click()
        return True
    WebDriverWait(browser, 15, ignored_exceptions=(NoSuchElementException, StaleElementReferenceException)).until(pressed)


def sign_in(browser, cluster):
    browser.get(f"http://{cluster.http}/")
    browser.delete_all_cookies()
    browser.get(f"http://{cluster.http}/#token={cluster.token}")
    browser.refresh()
    text_of(browser, "live")


def errors(browser):
    """What the browser complained about, refused requests before signing in aside."""
    return [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE" and "401" not in e["message"]]


def shot(browser, name):
    folder = os.environ.get("MUSTER_SCREENSHOTS")
    if folder:
        browser.save_screenshot(f"{folder}/{name}.png")


def test_signing_in(browser, cluster):
    browser.get(f"http://{cluster.http}/")
    text_of(browser, "Sign in")
    field = browser.find_element(By.CSS_SELECTOR, "input[name=token]")
    field.send_keys("mst_admin_wrong")
    field.submit()
    WebDriverWait(browser, 10).until(lambda b: b.find_element(By.CSS_SELECTOR, ".error").text)
    shot(browser, "login")
    field.clear()
    field.send_keys(cluster.token)
    field.submit()
    text_of(browser, "Jobs")
    cookie = WebDriverWait(browser, 10).until(lambda b: b.get_cookies())[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"


def test_a_job_with_its_output_and_reasons(browser, cluster):
    job = cluster.submit("--name", "shown", "--restarts", "0", "--", "/bin/sh", "-c", f"echo 'a line {MARKUP}'; exit 5")
    cluster.wait_state(job, "failed")
    sign_in(browser, cluster)
    text_of(browser, job)
    shot(browser, "jobs")
    browser.find_element(By.LINK_TEXT, job).click()
    page = text_of(browser, "a line")
    assert MARKUP in page, "output is text, never markup"
    assert "failed" in page
    reason = browser.find_element(By.CSS_SELECTOR, "p.reason").text
    assert "exited with code 5" in reason and f"muster logs {cluster.job(job)['id']} --rank 0" in reason, reason
    text_of(browser, "What happened")
    shot(browser, "job")
    assert not errors(browser)


def test_a_live_loss_chart(browser, cluster):
    from localcluster import ROOT
    text = cluster.folder / "text.txt"
    text.write_text("In the beginning was the word, and the word was long. " * 2000)
    job = cluster.submit("--name", "chart", "--", ROOT / "build/examples/gpt", "--data", text, "--layers", "1", "--heads", "2", "--width", "32",
                         "--context", "32", "--batch", "4", "--steps", "400")
    sign_in(browser, cluster)
    browser.get(f"http://{cluster.http}/#/jobs/{job}")
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(
        "const c = Chart.getChart(document.querySelector('canvas')); return c && c.data.datasets[0].data.length") > 10)
    points = browser.execute_script("return Chart.getChart(document.querySelector('canvas')).data.datasets[0].data")
    assert [p["x"] for p in points] == sorted({p["x"] for p in points})
    cluster.wait_state(job, "succeeded", seconds=60)
    text_of(browser, "succeeded")
    shot(browser, "chart")
    assert not errors(browser)


def test_nodes_and_events(browser, cluster):
    sign_in(browser, cluster)
    browser.get(f"http://{cluster.http}/#/nodes")
    text_of(browser, "node1")
    press(browser, "cordon")
    text_of(browser, "cordoned")
    nodes = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]
    assert nodes[0]["state"] == "cordoned"
    press(browser, "uncordon")
    text_of(browser, "ready")
    shot(browser, "nodes")
    browser.get(f"http://{cluster.http}/#/events")
    text_of(browser, "node")
    assert not errors(browser)


def test_a_waiting_job_says_why_and_what_if(browser, cluster):
    holder = cluster.submit("--name", "holder", "--slots", "3", "--max-runtime", "1h", "--", "sleep", "300")
    cluster.wait_state(holder, "running")
    job = cluster.submit("--name", "waits", "--slots", "4", "--", "sleep", "1")
    sign_in(browser, cluster)
    assert "at the latest" in text_of(browser, "starts by")
    browser.get(f"http://{cluster.http}/#/jobs/{job}")
    text_of(browser, "Why it waits")
    field = browser.find_element(By.CSS_SELECTOR, ".whatif input")
    field.clear()
    field.send_keys("2")
    field.submit()
    text_of(browser, "can never start here")
    field.clear()
    field.send_keys("1")
    field.submit()
    text_of(browser, "waits would wait")
    shot(browser, "whatif")
    browser.get(f"http://{cluster.http}/#/nodes")
    text_of(browser, "node1")
    press(browser, "drain")
    WebDriverWait(browser, 10, ignored_exceptions=(NoAlertPresentException,)).until(lambda b: b.switch_to.alert)
    assert "holder" in browser.switch_to.alert.text
    browser.switch_to.alert.dismiss()
    for one in (holder, job):
        cluster.muster("cancel", one, check=True)
        cluster.wait_state(one, "cancelled")
    assert json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"][0]["state"] == "ready"


def test_tenants_and_tokens(browser, cluster):
    sign_in(browser, cluster)
    browser.find_element(By.TAG_NAME, "body").send_keys("t")
    text_of(browser, "Make a token")
    tenant, token = browser.find_elements(By.CSS_SELECTOR, "form.small")
    tenant.find_element(By.NAME, "name").send_keys("vision")
    tenant.find_element(By.NAME, "limit").send_keys("6")
    tenant.submit()
    text_of(browser, "vision is set")
    token.find_element(By.NAME, "name").send_keys("ci")
    token.find_element(By.NAME, "tenant").send_keys("vision")
    token.submit()
    text_of(browser, "mst_member_")
    shot(browser, "tenants")
    text_of(browser, "revoke ci")
    press(browser, "revoke ci")
    WebDriverWait(browser, 10, ignored_exceptions=(NoAlertPresentException,)).until(lambda b: b.switch_to.alert).accept()
    text_of(browser, "revoked")
    token.find_element(By.NAME, "tenant").send_keys("x")
    token.submit()
    text_of(browser, "no tenant")
    browser.set_window_size(420, 900)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.set_window_size(1200, 1400)
    assert not [e for e in errors(browser) if "404" not in e and "412" not in e]  # what was refused above


def test_narrow_screens_do_not_scroll_sideways(browser, cluster):
    job = cluster.submit("--name", "n" * 60, "--", "/bin/echo", "w" * 200)
    cluster.wait_state(job, "succeeded")
    browser.set_window_size(420, 900)
    sign_in(browser, cluster)
    for place, sign in (("", job), (f"jobs/{job}", "What happened"), ("nodes", "node1"), ("events", job)):
        browser.get(f"http://{cluster.http}/#/{place}")
        text_of(browser, sign)
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), place
    shot(browser, "narrow")
    browser.set_window_size(1200, 1400)
