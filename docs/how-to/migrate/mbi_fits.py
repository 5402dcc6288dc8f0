"""Fit with mbi what dpsdk measured: run it where mbi and dpsdk are installed, from the root."""

import jax
import mbi
import numpy as np

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.mechanisms import Gaussian
from dpsdk.queries import Marginal

jax.config.update("jax_enable_x64", True)

whole = Domain.load("docs/examples/adult-domain.json")
domain = Domain(*(whole[name] for name in ("age", "sex", "income")))
data = PrivateData.from_csv("docs/examples/adult.csv.gz", domain, name="adult")
session = Session(data, Budget(epsilon=1, delta=1e-6))

measured = []
for pair in [("age", "sex"), ("age", "income"), ("sex", "income")]:
    release = session.release(Marginal(*pair, normalized=False), using=Gaussian(rho="0.005"))
    sigma = float(release.cost.guarantees[0].variance) ** 0.5
    measured.append(mbi.LinearMeasurement(release.value.values.ravel(), pair, sigma))

sizes = tuple(domain[name].size for name in domain.names)
fitted = mbi.estimation.MirrorDescent().estimate(mbi.Domain(domain.names, sizes), measured)
table = np.asarray(fitted.project(("sex", "income")).datavector())
print("table", table[1])
print("spent", session.spent)
