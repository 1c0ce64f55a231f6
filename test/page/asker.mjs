// An agent that speaks the Agent Client Protocol. Its prompt "ask NAME" names a file in the directory of its argument, a list of
// requests {"method": …, "params": {…}}. It asks them all at once, and says what it was answered, each on a line. Any other prompt
// is repeated, but for "hold", which it holds until it is cancelled, and "edit", for which it makes a file. It continues a session
// once there is no file "sleepy" in its directory.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const answers = new Map();
let prompt;
let asked = 0;

const update = (sessionUpdate, more) => say({ method: 'session/update', params: { sessionId: 'session-1', update: { sessionUpdate, ...more } } });

function end(text) {
  update('agent_message_chunk', { content: { type: 'text', text } });
  say({ id: prompt, result: { stopReason: 'end_turn' } });
}

for await (const line of createInterface({ input: process.stdin })) {
  let m;
  try {
    m = JSON.parse(line);
  } catch {
    continue;
  }
  if (m.method === 'initialize') say({ id: m.id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true }, agentInfo: { name: 'asker', version: '1.0.0' } } });
  else if (m.method === 'session/new') say({ id: m.id, result: { sessionId: 'session-1' } });
  else if (m.method === 'session/load') {
    while (existsSync(join(process.argv[2], 'sleepy'))) await new Promise((done) => setTimeout(done, 20));
    say({ id: m.id, result: {} });
  } else if (m.method === 'session/prompt') {
    prompt = m.id;
    const text = m.params.prompt.map((part) => part.text ?? '').join('');
    const [, name] = /ask (\w+)/.exec(text) ?? [];
    if (!name) {
      if (text === 'edit') {
        const content = [{ type: 'diff', path: join(process.argv[2], 'src/clock.ts'), oldText: null, newText: 'export function due(at: number): boolean {\n  return now() > at;\n}\n' }];
        update('tool_call', { toolCallId: 'edit-1', title: 'Write src/clock.ts', kind: 'edit', status: 'completed', content });
      }
      if (text !== 'hold') end(`You said: ${text}`);
      continue;
    }
    const requests = JSON.parse(readFileSync(join(process.argv[2], `${name}.json`), 'utf8'));
    asked = requests.length;
    requests.forEach(({ method, params }, i) => say({ id: `ask${i}`, method, params: { sessionId: 'session-1', ...params } }));
  } else if (m.method === 'session/cancel') say({ id: prompt, result: { stopReason: 'cancelled' } });
  else if (/^ask\d+$/.test(m.id)) {
    answers.set(m.id, m.result ?? m.error);
    if (answers.size < asked) continue;
    end([...answers].map(([id, answer]) => `${id}: ${JSON.stringify(answer)}`).join('\n\n'));
  }
}
