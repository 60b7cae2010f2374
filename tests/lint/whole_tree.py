"""The lints that take minutes for the whole repository: tests/run --long, as a suite of its own."""

import pathlib

import pytest

import headers
import tidy

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("lint", [headers, tidy], ids=lambda lint: lint.__name__)
def test_the_repository_is_clean(lint):
    found = lint.check(ROOT)
    assert not found, "\n" + "\n".join(found)
