"""The registry of seed purposes: every stream of random numbers of the library has a line here, and no two the same.

A stream is named by the user's seed, a purpose, and what else tells it from others of its purpose (the chain, the
epoch).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream of random numbers is for."""

    # Data and minibatches.
    BLOCK_WAVES = 101  # of the groups of a file
    BLOCK_ROWS = 102  # within a block
    BLOCK_PIECES = 103  # of a wave
    SEARCH_ROWS = 104  # of passes before a run
    MEMORY_ORDER = 105  # of data in memory
    SHUFFLE_BINS = 106  # of ``shuffle_to``
    SHUFFLE_ROWS = 107
    TOURS = 108  # of chains between shards
    TOUR_POINTS = 110  # shards on which gradients are taken at the end
    SHARD_ORDER = 109  # of the rows of a shard
    # The gradient engine.
    CHAIN_INIT = 201
    CHAIN_STEP = 202
    CHAIN_START = 203
    CHAIN_PROBE = 204
    POWER_START = 205
    BENDING = 206  # places at which third derivatives are taken
    # Tuning.
    NOISE_DRAWS = 301  # of the normal law, at which gradient noise is measured
    NOISE_BATCHES = 302
    STRATA_DRAWS = 303
    SEARCH_CHAINS = 304
    CURVATURE_SIGNS = 305
    LIPSCHITZ_START = 306
    BOUNDARY_DRAWS = 307
    TRIAL_STARTS = 308
    OTHER_MODES = 309
    NORMAL_CHAINS = 310  # of the sampler on a normal law, for its autocorrelation
    BOUND_PLACES = 311  # at which bounds of gradients are tried
    # Counts.
    MINIBATCH_ROWS = 401
    MINIBATCH_EPOCH = 402
    MINIBATCH_LARGER = 403
    DIRICHLET_WEIGHTS = 404
    DIFFUSION_MINIBATCH = 405
    # Topics.
    SEARCH_START = 501
    SEARCH_SWEEPS = 513
    SEARCH_ORDER = 514
    TRANSFORM_WEIGHTS = 515
    EFFECTS = 516
    HELD_OUT = 517
    MODEL_UPDATE = 518
    GROUP_SHARES = 519
    DOCUMENT_ORDER = 502
    DOCUMENT_BLOCK = 503
    KEPT_SWEEPS = 505
    RESIDENT_TOPICS = 504
    RESIDENT_START = 520  # of a shard
    RESIDENT_SWEEPS = 509
    STREAM_SWEEPS = 506
    STREAM_START = 507
    STREAM_WEIGHTS = 508
    STREAM_SURVEY = 510
    TRANSFORM_SWEEPS = 511
    LEFT_TO_RIGHT = 512
    # Principal components.
    TURNED_COLUMNS = 550
    # Partitions.
    POINT_PARTITION = 601
    # Shards.
    COMBINE = 801
    CERTIFICATE = 802
    # Predictions.
    PREDICTIONS = 803
    # Calibration.
    CALIBRATION_TRUTHS = 901
    CALIBRATION_DATA = 902
    CALIBRATION_REPEAT = 903  # where its chains start, their seed, ranks among equals
    # Mixtures.
    MIXTURE_ORDER = 701
    MIXTURE_SWEEPS = 702
    MIXTURE_MOVES = 703
    MIXTURE_PRIORS = 704
    MIXTURE_SEARCH = 705
    MIXTURE_WEIGHTS = 706
    MIXTURE_STICKS = 707
    MIXTURE_COMPONENTS = 708
    MIXTURE_SAMPLE = 709
    MIXTURE_RESIDENT = 710  # of a chain whose rows are on workers
    MIXTURE_SHARDS = 711


def generator(seed: int, purpose: Purpose, *path: int) -> np.random.Generator:
    """NumPy's generator of a stream."""
    return np.random.default_rng(_sequence(seed, purpose, *path))


def make_key(seed: int, *path: int) -> np.ndarray:
    """The key of a seed and a path for Numba."""
    # The length is part of it: a sequence of seeds does not tell trailing zeros from nothing.
    return np.random.SeedSequence([seed, len(path), *path]).generate_state(4, np.uint64)


def stream_key(seed: int, purpose: Purpose, *path: int) -> np.ndarray:
    """The key of a stream for Numba."""
    return make_key(seed, int(purpose), *path)


def key_words(seed: int, purpose: Purpose, *path: int) -> np.ndarray:
    """The two words of a key for JAX."""
    return _sequence(seed, purpose, *path).generate_state(2, np.uint32)


def _sequence(seed: int, purpose: Purpose, *path: int) -> np.random.SeedSequence:
    # The length is part of it: a sequence does not tell trailing zeros from nothing.
    return np.random.SeedSequence([seed, int(purpose), len(path), *path])
