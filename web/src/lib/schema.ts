// Generated from openapi.json: UPDATE_DOCS=1 go test ./test/openapi

/** A kind of agent. */
export interface Agent {
  /** A run can begin with a copy of a thread. */
  forks?: boolean;
  /** As in `agent` of a run. */
  kind: string;
  /** Its runs can be live. */
  live?: boolean;
  /** The name that people read. */
  name: string;
  /** The name that people type. */
  short: string;
}

export interface Answer {
  /** Of a form: an object as its schema in `fields` says, at most 16 KiB. */
  content?: Record<string, unknown>;
  /** `digest` of the question: required to allow one that is `cut`, whose whole request is read apart. */
  digest?: string;
  /** Of a text: why there is no answer. */
  error?: string;
  /** Of a permission: the `id` of an option; or `allow` or `deny`, for the only option of the kind `allow_once` or `reject_once`. Of a form: `decline` or `cancel`. */
  option?: string;
  /** Of a text: the answer. */
  text?: string;
}

/** The state of a run after an answer, and the decision. */
export interface Answered {
  /** Who decided: the name of a token, owner, operator, policy, timeout. */
  by?: string;
  /** Delivered says that the agent has the answer. Else the worker gives it to the agent when it is back. */
  delivered?: boolean;
  /** Id. */
  option?: string;
  /** Allow, deny, submitted, declined or cancelled. */
  outcome?: string;
  question?: string;
  run: string;
  state: 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
  /** The surface. */
  via?: string;
}

export interface CancelRequest {
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** Why, for whoever reads the log. */
  reason?: string;
}

/** Counts the files that a run changed. */
export interface Changed {
  /** Lines, of a directory. */
  added?: number;
  /** Changed files. */
  files: number;
  /** What is counted. `directory`: files of the git work tree of the directory that differ from before the run, whoever changed them. `tools`: files that the agent's tools report, while the run works or where there is no work tree; commands may have changed more. `cloud`: files in the diff of a cloud task. */
  in: 'directory' | 'tools' | 'cloud';
  /** Lines, of a directory. */
  removed?: number;
}

/** Counts what a run changed in its directory. */
export interface Changes {
  /** Lines. */
  added: number;
  /** Changed files. */
  files: number;
  /** Why the numbers are unknown, and 0. */
  reason?: 'off' | 'no_git' | 'too_large' | 'timeout' | 'failed';
  /** Lines. */
  removed: number;
}

/** The state of a task in a cloud service. */
export interface Cloud {
  applied?: boolean;
  attempts?: number;
  environment?: string;
  filesChanged?: number;
  id?: string;
  linesAdded?: number;
  linesRemoved?: number;
  status?: string;
  url?: string;
}

/** How a live run that is kept stands. */
export interface Conversation {
  /** The process has ended, and the next message starts another one. */
  asleep?: boolean;
  /** They are, since the last turn was not completed. */
  held?: boolean;
  /** Completed or failed: the last one that has ended. */
  last_turn?: string;
  /** Of the session, in the agent's word; absent: not told. */
  mode?: string;
  /** Of the session, as the agent told it last. */
  model?: string;
  /** The newest process of the agent, from 1; 0: none was started. */
  process: number;
  /** The newest one, from 1; 0: none has begun. */
  turn: number;
  /** Messages that wait. */
  waiting: number;
  /** Permission, question or message; absent: nothing. */
  waits_for?: string;
}

/** An event of a run with what the event omits, or what only the owner of the run may see. */
export interface DetailItem {
  /** Of a call and its result: what the tool does, in the same words for all agents. */
  class?: 'command' | 'file_change' | 'read' | 'web' | 'mcp' | 'agent' | 'plan' | 'other';
  detail?: ItemDetail;
  /** The envelope, or a completion. */
  event?: Record<string, unknown>;
  /** Of the event; `detail`: there is no event. */
  kind: 'text_output' | 'tool_call' | 'tool_result' | 'status' | 'error' | 'unknown' | 'completion' | 'detail';
  /** Number of the line, as in the event's header; 0: not of a line. */
  line: number;
  /** Number within the line. */
  part: number;
  /** Of a text: the agent prints messages in pieces, and this is one. */
  piece?: boolean;
  /** Position in the run, to continue after it; opaque. */
  pos: string;
  /** The tool runs a sub-agent to its end. */
  subagent?: boolean;
  time: Time;
  /** Tokens that the event counts. */
  tokens?: EventTokens;
}

/** Some of the details of a run, in order. */
export interface DetailPage {
  /** No item comes after these. */
  done: boolean;
  items: Array<DetailItem>;
  /** `after` of the next page; absent before the first item. */
  next?: string;
  /** The raw log has lost the beginning of the run, or all of it. Lines are counted from the first one that is left. */
  omitted?: 'expired';
}

/** A text, or its beginning and its end. */
export interface DetailText {
  head: string;
  /** Between `head` and `tail`, or after `head`. */
  omittedBytes?: number;
  /** Absent: `head` is all but for the omitted bytes at its end. */
  tail?: string;
}

/** What a run changed in its directory: the difference between the moment before its agent started and the one after it ended. */
export interface Diff {
  /** Of all files; absent without a diff. */
  changes?: Changes;
  /** The first changed files, at most 200. */
  files: Array<DiffFile>;
  /** Unified diff as of git, redacted; at most 256 KiB, of a file at most 64 KiB. */
  patch?: string;
  /** Why there is no diff; absent: there is one. */
  reason?: 'no_work_tree' | 'no_process' | 'not_started' | 'lost' | 'expired' | 'off' | 'no_git' | 'too_large' | 'timeout' | 'failed';
  run: string;
  /** The patch lacks some of the changes. */
  truncated?: boolean;
  /** Changed files that are not listed. */
  unlisted?: number;
  /** The reason, for people. */
  why?: string;
}

/** A file that a run changed. */
export interface DiffFile {
  /** Lines. */
  added: number;
  /** The file has no lines. */
  binary?: boolean;
  /** Former path of a renamed file. */
  from?: string;
  /** `type`: a file that became a link, for example. */
  kind: 'added' | 'modified' | 'deleted' | 'renamed' | 'type';
  /** Relative to the directory of the run, redacted; at most 512 bytes. */
  path: string;
  /** Lines. */
  removed: number;
  /** The patch lacks some of the file's changes. */
  truncated?: boolean;
}

/** What an agent is doing, and since when. */
export interface Doing {
  /** With `retrying` and `rate-limited`: number of the attempt; absent: unknown. */
  attempt?: number;
  /** With the same: time of the next attempt; absent: unknown. */
  nextAt?: Time;
  /** With the same: maximum number of attempts; absent: unknown. */
  of?: number;
  phase: 'starting' | 'thinking' | 'running' | 'writing' | 'retrying' | 'rate-limited' | 'compacting' | 'waiting-for-agent' | 'waiting-for-answer' | 'your-turn' | 'running-or-waiting';
  since?: Time;
  /** With `running`: name of the tool, at most 64 bytes. */
  tool?: string;
}

/** Lists what linesman does not know in the output of a run: the agent is of a version that prints something new, or something old. */
export interface Drift {
  /** Occurrences of all things, listed or not. */
  count: number;
  /** There are others than the listed things. */
  more?: boolean;
  /** The first 12 things, in the order of the output. */
  things: Array<Thing>;
}

export interface EditRequest {
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** Text for the agent, at most 262,144 bytes. */
  text: string;
}

/** Why a run failed, as far as its output shows. */
export interface ErrorContext {
  failedFiles: Array<string>;
  locations: Array<Location>;
  message: string;
  suggestions: Array<string>;
  type?: string;
}

/** One event of a run. */
export interface Event {
  /** Kind of the agent. */
  agent?: string;
  /** Of a call and its result: what the tool does, in the same words for all agents. */
  class?: 'command' | 'file_change' | 'read' | 'web' | 'mcp' | 'agent' | 'plan' | 'other';
  /** The envelope, or a completion. */
  event: Record<string, unknown>;
  kind: 'text_output' | 'tool_call' | 'tool_result' | 'status' | 'error' | 'unknown' | 'completion';
  /** Line of the run's output, from 1; absent: of no line. */
  line?: number;
  /** Counts the events of that line, from 1. */
  part?: number;
  /** Of a text: the agent prints messages in pieces, and this is one. */
  piece?: boolean;
  run?: string;
  /** Sequence number in EVENTS. */
  seq: number;
  /** The tool runs a sub-agent to its end. */
  subagent?: boolean;
  /** Time of the line that the event is from; `times` of the run says what it is. */
  time?: Time;
  /** Tokens that the event counts. */
  tokens?: EventTokens;
}

/** Some events of a run, or of all runs, in order. */
export interface EventPage {
  /** No event comes after these: the completion is one of them, lies before them, or has aged out. Never for the events of all runs. */
  done: boolean;
  events: Array<Event>;
  /** `after` of the next page, also where this one is empty. */
  next: number;
}

/** The tokens that an event counts. */
export interface EventTokens {
  /** Of the input, read from a cache. */
  cached: number;
  /** With those from and to a cache. */
  input: number;
  output: number;
  /** Of the thread so far; else since the last event with tokens. */
  thread?: boolean;
}

/** How the agent's process ended. */
export interface Exit {
  code?: number;
  reason: string;
  signal?: number;
  spawn?: string;
  /** Of a refused task: the rule, for people. */
  why?: string;
}

/** One changed file. */
export interface FileDetail {
  /** Lines; absent: the line does not tell. */
  added?: number;
  /** Absent if the line does not contain it. */
  diff?: DetailText;
  kind: 'added' | 'modified' | 'deleted';
  path: string;
  /** Lines. */
  removed?: number;
}

/** The files that a run changed. */
export interface Files {
  added: Array<string>;
  deleted: Array<string>;
  linesChanged?: number;
  modified: Array<string>;
  unlisted?: number;
}

/** One mistake in a request. */
export interface Issue {
  /** The known name closest to the unknown one. */
  didYouMean?: string;
  field: string;
  problem: string;
}

/** What an event omits and the owner of the run may see: the content of a tool call, a plan, a prompt, redacted and bounded. */
export interface ItemDetail {
  /** JSON or text. */
  arguments?: DetailText;
  /** At the end of the run. */
  changed?: Changed;
  /** Without the shell that runs it. */
  command?: DetailText;
  /** Of a command, if it is not in the event. */
  exitCode?: number;
  /** Changed files, at most 50. */
  files?: Array<FileDetail>;
  /** Of a live run, with its first prompt: what was asked for it. */
  live?: Terms;
  /** Changed files beyond those. */
  moreFiles?: number;
  /** Steps beyond those. */
  moreSteps?: number;
  /** Of a command. */
  output?: DetailText;
  /** The whole to-do list, at most 50 steps. */
  plan?: Array<PlanStep>;
  /** Of the user or, in a tool call, of a sub-agent. */
  prompt?: DetailText;
  /** Of another tool: JSON or text. */
  result?: DetailText;
  /** MCP server of the tool. */
  server?: string;
  /** End of the agent's stderr, or stderr of a command. */
  stderr?: DetailText;
  /** What the line shows beside an event, such as a summary. */
  text?: DetailText;
  /** Name of the tool, if it is not in the event. */
  tool?: string;
}

/** A position in a source file. */
export interface Location {
  /** From 1; absent: unknown. */
  column?: number;
  file: string;
  /** From 1. */
  line: number;
}

/** A message that waits. */
export interface Message {
  /** The name of a token, owner or operator. */
  by?: string;
  /** Of a text that is left out, over NATS alone: an answer has 400 KiB of them. */
  bytes?: number;
  /** Id. */
  message: string;
  text: string;
  /** The surface. */
  via?: string;
}

/** Those that wait, in the order in which they will be sent. */
export interface Messages {
  held?: boolean;
  messages: Array<Message>;
  run: string;
}

/** A capability that an agent has not. */
export interface Missing {
  agent_kind: string;
  capability: string;
}

/** What one model has used, as the agent tells it. */
export interface ModelUsage {
  cacheWriteInputTokens: number;
  cachedInputTokens: number;
  /** In US dollars. */
  costUsd?: number;
  inputTokens: number;
  name: string;
  outputTokens: number;
  reasoningOutputTokens: number;
}

/** A tool call that has not ended. */
export interface OpenCall {
  at: Time;
  id: string;
  kind: string;
  name?: string;
}

/** A step of a to-do list. */
export interface PlanStep {
  state: 'pending' | 'active' | 'done';
  text: string;
}

/** An error as problem details of RFC 9457, with extension members from `code` on. */
export interface Problem {
  code: 'VALIDATION' | 'UNAUTHORIZED' | 'FORBIDDEN' | 'NOT_FOUND' | 'METHOD_NOT_ALLOWED' | 'NOT_ACCEPTABLE' | 'CONFLICT' | 'TOO_LARGE' | 'UNSUPPORTED_MEDIA_TYPE' | 'UNSUPPORTED' | 'TOOL_ERROR' | 'TIMEOUT' | 'INTERNAL' | 'UNAVAILABLE';
  detail: string;
  /** Of UNSUPPORTED, if it is a capability of an agent. */
  details?: Missing;
  /** What is wrong, as the caller calls it. */
  field?: string;
  /** All mistakes. */
  issues?: Array<Issue>;
  /** The same request may succeed later. */
  retryable?: boolean;
  /** Of the request. */
  run?: string;
  /** Of the run. */
  state?: 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
  status: number;
  title: string;
  type: 'about:blank';
}

/** What a run asks: the program of a file bridge, or the agent of a live run. */
export interface Question {
  /** That is asked, as the request names it; of a live run, that asks. */
  agentName?: string;
  askedAt?: Time;
  command?: string;
  /** Cut says that something is left out or shortened here: it is allowed only with the digest, the SHA-256 of the whole request in hex. */
  cut?: boolean;
  digest?: string;
  /** 0: never. */
  dueAt?: Time;
  /** Of a form: the JSON Schema of its content, an object. */
  fields?: Record<string, unknown>;
  files?: Array<QuestionFile>;
  /** Of a live run q1, q2, …; else q1, for its prompt. */
  id: string;
  /** Of the tool, as JSON, if it is no command. */
  input?: string;
  /** Text, permission or form. */
  kind: string;
  model?: string;
  options?: Array<QuestionOption>;
  phase?: string;
  /** Of a text, unchanged: who shows it makes its characters visible. */
  prompt?: string;
  requestId?: string;
  run: string;
  runTitle?: string;
  /** What else the agent says. */
  text?: string;
  /** Of the tool call; of a form, what it is for. */
  title?: string;
  /** Kind: execute, edit, read, …. */
  tool?: string;
  /** Of the run. */
  workingDir?: string;
}

/** A file that a tool is to change. */
export interface QuestionFile {
  /** In unified form, without a header; absent: the agent names only the path. */
  diff?: string;
  path: string;
}

/** An answer that the agent offers. */
export interface QuestionOption {
  id: string;
  /** Allow_once, allow_always, reject_once, reject_always, or another. */
  kind: string;
  name: string;
}

/** Lists the questions that wait for an answer, the oldest first. */
export interface Questions {
  requests: Array<Question>;
  /** Questions that do not fit into the message. */
  unlisted?: number;
  /** Unread are runs that ask, too, but whose records are damaged: what they ask cannot be read. At most 100. */
  unread?: Array<string>;
}

/** A piece of the request of a question: JSON as the agent wrote it. */
export interface Request {
  /** Of the whole request. */
  bytes: number;
  digest: string;
  /** Offset of the next piece; absent: this is the last one. */
  next?: number;
  offset: number;
  /** Whole characters. */
  text: string;
}

export interface ResumeRequest {
  /** Further directories that the agent may use, absolute or relative to workingDir, each of at most 1024 bytes; each must be one where tasks may work. Not with live. */
  addDirs?: Array<string>;
  /** Allow git commands that may lose work, where they are guarded. */
  allowDestructiveGit?: boolean;
  /** With live: people are asked what its mode does not allow. If false, it is denied. */
  ask?: boolean;
  /** Must be true for the modes that can write: workspace-write and danger-full-access. */
  confirm?: boolean;
  /** Options by their ids in the Universal Agent API. */
  extensions?: Record<string, unknown>;
  /** The worker is in a sandbox: start the agent without its own sandbox and checks, in mode danger-full-access. Only for a worker with the setting work.external_sandbox. Not with live. */
  externalSandbox?: boolean;
  /** Continue a session that changed in the last minute, not by a run of linesman. Two programs that use one session damage it. */
  force?: boolean;
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** End the task when it was silent for so long. */
  idleTimeoutSec?: number;
  /** With live: the run goes on after its first turn, for further messages, until it is ended. */
  keep?: boolean;
  /** Labels of the run, an object of texts: at most 16, keys of at most 64 bytes, values of at most 256. Keys that begin with `linesman.` are reserved. */
  labels?: Record<string, string>;
  /** Start the agent as a server of the Agent Client Protocol: it may ask while it works. What its mode allows is allowed; for all else people are asked. */
  live?: boolean;
  /** What the agent may do to this machine. Default: `read-only`. */
  mode?: 'read-only' | 'workspace-write' | 'danger-full-access';
  /** Model of the agent; default: the agent's own. */
  model?: string;
  /** If false, the agent of a live run asks people; other runs never ask. */
  nonInteractive?: boolean;
  /** JSON Schema of the agent's final answer, at most 64 KiB. */
  outputSchema?: Record<string, unknown>;
  /** With live: rules that deny, or let people be asked, what the worker would allow, such as "deny execute: git push" or "ask edit". */
  policy?: Array<string>;
  /** Work outside of a git repository, too. */
  skipGitRepoCheck?: boolean;
  /** What the agent is to do. */
  task: string;
  /** End the task when it took so long. */
  timeoutSec?: number;
  /** What the task is for, in one line; default: the first line of task. */
  title?: string;
}

/** A run and what is known of it: a run that was submitted a moment ago has no details yet. */
export interface Run {
  /** Time of the last output. */
  activeAt?: Time;
  /** For people: what the agent does, with the command or the path. */
  activity?: string;
  /** Kind of the agent. */
  agent: string;
  /** Version of the agent; absent: unknown. */
  agentVersion?: string;
  /** First line of the answer of a completed run, without Markdown, redacted. */
  answer?: string;
  cancelRequested?: boolean;
  /** Why the run has failed, or timed out, in a redacted line. */
  cause?: string;
  /** Files that the run changed; absent: unknown, or none is reported. */
  changed?: Changed;
  /** In the directory of the run; absent: no git work tree. */
  changes?: Changes;
  cloud?: Cloud;
  /** Newest run that resumes this task, whose state is that of the task. */
  continuedBy?: string;
  /** First run of the task that this run resumes. */
  continues?: string;
  /** Of a live run that is kept. */
  conversation?: Conversation;
  /** Cost of the run with its sub-agents in US dollars, as the agent tells it; absent: unknown, or with that of earlier runs. */
  costUsd?: number;
  /** What the agent is doing; absent: unknown, or not working. */
  doing?: Doing;
  /** What linesman does not know in the output; absent: nothing. */
  drift?: Drift;
  /** Events whose data was too large. */
  droppedEvents?: number;
  endedAt?: Time;
  errorContext?: ErrorContext;
  /** Number of events of each kind. */
  events?: Record<string, number>;
  exit?: Exit;
  fileOperations?: Files;
  /** Beginning of the agent's last message, at most 16 KiB. */
  finalText?: string;
  /** Of the whole last message. */
  finalTextBytes?: number;
  /** Thread of which that of the run is a copy; of a task: the one to fork. Absent: it is none, or not known. */
  forkedFrom?: string;
  /** Holes in the output. */
  gaps?: number;
  /** What to try then; absent only without a cause. */
  hint?: string;
  /** Labels of the run. */
  labels?: Record<string, string>;
  /** Of stdout. */
  lines?: number;
  malformedLines?: number;
  /** What the agent may do; absent: not recorded. */
  mode?: 'read-only' | 'workspace-write' | 'danger-full-access';
  /** Model of the agent; absent: its default, or unknown. */
  model?: string;
  /** What each model used for the run, at most 8. */
  models?: Array<ModelUsage>;
  openCalls?: Array<OpenCall>;
  /** Of a queued run: the number of runs before it. */
  position?: number;
  /** Newest to-do list of the agent; absent: it keeps none. */
  progress?: Todo;
  /** Questions are the ids of the questions of a live run that people are asked, the oldest first. */
  questions?: Array<string>;
  /** Work queue of the run. */
  queue?: string;
  queuedAt?: Time;
  /** Why the run failed, timed out or waits, in a word. */
  reason?: string;
  /** Id of the run. */
  run: string;
  /** Sequence number in RAW of the last entry that this is based on. */
  seq: number;
  /** How the run came to linesman. */
  source?: 'run' | 'tail' | 'session' | 'pipe' | 'queue' | 'cloud' | 'external';
  startedAt?: Time;
  state: 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
  stderrBytes?: number;
  stdoutBytes?: number;
  /** What came of the run, in a sentence. */
  summary?: string;
  testResults?: Tests;
  /** The newest run of tests. */
  tests?: TestCount;
  /** In US dollars, of all runs of the thread: by the agent. */
  threadCostUsd?: number;
  /** Thread of the run; of a task: the one to resume. */
  threadId?: string;
  /** Of all runs of the thread, as the agent tells it. */
  threadUsage?: Usage;
  /** What the times of the run and its events are: when the agent wrote its output and ended, or when linesman read the output. Absent for runs without an agent's process or output. */
  times?: 'written' | 'captured';
  /** What the run is for, at most 120 characters: as its submitter named it, else the first line of its prompt, redacted. */
  title?: string;
  /** Tokens of this run so far; absent: unknown. */
  tokens?: Spend;
  toolCalls?: number;
  /** Of a run that takes messages: number of its newest turn, from 1. */
  turn?: number;
  turns?: Turns;
  unknownLines?: number;
  /** It ended in the last 7 days, and its owner has not opened it since. */
  unseen?: boolean;
  /** What this run has used; absent: unknown. */
  usage?: RunUsage;
  /** Worker that owns or owned the run. */
  worker?: string;
  /** The run is working, but its worker sends no heartbeats. */
  workerLost?: boolean;
  /** Working directory, absolute. */
  workingDir?: string;
}

/** A page of runs. */
export interface RunList {
  /** Covers is the sequence up to which all events are of runs that lists have, or whose records are removed; absent: not known, or not asked for. */
  covers?: number;
  /** Cursor of the next page; absent: this is the last page. */
  next?: string;
  runs: Array<RunSummary>;
}

export interface RunRequest {
  /** Further directories that the agent may use, absolute or relative to workingDir, each of at most 1024 bytes; each must be one where tasks may work. Not with live. */
  addDirs?: Array<string>;
  /** Agent of the task, by its short name or its kind; default: that of the thread to resume, else codex. Short names: `codex`, `claude`, `gemini`, `opencode`, `copilot`, `qwen`, `kimi`. */
  agent?: string;
  /** Allow git commands that may lose work, where they are guarded. */
  allowDestructiveGit?: boolean;
  /** With live: people are asked what its mode does not allow. If false, it is denied. */
  ask?: boolean;
  /** Must be true for the modes that can write: workspace-write and danger-full-access. */
  confirm?: boolean;
  /** Options by their ids in the Universal Agent API. */
  extensions?: Record<string, unknown>;
  /** The worker is in a sandbox: start the agent without its own sandbox and checks, in mode danger-full-access. Only for a worker with the setting work.external_sandbox. Not with live. */
  externalSandbox?: boolean;
  /** Continue a session that changed in the last minute, not by a run of linesman. Two programs that use one session damage it. */
  force?: boolean;
  /** Thread to copy: the run begins with what it has, in a thread of its own. */
  fork?: Record<string, unknown>;
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** End the task when it was silent for so long. */
  idleTimeoutSec?: number;
  /** With live: the run goes on after its first turn, for further messages, until it is ended. */
  keep?: boolean;
  /** Labels of the run, an object of texts: at most 16, keys of at most 64 bytes, values of at most 256. Keys that begin with `linesman.` are reserved. */
  labels?: Record<string, string>;
  /** Start the agent as a server of the Agent Client Protocol: it may ask while it works. What its mode allows is allowed; for all else people are asked. */
  live?: boolean;
  /** What the agent may do to this machine. Default: `read-only`. */
  mode?: 'read-only' | 'workspace-write' | 'danger-full-access';
  /** Model of the agent; default: the agent's own. */
  model?: string;
  /** If false, the agent of a live run asks people; other runs never ask. */
  nonInteractive?: boolean;
  /** JSON Schema of the agent's final answer, at most 64 KiB. */
  outputSchema?: Record<string, unknown>;
  /** With live: rules that deny, or let people be asked, what the worker would allow, such as "deny execute: git push" or "ask edit". */
  policy?: Array<string>;
  /** Thread to continue. */
  resume?: Record<string, unknown>;
  /** Work outside of a git repository, too. */
  skipGitRepoCheck?: boolean;
  /** What the agent is to do. */
  task: string;
  /** End the task when it took so long. */
  timeoutSec?: number;
  /** What the task is for, in one line; default: the first line of task. */
  title?: string;
  /** Directory to work in, an absolute path without ..; default: that of the worker. */
  workingDir?: string;
}

/** What is known of a run in lists. */
export interface RunSummary {
  /** Time of the last output. */
  activeAt?: Time;
  /** For people: what the agent does, with the command or the path. */
  activity?: string;
  /** Kind of the agent. */
  agent: string;
  /** Version of the agent; absent: unknown. */
  agentVersion?: string;
  /** First line of the answer of a completed run, without Markdown, redacted. */
  answer?: string;
  cancelRequested?: boolean;
  /** Why the run has failed, or timed out, in a redacted line. */
  cause?: string;
  /** Files that the run changed; absent: unknown, or none is reported. */
  changed?: Changed;
  /** Newest run that resumes this task, whose state is that of the task. */
  continuedBy?: string;
  /** First run of the task that this run resumes. */
  continues?: string;
  /** Cost of the run with its sub-agents in US dollars, as the agent tells it; absent: unknown, or with that of earlier runs. */
  costUsd?: number;
  /** What the agent is doing; absent: unknown, or not working. */
  doing?: Doing;
  endedAt?: Time;
  /** Thread of which that of the run is a copy; of a task: the one to fork. Absent: it is none, or not known. */
  forkedFrom?: string;
  /** What to try then; absent only without a cause. */
  hint?: string;
  /** Labels of the run. */
  labels?: Record<string, string>;
  /** What the agent may do; absent: not recorded. */
  mode?: 'read-only' | 'workspace-write' | 'danger-full-access';
  /** Model of the agent; absent: its default, or unknown. */
  model?: string;
  /** Of a queued run: the number of runs before it. */
  position?: number;
  /** Newest to-do list of the agent; absent: it keeps none. */
  progress?: Todo;
  /** Questions are the ids of the questions of a live run that people are asked, the oldest first. */
  questions?: Array<string>;
  /** Work queue of the run. */
  queue?: string;
  queuedAt?: Time;
  /** Why the run failed, timed out or waits, in a word. */
  reason?: string;
  /** Id of the run. */
  run: string;
  /** Sequence number in RAW of the last entry that this is based on. */
  seq: number;
  /** How the run came to linesman. */
  source?: 'run' | 'tail' | 'session' | 'pipe' | 'queue' | 'cloud' | 'external';
  startedAt?: Time;
  state: 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
  /** The newest run of tests. */
  tests?: TestCount;
  /** Thread of the run; of a task: the one to resume. */
  threadId?: string;
  /** What the times of the run and its events are: when the agent wrote its output and ended, or when linesman read the output. Absent for runs without an agent's process or output. */
  times?: 'written' | 'captured';
  /** What the run is for, at most 120 characters: as its submitter named it, else the first line of its prompt, redacted. */
  title?: string;
  /** Tokens of this run so far; absent: unknown. */
  tokens?: Spend;
  /** Of a run that takes messages: number of its newest turn, from 1. */
  turn?: number;
  /** It ended in the last 7 days, and its owner has not opened it since. */
  unseen?: boolean;
  /** Worker that owns or owned the run. */
  worker?: string;
  /** The run is working, but its worker sends no heartbeats. */
  workerLost?: boolean;
  /** Working directory, absolute. */
  workingDir?: string;
}

/** What a run has used: what the model served for it. */
export interface RunUsage {
  /** The total may count what the thread used before this run: it is an upper bound. It is in no list, budget or metric. */
  earlier?: boolean;
  /** Of the run without its sub-agents; absent: unknown. */
  own?: Usage;
  /** Requests are missing in the total: it is a lower bound. */
  partial?: boolean;
  /** Of its sub-agents; absent: there were none, or unknown. */
  subagents?: Usage;
  /** Of both; absent: unknown. */
  total?: Usage;
}

/** Reports that the owner of a run has opened it. */
export interface Seen {
  run: string;
  state: 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
  /** Always false. */
  unseen: boolean;
}

export interface SendRequest {
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** Text for the agent, at most 262,144 bytes. */
  text: string;
  /** `next`: in its turn. `now`: the turn that runs is cancelled, and this message is the first. Default: `next`. */
  when?: 'next' | 'now';
}

/** The state of a live run after a message, or another request. */
export interface Sent {
  /** Delivered says that the agent has what is due for it. Else the worker gives it to the agent when it is back. */
  delivered?: boolean;
  /** Of the log: a wait after it ends with nothing earlier. */
  entry?: number;
  /** Since the last turn was not completed. */
  held?: boolean;
  /** Id. */
  message?: string;
  run: string;
  state: 'queued' | 'working' | 'input-required' | 'completed' | 'failed' | 'cancelled' | 'timeout';
  /** The newest one. */
  turn: number;
  /** Messages that wait. */
  waiting: number;
  /** The message waits for its turn. */
  waits?: boolean;
}

/** A thread. */
export interface Session {
  /** Run of the thread. */
  newest: RunSummary;
  /** Why it cannot be continued now; absent: it can. */
  refused?: string;
}

/** A page of threads that tasks can continue. */
export interface Sessions {
  /** Cursor of the next page; absent: this is the last page. */
  next?: string;
  sessions: Array<Session>;
}

export interface SetRequest {
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** What the agent may do, at most what the mode of the task allows; absent: as it is. */
  mode?: 'read-only' | 'workspace-write' | 'danger-full-access';
  /** Model of the agent; absent: as it is. */
  model?: string;
}

/** The tokens of a run so far, with those of its sub-agents. */
export interface Spend {
  input: number;
  output: number;
}

/** What was asked for a live run, beside what its mode allows: see Task. */
export interface Terms {
  /** People are asked what its mode does not allow; else it is denied. */
  ask?: boolean;
  /** Rules that deny, or let people be asked, what the worker would allow. */
  policy?: Array<string>;
}

/** Counts the tests of the newest run of tests. */
export interface TestCount {
  failed: number;
  passed: number;
}

/** The result of the newest run of tests. */
export interface Tests {
  failed: number;
  failedTests: Array<string>;
  passed: number;
  skipped: number;
}

/** One unknown thing. */
export interface Thing {
  count: number;
  /** The first 12 hexadecimal digits of the SHA-256 of the whole name. */
  hash: string;
  /** Number of the first line with it, from 1. */
  line: number;
  /** Redacted, at most 64 bytes; empty if it is too long, or no identifier. */
  name: string;
  what: 'type' | 'item' | 'field' | 'status' | 'protocol' | 'method';
}

/** RFC 3339 in UTC with milliseconds. */
export type Time = string;

/** The newest to-do list of an agent, as counts of items. */
export interface Todo {
  completedSteps: number;
  totalSteps: number;
}

export interface TurnRequest {
  /** The same request with the same key is carried out once. */
  idempotencyKey?: string;
  /** Number of the turn, from 1; absent: the one that runs. With it a turn that began meanwhile is not cancelled. */
  turn?: number;
}

/** Counts the turns that ended. */
export interface Turns {
  completed: number;
  failed: number;
}

/** Counts tokens. */
export interface Usage {
  cacheWriteInputTokens: number;
  cachedInputTokens: number;
  inputTokens: number;
  outputTokens: number;
  reasoningOutputTokens: number;
}

/** A worker process that takes tasks. */
export interface Worker {
  /** Of the programs by kind, as far as they are known. */
  agentVersions?: Record<string, string>;
  /** Kinds of agents whose programs it finds. */
  agents: Array<string>;
  busy: number;
  /** Capabilities of its tasks by the kind of their agent, sorted: ids of the Universal Agent API. */
  capabilities?: Record<string, Array<string>>;
  /** Of the process: a worker may be several. */
  id: string;
  lastSeenAt: Time;
  /** What its tasks may do; absent: unknown. */
  modes?: Array<string>;
  name: string;
  queue: string;
  /** Directories in and below which its tasks may work; absent: unknown. */
  roots?: Array<string>;
  slots: number;
  version?: string;
}

/** The workers that take tasks, and the agents that tasks can name. */
export interface WorkerList {
  /** Agents that tasks can name; a worker may not have their programs. */
  agents: Array<Agent>;
  workers: Array<Worker>;
}
