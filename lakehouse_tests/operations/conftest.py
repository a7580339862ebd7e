"""Fixtures of an empty deployment."""

from lakehouse_tests.support.empty_deployment import _instance, _lake

__all__ = ["_instance", "_lake"]
