"""Publishes a run of two raw lines on NATS, with nats-py 2.9 to 2.15, as the user worker.

    NATS_URL=nats://127.0.0.1:4222 NATS_PASSWORD=... python3 publish_raw.py
"""

import asyncio, os, time
import nats


async def main():
    nc = await nats.connect(
        os.environ["NATS_URL"],
        user="worker",
        password=os.environ["NATS_PASSWORD"],
        inbox_prefix="_INBOX_worker",
    )
    js = nc.jetstream()
    subject, offset, last = "linesman.raw.codex.py-1", 0, 0

    async def add(record, body):
        nonlocal offset, last
        headers = {
            "Linesman-Record": record,
            "Linesman-Time": str(time.time_ns() // 1_000_000),
            "Nats-Expected-Last-Subject-Sequence": str(last),
        }
        if record == "out":
            headers["Linesman-Offset"] = str(offset)
            offset += len(body)
        last = (await js.publish(subject, body, headers=headers)).seq

    for line in [b'{"type":"turn.started"}\n', b'{"type":"turn.completed"}\n']:
        await add("out", line)
    await add("exit", b'{"reason":"eof"}')
    await nc.drain()


asyncio.run(main())
