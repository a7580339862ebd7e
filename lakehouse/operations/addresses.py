"""The addresses of owners, consumers and the platform team, in one YAML file of the deployment.

``LAKEHOUSE_ADDRESSES`` names the file; without it, all messages go to ``LAKEHOUSE_ALERT_TARGETS``. The callers
(``operations.alerts``, ``operations.notices``) decide about messages and recipients; ``channels`` delivers them. docs/alerts.md
describes the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from lakehouse.contracts.base import Strict
from lakehouse.contracts.loader import load_model
from lakehouse.operations import channels
from lakehouse.settings import TargetAddress  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.operations.channels import Target
    from lakehouse.settings import Settings


class AddressFile(Strict):
    """The keys of the file."""

    owners: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By 'owner' of a contract.")
    consumers: dict[str, list[TargetAddress]] = Field(default_factory=dict, description="By name in 'consumers' of a metric.")
    platform: list[TargetAddress] | None = Field(None, description="Who runs the deployment; default: LAKEHOUSE_ALERT_TARGETS.")
    escalate_after: timedelta = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        description="How long an alert waits for its owner before the platform team gets it.",
    )


#: The names of a consumer's targets.
TargetsOf = Callable[[str], "Sequence[str]"]


@dataclass(frozen=True)
class Directory:
    """The targets of a deployment, by name, and the target names of owners, consumers and the platform team.

    :param platform: the target names of the platform team.
    :param escalate_after: None if all have the same addresses.
    """

    targets: Mapping[str, Target]
    platform: Sequence[str]
    owners: Mapping[str, Sequence[str]] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    escalate_after: timedelta | None = None

    @staticmethod
    def of(targets: Iterable[Target]) -> Directory:
        """A directory with the same targets for everybody."""
        by_name = {target.name: target for target in targets}
        return Directory(by_name, list(by_name))

    def of_owners(self, owners: Iterable[str]) -> list[str]:
        """The targets of ``owners``, without repetition; those of the platform team if no owner has an address."""
        names = dict.fromkeys(name for owner in owners for name in self.owners.get(owner, ()))
        return list(names or self.platform)

    def of_consumer(self, consumer: str) -> list[str]:
        """The targets of a consumer; those of the platform team if the consumer has no address."""
        return list(self.consumers.get(consumer) or self.platform)


def directory(settings: Settings, logger: logging.Logger | None = None) -> Directory:
    """The addresses of a deployment.

    :param logger: the logger of the target ``log``.
    :raises ContractError: if the file cannot be read, or has mistakes, each with its line and field.
    """
    if settings.addresses is None:
        return Directory.of(channels.targets(settings, logger))
    file = load_model(settings.addresses, AddressFile, "docs/alerts.md")
    by_name: dict[str, Target] = {}

    def names(addresses: Sequence[str]) -> list[str]:
        here = channels.targets(settings.model_copy(update={"alert_targets": [*addresses]}), logger)
        by_name.update({target.name: target for target in here})
        return [target.name for target in here]

    return Directory(
        by_name,
        names(settings.alert_targets if file.platform is None else file.platform),
        {owner: names(addresses) for owner, addresses in file.owners.items()},
        {consumer: names(addresses) for consumer, addresses in file.consumers.items()},
        file.escalate_after,
    )
