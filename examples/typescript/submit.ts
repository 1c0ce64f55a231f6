// Submits a task over REST, follows its events, and prints how it ended. Needs Node 22.18 or newer, and nothing
// else. Older versions do not read files that end with .ts: for Node 20, copy it to submit.mjs.
//
//	API_URL=http://127.0.0.1:8422 API_TOKEN=... node submit.ts DIRECTORY "Explain what this package does."
//
// The token needs the scopes read and submit: `linesman token create example --scope read,submit`.

const url = (process.env.API_URL ?? "").replace(/\/$/, "") + "/v1";
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function request(path, init = {}) {
  return fetch(url + path, {
    ...init,
    headers: { ...init.headers, Authorization: `Bearer ${process.env.API_TOKEN}` },
  });
}

// Returns the JSON of an answer, and repeats the request if there is none. A TypeError is the connection.
async function answer(path, init) {
  for (let attempt = 0; attempt < 6; attempt++) {
    try {
      const response = await request(path, init);
      const body = await response.json();
      if (response.ok) return body;
      // Retryable is the request, too, while the first one with its key is carried out.
      if (response.status !== 503 && !body.retryable) throw new Error(`refused: ${body.detail}`);
    } catch (e) {
      if (!(e instanceof TypeError)) throw e;
      console.error(`trying again: ${e.message}`);
    }
    await sleep(1000 * 2 ** attempt);
  }
  throw new Error("linesman does not answer");
}

async function submit(directory, prompt) {
  // Without an answer the task may have been accepted: a repeated request with the same key starts nothing again.
  const { run } = await answer("/runs", {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
    body: JSON.stringify({ task: prompt, workingDir: directory }),
  });
  return run;
}

// Yields every event once, also if the connection breaks: the server resumes after the last id.
async function* events(run) {
  let last = "";
  for (;;) {
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const response = await request(`/runs/${run}/events`, { headers });
      if (response.status === 204) return; // the run has ended, and all its events were read
      if (response.status === 503) throw new TypeError("not available");
      if (!response.ok) throw new Error(`refused: ${(await response.json()).detail}`);
      let rest = "", id = "", kind = "";
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          const value = line.slice(line.indexOf(": ") + 2);
          if (line.startsWith("id: ")) id = value;
          else if (line.startsWith("event: ")) kind = value;
          else if (line.startsWith("data: ")) {
            last = id;
            yield [kind, JSON.parse(value)];
            if (kind === "completion") return;
          }
        }
      }
    } catch (e) {
      if (!(e instanceof TypeError)) throw e;
      console.error(`connecting again: ${e.message}`);
    }
    await sleep(1000);
  }
}

const run = await submit(process.argv[2], process.argv[3]);
for await (const [kind, event] of events(run)) {
  console.log(kind, event.text ?? event.message ?? "");
}
const done = await answer(`/runs/${run}/wait`);
console.log(`${run}: ${done.state}: ${done.summary ?? ""}`);
process.exitCode = done.state === "completed" ? 0 : 1;
