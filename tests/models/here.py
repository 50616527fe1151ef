"""What tests of shards share: rounds without a cluster, and what happens to shards in some round."""

import os
import signal


class Here:
    """As ``run.rounds.Rounds``, over shards in this process and in memory."""

    def __init__(self, shards):
        self.shards, self.round = shards, 0

    def __call__(self, message):
        self.round += 1
        return [shard.advance(self.round, message) for shard in self.shards]


def in_round(monkeypatch, kind, number, do):
    """Do something when a shard begins that round for the first time."""
    advance, done = kind.advance, []

    def advancing(self, round_number, message):
        if round_number == number and not done:
            done.append(number)
            do()
        return advance(self, round_number, message)

    monkeypatch.setattr(kind, "advance", advancing)


def armed(kind, number, marker):
    """In a worker: the first that begins that round dies of it."""
    advance = kind.advance

    def advancing(self, round_number, message):
        if round_number == number:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return advance(self, round_number, message)

    kind.advance = advancing
