"""Makes the pictures of MLflow in ``docs/models.md``: ``python docs/screenshots_mlflow.py``. Needs Chromium."""

from __future__ import annotations

import base64
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow import MlflowClient
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from lakehouse.models import promotion
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.browser import chromium, set_viewport
from lakehouse_tests.support.mlflow_server import mlflow_server
from lakehouse_tests.support.trained_lake import CATALOG, MODEL

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).parent / "images"
SIZE = (1280, 860)
#: The page without the panel of MLflow's assistant at its right.
PAGE = {"x": 0, "y": 0, "width": 950, "height": 860, "scale": 1}


def main() -> None:
    """Train two versions, promote both, and look at them."""
    with tempfile.TemporaryDirectory() as folder:
        lake = trained_lake.settings_of(Path(folder))
        trained_lake.fill(lake)
        trained_lake.train(lake, "v2.3")
        release = trained_lake.train(lake, "v2.4", "v5.1", parameters={"strength": 0.5}, notes="learns from the corrected labels")
        for version in ("v2.3", "v2.4"):
            promotion.promote(lake, CATALOG, MODEL, version, by="ana", notes="better", sign_off="a picture")
        with mlflow_server(Path(lake.root) / "mlflow") as address, chromium() as driver:
            set_viewport(driver, SIZE)
            experiment = MlflowClient(address, address).get_experiment_by_name("fraud").experiment_id
            run = release.about["mlflow"]["run_id"]
            _picture(driver, f"{address}/#/experiments/{experiment}/runs/{run}", "training_data_v5.1", "mlflow-run.png")
            _picture(driver, f"{address}/#/models/fraud", "champion", "mlflow-model.png")


def _picture(driver: Chrome, address: str, text: str, name: str) -> None:
    """A picture of a page once it shows a text."""
    driver.get(address)
    try:
        WebDriverWait(driver, 120).until(lambda page: text in page.find_element(By.TAG_NAME, "body").text)
    finally:
        time.sleep(2)  # numbers and marks come after the text
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": PAGE})
        (IMAGES / name).write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
