// Calls a server with arguments that it refuses, by one of the official SDKs.
// Prints one JSON object: for each call the error and how long it took.
//
//   node refused.mjs SDK COMMAND ARG...    over stdio
//   node refused.mjs SDK URL TOKEN         over HTTP
//
// SDK is 1 or 2. Both come with the inspector and the conformance suite.
const [sdk, target, ...args] = process.argv.slice(2);
const modules =
  sdk === "1"
    ? ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js", "@modelcontextprotocol/sdk/client/streamableHttp.js"]
    : ["@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio"];
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = Object.assign({}, ...(await Promise.all(modules.map((m) => import(m)))));
const transport = target.startsWith("http:")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${args[0]}` } } })
  : new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });

const deep = (levels) => {
  let value = [];
  for (let i = 1; i < levels; i++) value = [value];
  return value;
};
const calls = {
  large: { task: "x".repeat(2 << 20) },
  deep: { task: deep(1000) },
  fine: { format: "json" },
};

const client = new Client({ name: "refused", version: "1" });
await client.connect(transport);
const said = {};
for (const [name, args] of Object.entries(calls)) {
  const begun = performance.now();
  try {
    await client.callTool({ name: "_codex_local_status", arguments: args }, ...(sdk === "1" ? [undefined] : []), { timeout: 20_000 });
    said[name] = { code: 0 };
  } catch (e) {
    said[name] = { code: e.code, message: e.message };
  }
  said[name].ms = performance.now() - begun;
}
await client.close();
console.log(JSON.stringify(said));
