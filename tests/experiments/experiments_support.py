"""What the tests of experiments share besides the fixtures of ``conftest.py``."""


def holds(claims, words):
    """Whether the one claim that starts with ``words`` holds."""
    (claim,) = (claim for claim in claims if claim.claim.startswith(words))
    return claim.holds
