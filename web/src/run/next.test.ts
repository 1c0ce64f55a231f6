import { expect, it } from 'vitest';
import { agents, forks } from '../lib/agents';
import type { Run } from '../lib/api';
import { nextTask } from './next';

const run = { run: 'T-1', agent: 'claude_code', threadId: 'a-thread', state: 'completed' } as Run;

it('a task continues a thread, or a copy of it', () => {
  expect(nextTask(run, 'Go on.', 'read-only', false)).toEqual({ task: 'Go on.' });
  expect(nextTask(run, 'Go on.', 'workspace-write', true)).toEqual({
    task: 'Go on.', mode: 'workspace-write', confirm: true, agent: 'claude_code', fork: { selector: 'id', id: 'a-thread' },
  });
});

it('a copy is of an agent that can copy', () => {
  agents.value = [{ kind: 'claude_code', short: 'claude', name: 'Claude Code', forks: true }, { kind: 'gemini_cli', short: 'gemini', name: 'Gemini CLI' }];
  expect(['claude_code', 'gemini_cli', 'external'].map(forks)).toEqual([true, false, false]);
  agents.value = [];
});
