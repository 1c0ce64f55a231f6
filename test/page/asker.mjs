// An agent that speaks the Agent Client Protocol. Its prompt names a file in the directory of its argument, a list of requests
// {"method": …, "params": {…}}. It asks them all at once, and says what it was answered, each on a line.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const answers = new Map();
let prompt;
let asked = 0;

for await (const line of createInterface({ input: process.stdin })) {
  let m;
  try {
    m = JSON.parse(line);
  } catch {
    continue;
  }
  if (m.method === 'initialize') say({ id: m.id, result: { protocolVersion: 1, agentInfo: { name: 'asker', version: '1.0.0' } } });
  else if (m.method === 'session/new') say({ id: m.id, result: { sessionId: 'session-1' } });
  else if (m.method === 'session/prompt') {
    prompt = m.id;
    const requests = JSON.parse(readFileSync(join(process.argv[2], /ask (\w+)/.exec(line)[1] + '.json'), 'utf8'));
    asked = requests.length;
    requests.forEach(({ method, params }, i) => say({ id: `ask${i}`, method, params: { sessionId: 'session-1', ...params } }));
  } else if (m.method === 'session/cancel') say({ id: prompt, result: { stopReason: 'cancelled' } });
  else if (/^ask\d+$/.test(m.id)) {
    answers.set(m.id, m.result ?? m.error);
    if (answers.size < asked) continue;
    const text = [...answers].map(([id, answer]) => `${id}: ${JSON.stringify(answer)}`).join('\n\n');
    say({ method: 'session/update', params: { sessionId: 'session-1', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } });
    say({ id: prompt, result: { stopReason: 'end_turn' } });
  }
}
