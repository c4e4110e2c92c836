"""A cluster and a real browser (Debian's chromium) for the tests of the page."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import Cluster  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("w")) as made:
        made.start_coordinator()
        made.start_agent("node1", "--slots", "4", "--cpus", "4")
        made.wait_nodes(1)
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if webdriver is None or not Path("/usr/bin/chromium").exists():
        pytest.skip("chromium, chromium-driver or python3-selenium is not installed")
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1200,1400",
                 f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    yield driver
    driver.quit()
