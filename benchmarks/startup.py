"""Import time, and the time from ``import scirocco`` to the first draw, each in fresh processes.

    python benchmarks/startup.py

The limit for ``import scirocco`` is 0.5 s. The first draw is that of a logistic regression with 10,000 x 20 made on the
spot, one chain; beside it the same with a loop written by hand in plain JAX, whose import and compilation are the
limit.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import textwrap

ROUNDS = 5

SNIPPETS = {
    "import jax": "import jax",
    "import scirocco": "import scirocco",
    "first draw, by hand": """
        import jax, jax.numpy as jnp, numpy as np
        rng = np.random.default_rng(0)
        x = jnp.asarray(rng.normal(size=(10_000, 20)), jnp.float32)
        y = jnp.asarray(rng.random(10_000) < 0.5, jnp.float32)
        def potential(w, x, y):
            z = jax.vmap(lambda r: r @ w)(x)
            return 0.5 * jnp.sum(w**2) - 100 * jnp.sum(y * z - jax.nn.softplus(z))
        @jax.jit
        def loop(w, x, y, key):
            def step(w, t):
                s = jax.random.randint(jax.random.fold_in(key, t), (), 0, 100) * 100
                rows = [jax.lax.dynamic_slice_in_dim(a, s, 100) for a in (x, y)]
                g = jax.grad(potential)(w, *rows)
                w = w - 1e-4 * g + jnp.sqrt(2e-4) * jax.random.normal(jax.random.fold_in(key, -t), w.shape)
                return w, w
            return jax.lax.scan(step, w, jnp.arange(10))
        jax.block_until_ready(loop(jnp.zeros(20), x, y, jax.random.key(0)))
    """,
    "first draw, scirocco": """
        import scirocco as sc
        import jax, jax.numpy as jnp, numpy as np
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(10_000, 20)).astype(np.float32), (rng.random(10_000) < 0.5).astype(np.float32)
        def likelihood(w, row):
            z = row[0] @ w
            return row[1] * z - jax.nn.softplus(z)
        target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, (x, y))
        trace = sc.sample(target, sc.SGLD(1e-4), jnp.zeros(20), num_samples=10, burn_in=0, batch_size=100, chains=1)
        trace.mean
    """,
}


def main() -> None:
    """Time each snippet in fresh processes, in turns."""
    times: dict[str, list[float]] = {name: [] for name in SNIPPETS}
    for _ in range(ROUNDS):
        for name, code in SNIPPETS.items():
            timed = f"import time; t0 = time.perf_counter()\n{textwrap.dedent(code)}\nprint(time.perf_counter() - t0)"
            done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
            times[name].append(float(done.stdout.split()[-1]))
    print(f"seconds in a fresh process, median of {ROUNDS} [least, most]")
    for name, values in times.items():
        print(f"  {name:22s} {statistics.median(values):7.3f} [{min(values):.3f}, {max(values):.3f}]")


if __name__ == "__main__":
    main()
