// The agents that tasks can name, as the server lists them. Until then, names are kinds.
//
//   agentName('claude_code')   "Claude Code"
//   takesTasks('claude_code')  true
//   canBeLive('claude_code')   true
//   forks('gemini_cli')        false

import { computed, signal } from '@preact/signals';
import type { Agent } from './api';

export const agents = signal<readonly Agent[]>([]);

// Runs that are not of an agent of this machine.
const others: [string, string][] = [['codex_cloud', 'Codex Cloud'], ['external', 'External']];

const names = computed(() => new Map([...others, ...agents.value.map((a): [string, string] => [a.kind, a.name])]));

export const agentName = (kind: string): string => names.value.get(kind) ?? kind;

/** Whether runs of an agent can be live; '': of the default one. */
export const canBeLive = (kind: string): boolean => agents.value.some((a) => a.kind === (kind || 'codex') && a.live);

/** Whether a run of an agent can begin with a copy of a thread. */
export const forks = (kind: string): boolean => agents.value.some((a) => a.kind === kind && a.forks);

export const takesTasks = (kind: string): boolean => agents.value.some((a) => a.kind === kind);
