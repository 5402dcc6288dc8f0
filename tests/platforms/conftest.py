"""Engines and servers, each started once, for tests that need the extra `platforms`.

Where an engine is not installed, its tests are skipped, and where none is, these tests are passed
over, unless DPSDK_PLATFORMS=1 says that all of them must be there. Spark needs a Java, which no
package brings; without one its tests are skipped.
"""

import importlib
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

REQUIRED = os.environ.get("DPSDK_PLATFORMS") == "1"
ENGINES = ("apsw", "duckdb", "ibis", "opentelemetry.sdk", "pgserver", "pyspark", "sklearn")


def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


collect_ignore_glob = [] if REQUIRED or any(map(found, ENGINES)) else ["test_*.py"]


def pytest_collection_modifyitems(items):
    """What libraries leave open is told whenever it is collected, in whichever test that is."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            unraisable = "ignore::pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(unraisable))


def engine(name):
    """A library by its name; the test is skipped, or fails, without it."""
    nowhere = name == "pgserver" and sys.version_info >= (3, 13)  # has no wheels for it
    if REQUIRED and not nowhere:
        return importlib.import_module(name)
    return pytest.importorskip(name)


@pytest.fixture(scope="session")
def duckdb():
    return engine("duckdb")


@pytest.fixture(scope="session")
def hatchling():
    """What builds distributions, without which none can be installed from its sources."""
    return engine("hatchling")


@pytest.fixture(scope="session")
def ibis():
    return engine("ibis")


@pytest.fixture(scope="session")
def apsw():
    return engine("apsw")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A local Spark with two threads, whose tables fall into four parts."""
    sql = engine("pyspark.sql")
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        pytest.skip("Spark needs a Java")
    place = tmp_path_factory.mktemp("spark")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("dpsdk")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.default.parallelism", "4")
        .config("spark.sql.warehouse.dir", str(place))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.connect.grpc.binding.port", str(port))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect(spark):
    """A session of Spark Connect, whose server is the Spark above."""
    connected = engine("pyspark.sql.connect.session")
    port = spark.sparkContext.getConf().get("spark.connect.grpc.binding.port")
    session = connected.SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield session
    session.client.close()


@pytest.fixture(scope="session")
def server_folder():
    """Makes folders for servers.

    They are not pytest's own: each run of pytest closes those again to other users, and a server
    may run as another one.
    """
    made = []

    def make():
        made.append(Path(tempfile.mkdtemp(prefix="dpsdk-server-")))
        return made[-1]

    yield make
    for one in made:
        shutil.rmtree(one, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(server_folder):
    """The address of a PostgreSQL server that lives as long as the tests."""
    engine("psycopg")
    with warnings.catch_warnings():
        # Of a system without a folder for what runs: it takes another.
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")
        pgserver = engine("pgserver")
    server = pgserver.get_server(server_folder())
    yield server.get_uri()
    server.cleanup()
