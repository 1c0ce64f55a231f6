import { type Detail, type FileChange, noTokens, type PlanStep, type Tokens } from './items';

// Rows are what a timeline shows, in order. A row may change later (a call ends, a text gets
// longer): then its `rev` does.

export interface Base {
  /** Unique in a timeline. */
  key: string;
  /** Position for links, "" if the row has none. */
  at: string;
  time: number;
  rev: number;
  /** 0: of the agent, 1: of its sub-agent, and so on. */
  depth: number;
}

export interface TurnRow extends Base {
  kind: 'turn';
  n: number;
  /** opencode prints steps of a turn, and no turns. */
  label: 'Turn' | 'Step';
  end: number;
  state: 'running' | 'completed' | 'failed' | 'aborted' | 'unknown';
  tokens: Tokens | null;
  calls: number;
  errors: number;
}

export interface TextRow extends Base {
  kind: 'text';
  channel: 'assistant' | 'reasoning' | 'subagent';
  parts: string[];
  length: number;
}

/** The calls that ran at the same time. Their bars share a time axis. */
export interface Group {
  start: number;
  end: number;
  members: CallRow[];
}

export interface CallRow extends Base {
  kind: 'call';
  id: string;
  /** Name of the tool, or the kind of the item. */
  name: string;
  item: string;
  /** 0 if the call began before the rows that are loaded, or prints no start. */
  start: number;
  /** 0 while it runs. */
  end: number;
  status: 'running' | 'completed' | 'failed' | 'unfinished' | 'unknown';
  exit: number | null;
  bytes: { stdout: number; stderr: number; diff: number; result: number };
  detail: Detail | null;
  agent: boolean;
  test: boolean;
  /** The call of the sub-agent that made this call, if only one works. */
  parent: string | null;
  group: Group;
  lane: number;
}

export interface PlanRow extends Base {
  kind: 'plan';
  /** null without the right to read it. */
  steps: PlanStep[] | null;
  more: number;
}

export interface PromptRow extends Base {
  kind: 'prompt';
  text: Detail['prompt'];
}

export interface ErrorRow extends Base {
  kind: 'error';
  message: string;
  /** How often it came in sequence. */
  times: number;
  /** The agent tries again. */
  retry: boolean;
}

export interface NoteRow extends Base {
  kind: 'note';
  message: string;
  detail: Detail['text'] | null;
  /** Of interest to few: hidden unless asked for. */
  quiet: boolean;
}

export interface EndRow extends Base {
  kind: 'end';
  success: boolean | null;
  code: number | null;
  signal: number | null;
  error: string;
  /** The last message, if it is not the text above. */
  finalText: string;
  detail: Detail | null;
}

export interface GapRow extends Base {
  kind: 'gap';
  /** The first of the collapsed chunks, and the one after the last. */
  from: number;
  to: number;
  count: number;
}

export type Row = TurnRow | TextRow | CallRow | PlanRow | PromptRow | ErrorRow | NoteRow | EndRow | GapRow;

/** A file that the run changed, over all of its calls. */
export interface ChangedFile {
  path: string;
  kind: FileChange['kind'];
  added: number;
  removed: number;
  edits: number;
  /** Position of the last change. */
  at: string;
}

export interface TestRun {
  command: string;
  ok: boolean;
  at: string;
}

/** What is known of the whole run, also of items that are no longer loaded. */
export interface Summary {
  items: number;
  turns: number;
  calls: number;
  failedCalls: number;
  texts: number;
  errors: number;
  tokens: Tokens;
  costUsd: number;
  files: Map<string, ChangedFile>;
  moreFiles: number;
  tests: TestRun[];
  plan: { steps: PlanStep[]; more: number } | null;
  firstTime: number;
  lastTime: number;
  end: EndRow | null;
}

export function newSummary(): Summary {
  return {
    items: 0, turns: 0, calls: 0, failedCalls: 0, texts: 0, errors: 0, tokens: { ...noTokens }, costUsd: 0,
    files: new Map(), moreFiles: 0, tests: [], plan: null, firstTime: 0, lastTime: 0, end: null,
  };
}
