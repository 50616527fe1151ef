"""Parts by name: what is not there is told from what is there and lacks something."""

import sys

import pytest

from scirocco.core.parts import part_named
from scirocco.run.group import Group


@pytest.mark.parametrize("name", ["scirocco.samplers.nothing:Nothing", "scirocco.nowhere.nothing:Nothing"])
def test_a_part_that_this_version_does_not_have(name):
    with pytest.raises(ValueError, match="this version of scirocco has no part"):
        part_named(name)


@pytest.mark.parametrize("name", ["os:system", "mine:Sampler", f"{Group.__module__}:Group"])
def test_nothing_is_made_that_did_not_register(name):
    with pytest.raises(ValueError, match="is not known: import the module that defines it first"):
        part_named(name)


def test_a_part_that_lacks_a_library_says_which(monkeypatch):
    monkeypatch.delitem(sys.modules, "scirocco.run.folder")
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(ModuleNotFoundError, match="filelock"):
        part_named("scirocco.run.folder:Missing")
