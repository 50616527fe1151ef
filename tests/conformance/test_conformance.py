"""Every public sampler, estimator, batching and model passes the suite that parts of third parties can run too.

    theta <- theta - h g(theta)

is the update of the part that stands for those of others here.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco import batches, conformance, estimators, models, recipe, samplers, simplex
from scirocco.counts import estimators as count_estimators

H = 1e-3
SAMPLERS = {
    "SGLD": sc.SGLD(H), "SGLD, schedule": sc.SGLD(sc.Decreasing(H)), "PSGLD": sc.PSGLD(H),
    "Barker": sc.Barker(H), "Barker, noise": sc.Barker(H, increments="normal", noise_estimate=sc.GradientNoise()),
    "SGHMC": sc.SGHMC(H, friction=5.0, inner_steps=2, resample_momentum=True), "SGNHT": sc.SGNHT(H, diffusion=5.0),
    "UnderdampedLangevin": sc.UnderdampedLangevin(H, friction=5.0), "Recipe": sc.Recipe(H, diffusion=1.0),
    "SMSUBU": sc.SMSUBU(H, friction=5.0),
    "Preconditioned": samplers.Preconditioned(
        sc.SGNHT(H, thermostats="matrix"), samplers.Scale(np.array([1, 2, 0.5]))
    ),
    "SGGMC": sc.SGGMC(H, friction=5.0, noise_estimate=sc.GradientNoise("diagonal")),
    "GeodesicSGNHT": sc.GeodesicSGNHT(H, diffusion=5.0, inner_steps=2), "GMC": sc.GMC(1e-2, leapfrog_steps=3),
    "NUTS": sc.NUTS(0.1, adaptation=4, doublings=3), "NUTS, dense": sc.NUTS(0.1, adaptation=4, dense=True, doublings=2),
    "Rescaled": samplers.Rescaled(sc.SGGMC(H, friction=5.0), {"a": np.full(1, 2, np.float32), "b": np.array(0.5, "f")}),
    "cyclical": sc.cyclical(sc.SGLD(H), period=10), "ZigZag": sc.ZigZag(0.2, lipschitz=np.array([200.0, 200.0, 400.0])),
}  # fmt: skip
BAD = {"temperature": -1.0, "friction": np.nan, "diffusion": -1.0, "inner_steps": 0, "integrator": "none", "alpha": 2.0,
       "increments": "long", "lipschitz": 0.0}  # fmt: skip
ESTIMATORS = {
    "Plain": sc.Plain(), "ControlVariate": sc.ControlVariate(), "second order": sc.ControlVariate(order=2),
    "SAGA": sc.SAGA(), "SVRG": sc.SVRG(7),
}  # fmt: skip
BATCHINGS = {
    "Shuffled": batches.Shuffled(), "RandomBlocks": batches.RandomBlocks(10),
    "WithReplacement": batches.WithReplacement(), "Weighted": batches.Weighted(np.linspace(1, 2, 60)),
    "Strata": batches.Strata(np.arange(60) % 3), "Sweeps": batches.Sweeps(),
    "Spread": batches.Spread(3),
}  # fmt: skip
SIMPLEX = {
    "SCIR": sc.SCIR(0.1), "SCIRCV": sc.SCIRCV(0.1), "SGRLD": sc.SGRLD(1e-3),
    "Natural": simplex.Natural(sc.SGLD(1e-3)), "Exact": simplex.Exact(),
}  # fmt: skip
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(120, 2))
UNIT = np.eye(4)[np.arange(60) % 2] + 0.2 * np.random.default_rng(1).normal(size=(60, 4))
UNIT = (UNIT / np.linalg.norm(UNIT, axis=1, keepdims=True)).astype(np.float32)
NATURAL, CENTRED = simplex.Natural(sc.SGLD(1e-3)), sc.SCIRCV(0.1, recentre_every=3, centre_from="seen")
COUNT_ESTIMATORS = {
    "PlainCounts": (count_estimators.PlainCounts(), sc.SCIR(0.1)),
    "CentredCounts": (count_estimators.CentredCounts(CENTRED), CENTRED),
    "ControlVariateCounts": (count_estimators.ControlVariateCounts(), NATURAL),
    "SAGACounts": (count_estimators.SAGACounts(), NATURAL),
}  # fmt: skip
QUICK = {"n_draws": 20, "burn_in": 10, "thin": 1, "random_state": 0}
MODELS = {
    "LDA": (sc.LDA(3, max_iter=8, n_chains=2, random_state=0), (RNG.poisson(0.4, (60, 30)),)),
    "LogisticRegression": (sc.LogisticRegression(**QUICK), (ROWS, ROWS[:, 0] > 0)),
    "DirichletProcessMixture": (sc.DirichletProcessMixture(max_iter=20, random_state=0), (RNG.poisson(0.4, (60, 30)),)),
    "GaussianMixture": (sc.GaussianMixture(**QUICK), (ROWS,)),
    "BayesianPCA": (sc.BayesianPCA(1, **QUICK), (UNIT,)),
    "SphericalAdmixture": (sc.SphericalAdmixture(2, **QUICK), (UNIT,)),
    "VonMisesFisherMixture": (sc.VonMisesFisherMixture(2, **QUICK), (UNIT,)),
    "MatrixFactorization": (sc.MatrixFactorization(2, **QUICK), (RNG.integers(9, size=(200, 2)), RNG.normal(size=200))),
    "NeuralNetworkClassifier": (sc.NeuralNetworkClassifier(4, **QUICK), (ROWS, ROWS[:, 0] > 0)),
    "NeuralNetworkRegressor": (sc.NeuralNetworkRegressor(4, **QUICK), (ROWS, ROWS[:, 0])),
}
OFTEN = ("LDA", "LogisticRegression")


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers(name):
    conformance.check_sampler(SAMPLERS[name], bad=BAD)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name):
    conformance.check_estimator(ESTIMATORS[name])


@pytest.mark.parametrize("name", BATCHINGS)
def test_batchings(name):
    conformance.check_batching(BATCHINGS[name])


@pytest.mark.parametrize("name", SIMPLEX)
def test_simplex_samplers(name):
    conformance.check_simplex_sampler(SIMPLEX[name], resumes=name != "Exact", bad={"step_size": -1.0})


@pytest.mark.parametrize("name", COUNT_ESTIMATORS)
def test_count_estimators(name):
    estimator, sampler = COUNT_ESTIMATORS[name]
    conformance.check_count_estimator(estimator, sampler)


@pytest.mark.quick
@pytest.mark.parametrize("name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_models(name):
    model, data = MODELS[name]
    conformance.check_model(model, *data)


def test_no_public_part_is_missing():
    def public(module, base):
        kinds = [getattr(module, name) for name in module.__all__]
        return {k for k in kinds if isinstance(k, type) and issubclass(k, base) and k is not base}

    for parts, modules, base in (
        (SAMPLERS, (samplers, recipe), samplers.Sampler), (ESTIMATORS, (estimators,), estimators.Estimator),
        (BATCHINGS, (batches,), batches.Batching), (SIMPLEX, (simplex,), simplex.SimplexSampler),
    ):  # fmt: skip
        tried = {type(part) for part in parts.values()}
        assert set().union(*(public(module, base) for module in modules)) - {batches.Tours} <= tried
    tried = {type(estimator) for estimator, _ in COUNT_ESTIMATORS.values()}
    assert public(count_estimators, count_estimators.CountEstimator) == tried
    classes = {name for name in models.__all__ if isinstance(getattr(models, name), type)}
    classes -= {"TfIdf"}  # which has nothing to sample
    assert {type(model).__name__ for model, _ in MODELS.values()} == classes


@pytest.mark.parametrize("name", [*SAMPLERS, *SIMPLEX])
def test_settings_of_samplers_come_by_keyword(name):
    """The step size, or the sampler inside with its scale, may come without a name; nothing else may."""
    fields = dataclasses.fields({**SAMPLERS, **SIMPLEX}[name])
    first = {"sampler", "scale"} if any(field.name == "sampler" for field in fields) else {"step_size"}
    assert all(field.kw_only == (field.name not in first) for field in fields)


@pytest.mark.parametrize(
    ("base", "missing"),
    [
        (samplers.Sampler, "init"), (samplers.Sampler, "step"), (samplers.base.GeodesicSampler, "step"),
        (estimators.Estimator, "estimate"), (estimators.base.StochasticEstimator, "estimate"),
        (batches.Batching, "bind"), (batches.draws.Draw, "draw"), (simplex.SimplexSampler, "step"),
        (sc.manifolds.Manifold, "flow"),
    ],
)  # fmt: skip
def test_bases_are_abstract(base, missing):
    kind = type("Unfinished", (base,), {})
    with pytest.raises(TypeError, match=rf"abstract.*\b{missing}\b"):
        kind()


def test_a_stochastic_estimator_is_given_keys_of_its_own():
    @dataclasses.dataclass(frozen=True)
    class Shaken(estimators.base.StochasticEstimator):
        size: float = 1.0

        def estimate(self, target, state, position, held, batch, key=None):
            exact = target.potential_gradient(position, held, batch)
            return jax.tree.map(lambda g: g + self.size * jax.random.normal(key, g.shape), exact), state

    shaken = conformance.kernel(conformance.TARGET, sc.SGLD(H), batch_size=60, estimator=Shaken())
    state = shaken.init(jax.random.key(0), conformance.START)
    batch = shaken.draw.fresh(jax.random.key(0), shaken.data_at(0))
    first, again, other = (
        shaken.program.estimate(jax.random.key(k), (), state.position, {}, batch)[0] for k in (1, 1, 2)
    )
    assert np.array_equal(first["a"], again["a"])
    assert not np.array_equal(first["a"], other["a"])


# A part of a third party, and parts that must not pass.


@dataclasses.dataclass(frozen=True)
class Mine(sc.samplers.Sampler):
    """Gradient descent with noise, as in CONTRIBUTING.

    >>> Mine(0.1).temperature
    1.0
    """

    step_size: float
    temperature: float = 1.0

    def __post_init__(self):
        sc.samplers.base.require_step_size(self.step_size)

    def init(self, key, position):
        del key
        return sc.samplers.sgld.SGLDState(position, jnp.int32(0))

    def step(self, key, state, gradient):
        g = gradient(state.position)
        new = jax.tree.map(lambda x, g: (x - self.step_size * g).astype(x.dtype), state.position, g)
        return state._replace(position=new, step=state.step + 1), sc.samplers.base.info(self.step_size, g)


def test_a_part_of_ones_own_passes():
    conformance.check_sampler(Mine(1e-3))


def test_parts_that_do_not_conform_are_found():
    class Growing(Mine):
        def step(self, key, state, gradient):
            state, info = super().step(key, state, gradient)
            return state._replace(step=state.step.astype(jnp.float32)), info

    class Careless(Mine):
        def __post_init__(self):
            """Anything goes."""

    with pytest.raises(AssertionError, match=r"step_size=-1\.0 must be refused"):
        conformance.check_sampler(Careless(1e-3))
    with pytest.raises(AssertionError, match="must keep the shapes and dtypes"):
        conformance.check_sampler(Growing(1e-3))
    with pytest.raises(AssertionError, match="must inherit"):
        conformance.check_estimator(sc.SGLD(1e-3))
