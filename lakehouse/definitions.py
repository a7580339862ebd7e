"""The Dagster entry point: loads the contracts and builds the definitions from them, with ``build_definitions``."""

from lakehouse.contracts import load_catalog
from lakehouse.orchestration.build import build_definitions
from lakehouse.settings import Settings

settings = Settings()
catalog = load_catalog(settings.contracts, bundled=settings.bundled_contracts)
defs = build_definitions(settings, catalog)
