"""What the tests talk to: moto, emptied for each, ElasticMQ, and servers that answer as they are told."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.servers.aws import KEYS, QueueServer, client
from tests.servers.moto import empty


@pytest.fixture
def aws(moto: str) -> dict[str, Any]:
    """Options that lead a connector to a moto server that holds nothing."""
    empty(moto)
    return {**KEYS, "endpoint_url": moto, "path_style": True}


@pytest.fixture
def clients(aws: dict[str, Any]) -> Iterator[Callable[[str], Any]]:
    """Plain boto3 clients, with which a test prepares and looks."""
    made: dict[str, Any] = {}

    def of(service: str) -> Any:
        if service not in made:
            made[service] = client(service, aws["endpoint_url"])
        return made[service]

    yield of
    for one in made.values():
        one.close()


@pytest.fixture
def s3(clients: Callable[[str], Any]) -> Any:
    return clients("s3")


@pytest.fixture
def sqs(clients: Callable[[str], Any]) -> Any:
    return clients("sqs")


@pytest.fixture
def bucket(s3: Any) -> str:
    s3.create_bucket(Bucket="landing")
    return "landing"


@pytest.fixture
def queue(sqs: Any) -> str:
    """The URL of an empty queue."""
    url: str = sqs.create_queue(QueueName="announcements")["QueueUrl"]
    return url


@pytest.fixture(params=["moto", "elasticmq"])
def server(request: pytest.FixtureRequest) -> Iterator[QueueServer]:
    """The lenient SQS, then the strict one: they disagree about what AWS does not promise."""
    address = request.getfixturevalue(request.param)
    if request.param == "moto":
        empty(address)
    sqs = client("sqs", address)
    yield QueueServer({**KEYS, "endpoint_url": address}, sqs)
    sqs.close()


@dataclass
class Answer:
    """What a scripted server says."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    """Break off after so many bytes of the body."""


Script = Callable[[BaseHTTPRequestHandler, bytes], Answer]


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], dict[str, Any]]]:
    """Starts a server that answers each request by calling a function; gives the options that lead to it."""
    servers: list[ThreadingHTTPServer] = []

    def start(script: Script) -> dict[str, Any]:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), handler(script)))
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
        return {**KEYS, "endpoint_url": f"http://127.0.0.1:{servers[-1].server_port}", "path_style": True}

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Scripted(BaseHTTPRequestHandler):
        def answer(self) -> None:
            answer = script(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: answer.cut])

        do_GET = do_HEAD = do_POST = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests are quiet."""

    return Scripted


class StrictQueue:
    """An SQS queue of the severest kind: only the newest receipt of a message in flight is worth anything.

    Other servers let old receipts pass; AWS promises neither. What it counts are calls and messages.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bodies: dict[str, str] = {}
        self.shows_at: dict[str, float] = {}
        self.receipts: dict[str, str] = {}
        self.calls: list[str] = []
        self.missing = False
        """Whether it answers that there is no such queue."""
        self.failures: list[str] = []
        """Codes with which the next batch entries fail, whatever they ask for."""
        self.cursed: set[str] = set()
        """Receipts of entries that always fail."""

    def send(self, body: str) -> str:
        message_id = uuid.uuid4().hex
        self.bodies[message_id] = body
        self.shows_at[message_id] = 0
        return message_id

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        operation = request.headers["X-Amz-Target"].partition(".")[2]
        with self.lock:
            self.calls.append(operation)
            if self.missing:
                return Answer(400, json.dumps({"__type": "com.amazonaws.sqs#QueueDoesNotExist"}).encode())
            answer = getattr(self, operation)(json.loads(body))
        return Answer(body=json.dumps(answer).encode(), headers={"Content-Type": "application/x-amz-json-1.0"})

    def ReceiveMessage(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        ready = [one for one in self.bodies if self.shows_at[one] <= time.monotonic()]
        return {"Messages": [self.hand_out(one, asked) for one in ready[: asked["MaxNumberOfMessages"]]]}

    def hand_out(self, message_id: str, asked: dict[str, Any]) -> dict[str, Any]:
        self.shows_at[message_id] = time.monotonic() + asked["VisibilityTimeout"]
        self.receipts[message_id] = uuid.uuid4().hex
        return {
            "MessageId": message_id,
            "ReceiptHandle": self.receipts[message_id],
            "Body": self.bodies[message_id],
        }

    def DeleteMessageBatch(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return self.batch(asked, lambda message_id, entry: self.bodies.pop(message_id))

    def ChangeMessageVisibilityBatch(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        def change(message_id: str, entry: dict[str, Any]) -> None:
            self.shows_at[message_id] = time.monotonic() + entry["VisibilityTimeout"]

        return self.batch(asked, change)

    def batch(self, asked: dict[str, Any], apply: Callable[[str, dict[str, Any]], Any]) -> dict[str, Any]:
        entries = asked["Entries"]
        assert 1 <= len(entries) <= 10
        assert len({entry["Id"] for entry in entries}) == len(entries)
        answer: dict[str, Any] = {"Successful": [], "Failed": []}
        for entry in entries:
            owner = next((one for one, receipt in self.receipts.items() if receipt == entry["ReceiptHandle"]), None)
            code = self.failures.pop(0) if self.failures else self.verdict(owner)
            code = "InternalError" if entry["ReceiptHandle"] in self.cursed else code
            if code:
                answer["Failed"].append({"Id": entry["Id"], "Code": code, "Message": "no", "SenderFault": True})
                continue
            assert owner is not None
            apply(owner, entry)
            answer["Successful"].append({"Id": entry["Id"]})
        return answer

    def verdict(self, message_id: str | None) -> str:
        if message_id not in self.bodies:
            return "ReceiptHandleIsInvalid"
        return "MessageNotInflight" if self.shows_at[message_id] <= time.monotonic() else ""


@pytest.fixture
def strict() -> StrictQueue:
    return StrictQueue()
