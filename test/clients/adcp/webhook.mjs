// A receiver of webhooks whose signatures the AdCP SDK verifies, and whose bodies it reads. It submits a task over A2A
// with a webhook for HMAC, prints {url, task}, then a line of JSON for each request: {way, verified, tampered, handled,
// error}.
//
//   node webhook.mjs SECRET SERVER TOKEN DIRECTORY
//
// POST /hmac is verified by the SDK's client with the secret; POST /rfc9421 by its verifier of webhook signatures, with
// the keys of the server. Of each request variants that were tampered with are verified, too: tampered has those that
// the SDK did not refuse. The first request that is signed by RFC 9421 is answered 503.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { ADCPMultiAgentClient } from "@adcp/sdk";
import { createWebhookVerifier, StaticJwksResolver } from "@adcp/sdk/signing/server";

const [secret, linesman, token, workingDir] = process.argv.slice(2);
const { keys } = await (await fetch(linesman + "/.well-known/jwks.json")).json();
const resolver = new StaticJwksResolver(keys);
const verify = createWebhookVerifier({ jwks: resolver });
const afresh = (request) => createWebhookVerifier({ jwks: resolver })(request); // a tampered nonce is no replay
const seen = [];
const connect = (more) => new ADCPMultiAgentClient(
  [{ id: "linesman", name: "linesman", agent_uri: linesman, protocol: "a2a", auth_token: token }],
  { validation: { responses: "off" }, onActivity: (a) => { if (a.type === "webhook_received") seen.push(a); }, ...more },
).agent("linesman");
const [client, reader] = [connect({ webhookSecret: secret }).client, connect({}).client];
console.log = () => {}; // the SDK tells of each signature
// handled is what the client has read last: of A2A the status is also in its data.
const handled = () => {
  const { task_id: task, status, payload } = seen.pop();
  seen.length = 0;
  return { task, status, data: payload?.status };
};

const attempt = async (f) => {
  try { return [await f(), null]; } catch (e) { return [null, e]; }
};
const flip = (text, at) => text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);

const hmac = async (headers, body) => {
  const check = (b, signature, at) => attempt(() => client.handleWebhook(JSON.parse(b), "task", "op", signature, at, b));
  const [signature, at] = [headers["x-adcp-signature"], headers["x-adcp-timestamp"]];
  const tampered = [];
  for (const [what, ...args] of [
    ["body", body.replace("task_id", "task-id"), signature, at],
    ["signature", body, flip(signature, 20), at],
    ["time", body, signature, String(Number(at) - 1)],
    ["old", body, signature, String(Number(at) - 400)],
  ]) {
    const [, error] = await check(...args);
    if (!error) tampered.push(what);
  }
  const [, error] = await check(body, signature, at);
  return { verified: !error, tampered, handled: error ? undefined : handled(), error: error?.message };
};

const rfc9421 = async (request) => {
  const { headers, body } = request;
  const tampered = [];
  for (const [what, changed] of [
    ["body", { body: body.replace("task_id", "task-id") }],
    ["url", { url: request.url + "x" }],
    ["method", { method: "PUT" }],
    ["type", { headers: { ...headers, "content-type": "text/plain" } }],
    ["digest", { headers: { ...headers, "content-digest": flip(headers["content-digest"], 12) } }],
    ["input", { headers: { ...headers, "signature-input": headers["signature-input"].replace(/expires=\d/, "expires=2") } }],
    ["nonce", { headers: { ...headers, "signature-input": headers["signature-input"].replace(/nonce="./, 'nonce="_') } }],
    ["signature", { headers: { ...headers, signature: flip(headers.signature, 10) } }],
  ]) {
    if (JSON.stringify(changed) === JSON.stringify({ headers })) continue; // the same by chance
    const [, error] = await attempt(() => afresh({ ...request, ...changed }));
    if (!error?.code?.startsWith("webhook_")) tampered.push(what);
  }
  const [, error] = await attempt(() => verify(request));
  const [, replay] = await attempt(() => verify(request));
  if (!error && replay?.code !== "webhook_signature_replayed") tampered.push("replay");
  await reader.handleWebhook(JSON.parse(body), "task", "op");
  return { verified: !error, tampered, handled: handled(), error: error && `${error.code}: ${error.message}` };
};

let refused = false;
const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts).toString();
  const { method, headers } = request;
  const way = request.url.split("?")[0].slice(1).split("/")[0];
  const url = `http://${headers.host}${request.url}`;
  const told = way === "hmac" ? await hmac(headers, body) : await rfc9421({ method, url, headers, body });
  const again = told.verified && way === "rfc9421" && !refused;
  refused ||= again;
  process.stdout.write(JSON.stringify({ way, status: again ? 503 : told.verified ? 200 : 401, ...told }) + "\n");
  response.writeHead(again ? 503 : told.verified ? 200 : 401).end();
});
server.listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const submitter = connect({ webhookSecret: secret, webhookUrlTemplate: url + "/hmac/{task_type}/{operation_id}" });
  const told = await submitter.executeTask("codex-run", { task: "go", workingDir, skipGitRepoCheck: true, idempotency_key: randomUUID() });
  process.stdout.write(JSON.stringify({ url, task: told.submitted?.taskId, error: told.error }) + "\n");
});
