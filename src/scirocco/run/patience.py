"""How long trouble is waited for that may pass: storage that fails for a while, workers that show no sign."""

from __future__ import annotations

import errno
import time
import warnings

PATIENCE = 120.0  # seconds
FIRST_PAUSE = 1.0  # seconds, each pause twice that before
PASSING = {
    errno.EAGAIN, errno.EBUSY, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EDQUOT, errno.EHOSTDOWN,
    errno.EHOSTUNREACH, errno.EIO, errno.ENETDOWN, errno.ENETUNREACH, errno.ENOLCK, errno.ENOSPC, errno.ESTALE,
    errno.ETIMEDOUT,
}  # fmt: skip


class Pauses:
    """Before the next tries of something that storage has failed."""

    def __init__(self) -> None:
        self._length, self._total, self._last = FIRST_PAUSE, 0.0, time.perf_counter()

    def after(self, error: BaseException, what: str) -> float | None:
        """Seconds to wait after this error; None if it is not of a kind that passes, or patience is at its end."""
        if not (isinstance(error, OSError) and error.errno in PASSING):
            return None
        now = time.perf_counter()
        if now - self._last > 2 * PATIENCE:  # other trouble
            self._length, self._total = FIRST_PAUSE, 0.0
        self._last = now
        pause = min(self._length, PATIENCE - self._total)
        if pause <= 0:
            return None
        self._length, self._total = 2 * self._length, self._total + pause
        warnings.warn(f"{what}: {error}; tried again after {pause:g} s", stacklevel=2)
        return pause
