// A story told by the official client: send a task and follow it, look at it,
// go on in its context, list, cancel, answer a question. Prints one JSON object.
//
//   node client.mjs URL TOKEN TRANSPORT VERSION PROMPT SLOW ASKS
//
// TRANSPORT is JSONRPC or HTTP+JSON, VERSION 1.0 or 0.3. PROMPT is a task that
// ends by itself, SLOW one that is to be cancelled, ASKS an agent that asks for
// a permission.
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory, createAuthenticatingFetchWithRetry, DefaultAgentCardResolver } from "@a2a-js/sdk/client";
import { Role, TaskState } from "@a2a-js/sdk";
import { randomUUID } from "node:crypto";

const [url, token, transport, version, prompt, slow, asks] = process.argv.slice(2);
const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
  headers: async () => ({ Authorization: `Bearer ${token}` }),
  shouldRetryWithHeaders: async () => undefined,
});
const legacyCompat = { enabled: version === "0.3" };
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl, legacyCompat }), new RestTransportFactory({ fetchImpl, legacyCompat })],
  preferredTransports: [transport],
});
const card = await new DefaultAgentCardResolver().resolve(url);
if (version === "0.3") {
  card.supportedInterfaces = card.supportedInterfaces.filter((i) => i.protocolVersion === "0.3");
}
const client = await factory.createFromAgentCard(card);

const message = (text, more = {}) => ({
  messageId: randomUUID(), role: Role.ROLE_USER, contextId: "", taskId: "", extensions: [], referenceTaskIds: [], metadata: undefined,
  parts: [
    { content: { $case: "text", value: text }, filename: "", mediaType: "", metadata: undefined },
    { content: { $case: "data", value: { skipGitRepoCheck: true, ...more.options } }, filename: "", mediaType: "", metadata: undefined },
  ],
  ...more.message,
});
const params = (m, returnImmediately) => ({
  tenant: "", message: m, metadata: undefined,
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately, historyLength: undefined },
});
const state = (task) => TaskState[task.status.state] ?? task.status.state;
const texts = (parts) => parts.filter((p) => p.content.$case === "text").map((p) => p.content.value);
const refused = async (f) => {
  try {
    await f();
    return "not refused";
  } catch (e) {
    return e.constructor.name + ": " + e.message;
  }
};

const story = { name: card.name, stream: [], said: [] };
let first;
for await (const event of client.sendMessageStream(params(message(prompt), false))) {
  const { $case: kind, value } = event.payload;
  story.stream.push(kind);
  if (kind === "task") {
    first = value;
    story.first = state(value);
  } else if (kind === "artifactUpdate") {
    story.said.push(...texts(value.artifact.parts));
  } else {
    story.last = state(value);
  }
}
const got = await client.getTask({ tenant: "", id: first.id, historyLength: 2 });
const result = got.artifacts[0].parts;
Object.assign(story, {
  id: got.id, state: state(got), context: got.contextId, history: got.history.map((m) => texts(m.parts).join()),
  final: texts(result).at(-1), data: result.at(-1).content.value,
});
const again = await client.sendMessage(params(message("again", { message: { contextId: got.contextId } }), false));
const second = again.payload?.value ?? again;
Object.assign(story, { second: second.id, secondState: state(second), secondContext: second.contextId });
const sent = await client.sendMessage(params(message(slow), true));
const third = sent.payload?.value ?? sent;
story.cancelled = state(await client.cancelTask({ tenant: "", id: third.id, metadata: undefined }));
story.cancelledAgain = await refused(() => client.cancelTask({ tenant: "", id: first.id, metadata: undefined }));
story.unknown = await refused(() => client.getTask({ tenant: "", id: "nothing", historyLength: undefined }));
story.subscribed = await refused(async () => {
  for await (const _ of client.resubscribeTask({ tenant: "", id: first.id })) {
  }
});
const asking = await client.sendMessage(params(message("ask", { options: { agent: asks, live: true } }), false));
const waiting = asking.payload?.value ?? asking;
const { question } = waiting.status.message.parts.map((p) => p.content.value).find((v) => v.question);
story.text = await refused(() => client.sendMessage(params(message("yes", { message: { taskId: waiting.id } }), false)));
const answer = { answer: { question: question.id, option: question.options[0].id } };
const answered = await client.sendMessage(params(message("", {
  message: { taskId: waiting.id, parts: [{ content: { $case: "data", value: answer }, filename: "", mediaType: "", metadata: undefined }] },
}), false));
const last = answered.payload?.value ?? answered;
Object.assign(story, { asks: state(waiting), question, answered: state(last), answer: texts(last.artifacts[0].parts)[0] });
if (version === "1.0") {
  const list = await client.listTasks({
    tenant: "", contextId: got.contextId, status: TaskState.TASK_STATE_UNSPECIFIED, pageSize: 10, pageToken: "", historyLength: undefined,
    statusTimestampAfter: undefined, includeArtifacts: false,
  });
  story.listed = list.tasks.map((t) => t.id);
}
console.log(JSON.stringify(story));
