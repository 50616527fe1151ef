"""Rounds over shards in this process and in memory."""


class Here:
    """As ``run.rounds.Rounds``, for tests of laws."""

    def __init__(self, shards):
        self.shards, self.round = shards, 0

    def __call__(self, message):
        self.round += 1
        return [shard.advance(self.round, message) for shard in self.shards]
