"""The Dagster entry point: loads the contracts and builds the definitions from them, with ``build.code_location``."""

import logging

from lakehouse.contracts.loader import load_catalog, with_examples
from lakehouse.orchestration.build import code_location
from lakehouse.settings import Settings

settings = Settings()
bundled = with_examples(settings)
if bundled and not settings.bundled_contracts:
    logging.getLogger(__name__).warning(
        "The example contracts are loaded, because there are no others in %s, or one needs them. "
        "The next release will load them only with LAKEHOUSE_BUNDLED_CONTRACTS=true.",
        settings.contracts,
    )
catalog = load_catalog(settings.contracts, bundled=bundled)
defs = code_location(settings, catalog, __name__)
