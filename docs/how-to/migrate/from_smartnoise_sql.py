"""What one writes with SmartNoise SQL: run it from the root, where `smartnoise-sql` is."""

import pandas as pd
import snsql

# set up
people = pd.read_csv("docs/examples/adult.csv.gz")
metadata = {
    "": {
        "census": {
            "adult": {
                "row_privacy": True,
                "rows": 48_842,
                "age": {"type": "int", "lower": 17, "upper": 90},
                "hours": {"type": "int", "lower": 1, "upper": 99},
                "sex": {"type": "string"},
                "income": {"type": "string"},
            }
        }
    }
}
privacy = snsql.Privacy(epsilon=0.1, delta=1e-9)
reader = snsql.from_df(people, privacy=privacy, metadata=metadata)

# count
older = reader.execute("SELECT COUNT(*) FROM census.adult WHERE age > 40")
print("count", older[1][0])

# mean
hours = reader.execute("SELECT AVG(hours) FROM census.adult")
print("mean", hours[1][0])

# histogram
ages = reader.execute("SELECT age, COUNT(*) AS n FROM census.adult GROUP BY age ORDER BY age")
print("histogram", dict(ages[1:])[40], len(ages) - 1)

# table
table = reader.execute("SELECT sex, income, COUNT(*) AS n FROM census.adult GROUP BY sex, income")
print("table", next(n for sex, income, n in table if (sex, income) == ("Female", ">50K")))

# budget
print("budget", reader.odometer.spent)
