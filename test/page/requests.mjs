// What the asker asks.

const options = [
  { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
  { optionId: 'always', name: 'Yes, and don’t ask again for npm commands', kind: 'allow_always' },
  { optionId: 'no', name: 'No', kind: 'reject_once' },
];

export const permission = (toolCall, offered = options) => ({ method: 'session/request_permission', params: { toolCall: { toolCallId: 'call-1', ...toolCall }, options: offered } });

export const form = (message, properties, required = []) => ({
  method: 'elicitation/create', params: { mode: 'form', message, requestedSchema: { type: 'object', properties, required } },
});

export const command = permission({
  title: '`npm install --save-dev vitest@4 @vitest/coverage-v8 && npm test -- --run --coverage`', kind: 'execute',
  rawInput: { command: 'npm install --save-dev vitest@4 @vitest/coverage-v8 && npm test -- --run --coverage', description: 'Install the test runner, and run the tests once', timeout: 120_000 },
});

const before = Array.from({ length: 12 }, (_, i) => `line ${i + 1}`);

export const edit = permission({
  title: 'Edit src/clock.ts', kind: 'edit',
  content: [{
    type: 'diff', path: 'src/clock.ts', oldText: "import { now } from './time';\n\nexport function expired(at: number): boolean {\n  return Date.now() > at;\n}\n",
    newText: "import { now } from './time';\n\n/** Whether a time is over, by the clock of the server. */\nexport function expired(at: number): boolean {\n  return now() > at;\n}\n",
  }, {
    type: 'diff', path: 'src/generated.ts', oldText: before.join('\n') + '\n', newText: [...before, ...Array.from({ length: 300 }, (_, i) => `export const value${i} = ${i};`)].join('\n') + '\n',
  }],
}, [options[2], options[0]]);

export const ask = form('Which database do the tests use? I found two in the configuration.', {
  database: { type: 'string', title: 'Database', description: 'The tests create and drop it', oneOf: [{ const: 'pg', title: 'PostgreSQL' }, { const: 'sqlite', title: 'SQLite', description: 'in a temporary file' }] },
  name: { type: 'string', title: 'Name', minLength: 3, maxLength: 40, default: 'shop_test' },
  retries: { type: 'integer', title: 'Retries', minimum: 0, maximum: 5, default: 2 },
  keep: { type: 'boolean', title: 'Keep it after the tests' },
  why: { type: 'string', title: 'Anything else' },
}, ['database', 'retries']);

export const several = form('Which checks are to run?', {
  checks: {
    type: 'array', title: 'Checks', description: 'Each takes a minute', minItems: 1, maxItems: 2, default: ['lint'],
    items: { anyOf: [{ const: 'lint', title: 'Lint' }, { const: 'unit', title: 'Unit tests' }, { const: 'e2e', title: 'End to end' }] },
  },
  targets: { type: 'array', title: 'Targets', items: { type: 'string', enum: ['linux', 'darwin'] } },
}, ['checks']);

export const list = form('Which files?', { files: { type: 'array', items: { type: 'string' } } });

export const long = permission({ title: 'Write a long script', kind: 'execute', rawInput: { command: `printf '${'0123456789'.repeat(30_000)}'; echo the end` } });

const attack = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';
const moves = '\u202egnp.exe\u202c \u2066isolate\u2069 \u200bzero\u200f \u001b[31mred \u00a0 \u{e0041}';

export const hostile = [
  permission({
    title: attack + moves, kind: 'execute<script>', rawInput: { command: `echo ${moves} ${attack}`, [attack]: moves + 'w'.repeat(4000) },
    content: [{ type: 'content', content: { type: 'text', text: attack + moves } }, { type: 'diff', path: `/${attack}/${moves}`, oldText: attack, newText: attack + moves + 'x'.repeat(3000) }],
  }, [
    { optionId: `a${attack}`, name: `Deny ${attack}${moves}`, kind: 'allow_once' }, { optionId: 'b', name: 'Allow it all '.repeat(200), kind: 'reject_once' },
    { optionId: 'c', name: moves, kind: attack }, { optionId: 'd', name: 'n'.repeat(900), kind: 'allow_always' },
    { optionId: 'deny', name: 'deny that allows', kind: 'allow_always' },
  ]),
  form(attack + moves, {
    ['__proto__']: { type: 'string' }, constructor: { type: 'string', title: attack + moves, description: moves, default: attack },
    [attack]: { oneOf: [{ const: attack, title: 't'.repeat(2000) }, { const: moves }] }, [moves]: { type: 'number', minimum: -1e308, default: 1e308 },
  }, [attack]),
];
