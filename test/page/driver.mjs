// Runs scenarios of the page in a real browser, as a Go test asks for them: a line of JSON on stdin
// {"do": NAME, "args": {…}}, and one on stdout {"result": …} or {"error": TEXT}. A scenario can ask the
// test for something meanwhile: {"call": NAME, "args": {…}} is answered with {"answer": …}.

import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';
import * as conversation from './conversation.mjs';
import * as day from './day.mjs';
import * as messages from './messages.mjs';
import * as questions from './questions.mjs';
import * as all from './scenarios.mjs';

const scenarios = { ...all, ...questions, ...messages, ...conversation, ...day };
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const hear = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};

async function call(name, args = {}) {
  say({ call: name, args });
  return (await hear()).answer;
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: process.getuid() === 0 ? ['--no-sandbox'] : [], // chromium refuses its sandbox to root
});
let open = [];
for (let ask = await hear(); ask; ask = await hear()) {
  try {
    const faults = []; // of accessibility
    const result = await scenarios[ask.do]({ browser, call, open, faults, ...ask.args });
    for (const page of open) page.check();
    if (faults.length > 0) throw new Error(faults.join('\n'));
    say({ result: result ?? null });
  } catch (error) {
    for (const { page } of open) await page.screenshot({ path: `${ask.args.shots}/failed-${ask.do}.png` }).catch(() => {});
    say({ error: [`${error.stack ?? error}`, ...open.flatMap((page) => page.wrong)].join('\n') });
  }
  if (ask.args.stay) continue; // the next scenario goes on with its pages
  for (const { context } of open) await context.close();
  open = [];
}
await browser.close();
