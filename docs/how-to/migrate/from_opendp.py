"""What one writes with OpenDP: run it where `opendp[polars,mbi]` is installed, from the root."""

import gzip

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")

# set up
with gzip.open("docs/examples/adult.csv.gz") as file:
    people = pl.read_csv(file.read()).lazy()
labels = {"sex": ["Female", "Male"], "income": ["<=50K", ">50K"]}
account = dp.Context.compositor(
    data=people,
    privacy_unit=dp.unit_of(changes=1),
    privacy_loss=dp.loss_of(rho=0.06),
    split_evenly_over=6,
    margins=[dp.polars.Margin(max_length=48_842, invariant="lengths")],
)

# count
older = account.query().filter(pl.col("age") > 40).select(dp.len(signed=True))
print("count", older.release().collect().item())

# mean
hours = account.query().select(pl.col("hours").cast(int).fill_null(40).dp.mean((1, 99)))
print("mean", hours.release().collect().item())

# quantile
ages = list(range(17, 91))
median = account.query().select(pl.col("age").fill_null(17).dp.median(ages))
print("quantile", median.release().collect().item())

# histogram
keys = pl.LazyFrame({"age": ages})
histogram = account.query().group_by("age").agg(dp.len(signed=True)).with_keys(keys)
print("accuracy", histogram.summarize(alpha=0.05)["accuracy"].item())
found = histogram.release().collect()
print("histogram", found.filter(pl.col("age") == 40)["len"].item())

# table
keys = pl.LazyFrame({"sex": labels["sex"]}).join(
    pl.LazyFrame({"income": labels["income"]}), how="cross"
)
query = account.query().group_by("sex", "income").agg(dp.len(signed=True)).with_keys(keys)
table = query.release().collect()
print("table", table.filter(sex="Female", income=">50K")["len"].item())

# synthetic
keys = {name: pl.Series(values) for name, values in labels.items()} | {"age": pl.Series(ages)}
query = account.query().select("age", "sex", "income").contingency_table(keys=keys)
rows = query.release().synthesize()
print("synthetic", round(rows["income"].eq(">50K").mean(), 3))

# budget
try:
    account.query().select(dp.len(signed=True)).release()
except ValueError as refusal:
    print("refused", str(refusal)[:60])
