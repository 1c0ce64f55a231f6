// Submits a task over REST, follows its events, and prints how it ended. Needs Node 20 or newer, and nothing
// else: it has no type that would need a compiler, so Node 20 runs it as submit.mjs.
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

async function submit(directory, prompt) {
  const key = crypto.randomUUID(); // a repeated request with this key starts nothing again
  for (let attempt = 0; attempt < 5; attempt++) {
    try {
      const answer = await request("/runs", {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": key },
        body: JSON.stringify({ task: prompt, workingDir: directory }),
      });
      const body = await answer.json();
      if (answer.ok) return body.run;
      if (answer.status !== 503) throw new Error(`refused: ${body.detail}`);
    } catch (e) {
      if (!(e instanceof TypeError)) throw e; // a TypeError is the connection; the task may have been accepted
      console.error(`trying again: ${e.message}`);
    }
    await sleep(1000 * 2 ** attempt);
  }
  throw new Error("linesman does not answer");
}

// Yields every event once, also if the connection breaks: the server resumes after the last id.
async function* events(run) {
  let last = "";
  for (;;) {
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const answer = await request(`/runs/${run}/events`, { headers });
      if (answer.status === 204) return; // the run has ended, and all its events were read
      if (!answer.ok) throw new Error(`refused: ${(await answer.json()).detail}`);
      let rest = "", id = "", kind = "";
      for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
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
const done = await (await request(`/runs/${run}/wait`)).json();
console.log(`${run}: ${done.state}: ${done.summary ?? ""}`);
