"""What one writes with diffprivlib: run it where diffprivlib is installed, from the root."""

import warnings

import diffprivlib as dpl
import numpy as np
import pandas as pd

warnings.simplefilter("ignore")

# set up
people = pd.read_csv("docs/examples/adult.csv.gz")
account = dpl.BudgetAccountant(epsilon=2)
account.set_default()

# count
older = dpl.tools.count_nonzero(people["age"] > 40, epsilon=0.1)
print("count", older)

# mean
hours = dpl.tools.mean(people["hours"], epsilon=0.1, bounds=(1, 99))
print("mean", hours)

# quantile
median = dpl.tools.median(people["age"], epsilon=0.1, bounds=(17, 90))
print("quantile", median)

# histogram
ages, edges = dpl.tools.histogram(people["age"], epsilon=0.1, bins=74, range=(17, 91))
print("histogram", ages[23])

# table
sexes, incomes = (people[c].astype("category").cat.codes for c in ("sex", "income"))
table, _, _ = dpl.tools.histogram2d(
    sexes, incomes, epsilon=0.1, bins=(2, 2), range=[(0, 2), (0, 2)]
)
print("table", table[0, 1])

# regression
features = people[["age", "hours"]].to_numpy() / [90, 99]
model = dpl.models.LogisticRegression(epsilon=1, data_norm=np.sqrt(2)).fit(
    features, people["income"] == ">50K"
)
print("regression", model.predict_proba([[50 / 90, 60 / 99]])[0, 1])

# budget
print("budget", account.total()[0], account.remaining()[0])
try:
    dpl.tools.mean(people["hours"], epsilon=1, bounds=(1, 99))
except dpl.utils.BudgetError as refusal:
    print("refused", str(refusal)[:60])
