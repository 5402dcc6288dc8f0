"""What one writes with SmartNoise Synth: run it from the root, where `smartnoise-synth` is."""

import pandas as pd
import snsynth

# set up
people = pd.read_csv("docs/examples/adult.csv.gz")

# synthetic
maker = snsynth.Synthesizer.create("mwem", epsilon=1, split_factor=2)
known = people[["age", "sex", "income"]]
known = known.assign(age=known["age"] // 10)
rows = maker.fit_sample(known, categorical_columns=["age", "sex", "income"], preprocessor_eps=0)
print("synthetic", len(rows), (rows["income"] == ">50K").mean())
