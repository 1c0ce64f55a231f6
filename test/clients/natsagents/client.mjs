// A caller of agents over NATS, from what the SDKs of the protocol are made of. Usage: client.mjs URL, with the
// password of prompter in NATS_PASSWORD. It prints what it saw as JSON.
import { Svcm } from "@nats-io/services";
import { connect } from "@nats-io/transport-node";

const nc = await connect({
  servers: process.argv[2], user: "prompter", pass: process.env.NATS_PASSWORD, inboxPrefix: "_INBOX_prompter",
});

// discover returns the instance that fits, once it is announced.
async function discover(fits) {
  for (;;) {
    try {
      for await (const info of await new Svcm(nc).client({ maxWait: 2000 }).info("agents")) {
        if (info.metadata.agent === "codex" && fits(info)) return info;
      }
    } catch (err) {
      if (err.name !== "NoResponders") throw err;
      await new Promise((done) => setTimeout(done, 100)); // nothing is announced yet
    }
  }
}

// prompt calls each with the messages of a stream, and returns them: {type, data}, {code, body} or "end".
async function prompt(subject, body, each = () => {}) {
  const all = [];
  const stream = await nc.requestMany(subject, JSON.stringify(body), { strategy: "sentinel", maxWait: 60_000 });
  for await (const m of stream) {
    if (m.headers?.get("Nats-Service-Error-Code")) {
      all.push({ code: m.headers.get("Nats-Service-Error-Code"), body: m.json() });
    } else if (m.data.length === 0) {
      all.push("end");
    } else {
      all.push(m.json());
      await each(all.at(-1));
    }
  }
  return all;
}

const at = (info, name) => info.endpoints.find((e) => e.name === name).subject;
const named = (name) => discover((info) => at(info, "prompt").endsWith("." + name));
const beats = nc.subscribe("agents.hb.*.*.*", { max: 1 });
const info = await named("default");
const of = (name) => at(info, name);
const said = await prompt(of("prompt"), { prompt: "Say hello." });
const refused = await prompt(of("prompt"), { prompt: "x", attachments: [{ filename: "a", content: "YQ==" }] });
let run, cancelled;
const ended = await prompt(of("prompt"), { prompt: "Wait." }, async (m) => {
  if (m.type === "linesman.run") run = m.data.run;
  if (m.type === "response") {
    cancelled = (await nc.request(of("cancel"), JSON.stringify({ run }), { timeout: 30_000 })).json();
  }
});
let beat;
for await (const m of beats) beat = m.json();

// A live run asks, and goes on as a session.
const chat = await named("chat");
const answer = (text) => (m) => {
  if (m.type === "query") nc.publish(m.data.reply_subject, text);
};
const attachments = [{ filename: "note.txt", content: btoa("A note.") }];
const denied = await prompt(at(chat, "prompt"), { prompt: "Ask.", attachments }, answer("no"));
const takes = chat.endpoints.find((e) => e.name === "prompt").metadata.attachments_ok;
const kept = await prompt(at(chat, "prompt"), { prompt: "Ask.", linesman: { keep: true } }, answer("yes"));
const token = kept.find((m) => m.type === "linesman.result").data.session;
const session = await discover((info) => info.metadata.session === token);
let busy;
const next = await prompt(at(session, "prompt"), { prompt: "Ask again." }, async (m) => {
  if (m.type === "query") {
    busy = await prompt(at(session, "prompt"), { prompt: "And again." });
    nc.publish(m.data.reply_subject, JSON.stringify({ prompt: "1" }));
  }
});
const over = (await nc.request(at(session, "cancel"), JSON.stringify({ end: true }), { timeout: 30_000 })).json();
console.log(JSON.stringify({ info, said, refused, ended, cancelled, beat, denied, kept, next, busy, over, takes }));
await nc.drain();
