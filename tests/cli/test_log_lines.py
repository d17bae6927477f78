"""The log: lines or JSON objects, who called, and what repeats."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import redis.exceptions

from gateway.cli.serve import CountingHandler, JsonFormatter, LineFormatter, configure_log
from gateway.server.settings import Settings
from tests.api.replica import AGENT_TOKEN, made, replica


class Log:
    """A logger of its own, what it wrote, and the time that its records carry."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.text = io.StringIO()
        self.handler = CountingHandler(self.text)
        self.handler.setFormatter(formatter)
        self.now = 1_000_000.0

    def write(
        self, level: int, message: str, *args: object, error: Exception | None = None
    ) -> None:
        """Write one record."""
        info = (type(error), error, None) if error else None
        record = logging.LogRecord("gateway.test", level, "f.py", 1, message, args, info)
        record.created = self.now
        self.handler.handle(record)

    @property
    def lines(self) -> list[str]:
        """What was written so far, without time, level and logger."""
        return [one.partition("gateway.test ")[2] for one in self.text.getvalue().splitlines()]


@pytest.fixture
def log() -> Log:
    """Return a log of lines."""
    return Log(LineFormatter())


def test_what_repeats_is_written_once_and_counted(log: Log) -> None:
    """A disk that is full for 22 s wrote 3,600 lines; now it is two."""
    for number in range(3600):
        log.now += 22 / 3600
        log.write(logging.ERROR, "sweeper failed: %s", "no space", error=OSError("no space"))
        if number == 1800:
            log.write(logging.WARNING, "another thing")
    written = [one for one in log.lines if one]
    assert written == ["sweeper failed: no space", "another thing"]
    log.now += 60
    log.write(logging.INFO, "served")
    assert log.lines[-2:] == ["sweeper failed: no space (3599 times more within 22 s)", "served"]
    log.write(logging.ERROR, "sweeper failed: %s", "no space")
    assert log.lines[-1] == "sweeper failed: no space"


def test_calls_and_what_differs_are_all_written(log: Log) -> None:
    """Only the same warning counts as a repetition: not another text, error or level."""
    for agent in ("one", "two"):
        log.write(logging.WARNING, "refused: %s", agent)
    log.write(logging.ERROR, "refused: two")
    for _ in range(3):
        log.write(logging.INFO, "GET /healthz")
    assert log.lines == ["refused: one", "refused: two", "refused: two", *["GET /healthz"] * 3]


def test_what_was_counted_is_told_at_the_end(log: Log) -> None:
    """A gateway that stops says how often it came."""
    for _ in range(3):
        log.write(logging.WARNING, "cut")
    log.handler.close()
    assert log.lines == ["cut", "cut (2 times more within 0 s)"]


def test_many_different_ones_are_forgotten(log: Log) -> None:
    """What is remembered of them is bounded."""
    for number in range(2500):
        log.write(logging.WARNING, "failed: %s", number)
    assert len(log.handler._first) <= 1001
    assert len(log.lines) == 2500


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Yield the root logger without handlers, and give it back as it was."""
    logger = logging.getLogger()
    before, level = logger.handlers[:], logger.level
    logger.handlers.clear()
    yield logger
    logger.handlers[:], logger.level = before, level


async def test_each_call_is_one_object_that_names_its_caller(
    server_url: str, namespace: str, root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """`GATEWAY_LOG_JSON`: every line is an object, with the caller and the id of the answer."""
    root.handlers.clear()  # with any there, nothing is configured
    configure_log(Settings(log_json=True, log_level="DEBUG"))
    async with replica(server_url, namespace) as gate:
        sent = await gate.submitted(made())
        await gate.call("GET", "/v1/requests", token="agw_agent1_wrongwrongwrong")
        assert sent.status == 201
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    mine, other = (one for one in lines if one.get("event") == "call")
    assert mine.keys() >= {"at", "level", "logger", "message", "event", "milliseconds"}
    assert (mine["caller"], other["caller"]) == ("agent agent1", "nobody")
    assert mine["request_id"] == sent.headers["X-Request-ID"]
    assert AGENT_TOKEN not in str(lines)
    assert f"for agent agent1, call {mine['request_id']}" in mine["message"]


async def test_of_calls_only_the_refused_are_in_the_usual_log(
    server_url: str, namespace: str, root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of calls that went well would be nearly all lines; `DEBUG` has them."""
    root.handlers.clear()  # with any there, nothing is configured
    configure_log(Settings(log_json=True))
    async with replica(server_url, namespace) as gate:
        await gate.submitted(made())
        refused = await gate.call("GET", "/v1/requests", token="agw_agent1_wrongwrongwrong")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    told = [one for one in lines if one.get("event") == "call"]
    assert [one["request_id"] for one in told] == [refused.headers["X-Request-ID"]]


def test_an_error_in_json_keeps_its_traceback() -> None:
    """On one line."""
    log = Log(JsonFormatter())
    log.write(logging.ERROR, "failed", error=ValueError("odd"))
    [line] = log.text.getvalue().splitlines()
    assert "ValueError: odd" in json.loads(line)["exception"]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_server_that_is_away_takes_no_traceback(
    formatter: logging.Formatter, grouped: bool
) -> None:
    """20 s without Redis wrote 267 lines, of which 255 were of four tracebacks; also where tasks of
    one group failed by it."""
    log = Log(formatter)
    error: Exception = redis.exceptions.ConnectionError("refused")
    if grouped:
        more = ExceptionGroup("more", [ConnectionResetError("reset")])
        error = ExceptionGroup("tasks", [error, more])
    log.write(logging.ERROR, "sweep failed", error=error)
    assert "Traceback" not in log.text.getvalue()
    assert "ConnectionError: refused" in log.text.getvalue()
    assert len(log.text.getvalue().splitlines()) <= 2


def test_a_mistake_beside_a_server_that_is_away_keeps_its_traceback() -> None:
    """In one group, too: only the whole of it says nothing new."""
    log = Log(LineFormatter())
    away = redis.exceptions.ConnectionError("refused")
    log.write(logging.ERROR, "failed", error=ExceptionGroup("tasks", [away, ValueError("odd")]))
    assert "ValueError: odd" in log.text.getvalue()
