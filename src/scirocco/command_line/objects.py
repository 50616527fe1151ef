"""``module:name``: an object of the user's own code, imported from the current folder."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from scirocco.command_line.outcome import WrongCall

FORM = "module:name, such as model:target for the name target of model.py"


def module_named(given: str) -> Any:
    """The module of ``module:name``."""
    module = given.partition(":")[0].removesuffix(".py")
    if not module or not all(part.isidentifier() for part in module.split(".")):
        raise WrongCall(f"{given!r} is not {FORM}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise WrongCall(f"there is no module {module} in the current folder or among the installed ones")
    return importlib.import_module(module)


def object_named(given: str) -> Any:
    """What ``module:name`` stands for."""
    module, name = module_named(given), given.partition(":")[2]
    if not name.isidentifier():
        raise WrongCall(f"{given!r} is not {FORM}")
    if not hasattr(module, name):
        own = [n for n, v in vars(module).items() if not n.startswith("_") and not isinstance(v, type(sys))]
        has = f"it has {', '.join(own[:10])}" if own else "it has no names"
        raise WrongCall(f"{module.__name__} has no {name!r}: {has}")
    return getattr(module, name)
