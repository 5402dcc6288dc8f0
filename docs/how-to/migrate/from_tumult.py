"""What one writes with Tumult: run it from the root, where `tmlt.analytics` and Java are."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

os.environ["PYSPARK_PYTHON"] = sys.executable  # which has tmlt, for the workers of Spark too

# set up
spark = SparkSession.builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp()).getOrCreate()
people = spark.read.csv(
    "docs/examples/adult.csv.gz", header=True, inferSchema=True
).withColumnRenamed("marital-status", "marital")
session = Session.from_dataframe(PureDPBudget(1), "adult", people, protected_change=AddOneRow())

# count
older = session.evaluate(QueryBuilder("adult").filter("age > 40").count(), PureDPBudget(0.1))
print("count", older.first()[0])

# mean
hours = session.evaluate(QueryBuilder("adult").average("hours", low=1, high=99), PureDPBudget(0.1))
print("mean", hours.first()[0])

# quantile
median = session.evaluate(QueryBuilder("adult").median("age", low=17, high=90), PureDPBudget(0.1))
print("quantile", median.first()[0])

# histogram
ages = KeySet.from_dict({"age": list(range(17, 91))})
histogram = session.evaluate(QueryBuilder("adult").groupby(ages).count(), PureDPBudget(0.1))
print("histogram", histogram.filter("age = 40").first()["count"])

# table
cells = KeySet.from_dict({"sex": ["Female", "Male"], "income": ["<=50K", ">50K"]})
table = session.evaluate(QueryBuilder("adult").groupby(cells).count(), PureDPBudget(0.1))
print("table", table.filter("sex = 'Female' AND income = '>50K'").first()["count"])

# budget
print("budget", session.remaining_privacy_budget)
try:
    session.evaluate(QueryBuilder("adult").count(), PureDPBudget(1))
except RuntimeError as refusal:
    print("refused", str(refusal)[:60])
