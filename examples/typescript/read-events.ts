// Prints all events, and new ones as they come, with @nats-io/jetstream and @nats-io/transport-node 3.0.2 to 3.4, as
// the user subscriber. Needs Node 22.18 or newer; for Node 20, copy it to read-events.mjs.
//
//	npm install @nats-io/jetstream @nats-io/transport-node
//	NATS_URL=nats://127.0.0.1:4222 NATS_PASSWORD=... node read-events.ts

import { connect } from "@nats-io/transport-node";
import { DeliverPolicy, jetstream } from "@nats-io/jetstream";

const user = "subscriber";
const nc = await connect({
  servers: process.env.NATS_URL,
  user,
  pass: process.env.NATS_PASSWORD,
  inboxPrefix: `_INBOX_${user}`,
});
const consumer = await jetstream(nc).consumers.get("LINESMAN_EVENTS", {
  filter_subjects: "linesman.events.>", // one subject, not a list
  deliver_policy: DeliverPolicy.All, // or StartSequence, with opt_start_seq
});
for await (const m of await consumer.consume()) {
  const [, , agent, run, kind] = m.subject.split(".");
  console.log(m.seq, agent, run, kind, m.headers?.get("Linesman-Pos"), m.json());
}
