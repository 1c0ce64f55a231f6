"""Prints all events, and new ones as they come, with nats-py 2.9 to 2.15, as the user subscriber.

    NATS_URL=nats://127.0.0.1:4222 NATS_PASSWORD=... python3 read_events.py

The ordered consumer of nats-py needs more rights than this user has. If a sequence is missing, start again after the
last one.
"""

import asyncio, os
import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy


async def main():
    user, last = "subscriber", 0
    nc = await nats.connect(
        os.environ["NATS_URL"],
        user=user,
        password=os.environ["NATS_PASSWORD"],
        inbox_prefix=f"_INBOX_{user}",
    )
    sub = await nc.jetstream().pull_subscribe(
        "linesman.events.>",
        stream="LINESMAN_EVENTS",
        config=ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            inactive_threshold=60,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=last + 1,
        ),
        inbox_prefix=f"_INBOX_{user}.".encode(),
    )
    while True:
        try:
            messages = await sub.fetch(100, timeout=5)
        except asyncio.TimeoutError:  # nothing new
            continue
        for m in messages:
            _, _, agent, run, kind = m.subject.split(".")
            last = m.metadata.sequence.stream
            print(last, agent, run, kind, m.headers["Linesman-Pos"], m.data.decode())


asyncio.run(main())
