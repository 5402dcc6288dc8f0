"""What one writes with mbi, also called private-pgm: run it from the root, with pandas too."""

import jax
import mbi
import numpy as np
import pandas as pd

jax.config.update("jax_enable_x64", True)

# set up
people = pd.read_csv("docs/examples/adult.csv.gz")
columns = {
    "age": np.arange(17, 91),
    "sex": ["Female", "Male"],
    "income": ["<=50K", ">50K"],
}
codes = {c: pd.Categorical(people[c], labels).codes for c, labels in columns.items()}
data = mbi.Dataset(codes, mbi.Domain(tuple(columns), tuple(map(len, columns.values()))))

# measure
pairs = [("age", "sex"), ("age", "income"), ("sex", "income")]
rho = 0.02
sigma = np.sqrt(len(pairs) / (2 * rho))
noise = np.random.default_rng()
measured = []
for pair in pairs:
    exact = np.asarray(data.project(pair).datavector())
    noisy = exact + noise.normal(0, sigma, exact.size)
    measured.append(mbi.LinearMeasurement(noisy, pair, sigma))

# fit
model = mbi.estimation.MirrorDescent().estimate(data.domain, measured, iters=1_000)

# table
table = np.asarray(model.project(("sex", "income")).datavector()).reshape(2, 2)
print("table", table[0, 1])

# count
older = np.asarray(model.project("age").datavector())[41 - 17 :].sum()
print("count", older)

# synthetic
rows = model.synthetic_data(rows=1_000).to_dict()
print("synthetic", len(rows["age"]), np.mean(rows["income"] == 1))
